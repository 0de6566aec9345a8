"""`yaoki discard`: a final run and its records go for good; its id stays taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._confirm import confirmed
from yaoki.cli._deaths import Which, dead_runs
from yaoki.cli._exits import CommandError, Exit
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
from yaoki.cli._store import known_run, open_store
from yaoki.cli._views_text import line, plural
from yaoki.cli._who import who

if TYPE_CHECKING:
    from yaoki.runtime import Runner

__all__ = ["discard"]

_NAMED = 3


def discard(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs that have ended, by id.", show_default=False)
    ] = None,
    *,
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
    """Delete ended runs with all their records. Their ids stay taken: the keys of their effects were made from them."""
    here = session(store, as_json=as_json)
    chosen_by = Which(loop=loop, reason=reason, older_than=older_than, since=since)
    if bool(runs) == dead or (chosen_by.narrows and not dead):
        raise CommandError("usage", _WHICH)
    with open_store(here.store) as verbs:
        chosen = _named(verbs, runs, here) if runs else dead_runs(verbs, here, chosen_by)
        if not chosen:
            return _nothing(here)
        if not confirmed(f"Discard {_spoken(chosen)} for good?", yes=yes):
            return _nothing(here)
        gone: list[str] = []
        with Meter(here) as meter:
            for run in chosen:
                verbs.store.discard(run, by=who())
                gone.append(run)
                meter.at(len(gone), len(chosen), "runs discarded")
    if as_json:
        here.out.data({"discarded": gone})
    else:
        ids = "Their ids stay" if len(gone) > 1 else "Its id stays"
        here.out.lines([line("Discarded ", (_spoken(gone), "head"), f". {ids} taken.")])
    return Exit.DONE


_WHICH = "discard: say which: yaoki discard RUN…, or --dead with --loop, --reason, --older-than, --since"


def _named(verbs: Runner, runs: list[str], here: Session) -> list[str]:
    """Return the runs, each once; refuse before anything is changed."""
    chosen = list(dict.fromkeys(runs))
    for run in chosen:
        receipt = known_run(verbs, run, here)
        if not receipt.status.final:
            first = here.commands.verb("cancel", run)
            text = f"run {run} is {receipt.status.value}: only a run that has ended is discarded. First: {first}"
            raise CommandError("run.not_final", text)
    return chosen


def _nothing(here: Session) -> int:
    if here.out.as_json:
        here.out.data({"discarded": list[str]()})
    else:
        here.out.lines([line("Nothing is discarded.")])
    return Exit.DONE


def _spoken(runs: list[str]) -> str:
    if len(runs) <= _NAMED:
        return ", ".join(runs)
    return f"{plural(len(runs), 'run')} ({', '.join(runs[:_NAMED])}, …)"
