"""`yaoki redrive`: a run goes on at the step it ended at, or in a new pass; or all that died of one cause do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from yaoki.cli._confirm import confirmed
from yaoki.cli._deaths import Which, dead_runs
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._input import read_input
from yaoki.cli._meter import Meter
from yaoki.cli._options import (
    DeadOption,
    DebugOption,
    DiedSinceOption,
    JsonOption,
    LoopOption,
    OlderThanOption,
    ReasonOption,
    Session,
    StoreOption,
    YesOption,
    session,
)
from yaoki.cli._store import known_run, living, open_store
from yaoki.cli._views_next import Around, taken_lines
from yaoki.cli._views_text import line, plural
from yaoki.cli._who import who
from yaoki.errors import AnswerRefused, RunBusy

if TYPE_CHECKING:
    from yaoki.runtime import Runner

__all__ = ["redrive"]

_SOURCES = ("step", "checkpoint", "start")


def redrive(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run's id; or --dead.", show_default=False)
    ] = None,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="step|checkpoint|start",
            help="Where it starts again: the step it ended at, or a new pass of the code as it is.",
        ),
    ] = "step",
    edits: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="JSON|@FILE",
            help="With --from start: arguments to change, as an object by name; the others stay.",
            show_default=False,
        ),
    ] = None,
    dead: DeadOption = False,
    loop: LoopOption = None,
    reason: ReasonOption = None,
    older_than: OlderThanOption = None,
    since: DiedSinceOption = None,
    yes: YesOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Let a run go on: new attempts of its step, or a new pass that adopts what was done; spent stays spent."""
    here = session(store, as_json=as_json)
    if source not in _SOURCES:
        raise CommandError("usage", f"--from {source}: a run is redriven from one of: {', '.join(_SOURCES)}")
    which = Which(loop=loop, reason=reason, older_than=older_than, since=since)
    if (run is None) != dead or (which.narrows and not dead):
        said = "redrive: say which: yaoki redrive RUN, or --dead with --loop, --reason, --older-than, --since"
        raise CommandError("usage", said)
    if edits is not None and (run is None or source != "start"):
        raise CommandError("usage", "--input goes with one RUN, and with --from start")
    changed = None if edits is None else _changed(edits)
    with open_store(here.store) as verbs:
        if run is None:
            return _all(verbs, here, dead_runs(verbs, here, which), source, yes=yes)
        known_run(verbs, run, here)
        receipt = verbs.redrive(run, source, edits=changed, by=who())
        around = Around(workers=living(verbs.store), brake=verbs.store.paused())
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    here.out.lines([line((run, "head"), f" is {receipt.status.value} again.")])
    here.out.lines(taken_lines(receipt, here.commands, around))
    return Exit.DONE


def _changed(given: str) -> dict[str, object]:
    value = read_input(given)
    if not isinstance(value, dict):
        raise CommandError("usage", '--input: write an object of the arguments to change: \'{"order_id": "A-2"}\'')
    return cast("dict[str, object]", value)


def _all(verbs: Runner, here: Session, chosen: list[str], source: str, *, yes: bool) -> int:
    """Redrive each; what cannot be just now is told and left as it is."""
    if chosen and not confirmed(f"Redrive {plural(len(chosen), 'dead run')} from {source}?", yes=yes):
        chosen = []
    redriven: list[str] = []
    refused: dict[str, str] = {}
    with Meter(here) as meter:
        for run in chosen:
            try:
                verbs.redrive(run, source, by=who())
                redriven.append(run)
            except (AnswerRefused, RunBusy) as error:
                refused[run] = str(error)
            meter.at(len(redriven) + len(refused), len(chosen), "runs redriven")
    around = Around(workers=living(verbs.store), brake=verbs.store.paused())
    if here.out.as_json:
        here.out.data({"redriven": redriven, "refused": refused})
        return Exit.DONE
    for message in refused.values():
        here.out.note(message)
    if not redriven:
        here.out.lines([line("Nothing is redriven.")])
        return Exit.DONE
    here.out.lines([line((plural(len(redriven), "run"), "head"), " pending again.")])
    first = verbs.get(redriven[0])
    if around.workers:
        here.out.lines([line(f"{plural(around.workers, 'living worker')} can take them.")])
    elif first.file:
        worker = here.commands.verb("worker", here.commands.dress(first.file))
        here.out.lines([line("Next   ", (worker, "command"))])
    return Exit.DONE
