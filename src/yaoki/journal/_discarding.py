"""What leaves a store: runs discarded by a person, and old ones pruned. Their ids stay taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import AnswerRefused, InputMismatch, RunNotFound
from yaoki.journal._backup import copy_store
from yaoki.journal._outside import Outside
from yaoki.journal._rows import Tombstone
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["Discarding"]

TOMBSTONE = "select name, loop, state, by, at_ms from tombstone where name = ?"
BURY = "insert into tombstone (name, loop, state, by, at_ms, run) values (?, ?, ?, ?, ?, ?)"
DROP_RUN = "delete from run where id = ?"
DROP_RECORDS = """
    delete from journal where id in (
        select id from journal where id between ?1 << 32 and (?1 << 32) | 0xffffffff order by id limit ?2)"""
LEFT = "select run from tombstone where run <> 0 order by run limit ?"
CLEARED = "update tombstone set run = 0 where run <> 0 and run = ?"
OLD = "select id, state from run indexed by run_ended where ended_ms > 0 and ended_ms < ? order by ended_ms limit ?"

_CHUNK = 1_000
"""Records deleted in one transaction: a few milliseconds in which no other process can commit."""
_BATCH = 50
"""Runs buried in one transaction."""


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
            cursor.execute(BURY, (name, row.loop, row.state.value, by, now_ms, row.id))
            cursor.execute(DROP_RUN, (row.id,))
        self._stirred = True
        self.sweep()
        self._barrier.wait()
        return Tombstone(name, row.loop, row.state, by, now_ms)

    def prune(self, before_ms: int, *, by: str = "", states: Collection[State] = (), limit: int = 500) -> int:
        """
        Delete final runs that ended before a time, the oldest first, at most `limit`; return how many.

        Call it until it returns 0. The file does not shrink: its free pages are used again.

        Args:
            before_ms: Milliseconds UTC.
            by: Who ordered it.
            states: Only these final states; by default all of them.
            limit: How many in this call, so that progress can be shown.
        """
        pruned = 0
        kept = 0
        while pruned < limit:
            with self._transaction("prune runs") as cursor:
                rows = cursor.execute(OLD, (before_ms, kept + min(_BATCH, limit - pruned))).fetchall()[kept:]
                chosen = [number for number, state in rows if not states or State(state) in states]
                now_ms = self._clock.now_ms()
                for number in chosen:
                    row = self._row(number)
                    cursor.execute(BURY, (row.name, row.loop, row.state.value, by, now_ms, number))
                    cursor.execute(DROP_RUN, (number,))
            if not rows:
                break
            kept += len(rows) - len(chosen)
            pruned += len(chosen)
            self._stirred = True
        self.sweep()
        self._barrier.wait()
        return pruned

    def backup(self, target: str, progress: Callable[[int, int], None] | None = None) -> int:
        """Copy the store while it is in use, as `copy_store` says; return the copy's size in bytes."""
        return copy_store(self.path, target, progress)

    def sweep(self) -> None:
        """Delete the records that discarded runs have left, a few milliseconds of lock at a time."""
        while left := self._read(LEFT, (_BATCH,)):
            for (run,) in left:
                self._sweep_one(run)

    def _sweep_one(self, run: int) -> None:
        while True:
            with self._transaction("delete the records of a discarded run") as cursor:
                cursor.execute(DROP_RECORDS, (run, _CHUNK))
                deleted = self._connection.changes()
                if deleted < _CHUNK:
                    cursor.execute(CLEARED, (run,))
                    return

    def _refuse_discarded(self, name: str) -> None:
        found = self.tombstone(name)
        if found is not None:
            raise InputMismatch(
                f"run {name} was discarded; ids are never reused, since the keys of its effects were made from it. "
                "Choose another run id. Nothing was changed.",
                name,
            )
