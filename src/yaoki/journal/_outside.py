"""Writes of people and other processes: they add to a run and make it pending; they never drive it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import JournalError
from yaoki.journal._codec import POSTS, SEQ_MASK, encode
from yaoki.journal._scoping import Scoping
from yaoki.records import Entry, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from yaoki.journal._rows import RunRow
    from yaoki.records import Record

    Guard: TypeAlias = Callable[[list[Entry]], None]

__all__ = ["Outside"]

INSERT = "insert into journal (id, kind, key, body) values ((?1 << 32) | ?2, ?3, ?4, ?5)"
LAST_DRIVEN = """
    select id & 0xffffffff from journal where id between ?1 << 32 and (?1 << 32) | 0x7fffffff
    order by id desc limit 1"""
WAKE = """
    update run set state = 'pending', wake_ms = 0, changed_ms = ?2
    where id = ?1 and state in ('waiting', 'sleeping')"""
REOPEN = """
    update run set state = 'pending', epoch = epoch + 1, owner = 0, deaths = deaths + ?3, wake_ms = 0, ended_ms = 0,
        value = null, note = '', waits_for = '', changed_ms = ?2, input = coalesce(?4, input)
    where id = ?1"""


class Outside(Scoping):
    """Posts and redrives."""

    def post(self, run: int, record: Record, *, key: str = "", guard: Guard | None = None) -> Entry:
        """
        Add a record from outside: an answer, a top-up, a signal, a cancel; synced when this returns.

        Its seq is at `2**31` or above, out of the driver's range, whoever drives. A run that waits or sleeps
        becomes pending. `guard` is called with all the run's records, and raises to refuse; again in the
        transaction itself if anything came meanwhile: so the first answer wins. It must not write to this journal.

        Raises:
            RunNotFound: No such run.
        """
        seen = self._judged(run, guard)
        with self._transaction("post to a run") as cursor:
            self._judge_again(run, guard, seen)
            seq = max(POSTS, self._last_post(run) + 1)
            if seq > SEQ_MASK:
                raise JournalError(f"store {self.path}: run number {run} can take no more posts.")
            cursor.execute(INSERT, (run, seq, kind_of(record), key, encode(record)))
            cursor.execute(WAKE, (run, self._clock.now_ms()))
        self._stirred = True
        self._barrier.wait()
        return Entry(seq, key, record)

    def reopen(
        self,
        run: int,
        items: Sequence[tuple[str, Record]],
        *,
        guard: Guard | None = None,
        input: bytes | None = None,  # noqa: A002 - the column's name
    ) -> RunRow:
        """
        Take a run up again: raise its epoch, append `items` in the driver's range, set it pending; synced.

        `guard` is as for `post`. `input` takes the place of what the run was started with.

        Raises:
            RunBusy: A living worker drives it. Nothing was changed.
            RunNotFound: No such run.
        """
        self._refuse_failed()
        self._owner_died(self._row(run))
        seen = self._judged(run, guard)
        with self._transaction("reopen a run") as cursor:
            died = self._owner_died(self._row(run))
            self._judge_again(run, guard, seen)
            seq = self._next_seq(run)
            for i, (key, record) in enumerate(items):
                cursor.execute(INSERT, (run, seq + i, kind_of(record), key, encode(record)))
            cursor.execute(REOPEN, (run, self._clock.now_ms(), int(died), input))
            row = self._row(run)
        self._stirred = True
        self._barrier.wait()
        return row

    def _next_seq(self, run: int) -> int:
        last: int | None = self._one(LAST_DRIVEN, (run,))
        return 0 if last is None else last + 1

    def _judged(self, run: int, guard: Guard | None) -> tuple[RunRow, list[Entry]]:
        """Ask the guard before the lock is taken: the records of a long run take a while to read and to fold."""
        row = self._row(run)
        entries: list[Entry] = []
        if guard is not None:
            entries = self.load(run)
            guard(entries)
        return row, entries

    def _judge_again(self, run: int, guard: Guard | None, seen: tuple[RunRow, list[Entry]]) -> None:
        """In the transaction: ask the guard again if it has not seen the run as it is now."""
        row, entries = seen
        now = self._row(run)
        if guard is None:
            return
        driven = max((entry.seq for entry in entries if entry.seq < POSTS), default=-1)
        fresh = self.load_since(run, driven, max((entry.seq for entry in entries), default=0))
        if fresh or now != row:
            guard(sorted([*entries, *fresh], key=lambda entry: entry.seq))
