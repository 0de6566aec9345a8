"""What to type next about a run, and what that does: the end of `yaoki show`, and of every verb that moves a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from yaoki.cli._views_text import Line, columns, line, plural
from yaoki.records import State
from yaoki.runtime._moves import Move, moves

if TYPE_CHECKING:
    from yaoki.cli._views_text import Commands, Now, Span
    from yaoki.journal import Brake
    from yaoki.records import Group
    from yaoki.runtime._receipt import Receipt

__all__ = ["Around", "next_lines", "paused_lines", "taken_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is known of a run beside its own records."""

    left: bool = False
    """The process that drove it is dead, and nobody has taken it up since."""
    gone: bool = False
    """Its file is no longer where it was."""
    workers: int = 0
    """How many workers of the store live."""
    brake: Brake | None = None
    group: Group | None = None
    """The group whose budget it shares."""


def paused_lines(around: Around, now: Now, commands: Commands) -> list[Line]:
    """Return a line if the store is paused: then nothing else that is typed makes a run move."""
    if around.brake is None:
        return []
    by = f" by {around.brake.by}" if around.brake.by else ""
    said = f"The store is paused since {now.time(around.brake.at_ms)}{by}: nothing begins   "
    return [line((said, "ask"), (commands.verb("unpause"), "command"))]


def next_lines(receipt: Receipt[Any], commands: Commands, around: Around, now: Now, *, asked: bool) -> list[Line]:
    """Return the commands that take it on, and what each does, where no question has said it already."""
    match receipt.status:
        case State.PENDING:
            return taken_lines(receipt, commands, around)
        case State.RUNNING if around.left:
            return taken_lines(receipt, commands, around)
        case State.SLEEPING:
            return _asleep(receipt, commands, around, now)
        case State.WAITING:
            return _waiting(receipt, commands, around, asked=asked)
        case State.DEAD:
            return _choices([(commands.verb(*move.words), move.means) for move in moves(receipt)])
        case State.CAPPED:
            return _capped(receipt, commands, around)
        case State.CANCELLED:
            return _choices([(commands.verb("redrive", receipt.run_id), "takes it up again at the step it ended at")])
        case _:
            return []


def taken_lines(receipt: Receipt[Any], commands: Commands, around: Around) -> list[Line]:
    """Return who takes a run on that could go on now, and the command that does where nobody may."""
    again = _again(receipt, commands, around)
    if around.brake is not None:
        return [line("The store is paused; it is taken once it goes on:   ", (commands.verb("unpause"), "command"))]
    if around.workers:
        live = f"{plural(around.workers, 'worker')} live{'s' if around.workers == 1 else ''}"
        said = f"{live}: one that serves {receipt.loop} takes it within a second. If none does:"
        return [line(said), *columns([again], indent="  ", gap="   ")]
    rows: list[list[Span]] = [again]
    if receipt.file and not around.gone:
        again.append(("this run alone", "dim"))
        worker = commands.verb("worker", commands.dress(receipt.file))
        rows.append([(worker, "command"), ("it, and all others that can go on", "dim")])
    return [line("Nothing drives it, and no worker lives:"), *columns(rows, indent="  ", gap="   ")]


def _again(receipt: Receipt[Any], commands: Commands, around: Around) -> list[Span]:
    file = "" if around.gone else receipt.file
    again: list[Span] = [(commands.run(file, receipt.loop, receipt.run_id), "command")]
    if around.gone:
        again.append((f"{PurePath(receipt.file).name} is not there any more", "dim"))
    return again


def _asleep(receipt: Receipt[Any], commands: Commands, around: Around, now: Now) -> list[Line]:
    if 0 < receipt.wake_at <= now.now_ms:
        return taken_lines(receipt, commands, around)
    if around.workers:
        live = plural(around.workers, "living worker")
        return [line(f"Then one of {live} takes it up, if it serves {receipt.loop}.")]
    return [line("If no process waits with it:   ", *_again(receipt, commands, around)[:1])]


def _waiting(receipt: Receipt[Any], commands: Commands, around: Around, *, asked: bool) -> list[Line]:
    if receipt.waits_for == "code":
        where = "checkpoint" if receipt.turn else "start"
        since = f"the state saved after turn {receipt.turn}" if receipt.turn else "its first line"
        redrive = commands.verb("redrive", receipt.run_id, "--from", where)
        return [
            line("Nothing was executed. Either the old code again, and then:"),
            *columns([_again(receipt, commands, around)], indent="  ", gap="   "),
            line("or go on with the new code:"),
            line("  ", (redrive, "command"), (f"   a new pass from {since}", "dim")),
            line(("  What was done since then is not done again where the new code asks for the same;", "dim")),
            line(("  what it does not ask for is listed as an orphan, and decided by you.", "dim")),
        ]
    if receipt.waits_for == "budget":
        return [line("Next   ", (commands.dress(receipt.next_action), "command"), ("   or however much more", "dim"))]
    if not asked and receipt.next_action and receipt.next_action != f"yaoki show {receipt.run_id}":
        return [line("Next   ", (commands.dress(receipt.next_action), "command"))]
    return []


def _capped(receipt: Receipt[Any], commands: Commands, around: Around) -> list[Line]:
    found = moves(receipt)
    if receipt.stopped_by.startswith("group."):
        noun = receipt.stopped_by.removeprefix("group.")
        bound = getattr(around.group, f"{noun}_max", None) or 1
        words = ("top-up", "--group", receipt.group, f"--{noun.replace('_', '-')}", f"{bound:g}")
        found = [
            Move(words, "or however much more, then"),
            Move(("redrive", receipt.run_id), "goes on where it was capped"),
        ]
    if not found:
        return []
    top_up, redrive = found
    return [
        line("That is an end. If it should go on all the same:"),
        line("  ", (commands.verb(*top_up.words), "command"), (f"   {top_up.means}", "dim")),
        line("  ", (commands.verb(*redrive.words), "command")),
    ]


def _choices(rows: list[tuple[str, str]]) -> list[Line]:
    spans: list[list[Span]] = [[(command, "command"), (means, "dim")] for command, means in rows]
    return [line("Next, one of:"), *columns(spans, indent="  ")]
