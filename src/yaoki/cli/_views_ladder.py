"""A tool's ladder drawn: its attempts and waits over time, what the gate forbids, its rungs, and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.cli._views_check import shown_file
from yaoki.cli._views_text import Line, columns, duration, line, plural
from yaoki.policy._retry import OVERLOADED_FACTOR

if TYPE_CHECKING:
    from yaoki.cli._findings import Fit, Ladder
    from yaoki.cli._views_text import Span

__all__ = ["ladder_lines"]

_CELLS: Final = 48
"""Cells of a terminal that the whole ladder takes."""

_EFFECTS: Final = {
    "READ_ONLY": "only reads",
    "IDEMPOTENT": "repeating it does no harm",
    "KEYED": "the receiver recognises the key",
    "CHECKED": "its check says whether it happened",
    "AT_MOST_ONCE": "started once",
}
_AFTER_MAYBE: Final = {
    "repeat": "sent again like any other",
    "same_key": "sent again with the same key, by this tool alone; no fallback",
    "check": "never sent again before its check says that it did not happen; if that cannot tell, a person is asked",
    "ask": "never sent again: a person is asked whether it happened",
    "tell": "never sent again: the model is told that nobody knows whether it happened",
    "by its arguments": "as the effect kind of that call has it",
}
_FIELDS: Final = {
    "retries": "retries",
    "retry_wait_s": "waits",
    "calls": "calls",
    "wall_s": "wall time",
    "crashes_max": "deaths in a row",
}
_TIMES: Final = frozenset({"retry_wait_s", "wall_s"})


def ladder_lines(one: Ladder, cwd: str) -> list[Line]:
    """Return a tool's ladder as lines."""
    place = f"  {shown_file(one.file, cwd)}:{one.line}" if one.file else ""
    lines = [line((one.tool, "head"), (place, "dim")), line("")]
    lines += _drawn(one)
    lines.append(line(""))
    lines += columns(_said(one))
    lines += _fit_lines(one)
    return lines


def _drawn(one: Ladder) -> list[Line]:
    """Return a row for each attempt: when it begins at the latest, how long it takes, and where that lies in time."""
    whole_s = max(one.worst_case_s, 0.001)
    rows: list[list[Span]] = [
        [("attempt", "dim"), ("begins by", "dim"), ("takes", "dim"), ("then waits", "dim"), ("", "")]
    ]
    for rise in one.rises:
        before = round(rise.begins_s / whole_s * _CELLS)
        wide = max(round(rise.takes_s / whole_s * _CELLS), 1)
        waits = max(round(rise.wait_s / whole_s * _CELLS), 1) if rise.wait_s else 0
        bar = f"{' ' * before}{'█' * wide}{'·' * waits}"
        wait = f"up to {_time(rise.wait_s)}" if rise.wait_s else "-"
        rows.append(
            [
                (str(rise.attempt), "head"),
                (_time(rise.begins_s), ""),
                (f"up to {_time(rise.takes_s)}", ""),
                (wait, ""),
                (bar, "good"),
            ]
        )
    lines = columns(rows, indent="  ")
    if (more := one.reached - len(one.rises)) > 0:
        lines.append(line((f"  … and {more:,} more like the last", "dim")))
    if (left := one.attempts_max - one.reached) > 0:
        never = f"  {plural(left, 'attempt')} of {one.attempts_max:,} never begin{'s' if left == 1 else ''} then"
        lines.append(line((f"{never}: deadline_s={one.deadline_s:g} comes first", "ask")))
    return lines


def _said(one: Ladder) -> list[list[Span]]:
    declared = "undeclared, so " if one.undeclared else ""
    effect = f"{declared}{one.effect}" + (f": {_EFFECTS[one.effect]}" if one.effect in _EFFECTS else "")
    attempts = plural(one.attempts_max, "attempt")
    worst = (
        f"{_time(one.worst_case_s)}: {attempts} of timeout_s={one.timeout_s:g}, waits as for an overloaded server, "
        f"within deadline_s={one.deadline_s:g}"
    )
    waits = (
        f"full jitter from {one.base_s:g} s ({one.base_s * OVERLOADED_FACTOR:g} s overloaded), doubling to "
        f"{one.cap_s:g} s; never shorter than the server says"
    )
    rows: list[list[Span]] = [
        [("worst case", "dim"), (worst, "")],
        [("waits", "dim"), (waits, "")],
        [("effect", "dim"), (effect, "ask" if one.undeclared else "")],
        [("after maybe", "dim"), (_AFTER_MAYBE.get(one.after_maybe, one.after_maybe), "")],
        [("not retried", "dim"), (_not_retried(one), "")],
    ]  # fmt: skip
    if one.hedge:
        rows.append([("hedged", "dim"), (_hedged(one), "")])
    if one.attempts_max > 1 and len(one.rungs) > 1:
        rows.append([("same error", "dim"), (f"{one.same_error_limit} times in a row: the next rung", "")])
    if one.repairs_max:
        rows.append([("repairs", "dim"), (f"up to {one.repairs_max}, each an attempt", "")])
    whose = {"tool": "", "default": " (default)"}.get(one.rungs_of, f" (of {one.rungs_of})")
    for i, rung in enumerate(one.rungs, 1):
        rows.append([("then" if i == 1 else "", "dim"), (f"{i}. {rung}{whose}", "")])
    if one.killed_after_s is not None:
        text = (
            f"a call that hangs is not interrupted in its thread: under `yaoki run` or `worker` its process is "
            f"killed after {_time(one.killed_after_s)}, twice its timeout"
        )
        rows.append([("supervisor", "dim"), (text, "")])
    return rows


def _hedged(one: Ladder) -> str:
    slow = f"once a call takes longer than {one.hedge * 100:g} % of its last 200"
    return f"{slow}, a second, equal one beside it, at most one in twenty; the first success counts"


def _not_retried(one: Ladder) -> str:
    unknown = "unknown, " if one.unknown_attempts == 1 else ""
    return f"permanent, programming, capability, {unknown}budget; semantic only to repair"


def _fit_lines(one: Ladder) -> list[Line]:
    """Return a line for each loop that uses the tool: what one step can want of each bound."""
    lines: list[Line] = []
    for loop in dict.fromkeys(fit.loop for fit in one.fits):
        mine = [fit for fit in one.fits if fit.loop == loop and fit.bound is not None]
        bad = [fit for fit in mine if not fit.fits]
        verdict: Span = ("does not fit", "bad") if bad else ("fits", "good")
        parts = ", ".join(_fit(fit) for fit in (bad or mine))
        lines.append(line(("in ", "dim"), (loop, "head"), "  ", verdict, f": {parts}" if parts else ": no bound"))
    if not lines:
        lines.append(line(("no loop of this file uses it", "dim")))
    return lines


def _fit(fit: Fit) -> str:
    bound = fit.bound or 0
    if fit.field in _TIMES:
        return f"{_FIELDS[fit.field]} {_time(fit.wants)} of {_time(bound)} ({fit.field})"
    return f"{_FIELDS[fit.field]} {fit.wants:,.0f} of {bound:,.0f} ({fit.field})"


def _time(s: float) -> str:
    return "0 s" if s == 0 else duration(round(s * 1000))
