"""
How an async runner commits: inline in the event loop, one transaction a tick, one thread that syncs.

A step alone commits at once. Steps of several branches or runs that write in the same tick share a
transaction; those that must be on disk share an fsync (group commit).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from yaoki.errors import Fenced, JournalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.journal import Journal
    from yaoki.records import Record
    from yaoki.runtime._live import Live

__all__ = ["Commits"]

_BATCH_MAX = 64


class Commits:
    """The commit path of one async runner; belongs to its event loop."""

    def __init__(self, journal: Journal) -> None:
        self.active = 0
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[Live, int, list[tuple[str, Record]]]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._scheduled = False
        journal.deliver = self._deliver

    def append(self, live: Live, seq: int, key: str, record: Record) -> None:
        """Commit one record now."""
        if self._pending:
            self.flush()
        self._journal.append(live.run, live.epoch, seq, ((key, record),))

    def enqueue(self, live: Live, seq: int, key: str, record: Record) -> asyncio.Future[None]:
        """Commit one record with the others of this tick; the future is its ack."""
        self._pending.append((live, seq, [(key, record)]))
        ack = self._loop.create_future()
        self._waiting.append(ack)
        if len(self._pending) >= _BATCH_MAX:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)
        return ack

    def flush(self) -> None:
        """Commit what is pending, in one transaction."""
        self._scheduled = False
        if not self._pending:
            return
        batch, self._pending = self._pending, []
        waiting, self._waiting = self._waiting, []
        results: list[BaseException | None]
        try:
            results = self._commit(batch)
        except JournalError as error:
            results = [error] * len(waiting)
        except BaseException:
            # Ctrl-C between folding and writing: what is in memory may not be in the store. Nothing more is
            # written for these runs, as after a death; their journals decide what was.
            for live, _, _ in batch:
                live.detached = True
            results = [Fenced(f"run {live.name}: interrupted while it was written") for live, _, _ in batch]
            self._acknowledge(waiting, results)
            raise
        self._acknowledge(waiting, results)

    def _commit(self, batch: list[tuple[Live, int, list[tuple[str, Record]]]]) -> list[BaseException | None]:
        if len(batch) > 1:
            return self._journal.append_batch([(live.run, live.epoch, seq, items) for live, seq, items in batch])
        live, seq, items = batch[0]
        try:
            self._journal.append(live.run, live.epoch, seq, items)
        except Fenced as fenced:
            return [fenced]
        return [None]

    @staticmethod
    def _acknowledge(waiting: list[asyncio.Future[None]], results: Sequence[BaseException | None]) -> None:
        for ack, result in zip(waiting, results, strict=True):
            if ack.done():
                continue
            if result is None:
                ack.set_result(None)
            else:
                ack.set_exception(result)

    def synced(self) -> asyncio.Future[None]:
        """Return the ack that everything written so far is on disk."""
        ack = self._loop.create_future()
        self._journal.sync_async(ack)
        return ack

    def _deliver(self, waiters: list[object], error: BaseException | None) -> None:
        """Called in the syncer's thread: one wake-up for all that one fsync served."""
        try:
            self._loop.call_soon_threadsafe(_acknowledge, waiters, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


def _acknowledge(waiters: list[object], error: BaseException | None) -> None:
    for waiter in waiters:
        ack = cast("asyncio.Future[None] | None", waiter)
        if ack is None or ack.done():
            continue
        if error is None:
            ack.set_result(None)
        else:
            ack.set_exception(error if isinstance(error, JournalError) else JournalError(str(error)))
