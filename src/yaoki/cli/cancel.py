"""`yaoki cancel`: nothing new begins; what is in flight settles."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, RunArgument, StoreOption, session
from yaoki.cli._store import known_run, living, open_store
from yaoki.cli._views_next import Around, taken_lines
from yaoki.cli._views_text import line
from yaoki.cli._who import who
from yaoki.records import State

__all__ = ["cancel"]


def cancel(
    run: RunArgument,
    *,
    compensate: Annotated[
        bool, typer.Option("--compensate", help="Also undo what it did, newest first, by its tools' undo=.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Cancel a run: nothing new begins, attempts in flight settle; nothing is undone unless asked."""
    here = session(store, as_json=as_json)
    with open_store(here.store) as verbs:
        before = known_run(verbs, run, here)
        receipt = before if before.status.final else verbs.cancel(run, compensate=compensate, by=who())
        around = Around(workers=living(verbs.store), brake=verbs.store.paused())
    if as_json:
        here.out.data(receipt.to_json())
    elif before.status.final:
        here.out.lines([line((run, "head"), f" was {before.status.value} already; nothing changed.")])
    elif receipt.status.final:
        here.out.lines([line((run, "head"), f" is {receipt.status.value}.")])
    else:
        then = " Then what it did is undone, newest first." if compensate else ""
        here.out.lines([line((run, "head"), " is told to stop: nothing new begins, attempts in flight settle.", then)])
        if receipt.status is State.PENDING:
            here.out.lines(taken_lines(receipt, here.commands, around))
    return Exit.DONE
