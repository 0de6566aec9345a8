"""`yaoki group`: runs that share a budget, what they have spent of it, and its bounds."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._views_groups import group_data, group_lines
from yaoki.cli._views_text import line

__all__ = ["group"]


def group(
    name: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="As in submit --group; without it, all are listed.")
    ] = None,
    *,
    calls: Annotated[float | None, typer.Option(metavar="N", min=0, help="Attempts, over all its runs.")] = None,
    tokens: Annotated[float | None, typer.Option(metavar="N", min=0, help="Tokens, over all its runs.")] = None,
    cost_usd: Annotated[float | None, typer.Option(metavar="USD", min=0, help="Dollars, over all its runs.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Show what a group of runs has spent, or set its budget: said again it changes nothing, and top-ups stay."""
    from yaoki.runtime import Runner

    here = session(store, as_json=as_json)
    bounds = {"calls": calls, "tokens": tokens, "cost_usd": cost_usd}
    given = {field: _whole(field, bound) for field, bound in bounds.items() if bound is not None}
    if given and name is None:
        raise CommandError("usage", "say which group: yaoki group night --cost-usd 20")
    # A budget may be set before the first run is submitted, so it may make the store.
    opened = Runner(here.store, submits_only=True) if given else Runner.verbs(here.store)
    with opened as verbs:
        if name is None:
            found = [*verbs.store.groups()]
        elif given:
            found = [verbs.group(name, **given)]  # type: ignore[arg-type]  # whole numbers, by `_whole`
        else:
            one = verbs.store.group(name)
            if one is None:
                every = ", ".join(other.name for other in verbs.store.groups(20)) or "none"
                raise CommandError("group.not_found", f"no group {name} in {here.store}; there are: {every}")
            found = [one]
    if as_json:
        here.out.data([group_data(one) for one in found])
        return Exit.DONE
    here.out.lines(group_lines(found, here.commands) or [line(f"No groups in {here.store}.")])
    return Exit.DONE


def _whole(field: str, amount: float) -> float:
    """Return a count as a whole number where it is one; what is none is refused further down, by its name."""
    return int(amount) if field != "cost_usd" and amount == int(amount) else amount
