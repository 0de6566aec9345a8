"""`yaoki pause`: the brake. Nothing new begins, what is in flight settles, nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import open_store
from yaoki.cli._views_text import line, plural
from yaoki.cli._who import who

if TYPE_CHECKING:
    from yaoki.cli._options import Session

__all__ = ["ScopeArgument", "chosen_scope", "pause"]

_BY_MAX = 200

ScopeArgument = Annotated[
    str | None,
    typer.Argument(metavar="[SCOPE]", help="A vendor, vendor/model or tool alone. [default: everything]"),
]


def pause(
    scope: ScopeArgument = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every run of the store; the default.")] = False,
    by: Annotated[str | None, typer.Option("--by", metavar="WHO", help="Who orders it. [default: your name]")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Pause the store: within a second no run begins anything more; what is in flight settles, nothing is lost.

    With a SCOPE, as tools declare it: no attempt begins there; what runs come to it wait, out of memory.
    """
    chosen = chosen_scope("pause", scope, everything=everything)
    here = session(store, as_json=as_json)
    if by is not None and not (0 < len(by) <= _BY_MAX and by.isprintable()):
        raise CommandError("usage", f"--by takes 1 to {_BY_MAX} printable characters; left out, it is your name")
    if chosen:
        return _pause_scope(here, chosen, by or who())
    with open_store(here.store) as verbs:
        before = verbs.store.paused()
        verbs.store.pause(by or who())
        brake = verbs.store.paused() or before
        driving = sum(worker.runs for worker in verbs.store.workers() if worker.alive)
    if as_json:
        here.out.data({"paused": True, "by": brake.by if brake else "", "at": brake.at_ms if brake else 0})
        return Exit.DONE
    now = here.now()
    if before is not None:
        said = f" already, by {before.by or 'somebody'} at {now.time(before.at_ms)}; nothing changed."
        here.out.lines([line(("Paused", "head"), said)])
    else:
        them = "it" if driving == 1 else "them"
        under_way = (
            f" {plural(driving, 'run')} under way: what is in flight in {them} settles first." if driving else ""
        )
        here.out.lines([line(("Paused", "head"), f": nothing new begins.{under_way}")])
    here.out.lines([line("Go on  ", (here.commands.verb("unpause"), "command"))])
    return Exit.DONE


def chosen_scope(verb: str, scope: str | None, *, everything: bool) -> str:
    """
    Return the scope that was typed; empty is everything.

    Raises:
        CommandError: Both were typed, or what was is no scope.
    """
    if scope is None:
        return ""
    if everything:
        raise CommandError("usage", f"{verb} {scope} --all: everything is more than {scope}; leave one of them out")
    if not scope.strip("/") or not scope.isprintable() or scope != scope.strip("/ "):
        raise CommandError("usage", f"{verb} {scope!r}: a scope is vendor, vendor/model or a tool's name")
    return scope


def _pause_scope(here: Session, scope: str, by: str) -> int:
    with open_store(here.store) as verbs:
        before = verbs.store.scopes().paused.get(scope)
        verbs.store.pause(by, scope=scope)
        brake = verbs.store.scopes().paused.get(scope) or before
    if here.out.as_json:
        at_ms = brake.at_ms if brake else 0
        here.out.data({"paused": True, "scope": scope, "by": brake.by if brake else "", "at": at_ms})
        return Exit.DONE
    said = ": no attempt begins there; what is in flight settles first."
    if before is not None:
        said = f" already, by {before.by or 'somebody'} at {here.now().time(before.at_ms)}; nothing changed."
    here.out.lines([line((f"Paused {scope}", "head"), said)])
    here.out.lines([line("Go on  ", (here.commands.verb("unpause", scope), "command"))])
    return Exit.DONE
