"""What can be asked of a store. Each is one short snapshot, so the `-wal` is never held back for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from yaoki.errors import RunNotFound
from yaoki.journal._codec import POSTS, decode_all
from yaoki.journal._core import Core
from yaoki.journal._rows import COLUMNS, RunRow, row_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from yaoki.records import Entry, State

    # In the class below `list` is the method.
    Rows: TypeAlias = list[RunRow]
    Entries: TypeAlias = list[Entry]

__all__ = ["Reading"]

BY_ID = f"select {COLUMNS} from run where id = ?"  # noqa: S608 - constants
BY_NAME = f"select {COLUMNS} from run where name = ?"  # noqa: S608
ALL = f"select {COLUMNS} from run order by id limit ?"  # noqa: S608
# The literal, not a parameter: only so does SQLite see that the partial index fits. Named, since its planner
# would take the index on the state, and sort.
DUE = f"""
    select {COLUMNS} from run indexed by run_due where state = 'sleeping' and wake_ms <= ? order by wake_ms
    limit ?"""  # noqa: S608
ENTRIES = "select id, kind, key, body from journal where id between ? and ? order by id"


def in_states(count: int) -> str:
    """Return the query for runs in one of `count` states, in order."""
    marks = ", ".join("?" * count)
    return f"select {COLUMNS} from run where state in ({marks}) order by id limit ?"  # noqa: S608 - only marks


class Reading(Core):
    """Reads of runs and their records."""

    def get(self, name: str) -> RunRow | None:
        """Return the run of that name."""
        rows = self._read(BY_NAME, (name,))
        return row_of(rows[0]) if rows else None

    def list(self, *, states: Collection[State] = (), limit: int = 10_000) -> Rows:
        """Return runs in the order they were created; all of them, or those in `states`."""
        if not states:
            return [row_of(row) for row in self._read(ALL, (limit,))]
        return [row_of(row) for row in self._read(in_states(len(states)), (*(s.value for s in states), limit))]

    def due(self, now_ms: int, limit: int) -> Rows:
        """Return sleeping runs whose time has come, the longest due first, in O(due)."""
        return [row_of(row) for row in self._read(DUE, (now_ms, limit))]

    def load(self, run: int) -> Entries:
        """
        Return all records of a run: the driver's by seq, then the posts.

        Raises:
            StoreRefused: A record of a kind this version does not know.
            StoreCorrupt: A record that cannot be decoded.
        """
        return self._entries(run, 0)

    def posts(self, run: int, after_seq: int) -> Entries:
        """Return what was posted from outside with a seq above `after_seq`."""
        return self._entries(run, max(POSTS, after_seq + 1))

    def changed(self) -> bool:
        """Whether anybody outside a driver committed since this was last asked: another connection, or a post here."""
        version: int = self._one("pragma data_version")
        changed = self._stirred or version != self._data_version
        self._stirred = False
        self._data_version = version
        return changed

    def _entries(self, run: int, from_seq: int) -> Entries:
        first = run << 32
        return decode_all(self._read(ENTRIES, (first | from_seq, first | (1 << 32) - 1)), self.path)

    def _row(self, run: int) -> RunRow:
        rows = self._read(BY_ID, (run,))
        if not rows:
            raise RunNotFound(f"store {self.path}: there is no run number {run}.", str(run))
        return row_of(rows[0])
