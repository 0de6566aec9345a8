"""
How an async runner commits: inline in the event loop, one transaction a tick, one thread that syncs.

A step alone commits at once. Steps of several branches or runs that write in the same tick share a
transaction; those that must be on disk share an fsync (group commit).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, cast

from yaoki.errors import Fenced, JournalError
from yaoki.runtime._effects import Barrier
from yaoki.runtime._groups import charge_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.journal import Journal
    from yaoki.records import Charge, Record
    from yaoki.runtime._live import Live

__all__ = ["Commits"]

_BATCH_MAX = 64


class _Pending(NamedTuple):
    live: Live
    seq: int
    items: list[tuple[str, Record]]
    charge: Charge | None
    ack: asyncio.Future[None]
    synced: bool


class Commits:
    """The commit path of one async runner; belongs to its event loop."""

    def __init__(self, journal: Journal) -> None:
        self.active = 0
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._pending: list[_Pending] = []
        self._scheduled = False
        self._looked = False
        journal.deliver = self._deliver

    @property
    def alone(self) -> bool:
        """Whether there is nobody to share a transaction with."""
        return self.active <= 1

    async def commit(self, live: Live, seq: int, key: str, record: Record, barrier: Barrier) -> None:
        """Commit one record, alone at once or with the others of this tick, and return when the barrier is reached."""
        synced = barrier is Barrier.SYNCED
        if not self.alone:
            await self._enqueue(live, seq, key, record, synced=synced)
        else:
            if self._pending:
                self.flush()
            self._journal.append(live.run, live.epoch, seq, ((key, record),), charge_of(live) if live.group else None)
            self._looked = False
            if synced:
                await self.synced()
        if barrier is Barrier.STARTED:
            self._journal.soon()
        elif not synced:
            self._journal.mark()

    async def synced(self) -> None:
        """Return when all that was written so far is on disk."""
        ack = self._loop.create_future()
        self._journal.sync_async([ack])
        await ack

    def look(self) -> None:
        """See the scopes as they are now, once for all that is written in one transaction."""
        if not self._looked:
            self._journal.scopes()
            self._looked = True

    def _enqueue(self, live: Live, seq: int, key: str, record: Record, *, synced: bool = False) -> asyncio.Future[None]:
        """Commit one record with the others of this tick; the future is its ack: written, or on disk if `synced`."""
        ack = self._loop.create_future()
        charge = charge_of(live) if live.group else None
        self._pending.append(_Pending(live, seq, [(key, record)], charge, ack, synced))
        if len(self._pending) >= _BATCH_MAX:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)
        return ack

    def flush(self) -> None:
        """Commit what is pending, in one transaction."""
        self._scheduled = self._looked = False
        if not self._pending:
            return
        batch, self._pending = self._pending, []
        results: list[BaseException | None]
        try:
            try:
                results = self._commit(batch)
            except JournalError as error:
                results = [error] * len(batch)
            self._acknowledge(batch, results)
        except BaseException:
            # Ctrl-C between folding and writing, or no memory to ask for the sync: what is in memory may not be in the
            # store, or not for good. Nothing more is written for these runs, as after a death; their journals decide
            # what was. Nobody waits for an ack that would never come.
            for one in batch:
                one.live.detached = True
            self._acknowledge(batch, [Fenced(f"run {one.live.name}: interrupted while written") for one in batch])
            raise

    def _commit(self, batch: list[_Pending]) -> list[BaseException | None]:
        if len(batch) > 1:
            charges = [p.charge for p in batch] if any(p.charge is not None for p in batch) else ()
            return self._journal.append_batch([(p.live.run, p.live.epoch, p.seq, p.items) for p in batch], charges)
        one = batch[0]
        try:
            self._journal.append(one.live.run, one.live.epoch, one.seq, one.items, one.charge)
        except Fenced as fenced:
            return [fenced]
        return [None]

    def _acknowledge(self, batch: list[_Pending], results: Sequence[BaseException | None]) -> None:
        """Tell each who waits what came of its record; those that must be on disk wait on, for one fsync."""
        unsynced: list[asyncio.Future[None]] = []
        for one, result in zip(batch, results, strict=True):
            if one.ack.done():
                continue
            if result is not None:
                one.ack.set_exception(result)
            elif one.synced:
                unsynced.append(one.ack)
            else:
                one.ack.set_result(None)
        if not unsynced:
            return
        try:
            self._journal.sync_async(unsynced)
        except JournalError as error:
            _acknowledge([unsynced], error)

    def _deliver(self, waiters: list[object], error: BaseException | None) -> None:
        """Called in the syncer's thread: one wake-up for all that one fsync served."""
        try:
            self._loop.call_soon_threadsafe(_acknowledge, waiters, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


def _acknowledge(waiters: list[object], error: BaseException | None) -> None:
    for group in waiters:
        for ack in cast("list[asyncio.Future[None]]", group):
            if ack.done():
                continue
            if error is None:
                ack.set_result(None)
            else:
                ack.set_exception(error if isinstance(error, JournalError) else JournalError(str(error)))
