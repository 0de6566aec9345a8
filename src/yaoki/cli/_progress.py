"""The supervisor's eyes: the journal read now and then, progress written where somebody watches."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from yaoki.cli._store import open_store
from yaoki.cli._views_steps import identity, rows
from yaoki.cli._views_text import columns
from yaoki.cli._views_timeline import row_spans, waiting_text
from yaoki.cli._watch import Watch
from yaoki.errors import JournalError, RunNotFound
from yaoki.journal import POSTS
from yaoki.records import State

if TYPE_CHECKING:
    from yaoki.cli._options import Session
    from yaoki.cli._views_steps import Row
    from yaoki.records import Entry
    from yaoki.runtime import Runner

__all__ = ["Reader"]

_SETTLED = ("ok", "failed", "UNKNOWN", "refused", "adopted", "asked")
_LONG_MS = 5_000
"""A wait of this length gets a line also where nobody watches: a log that is silent for long looks hung."""


class Reader:
    """
    Reads one run over a connection of its own.

    A store that is not there yet, or cannot be read just now, is nothing seen: the worker says what is
    wrong with a store, and the receipt is read when it has ended.
    """

    def __init__(self, run_id: str, here: Session) -> None:
        self.watch = Watch()
        self._run_id = run_id
        self._here = here
        self._stack = ExitStack()
        self._store: Runner | None = None
        self._entries: list[Entry] = []
        self._seq = -1
        self._post_seq = 0
        self._told: dict[str, int] = {}
        self._waited: dict[str, int] = {}
        self._turn = 0

    def look(self, *, tell: bool = True) -> None:
        """Read what is new; write the steps that ended since the last look, where somebody watches."""
        try:
            journal = self._opened().store
            row = journal.get(self._run_id)
            fresh = journal.load_since(row.id, self._seq, self._post_seq) if row is not None else []
        except JournalError:
            return
        self.watch.feed(fresh)
        if not fresh:
            return
        self._take(fresh)
        story = rows(self._entries)
        if self._here.out.watched:
            self._news_of(story, tell=tell)
        if tell:
            self._waits_of(story)

    def _take(self, fresh: list[Entry]) -> None:
        """Keep what is new in the journal's order: what was posted from outside comes last."""
        self._entries = sorted([*self._entries, *fresh], key=lambda entry: entry.seq)
        self._seq = max([self._seq, *(entry.seq for entry in fresh if entry.seq < POSTS)])
        self._post_seq = max([self._post_seq, *(entry.seq for entry in fresh if entry.seq >= POSTS)])

    def at_rest(self) -> bool:
        """Whether the run is final or waits for somebody, as the store has it now."""
        try:
            status = self._opened().get(self._run_id).status
        except (JournalError, RunNotFound):
            return False
        return status.final or status is State.WAITING

    def close(self) -> None:
        """Close the connection."""
        self._stack.close()

    def _opened(self) -> Runner:
        if self._store is None:
            self._store = self._stack.enter_context(open_store(self._here.store))
        return self._store

    def _waits_of(self, story: list[Row]) -> None:
        """Write each wait for a time once: on a terminal every one, elsewhere those long enough to look hung."""
        out, now = self._here.out, self._here.now()
        for row in story:
            if row.outcome != "waiting" or row.next_at <= now.now_ms or self._waited.get(row.key) == row.next_at:
                continue
            self._waited[row.key] = row.next_at
            if out.watched:
                out.progress(columns([row_spans(row, now)]))
            elif row.next_at - now.now_ms > _LONG_MS:
                out.note(waiting_text(row, now))

    def _news_of(self, story: list[Row], *, tell: bool) -> None:
        """Take note of each step that has ended, and write it if it is to be told."""
        ended = [row for row in story if self._news(row)]
        if not tell:
            return
        now = self._here.now()
        for row in ended:
            turn = identity(row.key).turn
            head = f"turn {turn}" if row.key and turn > 0 and turn != self._turn else ""
            self._turn = turn if row.key else self._turn
            self._here.out.progress(columns([row_spans(row, now, turn=head)]))

    def _news(self, row: Row) -> bool:
        if row.key and row.outcome not in _SETTLED:
            return False
        name = row.key or f"{row.at} {row.what}"
        if self._told.get(name) == row.attempts:
            return False
        self._told[name] = row.attempts
        return True
