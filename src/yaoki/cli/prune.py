"""`yaoki prune`: old ended runs go, so that a store does not grow for ever."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._confirm import confirmed
from yaoki.cli._deaths import every_run
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._meter import Meter
from yaoki.cli._options import DebugOption, JsonOption, Session, StoreOption, YesOption, session
from yaoki.cli._spans import span_ms
from yaoki.cli._store import open_store
from yaoki.cli._views_text import line, plural
from yaoki.cli._who import who
from yaoki.records import State

__all__ = ["prune"]

_FINAL = tuple(state for state in State if state.final)
_BATCH = 200


def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="30d", help="Runs that ended longer ago.", show_default=False)
    ],
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="S", help="Only runs that ended so; may be repeated. [default: all of them]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many there are, and delete none.")] = False,
    yes: YesOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Delete runs that ended long ago, with all their records. Their ids stay taken; the file's room is used again."""
    here = session(store, as_json=as_json)
    before_ms = here.now().now_ms - span_ms(older_than, option="--older-than")
    states = _states(status or [])
    with open_store(here.store) as verbs:
        with Meter(here) as meter:
            runs = every_run(verbs.store, meter)
            found = sum(run.state in states and run.ended_ms < before_ms for run in runs)
        if dry_run:
            return _said(here, found, pruned=0, dry_run=True)
        if not found or not confirmed(f"Delete {plural(found, 'run')} that ended over {older_than} ago?", yes=yes):
            return _said(here, found, pruned=0, dry_run=False)
        pruned = 0
        with Meter(here) as meter:
            while count := verbs.store.prune(before_ms, by=who(), states=states, limit=_BATCH):
                pruned += count
                meter.at(pruned, max(found, pruned), "runs pruned")
    return _said(here, found, pruned=pruned, dry_run=False)


def _states(given: list[str]) -> tuple[State, ...]:
    names = [state.value for state in _FINAL]
    for one in given:
        if one not in names:
            raise CommandError("usage", f"--status {one}: only ended runs are pruned: {', '.join(names)}")
    return tuple(State(one) for one in dict.fromkeys(given)) or _FINAL


def _said(here: Session, found: int, *, pruned: int, dry_run: bool) -> int:
    if here.out.as_json:
        here.out.data({"found": found, "pruned": pruned})
    elif dry_run:
        here.out.lines([line((plural(found, "run"), "head"), " would be pruned." if found else ": nothing to prune.")])
    elif found and not pruned:
        here.out.lines([line("Nothing was deleted.")])
    elif not found:
        here.out.lines([line("Nothing is that old.")])
    else:
        here.out.lines([line("Pruned ", (plural(pruned, "run"), "head"), ". Their ids stay taken.")])
    return Exit.DONE
