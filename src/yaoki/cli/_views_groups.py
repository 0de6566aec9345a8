"""Groups of runs and their budgets, as lines and as data. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.cli._views_text import Line, columns, line, money, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_text import Commands, Span
    from yaoki.records import Group

__all__ = ["group_data", "group_lines", "spent_line"]


def group_lines(groups: Sequence[Group], commands: Commands) -> list[Line]:
    """Return a line for each group: what it has spent, beside its bounds, and what to type where nothing is left."""
    rows: list[list[Span]] = []
    for group in groups:
        spent = " · ".join(_spent(group))
        row: list[Span] = [(group.name, "head"), (plural(group.runs, "run"), ""), (spent, "")]
        empty = _empty(group)
        if empty:
            row[2] = (spent, "ask")
            row.append((commands.verb("top-up", "--group", group.name, *empty), "command"))
        rows.append(row)
    return columns(rows)


def _spent(group: Group) -> list[str]:
    """Return what a group has spent, of what it has where that is bounded."""
    parts: list[str] = []
    if group.cost_usd or group.cost_usd_max is not None:
        parts.append(
            money(group.cost_usd) + (f" of {money(group.cost_usd_max)}" if group.cost_usd_max is not None else "")
        )
    for used, bound, noun in ((group.tokens, group.tokens_max, "tokens"), (group.calls, group.calls_max, "calls")):
        if bound is not None:
            parts.append(f"{used:,} of {bound:,} {noun}")
        elif used:
            parts.append(plural(used, noun.removesuffix("s")))
    if group.cost_usd_held:
        parts.append(f"{money(group.cost_usd_held)} in flight")
    return parts or ["nothing spent"]


def group_data(group: Group) -> dict[str, object]:
    """Return the same as data; null is no bound."""
    return {
        "group": group.name,
        "runs": group.runs,
        "spent": {"calls": group.calls, "tokens": group.tokens, "cost_usd": group.cost_usd},
        "in_flight": {"tokens": group.tokens_held, "cost_usd": group.cost_usd_held},
        "budget": {"calls": group.calls_max, "tokens": group.tokens_max, "cost_usd": group.cost_usd_max},
    }


def _empty(group: Group) -> list[str]:
    """Return the option that adds as much again to a bound that is used up, if one is."""
    if group.cost_usd_max is not None and group.cost_usd >= group.cost_usd_max:
        return ["--cost-usd", f"{group.cost_usd_max or 1:g}"]
    if group.tokens_max is not None and group.tokens >= group.tokens_max:
        return ["--tokens", f"{group.tokens_max or 1}"]
    if group.calls_max is not None and group.calls >= group.calls_max:
        return ["--calls", f"{group.calls_max or 1}"]
    return []


def spent_line(group: Group) -> Line:
    """Return the line of a group on the page of one of its runs."""
    return line(("Group", "head"), f"   {group.name}: ", " · ".join(_spent(group)), f" · {plural(group.runs, 'run')}")
