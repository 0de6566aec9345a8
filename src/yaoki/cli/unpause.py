"""`yaoki unpause`: the brake comes off, and what waited goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import living, open_store
from yaoki.cli._views_text import line, plural
from yaoki.records import State

__all__ = ["unpause"]

_LOOKED_AT = 20
"""Pending runs whose files are named."""


def unpause(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every run of the store; the default.")] = False,  # noqa: ARG001 - the default, said
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Let a paused store go on: living workers take up what waited within a second."""
    here = session(store, as_json=as_json)
    with open_store(here.store) as verbs:
        was_on = verbs.store.unpause()
        workers = living(verbs.store)
        pending = sum(count for (_, state), count in verbs.store.counts().items() if state is State.PENDING)
        files = {row.file for row in verbs.store.list(states=(State.PENDING,), limit=_LOOKED_AT) if row.file}
    if as_json:
        here.out.data({"paused": False, "was_paused": was_on})
        return Exit.DONE
    on = line(("Unpaused", "head"), ": what waited goes on.")
    here.out.lines([on if was_on else line("It was not paused; nothing changed.")])
    if pending and workers:
        here.out.lines([line(f"{plural(pending, 'run')} pending, {plural(workers, 'worker')} to take them.")])
    elif pending:
        serve = here.commands.verb("worker", *sorted(map(here.commands.dress, files)))
        here.out.lines([line(f"{plural(pending, 'run')} pending and no worker lives.")])
        here.out.lines([line("Next   ", (serve, "command"))])
    return Exit.DONE
