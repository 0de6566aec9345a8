"""`yaoki top-up`: more of a budget that a run has used up."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, Session, StoreOption, session
from yaoki.cli._store import known_run, living, open_store
from yaoki.cli._views_groups import group_data, group_lines
from yaoki.cli._views_next import Around, taken_lines
from yaoki.cli._views_text import line
from yaoki.cli._who import who
from yaoki.records import State

__all__ = ["top_up"]


def top_up(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)] = None,
    *,
    group: Annotated[
        str | None, typer.Option("--group", metavar="G", help="The budget over all runs of that group instead.")
    ] = None,
    calls: Annotated[float | None, typer.Option(metavar="N", min=0, help="Attempts, over all steps.")] = None,
    retries: Annotated[float | None, typer.Option(metavar="N", min=0, help="Attempts beyond the first.")] = None,
    turns: Annotated[float | None, typer.Option(metavar="N", min=0, help="Passes of the loop's body.")] = None,
    cost_usd: Annotated[float | None, typer.Option(metavar="USD", min=0, help="Dollars.")] = None,
    tokens: Annotated[float | None, typer.Option(metavar="N", min=0, help="Tokens.")] = None,
    retry_wait_s: Annotated[float | None, typer.Option(metavar="S", min=0, help="Seconds before retries.")] = None,
    wall_s: Annotated[float | None, typer.Option(metavar="S", min=0, help="Seconds since its first begin.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Add to the budget of a run, or of a group; what was spent stays spent. Runs that wait for it can go on then."""
    here = session(store, as_json=as_json)
    given = {
        "calls": calls,
        "retries": retries,
        "turns": turns,
        "cost_usd": cost_usd,
        "tokens": tokens,
        "retry_wait_s": retry_wait_s,
        "wall_s": wall_s,
    }
    add = {field: amount for field, amount in given.items() if amount}
    if (run is None) == (group is None):
        raise CommandError("usage", "top-up takes a RUN or --group G, one of them; yaoki runs lists what waits")
    if not add:
        whose = run if group is None else f"--group {group}"
        raise CommandError(
            "usage", f"top-up {whose}: say how much of what, for example: yaoki top-up {whose} --calls 50"
        )
    if run is None:
        return _group(here, str(group), add)
    with open_store(here.store) as verbs:
        before = known_run(verbs, run, here)
        receipt = verbs.top_up(run, by=who(), **add)
        around = Around(workers=living(verbs.store), brake=verbs.store.paused())
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    more = ", ".join(f"{amount:g} {field}" for field, amount in add.items())
    here.out.lines([line((run, "head"), f" has {more} more; it is {receipt.status.value}.")])
    unbounded = [field for field in add if field not in before.budget] if before.budget else []
    if unbounded:
        here.out.lines([line((f"It has no bound on {', '.join(unbounded)}: that changes nothing.", "ask"))])
    if receipt.status is State.PENDING:
        here.out.lines(taken_lines(receipt, here.commands, around))
    elif receipt.status is State.CAPPED:
        here.out.lines([line("Next   ", (here.commands.verb("redrive", run), "command"))])
    elif receipt.next_action:
        here.out.lines([line("Next   ", (here.commands.dress(receipt.next_action), "command"))])
    return Exit.DONE


def _group(here: Session, name: str, add: dict[str, float]) -> int:
    """Add to a group's budget, and say how it stands."""
    with open_store(here.store) as verbs:
        topped_up = verbs.top_up_group(name, **add)
        workers = living(verbs.store)
    if here.out.as_json:
        here.out.data([group_data(topped_up)])
        return Exit.DONE
    here.out.lines(group_lines([topped_up], here.commands))
    if not workers:
        worker = here.commands.verb("worker", "FILE")
        here.out.lines([line("Its runs go on where a worker serves their file; none lives:   ", (worker, "command"))])
    return Exit.DONE
