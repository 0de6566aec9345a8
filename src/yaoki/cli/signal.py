"""`yaoki signal`: sends a run what it waits for."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import Exit
from yaoki.cli._input import read_input
from yaoki.cli._options import DebugOption, JsonOption, RunArgument, StoreOption, session
from yaoki.cli._store import known_run, open_store
from yaoki.cli._views_text import line
from yaoki.cli._who import who
from yaoki.records import ABSENT

__all__ = ["signal"]


def signal(
    run: RunArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in run.wait_signal(NAME).", show_default=False)],
    value: Annotated[
        str | None, typer.Argument(metavar="JSON|@FILE", help="What the wait returns; left out, null.")
    ] = None,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Send a signal to a run; it is kept until the run takes it."""
    here = session(store, as_json=as_json)
    data = ABSENT if value is None else read_input(value, what="the value")
    with open_store(here.store) as verbs:
        known_run(verbs, run, here)
        receipt = verbs.signal(run, name, data, by=who())
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    here.out.lines([line((run, "head"), f" has signal {name}.")])
    if receipt.next_action:
        here.out.lines([line("Next   ", (here.commands.dress(receipt.next_action), "command"))])
    return Exit.DONE
