"""What can be asked of a store. Each is one short snapshot, so the `-wal` is never held back for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from yaoki.errors import RunNotFound
from yaoki.journal._codec import POSTS, decode_all
from yaoki.journal._core import Core
from yaoki.journal._rows import COLUMNS, RunRow, row_of
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from yaoki.records import Entry

    # In the class below `list` is the method.
    Rows: TypeAlias = list[RunRow]
    Entries: TypeAlias = list[Entry]

__all__ = ["Reading"]

BY_ID = f"select {COLUMNS} from run where id = ?"  # noqa: S608 - constants
BY_NAME = f"select {COLUMNS} from run where name = ?"  # noqa: S608
PAGE = f"select {COLUMNS} from run where id > ? order by id limit ?"  # noqa: S608
OF_STATE = f"select {COLUMNS} from run where state = ? and loop = ? and id > ? order by id limit ?"  # noqa: S608
OF_STATE_NEWEST = f"select {COLUMNS} from run where state = ? and loop = ? order by id desc limit ?"  # noqa: S608
COUNTS = "select loop, state, count(*) from run group by state, loop"
VALUE = """
    select 1 from journal where id between ? and ? and key = ? and kind in (3, 5) and body ->> '$.value' is not null"""
ENTRIES = "select id, kind, key, body from journal where id between ? and ? order by id"


class Reading(Core):
    """Reads of runs and their records."""

    def get(self, name: str) -> RunRow | None:
        """Return the run of that name."""
        rows = self._read(BY_NAME, (name,))
        return row_of(rows[0]) if rows else None

    def numbered(self, run: int) -> RunRow | None:
        """Return the run of that number."""
        rows = self._read(BY_ID, (run,))
        return row_of(rows[0]) if rows else None

    def list(
        self,
        *,
        states: Collection[State] = (),
        loop: str = "",
        limit: int = 10_000,
        after: int = 0,
        newest: bool = False,
    ) -> Rows:
        """
        Return runs in the order they were created, at most `limit`; read in O(limit), however many there are.

        Args:
            states: Only those; by default all.
            loop: Only of this loop.
            limit: How many.
            after: Only runs whose number is above this one: the next page.
            newest: The newest ones instead, newest first; `after` is then not used.
        """
        if not states and not loop and not newest:
            return [row_of(row) for row in self._read(PAGE, (after, limit))]
        found: Rows = []
        for name, state in self.counts():
            if (states and state not in states) or (loop and name != loop):
                continue
            if newest:
                rows = self._read(OF_STATE_NEWEST, (state.value, name, limit))
            else:
                rows = self._read(OF_STATE, (state.value, name, after, limit))
            found.extend(map(row_of, rows))
        found.sort(key=lambda row: row.id, reverse=newest)
        return found[:limit]

    def counts(self) -> dict[tuple[str, State], int]:
        """Return how many runs there are by loop and state; from an index, no run is read."""
        return {(loop, State(state)): count for loop, state, count in self._read(COUNTS)}

    def load(self, run: int) -> Entries:
        """
        Return all records of a run: the driver's by seq, then the posts.

        Raises:
            StoreRefused: A record of a kind this version does not know.
            StoreCorrupt: A record that cannot be decoded.
        """
        return self._entries(run, 0)

    def load_since(self, run: int, seq: int, post_seq: int) -> Entries:
        """Return the driver's records above `seq` and the posts above `post_seq`; -1 and 0 are all of them."""
        first = run << 32
        driven = self._read(ENTRIES, (first | (seq + 1), first | (POSTS - 1)))
        posted = self._read(ENTRIES, (first | max(POSTS, post_seq + 1), first | (1 << 32) - 1))
        return decode_all([*driven, *posted], self.path)

    def posts(self, run: int, after_seq: int) -> Entries:
        """Return what was posted from outside with a seq above `after_seq`."""
        return self._entries(run, max(POSTS, after_seq + 1))

    def has_value(self, run: int, key: str) -> bool:
        """Whether a step of a run has its value: settled, or adopted. In O(records of the run)."""
        first = run << 32
        return bool(self._read(VALUE, (first, first | (POSTS - 1), key)))

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

    def _rows(self, numbers: Sequence[int]) -> Rows:
        return [row_of(row) for number in numbers for row in self._read(BY_ID, (number,))]

    def _row(self, run: int) -> RunRow:
        rows = self._read(BY_ID, (run,))
        if not rows:
            raise RunNotFound(f"store {self.path}: there is no run number {run}.", str(run))
        return row_of(rows[0])
