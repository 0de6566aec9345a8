"""Reads for whoever looks at a whole store, however many runs it has: by an index, or without the large columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.journal._codec import POSTS, decode_all
from yaoki.journal._reading import Reading
from yaoki.journal._rows import COLUMNS, Brief, RunRow, row_of
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Collection

    from yaoki.records import Entry

__all__ = ["Surveying"]

BRIEFS = "select id, name, loop, state, note, ended_ms, changed_ms from run where id > ? order by id limit ?"
LAST_DRIVEN = "select id, kind, key, body from journal where id between ? and ? order by id desc limit 1"
WAITING = f"""
    select {COLUMNS} from run where state = 'waiting' and (?1 = '' or loop = ?1) order by changed_ms, id limit ?2"""  # noqa: S608 - constants
ASLEEP_FOR = f"""
    select {COLUMNS} from run where state = 'sleeping' and (?1 = '' or loop = ?1)
        and waits_for in ('person', 'budget', 'signal', 'pause') order by id limit ?2"""  # noqa: S608
OVERDUE = f"""
    select {COLUMNS} from run indexed by run_wake where loop = ?1 and wake_ms > 0 and wake_ms < ?2
        and state = 'sleeping' order by wake_ms limit ?3"""  # noqa: S608
COUNT_OVERDUE = """
    select count(*) from run indexed by run_wake where loop = ?1 and wake_ms > 0 and wake_ms < ?2
        and state = 'sleeping'"""
FIRST_ASLEEP = f"""
    select {COLUMNS} from run indexed by run_wake where loop = ?1 and wake_ms > 0 and wake_ms >= ?2
        and state = 'sleeping' order by wake_ms limit 1"""  # noqa: S608
LATEST_ENDED = f"""
    select {COLUMNS} from run indexed by run_ended where ended_ms > 0 and (?1 = '' or loop = ?1) and state = ?2
    order by ended_ms desc limit ?3"""  # noqa: S608

WAITING_NOTES = """
    select note, count(*), min(name) from run where state = ?1 and waits_for = ?2 group by note
    order by count(*) desc limit 1000"""
CHANGED = f"""
    select {COLUMNS} from run where changed_ms >= ?1 and (?2 = '' or loop = ?2) order by changed_ms, id limit ?3"""  # noqa: S608
_SCOPE_NOTES = (" is open", " cools down", " is paused")
"""What follows the scope in the line of a run that waits for it; `policy.Bar.text` writes it."""


class Surveying(Reading):
    """What `runs`, `dead`, `stats` and `prune` ask; `loop=""` is every loop."""

    def briefs(self, *, after: int = 0, limit: int = 1_000) -> list[Brief]:
        """Return a page of all runs, in the order they were created, without their inputs and values."""
        rows = self._read(BRIEFS, (after, limit))
        return [Brief(row[0], row[1], row[2], State(row[3]), *row[4:]) for row in rows]

    def last_driven(self, run: int) -> Entry | None:
        """Return the driver's newest record: of a final run that is how it ended."""
        rows = self._read(LAST_DRIVEN, (run << 32, run << 32 | (POSTS - 1)))
        return decode_all(rows, self.path)[0] if rows else None

    def longest_waiting(self, limit: int, *, loop: str = "") -> list[RunRow]:
        """Return waiting runs, the longest first."""
        return [row_of(row) for row in self._read(WAITING, (loop, limit))]

    def asleep_for_somebody(self, limit: int, *, loop: str = "") -> list[RunRow]:
        """Return sleeping runs, one branch of which waits for a person, a budget or a signal; reads all that sleep."""
        return [row_of(row) for row in self._read(ASLEEP_FOR, (loop, limit))]

    def overdue(self, before_ms: int, limit: int, *, loop: str = "") -> tuple[int, list[RunRow]]:
        """Return how many sleeping runs should have woken before a time, and those longest overdue."""
        loops = self._loops(loop)
        count = sum(self._one(COUNT_OVERDUE, (name, before_ms)) for name in loops)
        rows = [row_of(row) for name in loops for row in self._read(OVERDUE, (name, before_ms, limit))]
        return count, sorted(rows, key=lambda row: row.wake_ms)[:limit]

    def first_asleep(self, from_ms: int, *, loop: str = "") -> RunRow | None:
        """Return the sleeping run that wakes first at that time or later."""
        rows = [row_of(row) for name in self._loops(loop) for row in self._read(FIRST_ASLEEP, (name, from_ms))]
        return min(rows, key=lambda row: row.wake_ms, default=None)

    def latest_ended(self, states: Collection[State], limit: int, *, loop: str = "") -> list[RunRow]:
        """Return runs in these final states, the last to end first."""
        rows = [row_of(row) for state in states for row in self._read(LATEST_ENDED, (loop, state.value, limit))]
        return sorted(rows, key=lambda row: -row.ended_ms)[:limit]

    def changed_since(self, since_ms: int, limit: int, *, loop: str = "") -> list[RunRow]:
        """Return runs whose state changed at that time or later, in that order; looks at all runs."""
        return [row_of(row) for row in self._read(CHANGED, (since_ms, loop, limit))]

    def waiting_for_scopes(self) -> dict[str, tuple[int, str]]:
        """Return how many runs sleep or wait for each scope, and one of them; reads the notes of all that do."""
        found: dict[str, tuple[int, str]] = {}
        for state, waits_for in (("sleeping", "time"), ("waiting", "pause"), ("sleeping", "pause")):
            for note, count, name in self._read(WAITING_NOTES, (state, waits_for)):
                scope = next((note.partition(said)[0] for said in _SCOPE_NOTES if said in note), "")
                if scope:
                    before, first = found.get(scope, (0, name))
                    found[scope] = before + count, min(first, name)
        return found

    def _loops(self, loop: str) -> Collection[str]:
        return [loop] if loop else {name for name, _ in self.counts()}
