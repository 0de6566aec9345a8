"""What leaves a store: runs discarded by a person, and old ones pruned. Their ids stay taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.clock import SystemClock
from yaoki.errors import AnswerRefused, InputMismatch, RunNotFound
from yaoki.journal._backup import copy_store
from yaoki.journal._outside import Outside
from yaoki.journal._rows import Tombstone
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = ["Discarding"]

TOMBSTONE = "select name, loop, state, by, at_ms from tombstone where name = ?"
BURY = """
    insert into tombstone (name, loop, state, by, at_ms, run)
    select name, loop, state, ?2, ?3, id from run where id = ?1 and ended_ms > 0 and ended_ms < ?4"""
DROP_RUN = "delete from run where id = ?"
CHUNK = "select id, length(body) from journal where id between ? and ? order by id limit ?"
DROP_RECORDS = "delete from journal where id between ? and ?"
LEFT = "select run from tombstone where run <> 0 order by run limit ?"
CLEARED = "update tombstone set run = 0 where run <> 0 and run = ?"
OLD = """
    select ended_ms, id, length(input) + coalesce(length(value), 0) from run indexed by run_ended
    where state = ? and ended_ms > 0 and ended_ms < ? order by ended_ms limit ?"""

_CHUNK = 1_000
"""Records deleted in one transaction: a few milliseconds in which no other process can commit."""
_CHUNK_BYTES = 8 << 20
"""Or as many bytes of them, since a large record is many pages."""
_BATCH = 50
"""Runs buried in one transaction."""
_WORK_S = 0.005
"""How long one transaction may follow another before everybody else gets as much time."""
_EVER_MS = 1 << 62

_MACHINE = SystemClock()  # others wait in real time, whatever clock the runs go by


class Discarding(Outside):
    """
    The end of a run's records.

    The tombstone is written before the first record goes, in the transaction that takes the run off the list.
    A death in between leaves records that nobody can reach any more; the next discard or prune deletes them.
    """

    def tombstone(self, name: str) -> Tombstone | None:
        """Return what is left of a discarded run."""
        rows = self._read(TOMBSTONE, (name,))
        if not rows:
            return None
        known, loop, state, by, at_ms = rows[0]
        return Tombstone(known, loop, State(state), by, at_ms)

    def discard(self, name: str, *, by: str = "") -> Tombstone:
        """
        Delete a final run and its records for good; synced when it returns.

        Raises:
            RunNotFound: No such run.
            AnswerRefused: It is not final.
            RunBusy: A living worker drives it.
        """
        with self._transaction("discard a run") as cursor:
            row = self.get(name)
            if row is None:
                raise RunNotFound(f"no run {name!r} in {self.url}. See: yaoki runs", name)
            if not row.state.final:
                if row.owner and self.driven(row):
                    raise self._busy(row)
                raise AnswerRefused(
                    f"run {name} is {row.state.value}: only a final run is discarded. First: yaoki cancel {name}"
                )
            now_ms = self._clock.now_ms()
            cursor.execute(BURY, (row.id, by, now_ms, _EVER_MS))
            cursor.execute(DROP_RUN, (row.id,))
        self._stirred = True
        self.sweep()
        self._barrier.wait()
        return Tombstone(name, row.loop, row.state, by, now_ms)

    def prune(self, before_ms: int, *, by: str = "", states: Collection[State] = (), limit: int = 500) -> int:
        """
        Delete final runs that ended before a time, the oldest first, at most `limit`; return how many. Synced.

        Call it until it returns 0. Others write meanwhile: the lock is held for some milliseconds at a time, and at
        most half of the time. The file does not shrink, which would take a copy of all of it: its free pages are
        used again.

        Args:
            before_ms: Milliseconds UTC.
            by: Who ordered it.
            states: Only these final states; by default all of them.
            limit: How many in this call, so that progress can be shown.
        """
        old: list[tuple[int, int, int]] = []
        for state in states or [state for state in State if state.final]:
            old.extend(self._read(OLD, (state.value, before_ms, limit)))
        pace = _Pace()
        pruned = 0
        for batch in _batches([(number, size) for _, number, size in sorted(old)[:limit]], _BATCH):
            with self._transaction("prune runs") as cursor:
                for number in batch:
                    cursor.execute(BURY, (number, by, self._clock.now_ms(), before_ms))
                    if self._connection.changes():  # else it was redriven meanwhile, or pruned by another process
                        cursor.execute(DROP_RUN, (number,))
                        pruned += 1
            self._barrier.mark()
            pace.give_way()
        self._stirred = self._stirred or pruned > 0
        self.sweep()
        self._barrier.wait()
        return pruned

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> int:
        """Copy the store while it is in use, as `copy_store` says; return the copy's size in bytes."""
        return copy_store(self.path, target, progress)

    def sweep(self) -> None:
        """Delete the records that discarded runs have left, a few milliseconds of lock at a time."""
        pace = _Pace()
        while left := self._read(LEFT, (_BATCH,)):
            for (run,) in left:
                self._sweep_one(run, pace)

    def _sweep_one(self, run: int, pace: _Pace) -> None:
        first, last = run << 32, (run << 32) | 0xFFFFFFFF
        while rows := self._read(CHUNK, (first, last, _CHUNK)):
            for chunk in _batches(rows, _CHUNK):
                with self._transaction("delete the records of a discarded run") as cursor:
                    cursor.execute(DROP_RECORDS, (first, chunk[-1]))
                first = chunk[-1] + 1
                self._barrier.mark()  # its thread copies the `-wal` back, which a large run would fill
                pace.give_way()
        with self._transaction("delete the records of a discarded run") as cursor:
            cursor.execute(CLEARED, (run,))

    def _refuse_discarded(self, name: str) -> None:
        found = self.tombstone(name)
        if found is not None:
            raise InputMismatch(
                f"run {name} was discarded; ids are never reused, since the keys of its effects were made from it. "
                "Choose another run id. Nothing was changed.",
                name,
            )


class _Pace:
    """Who deletes leaves the store to others for as long as it had it."""

    def __init__(self) -> None:
        self._since_s = _MACHINE.monotonic_s()

    def give_way(self) -> None:
        """Sleep as long as was worked since the last time, once that is worth it."""
        worked_s = _MACHINE.monotonic_s() - self._since_s
        if worked_s >= _WORK_S:
            _MACHINE.sleep(worked_s)
            self._since_s = _MACHINE.monotonic_s()


def _batches(sized: list[tuple[int, int]], count: int) -> Iterator[list[int]]:
    """Yield numbers in batches of at most so many, and so many bytes unless one alone has more."""
    batch: list[int] = []
    total = 0
    for number, size in sized:
        if batch and (len(batch) == count or total + size > _CHUNK_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(number)
        total += size
    if batch:
        yield batch
