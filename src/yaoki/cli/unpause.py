"""`yaoki unpause`: the brake comes off, and what waited goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import living, open_store
from yaoki.cli._views_text import line, plural
from yaoki.cli.pause import ScopeArgument, chosen_scope
from yaoki.records import State

__all__ = ["unpause"]

_LOOKED_AT = 20
"""Pending runs whose files are named."""


def unpause(
    scope: ScopeArgument = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every run of the store; the default.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Take the brake off the store, or off one SCOPE: living workers go on within a second."""
    chosen = chosen_scope("unpause", scope, everything=everything)
    here = session(store, as_json=as_json)
    with open_store(here.store) as verbs:
        was_on = verbs.store.unpause(scope=chosen)
        workers = living(verbs.store)
        pending = sum(count for (_, state), count in verbs.store.counts().items() if state is State.PENDING)
        files = {row.file for row in verbs.store.list(states=(State.PENDING,), limit=_LOOKED_AT) if row.file}
    if as_json:
        here.out.data({"paused": False, "was_paused": was_on, **({"scope": chosen} if chosen else {})})
        return Exit.DONE
    if was_on:
        on = line((f"{chosen} unpaused" if chosen else "Unpaused", "head"), ": what waited goes on.")
    else:
        on = line(f"{chosen or 'It'} was not paused; nothing changed.")
    here.out.lines([on])
    if pending and workers:
        here.out.lines([line(f"{plural(pending, 'run')} pending, {plural(workers, 'worker')} to take them.")])
    elif pending:
        serve = here.commands.verb("worker", *sorted(map(here.commands.dress, files)))
        here.out.lines([line(f"{plural(pending, 'run')} pending and no worker lives.")])
        here.out.lines([line("Next   ", (serve, "command"))])
    return Exit.DONE
