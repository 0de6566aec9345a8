"""The steps of a run as a table: when, what, how it ended, how long it took, and what it took to get there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.classify import redact
from yaoki.cli._views_steps import identity, rows
from yaoki.cli._views_text import Line, columns, duration, line, plural, short_call, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_steps import Row
    from yaoki.cli._views_text import Now, Role, Span
    from yaoki.records import Entry

__all__ = ["note_of", "row_spans", "timeline_lines", "waiting_text"]


def timeline_lines(entries: Sequence[Entry], now: Now, *, rows_max: int) -> list[Line]:
    """
    Return the last `rows_max` steps, each with its outcome, its length and what it took to get there.

    Of those before them as many again are kept that failed, wait, or are not known to have ended well.
    """
    story = rows(entries)
    late = max(len(story) - rows_max, 0)
    odd = [i for i in range(late) if story[i].outcome in _ODD][-rows_max:]
    shown = [*odd, *range(late, len(story))]
    table: list[list[Span]] = []
    turn = -1
    for i in shown:
        row = story[i]
        here = identity(row.key).turn if row.key else turn
        table.append(row_spans(row, now, turn=f"turn {here}" if here > 0 and here != turn else ""))
        turn = here
    lines: list[Line] = []
    before = -1
    for i, text in zip(shown, columns(table), strict=True):
        if i > before + 1:
            lines.append(line((f"… {i - before - 1} {'more' if before >= 0 else 'earlier'}", "dim")))
        lines.append(text)
        before = i
    return lines


_ODD = frozenset({"UNKNOWN", "answered", "failed", "running", "waiting", "asked", "refused", "stand-in", "undone"})
"""Outcomes that a timeline never leaves out for length alone."""

_OUTCOMES: dict[str, Role] = {
    "ok": "good",
    "adopted": "good",
    "failed": "bad",
    "refused": "bad",
    "UNKNOWN": "ask",
    "asked": "ask",
    "answered": "good",
    "cancelled": "dim",
    "stand-in": "ask",
    "undone": "dim",
}


def row_spans(row: Row, now: Now, *, turn: str = "") -> list[Span]:
    """Return one step as cells: time, turn, call, outcome, length, note."""
    if not row.key:
        return [(now.time(row.at), "dim"), (turn, "dim"), (row.what, "head"), ("", ""), ("", ""), (row.note, "dim")]
    parts = identity(row.key)
    call = short_call(redact(row.what))
    what = f"{parts.branch}  {call}" if parts.branch else call
    took = duration(row.took_ms) if row.took_ms >= 0 else ""
    role = _OUTCOMES.get(row.outcome, "")
    return [
        (now.time(row.at), "dim"),
        (turn, "dim"),
        (what, ""),
        (row.outcome, role),
        (took, ""),
        (note_of(row, now), "dim"),
    ]


def waiting_text(row: Row, now: Now) -> str:
    """Return one line about a step that waits for a time: what comes next, when, and why not now."""
    said = f": {shorten(row.said, 100)}" if row.said else ""
    return f"{short_call(redact(row.what))} waits {now.until(row.next_at)}: {note_of(row, now)}{said}"


def note_of(row: Row, now: Now) -> str:
    """Return what is worth knowing of how a step got where it is: its retries, its next attempt, its failure."""
    retries = row.attempts - 1
    if row.outcome == "waiting" and row.next_at:
        if not row.attempts:
            return f"{row.note} until {now.time(row.next_at)}"
        bound = f" of {row.attempts_max}" if row.attempts_max else ""
        return f"attempt {row.attempts + 1}{bound} at {now.time(row.next_at)} ({row.note})"
    if row.outcome in ("ok", "adopted", "running") and retries > 0:
        why = ", ".join(dict.fromkeys(row.reasons[:3]))
        waited = f", waited {duration(row.waited_ms)}" if row.waited_ms else ""
        if row.instead:
            return f"by {row.instead} instead ({why}{waited})"
        return f"after {plural(retries, 'retry', 'retries')} ({why}{waited})"
    if row.outcome == "failed" and retries > 0:
        return f"{row.note} (attempt {row.attempts})"
    return row.note
