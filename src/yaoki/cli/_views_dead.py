"""Dead runs by what killed them: the pure part of `yaoki dead`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.cli._views_text import Line, line, plural, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yaoki.cli._deaths import Death
    from yaoki.cli._views_text import Commands, Now

__all__ = ["DeathGroup", "dead_lines", "death_groups"]

_TEXT_CELLS = 200
_GROUPS_SHOWN = 20


class DeathGroup(Struct, kw_only=True):
    """Deaths of one cause."""

    tool: str
    reason: str
    fingerprint: str
    count: int
    first_at: int
    last_at: int
    loops: dict[str, int]
    example: str
    """The run that died of it last."""
    text: str
    """What was said then."""


def death_groups(deaths: Iterable[Death]) -> list[DeathGroup]:
    """Return the deaths by tool, reason and fingerprint, the most frequent first."""
    groups: dict[tuple[str, str, str], DeathGroup] = {}
    for death in deaths:
        key = (death.tool, death.reason, death.fingerprint)
        group = groups.get(key)
        if group is None:
            group = groups[key] = DeathGroup(
                tool=death.tool,
                reason=death.reason,
                fingerprint=death.fingerprint,
                count=0,
                first_at=death.at,
                last_at=-1,
                loops={},
                example="",
                text="",
            )
        group.count += 1
        group.loops[death.loop] = group.loops.get(death.loop, 0) + 1
        group.first_at = min(group.first_at, death.at)
        if death.at >= group.last_at:
            group.last_at, group.example, group.text = death.at, death.run_id, death.text
    return sorted(groups.values(), key=lambda group: (-group.count, -group.last_at))


def dead_lines(groups: Sequence[DeathGroup], now: Now, commands: Commands, filters: Sequence[str]) -> list[Line]:
    """Return the groups with what to type about each; `filters` are the options that chose among the dead."""
    total = sum(group.count for group in groups)
    lines = [line(("DEAD", "bad"), f"   {plural(total, 'run')}, {plural(len(groups), 'cause')}")]
    for group in groups[:_GROUPS_SHOWN]:
        lines += [line(), *_group(group, now, commands, filters)]
    if len(groups) > _GROUPS_SHOWN:
        lines += [line(), line((f"… {len(groups) - _GROUPS_SHOWN} more causes: --json", "dim"))]
    return lines


def _group(group: DeathGroup, now: Now, commands: Commands, filters: Sequence[str]) -> list[Line]:
    loops = ", ".join(sorted(group.loops))
    where = f"{group.tool} of {loops}" if group.tool else loops
    head = line((f"{group.count} x ", "head"), (group.reason, "bad"), f"   {where}")
    if group.count == 1:
        return [
            line(*head, f"   {now.time(group.last_at)}"),
            *_said(group),
            line("  ", (commands.verb("show", group.example), "command"), ("   why it died", "dim")),
            line("  ", (commands.verb("redrive", group.example), "command"), ("   once the cause is gone", "dim")),
            line("  ", (commands.verb("discard", group.example), "command"), ("   for good", "dim")),
        ]
    chosen = [*filters, "--reason", group.reason]
    return [
        line(*head, f"   {now.time(group.first_at)} to {now.time(group.last_at)}"),
        *_said(group),
        line("  ", (commands.verb("show", group.example), "command"), ("   the last one", "dim")),
        line("  ", (commands.verb("redrive", "--dead", *chosen), "command"), ("   once the cause is gone", "dim")),
        line("  ", (commands.verb("discard", "--dead", *chosen), "command"), ("   for good", "dim")),
    ]


def _said(group: DeathGroup) -> list[Line]:
    return [line("  " + shorten(group.text, _TEXT_CELLS))] if group.text else []
