"""`yaoki top-up`: more of a budget that a run has used up."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, RunArgument, StoreOption, session
from yaoki.cli._store import known_run, open_store
from yaoki.cli._views_text import line
from yaoki.cli._who import who

__all__ = ["top_up"]

_More = Annotated[float | None, typer.Option(metavar="N", min=0)]


def top_up(
    run: RunArgument,
    *,
    calls: _More = None,
    retries: _More = None,
    retry_wait_s: _More = None,
    turns: _More = None,
    wall_s: _More = None,
    tokens: _More = None,
    cost_usd: _More = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Add to a run's budget; what was spent stays spent. A run that waits for it goes on when it is run again."""
    here = session(store, as_json=as_json)
    given = {
        "calls": calls,
        "retries": retries,
        "retry_wait_s": retry_wait_s,
        "turns": turns,
        "wall_s": wall_s,
        "tokens": tokens,
        "cost_usd": cost_usd,
    }
    add = {field: amount for field, amount in given.items() if amount}
    if not add:
        raise CommandError("usage", f"top-up {run}: say how much of what, for example: yaoki top-up {run} --calls 50")
    with open_store(here.store) as verbs:
        known_run(verbs, run, here)
        receipt = verbs.top_up(run, by=who(), **add)
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    more = ", ".join(f"{amount:g} {field}" for field, amount in add.items())
    here.out.lines([line((run, "head"), f" has {more} more; it is {receipt.status.value}.")])
    if receipt.next_action:
        here.out.lines([line("Next   ", (here.commands.dress(receipt.next_action), "command"))])
    return Exit.DONE
