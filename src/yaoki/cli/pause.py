"""`yaoki pause`: the brake. Nothing new begins, what is in flight settles, nothing is lost."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import open_store
from yaoki.cli._views_text import line, plural
from yaoki.cli._who import who

__all__ = ["pause"]

_BY_MAX = 200


def pause(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every run of the store; the default.")] = False,  # noqa: ARG001 - the default, said
    by: Annotated[str | None, typer.Option("--by", metavar="WHO", help="Who orders it. [default: your name]")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Pause the store: within a second no run begins anything more; what is in flight settles, nothing is lost."""
    here = session(store, as_json=as_json)
    if by is not None and not (0 < len(by) <= _BY_MAX and by.isprintable()):
        raise CommandError("usage", f"--by takes 1 to {_BY_MAX} printable characters; left out, it is your name")
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
