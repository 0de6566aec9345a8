"""A store's runs, those that need somebody first: the pure part of `yaoki runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from yaoki.classify import redact
from yaoki.cli._picture import GROUPS, group_of
from yaoki.cli._views_doctor import not_told
from yaoki.cli._views_groups import group_lines
from yaoki.cli._views_text import Line, columns, line, money, plural, shorten, width
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._picture import Group, Picture
    from yaoki.cli._views_text import Commands, Now, Role, Span
    from yaoki.runtime._receipt import Receipt

__all__ = ["changed_line", "light", "runs_lines"]

_LONG_MS = 60_000
"""A run that is pending for longer than this may be one that no living worker serves."""
_TEXT_MIN = 24
_TEXT_BESIDE_MIN = 16
"""What a command beside its reason must leave it."""
_TEXT_PIPE = 60
"""Where nothing is cut, a reason longer than this moves the command of its own row only."""


def runs_lines(picture: Picture, now: Now, commands: Commands, *, cells_max: int = 0) -> list[Line]:
    """
    Return the groups with their counts, and a row for each run somebody should look at.

    Of a group or state that was chosen, all rows read are listed. `cells_max` is the terminal's width: the
    reason is cut to fit it, and a command that does not fit stands on a line of its own; 0 cuts nothing.
    """
    blocks: list[_Block] = []
    groups = [picture.groups[name] for name in GROUPS] if picture.chosen is None else [picture.chosen]
    count_width = max(2, *(len(f"{group.count:,}") for group in groups))
    for group in groups:
        if group.count:
            rows = [_row(r, group_of(r, picture, now), now, commands, picture) for r in group.shown]
            blocks.append((_head(group, picture, now, commands, count_width), rows, _more(group, picture, commands)))
    return (
        _paused(picture, now, commands)
        + _untold(picture, now, commands)
        + _laid_out(blocks, cells_max)
        + _shared(picture, commands)
    )


_Block: TypeAlias = "tuple[Line, list[list[Span]], tuple[int, str]]"
_ROLES: dict[str, Role] = {"needs-you": "ask", "left": "ask", "dead": "bad", "active": "head", "done": "good"}
_TITLE_CELLS = 11


def _title(name: str) -> str:
    return f"{name.replace('-', ' ').upper():<{_TITLE_CELLS}}"


def _paused(picture: Picture, now: Now, commands: Commands) -> list[Line]:
    if picture.brake is None:
        return []
    by = f" by {picture.brake.by}" if picture.brake.by else ""
    since = f"since {now.time(picture.brake.at_ms)} ({now.since(picture.brake.at_ms)}){by}: nothing begins   "
    return [line((_title("paused"), "ask"), f"   {since}", (commands.verb("unpause"), "command"))]


def _untold(picture: Picture, now: Now, commands: Commands) -> list[Line]:
    wrong = [text for one in picture.targets if (text := not_told(one, now))]
    doctor: Span = (commands.verb("doctor"), "command")
    return [line((_title("notify"), "bad"), f"   {text}   ", doctor) for text in wrong]


def _shared(picture: Picture, commands: Commands) -> list[Line]:
    """Return the groups of runs with what they have spent, where all runs are shown."""
    if picture.chosen is not None or not picture.shared:
        return []
    return [line(("GROUPS", "head")), *([("  ", ""), *one] for one in group_lines(picture.shared, commands))]


def _head(group: Group, picture: Picture, now: Now, commands: Commands, count_width: int) -> Line:
    head = line((_title(group.name), _ROLES.get(group.name, "head")), f"{group.count:>{count_width},}")
    if group.name == "left":
        them = "it" if group.count == 1 else "them"
        if group.count == 1:
            return line(*head, f"   nothing drives {them}; the command takes it on")
        worker = commands.verb("worker", *_files(group, commands))
        return line(*head, f"   nothing drives {them}; each by its command, or all: ", (worker, "command"))
    if group.parts and group.name in ("active", "done"):
        return line(*head, "   ", _summary(group, picture, now))
    return head


def _files(group: Group, commands: Commands) -> list[str]:
    """Return the files whose loops are left, as they are typed here."""
    files = sorted({receipt.file for receipt in group.shown if receipt.file})
    return [commands.dress(file) for file in files] or ["agents.py"]


def _more(group: Group, picture: Picture, commands: Commands) -> tuple[int, str]:
    """Return how many are not listed, and what lists them."""
    if not group.shown:
        return 0, ""
    words = ["--loop", picture.loop] if picture.loop else []
    if picture.chosen is None:
        return group.count - len(group.shown), commands.verb("runs", "--status", group.name, *words)
    more = commands.verb("runs", "--status", group.name, *words, "--limit", str(group.count))
    return group.count - len(group.shown), more


def _laid_out(blocks: Sequence[_Block], cells_max: int) -> list[Line]:
    """Return the blocks with one set of columns for all of them."""
    table = [row for _, rows, _ in blocks for row in rows]
    below = [_too_wide(row, table, cells_max) for row in table]
    aligned = iter(columns(_fitted(table, below, cells_max), indent="  ", width_max=0 if cells_max else _TEXT_PIPE))
    under = iter([row[4] if low else None for row, low in zip(table, below, strict=True)])
    lines: list[Line] = []
    for head, rows, (more, command) in blocks:
        lines.append(head)
        for _ in rows:
            lines.append(next(aligned))
            own = next(under)
            if own is not None:
                lines.append(line("      ", own))
        if more:
            lines.append(line((f"  … and {more:,} more: ", "dim"), (command, "command")))
    return lines


def _too_wide(row: list[Span], table: list[list[Span]], cells_max: int) -> bool:
    """Return whether the row's command leaves its reason no room on this terminal."""
    if not cells_max:
        return False
    head = sum(max(width(other[i][0]) for other in table) + 2 for i in (0, 1, 2))
    return 2 + head + min(width(row[3][0]), _TEXT_BESIDE_MIN) + 2 + width(row[4][0]) > cells_max


def _fitted(table: list[list[Span]], below: list[bool], cells_max: int) -> list[list[Span]]:
    """Return the rows with the reason cut so that the commands beside them still fit the terminal."""
    if not cells_max or not table:
        return table
    head = 2 + sum(max(width(row[i][0]) for row in table) + 2 for i in (0, 1, 2))
    beside = max((width(row[4][0]) + 2 for row, low in zip(table, below, strict=True) if not low), default=0)
    fitted: list[list[Span]] = []
    for row, low in zip(table, below, strict=True):
        room = max(_TEXT_MIN, cells_max - head) if low else max(_TEXT_BESIDE_MIN, cells_max - head - beside)
        text = (shorten(row[3][0], room), row[3][1])
        fitted.append([*row[:3], text] if low else [*row[:3], text, row[4]])
    return fitted


def _row(receipt: Receipt[Any], group: str, now: Now, commands: Commands, picture: Picture) -> list[Span]:
    head: list[Span] = [(receipt.run_id, "head"), (receipt.loop, "")]
    if group == "left":
        state, why = _left(receipt, now, died=receipt.run_id in picture.died)
        again = commands.run(receipt.file, receipt.loop, receipt.run_id)
        return [*head, (state, "ask"), (redact(why), ""), (again, "command")]
    role: Role = "bad" if group == "dead" else "ask" if group == "needs-you" else ""
    text = redact(picture.asking.get(receipt.run_id) or receipt.text)
    when = _when(receipt, now)
    command = commands.verb("show", receipt.run_id)
    if receipt.status is State.WAITING and receipt.waits_for in ("budget", "signal", "pause") and receipt.next_action:
        command = commands.dress(receipt.next_action)
    return [*head, (when, role), (text, ""), (command, "command")]


def _left(receipt: Receipt[Any], now: Now, *, died: bool) -> tuple[str, str]:
    """Return what a run that nothing drives is in for a word, and why nothing drives it."""
    if died:
        return "left", "its process died"
    if receipt.status is State.SLEEPING:
        return f"overdue {now.since(receipt.wake_at)}", f"slept until {now.time(receipt.wake_at)}, no process waited"
    if not receipt.started_at:
        return "pending", "not started yet"
    if receipt.waits_for:
        return "pending", _MOVED.get(receipt.waits_for, "somebody acted on it")
    return "pending", f"stopped: {receipt.text}" if receipt.text else "redriven"


_MOVED = {
    "person": "answered, or told to stop",
    "budget": "topped up, or told to stop",
    "signal": "signalled, or told to stop",
    "pause": "its scope is unpaused, or told to stop",
    "time": "woken early, or told to stop",
}


def _when(receipt: Receipt[Any], now: Now) -> str:
    state = receipt.status
    if state is State.WAITING:
        return f"waiting {now.since(receipt.waiting_since)}" if receipt.waiting_since else "waiting"
    if state is State.RUNNING and receipt.waiting_since:
        return f"asks {now.since(receipt.waiting_since)}"
    if state is State.SLEEPING:
        return f"sleeping until {now.time(receipt.wake_at)}" if receipt.wake_at else "sleeping"
    if state.final:
        return f"{state.value} {now.minute(receipt.ended_at)}" if receipt.ended_at else state.value
    return state.value


def _summary(group: Group, picture: Picture, now: Now) -> str:
    parts: list[str] = []
    for state in State:
        if not (count := group.parts.get(state, 0)):
            continue
        part = f"{count:,} {state.value}"
        if state is State.RUNNING:
            part += f" ({plural(picture.workers, 'worker')})"
        if state is State.PENDING and now.now_ms - picture.pending_since > _LONG_MS and picture.pending_since:
            part += f" (the oldest for {now.since(picture.pending_since)}: do the workers serve its loop?)"
        first = picture.first_asleep
        if state is State.SLEEPING and first is not None:
            part += f" ({_asleep(redact(first.text), now.time(first.wake_at))})"
        parts.append(part)
    if group.name == "done" and picture.cost_usd:
        parts.append(money(picture.cost_usd))
    return " · ".join(parts)


def _asleep(why: str, until: str) -> str:
    """Return for what the first sleeping run sleeps, and until when."""
    if " cools down" in why or " is open" in why:
        return f"{why} until {until}"
    return f"first until {until}: {why}" if why else f"first until {until}"


def changed_line(receipt: Receipt[Any], at_ms: int, now: Now) -> Line:
    """Return one line on a run whose state has changed."""
    role: Role = "bad" if receipt.status is State.DEAD else "ask" if receipt.status is State.WAITING else ""
    until = f" until {now.time(receipt.wake_at)}" if receipt.status is State.SLEEPING and receipt.wake_at else ""
    why = f"  {redact(receipt.text)}" if receipt.text else ""
    return line(
        (now.time(at_ms), "dim"),
        "  ",
        (receipt.run_id, "head"),
        f"  {receipt.loop}  ",
        (receipt.status.value, role),
        until,
        why,
    )


_LIGHT = (
    "run_id",
    "loop",
    "status",
    "text",
    "waits_for",
    "waiting_since",
    "wake_at",
    "created_at",
    "ended_at",
    "next_action",
)


def light(receipt: Receipt[Any], group: str) -> dict[str, object]:
    """Return what a list knows of a run, as data, and its group; `yaoki show RUN --json` has the rest."""
    return {"group": group, **{name: getattr(receipt, name) for name in _LIGHT}}
