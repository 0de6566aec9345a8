"""All runs of a store, those that need somebody first: the pure part of `yaoki runs`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from yaoki.classify import redact
from yaoki.cli._views_text import Line, columns, line, money, shorten, width
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from yaoki.cli._views_text import Commands, Now, Role, Span
    from yaoki.runtime._receipt import Receipt

__all__ = ["GROUPS", "light", "runs_lines", "select", "status_names"]

GROUPS: dict[str, tuple[State, ...]] = {
    "needs-you": (State.WAITING,),
    "dead": (State.DEAD,),
    "active": (State.RUNNING, State.SLEEPING, State.PENDING),
    "done": (State.COMPLETED, State.CAPPED, State.CANCELLED),
}
"""The groups in the order they are shown; their names are also taken by `--status`."""

_LISTED = 50
"""Rows of a group shown at most where no `--status` asks for all of them."""
_TEXT_MIN = 24


def status_names() -> list[str]:
    """Return every word `--status` takes."""
    return sorted({*GROUPS, *(state.value for state in State)})


def select(receipts: Iterable[Receipt[Any]], status: str) -> list[Receipt[Any]]:
    """Return the runs of a state or of a group, in the order given."""
    wanted = GROUPS.get(status) or (State(status),)
    return [receipt for receipt in receipts if receipt.status in wanted]


def runs_lines(
    receipts: Sequence[Receipt[Any]],
    now: Now,
    commands: Commands,
    *,
    left: Collection[str] = (),
    every: bool = False,
    cells_max: int = 0,
) -> list[Line]:
    """
    Return the groups with their counts, and a row for each run somebody should look at.

    `left` are the ids of those whose process died. With `every`, all runs are listed, not only those that
    need somebody. `cells_max` is the terminal's width, and the reason is cut to fit it; 0 cuts nothing.
    """
    groups = {name: [r for r in receipts if r.status in states] for name, states in GROUPS.items()}
    blocks: list[tuple[Line, list[list[Span]], int]] = []
    count_width = max(2, *(len(str(len(members))) for members in groups.values()))
    for name, members in groups.items():
        if not members:
            continue
        listed = every or name in ("needs-you", "dead")
        head = line((_TITLES[name], _ROLES[name]), f"{len(members):>{count_width}}")
        if not listed:
            head += line("   ", _summary(name, members, now))
        ordered = _ordered(name, members if listed else [r for r in members if r.run_id in left])
        shown = ordered if every else ordered[:_LISTED]
        blocks.append((head, [_row(r, now, commands, left) for r in shown], len(ordered) - len(shown)))
    return _laid_out(blocks, groups, commands, cells_max)


_TITLES = {"needs-you": "NEEDS YOU  ", "dead": "DEAD       ", "active": "ACTIVE     ", "done": "DONE       "}
_ROLES: dict[str, Role] = {"needs-you": "ask", "dead": "bad", "active": "head", "done": "good"}


def _laid_out(
    blocks: Sequence[tuple[Line, list[list[Span]], int]],
    groups: dict[str, list[Receipt[Any]]],
    commands: Commands,
    cells_max: int,
) -> list[Line]:
    """Return the blocks with one set of columns for all of them."""
    names = [name for name, members in groups.items() if members]
    table = [row for _, rows, _ in blocks for row in rows]
    aligned = iter(columns(_fitted(table, cells_max), indent="  "))
    lines: list[Line] = []
    for name, (head, rows, more) in zip(names, blocks, strict=True):
        lines.append(head)
        lines += [next(aligned) for _ in rows]
        if more:
            lines.append(line((f"  … {more} more: ", "dim"), (commands.verb("runs", "--status", name), "command")))
    return lines


def _fitted(table: list[list[Span]], cells_max: int) -> list[list[Span]]:
    """Return the rows with the reason cut so that the command after it still fits the terminal."""
    if not cells_max or not table:
        return table
    others = [max(width(row[i][0]) for row in table) for i in (0, 1, 2, 4)]
    room = max(_TEXT_MIN, cells_max - sum(others) - 2 - 2 * len(others))
    return [[*row[:3], (shorten(row[3][0], room), row[3][1]), row[4]] for row in table]


def _ordered(name: str, members: list[Receipt[Any]]) -> list[Receipt[Any]]:
    if name == "needs-you":
        return sorted(members, key=lambda r: r.waiting_since)
    if name == "active":
        return sorted(members, key=lambda r: (r.status is State.SLEEPING, r.wake_at, r.created_at))
    return sorted(members, key=lambda r: -r.ended_at)


def _row(receipt: Receipt[Any], now: Now, commands: Commands, left: Collection[str]) -> list[Span]:
    command = commands.verb("show", receipt.run_id)
    if receipt.run_id in left:
        again = commands.run(receipt.file, receipt.loop, receipt.run_id)
        return [
            (receipt.run_id, "head"),
            (receipt.loop, ""),
            ("left", "ask"),
            ("its process died, nothing drives it", ""),
            (again, "command"),
        ]
    role: Role = {State.DEAD: "bad", State.WAITING: "ask"}.get(receipt.status, "")  # type: ignore[assignment]
    return [
        (receipt.run_id, "head"),
        (receipt.loop, ""),
        (_when(receipt, now), role),
        (redact(receipt.text), ""),
        (command, "command"),
    ]


def _when(receipt: Receipt[Any], now: Now) -> str:
    state = receipt.status
    if state is State.WAITING:
        return f"waiting {now.since(receipt.waiting_since)}" if receipt.waiting_since else "waiting"
    if state is State.SLEEPING:
        return f"sleeping until {now.time(receipt.wake_at)}" if receipt.wake_at else "sleeping"
    if state.final:
        return f"{state.value} {now.minute(receipt.ended_at)}" if receipt.ended_at else state.value
    return state.value


def _summary(name: str, members: Sequence[Receipt[Any]], now: Now) -> str:
    counts = Counter(receipt.status for receipt in members)
    parts = [f"{counts[state]} {state.value}" for state in GROUPS[name] if counts[state]]
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
    "spent",
)


def light(receipt: Receipt[Any]) -> dict[str, object]:
    """Return what a list knows of a run, as data; `yaoki show RUN --json` has the rest."""
    return {name: getattr(receipt, name) for name in _LIGHT}
