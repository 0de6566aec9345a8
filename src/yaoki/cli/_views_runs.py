"""All runs of a store, those that need somebody first: the pure part of `yaoki runs`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from yaoki.classify import redact
from yaoki.cli._store import Standing
from yaoki.cli._views_text import Line, columns, line, money, shorten, width
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from yaoki.cli._views_text import Commands, Now, Role, Span
    from yaoki.runtime._receipt import Receipt

__all__ = ["GROUPS", "grouped", "light", "runs_lines", "select", "status_names"]

GROUPS = ("needs-you", "left", "dead", "active", "done")
"""The groups in the order they are shown; their names are also taken by `--status`. Each run is in one."""

_BY_STATE = {
    State.WAITING: "needs-you",
    State.PENDING: "left",
    State.DEAD: "dead",
    State.RUNNING: "active",
    State.SLEEPING: "active",
}
"""Where nothing else is known; every other state is done."""

_LISTED = 50
"""Rows of a group shown at most where no `--status` asks for all of them."""
_TEXT_MIN = 24
_TEXT_BESIDE_MIN = 16
"""What a command beside its reason must leave it."""
_TEXT_PIPE = 60
"""Where nothing is cut, a reason longer than this moves the command of its own row only."""
_LATE_MS = 5_000
"""A process that stays with a sleeping run takes it up within this time of its waking."""
_FOR_SOMEBODY = ("person", "budget", "signal")


def status_names() -> list[str]:
    """Return every word `--status` takes."""
    return sorted({*GROUPS, *(state.value for state in State)})


def grouped(receipts: Iterable[Receipt[Any]], known: Standing, now: Now) -> dict[str, str]:
    """Return each run's group, by id."""
    return {receipt.run_id: _group_of(receipt, known, now) for receipt in receipts}


def _group_of(receipt: Receipt[Any], known: Standing, now: Now) -> str:
    moving = receipt.status in (State.RUNNING, State.SLEEPING)
    if receipt.run_id in known.asking or (moving and receipt.waits_for in _FOR_SOMEBODY):
        return "needs-you"
    if receipt.run_id in known.died or _overdue(receipt, now):
        return "left"
    return _BY_STATE.get(receipt.status, "done")


def _overdue(receipt: Receipt[Any], now: Now) -> bool:
    return receipt.status is State.SLEEPING and 0 < receipt.wake_at < now.now_ms - _LATE_MS


def select(receipts: Iterable[Receipt[Any]], status: str, groups: Mapping[str, str]) -> list[Receipt[Any]]:
    """Return the runs of a state or of a group, in the order given."""
    if status in GROUPS:
        return [receipt for receipt in receipts if groups[receipt.run_id] == status]
    return [receipt for receipt in receipts if receipt.status is State(status)]


def runs_lines(
    receipts: Sequence[Receipt[Any]],
    now: Now,
    commands: Commands,
    *,
    known: Standing | None = None,
    every: bool = False,
    cells_max: int = 0,
) -> list[Line]:
    """
    Return the groups with their counts, and a row for each run somebody should look at.

    With `every`, all runs are listed, not only those that need somebody. `cells_max` is the terminal's width:
    the reason is cut to fit it, and a command that does not fit stands on a line of its own; 0 cuts nothing.
    """
    known = known or Standing()
    groups = grouped(receipts, known, now)
    blocks: list[_Block] = []
    count_width = max(2, *(len(str(count)) for count in Counter(groups[r.run_id] for r in receipts).values()))
    for name in GROUPS:
        members = [r for r in receipts if groups[r.run_id] == name]
        if not members:
            continue
        listed = every or name in ("needs-you", "left", "dead")
        head = line((_TITLES[name], _ROLES[name]), f"{len(members):>{count_width}}")
        if name == "left":
            head += line("   nothing drives ", "it" if len(members) == 1 else "them", "; the command takes one on")
        elif not listed:
            head += line("   ", _summary(members, now))
        ordered = _ordered(name, members) if listed else []
        shown = ordered if every else ordered[:_LISTED]
        more = (len(ordered) - len(shown), commands.verb("runs", "--status", name))
        blocks.append((head, [_row(r, name, now, commands, known) for r in shown], more))
    return _laid_out(blocks, cells_max)


_Block: TypeAlias = "tuple[Line, list[list[Span]], tuple[int, str]]"
_TITLES = {
    "needs-you": "NEEDS YOU  ",
    "left": "LEFT       ",
    "dead": "DEAD       ",
    "active": "ACTIVE     ",
    "done": "DONE       ",
}
_ROLES: dict[str, Role] = {"needs-you": "ask", "left": "ask", "dead": "bad", "active": "head", "done": "good"}


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
            lines.append(line((f"  … {more} more: ", "dim"), (command, "command")))
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


def _ordered(name: str, members: list[Receipt[Any]]) -> list[Receipt[Any]]:
    if name == "needs-you":
        return sorted(members, key=lambda r: r.waiting_since or r.ended_at or r.started_at)
    if name in ("active", "left"):
        return sorted(members, key=lambda r: (r.status is State.SLEEPING, r.wake_at, r.created_at))
    return sorted(members, key=lambda r: -r.ended_at)


def _row(receipt: Receipt[Any], group: str, now: Now, commands: Commands, known: Standing) -> list[Span]:
    head: list[Span] = [(receipt.run_id, "head"), (receipt.loop, "")]
    if group == "left":
        state, why = _left(receipt, now, died=receipt.run_id in known.died)
        again = commands.run(receipt.file, receipt.loop, receipt.run_id)
        return [*head, (state, "ask"), (redact(why), ""), (again, "command")]
    role = {"dead": "bad", "needs-you": "ask"}.get(group, "")
    text = redact(known.asking.get(receipt.run_id) or receipt.text)
    when = _when(receipt, now)
    return [*head, (when, role), (text, ""), (commands.verb("show", receipt.run_id), "command")]  # type: ignore[list-item]


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


def _summary(members: Sequence[Receipt[Any]], now: Now) -> str:
    counts = Counter(receipt.status for receipt in members)
    parts = [f"{counts[state]} {state.value}" for state in State if counts[state]]
    asleep = [r for r in members if r.status is State.SLEEPING and r.wake_at]
    if asleep:
        sleeping = min(asleep, key=lambda r: r.wake_at)
        why = f": {redact(sleeping.text)}" if sleeping.text else ""
        index = next(i for i, part in enumerate(parts) if part.endswith(State.SLEEPING.value))
        parts[index] += f" (first until {now.time(sleeping.wake_at)}{why})"
    cost_usd = sum(receipt.spent.cost_usd for receipt in members)
    if cost_usd:
        parts.append(money(cost_usd))
    return " · ".join(parts)


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
