"""The tally of a store as two tables: tools, and loops. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.cli._views_text import Line, columns, duration, line, money, width
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._tally import LoopTally, Tally, ToolTally
    from yaoki.cli._views_text import Role, Span

__all__ = ["stats_data", "stats_lines"]

_REASONS_SHOWN = 3
_BAD_SHARE = 0.05
"""More steps than this ending without a value are shown as bad."""


def stats_lines(tally: Tally) -> list[Line]:
    """Return the tools, those with most attempts first, and the loops."""
    lines: list[Line] = []
    if tally.tools:
        heads = ["TOOL", "steps", "ok", "failed", "open", "1st fails", "tries", "p50", "p95", "waited", "spent"]
        heads.append("fails most by")
        lines += _table(heads, [_tool(one) for one in _by_attempts(tally)])
    states = [state for state in State if any(counts[state] for counts in tally.states.values())]
    if states:
        heads = ["LOOP", *(state.value for state in states), "attempts", "spent"]
        rows = [_loop(tally, loop, states) for loop in sorted(tally.states)]
        lines += ([line()] if lines else []) + _table(heads, rows)
    return lines


def _by_attempts(tally: Tally) -> list[ToolTally]:
    return sorted(tally.tools.values(), key=lambda one: (-one.attempts, one.tool))


def _table(heads: list[str], rows: Sequence[list[Span]]) -> list[Line]:
    """
    Return rows under their heads: the first column to the left, numbers to the right, the last as it is.

    Columns in which no row has anything are left out.
    """
    kept = [i for i in range(len(heads)) if any(row[i][0] for row in rows)]
    table: list[list[Span]] = [[(heads[i], "head") for i in kept], *([row[i] for i in kept] for row in rows)]
    widths = [max(width(row[i][0]) for row in table) for i in range(len(kept))]
    return columns([_padded(row, widths) for row in table])


def _padded(row: Sequence[Span], widths: list[int]) -> list[Span]:
    padded: list[Span] = []
    for i, (text, role) in enumerate(row):
        left = i in (0, len(row) - 1)
        padded.append((text if left else " " * (widths[i] - width(text)) + text, role))
    return padded


def _tool(one: ToolTally) -> list[Span]:
    ended = one.ok + one.failed
    failed_role: Role = "bad" if ended and one.failed > _BAD_SHARE * ended else ""
    ok_role: Role = "good" if one.ok else ""
    reasons = ", ".join(f"{reason} x{count}" for reason, count in one.reasons.most_common(_REASONS_SHOWN))
    return [
        (one.tool, "head"),
        (f"{one.steps:,}", ""),
        (_share(one.ok, ended), ok_role),
        (_share(one.failed, ended), failed_role),
        (f"{one.open:,}" if one.open else "", ""),
        (_share(one.first_failed, one.steps), ""),
        (f"{one.attempts / one.steps:.2f}" if one.steps else "", ""),
        (_took(one, 0.5), ""),
        (_took(one, 0.95), ""),
        (duration(one.waited_ms) if one.waited_ms else "", ""),
        (_spent(one), ""),
        (reasons, "dim"),
    ]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _took(one: ToolTally, share: float) -> str:
    ms = one.durations.percentile(share)
    return duration(ms) if ms >= 0 else ""


def _loop(tally: Tally, loop: str, states: Sequence[State]) -> list[Span]:
    counts = tally.states[loop]
    cells: list[Span] = [(loop, "head")]
    cells.extend((f"{counts[state]:,}" if counts[state] else "", _ROLES.get(state, "")) for state in states)
    did = tally.loops.get(loop)
    cells.append((f"{did.attempts / did.runs:.1f}" if did and did.runs else "", ""))
    cells.append((_spent(did) if did else "", ""))
    return cells


_ROLES: dict[State, Role] = {State.DEAD: "bad", State.WAITING: "ask"}


def _spent(did: LoopTally | ToolTally) -> str:
    parts = [money(did.cost_usd)] if did.cost_usd else []
    parts += [f"{did.tokens:,.0f} tokens"] if did.tokens else []
    return " · ".join(parts)


def stats_data(tally: Tally) -> dict[str, object]:
    """Return the same as data; durations in milliseconds, -1 where there is none."""
    return {
        "tools": [
            {
                "tool": one.tool,
                "steps": one.steps,
                "attempts": one.attempts,
                "second_calls": one.hedged,
                "first_attempt_failures": one.first_failed,
                "ok": one.ok,
                "failed": one.failed,
                "open": one.open,
                "p50_ms": one.durations.percentile(0.5),
                "p95_ms": one.durations.percentile(0.95),
                "waited_ms": one.waited_ms,
                "cost_usd": one.cost_usd,
                "tokens": one.tokens,
                "reasons": dict(one.reasons.most_common()),
            }
            for one in _by_attempts(tally)
        ],
        "loops": [
            {
                "loop": loop,
                "runs": {state.value: counts[state] for state in State if counts[state]},
                "looked_at": did.runs if (did := tally.loops.get(loop)) else 0,
                "attempts": did.attempts if did else 0,
                "turns": did.turns if did else 0,
                "cost_usd": did.cost_usd if did else 0.0,
                "tokens": did.tokens if did else 0.0,
            }
            for loop, counts in sorted(tally.states.items())
        ],
    }
