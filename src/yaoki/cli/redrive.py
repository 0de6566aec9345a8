"""`yaoki redrive`: a run goes on at the step it ended at, or in a new pass."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, RunArgument, StoreOption, session
from yaoki.cli._store import known_run, open_store
from yaoki.cli._views_text import line
from yaoki.cli._who import who

__all__ = ["redrive"]

_SOURCES = ("step", "checkpoint", "start")


def redrive(
    run: RunArgument,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="step|checkpoint|start",
            help="Where it starts again: the step it ended at, or a new pass of the code as it is.",
        ),
    ] = "step",
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Let a run go on: a new ladder for its step, or a new pass that adopts what was done; spent stays spent."""
    here = session(store, as_json=as_json)
    if source not in _SOURCES:
        raise CommandError("usage", f"--from {source}: a run is redriven from one of: {', '.join(_SOURCES)}")
    with open_store(here.store) as verbs:
        known_run(verbs, run, here)
        receipt = verbs.redrive(run, source, by=who())
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    then = receipt.next_action
    here.out.lines([line((run, "head"), f" is {receipt.status.value} again.")])
    if then:
        here.out.lines([line("Next   ", (here.commands.dress(then), "command"))])
    return Exit.DONE
