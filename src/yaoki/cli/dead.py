"""`yaoki dead`: what the dead runs died of, and what to type about it."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._deaths import deaths, known_loop
from yaoki.cli._exits import Exit
from yaoki.cli._meter import Meter
from yaoki.cli._options import DebugOption, JsonOption, LoopOption, ReasonOption, StoreOption, session
from yaoki.cli._spans import span_ms
from yaoki.cli._store import open_store
from yaoki.cli._views_dead import dead_lines, death_groups
from yaoki.cli._views_text import line

__all__ = ["dead"]


def dead(
    *,
    loop: LoopOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="24h", help="Only those that died since then.")
    ] = None,
    reason: ReasonOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """List what runs died of, most frequent first: how often, the last one, and what to type."""
    here = session(store, as_json=as_json)
    now = here.now()
    since_ms = now.now_ms - span_ms(since, option="--since") if since is not None else 0
    with open_store(here.store) as verbs, Meter(here) as meter:
        chosen = known_loop(verbs.store, loop)
        groups = death_groups(deaths(verbs.store, meter, loop=chosen, since_ms=since_ms, reason=reason or ""))
    if as_json:
        here.out.data(groups)
    elif groups:
        filters = [*(["--loop", loop] if loop else []), *(["--since", since] if since else [])]
        here.out.lines(dead_lines(groups, now, here.commands, filters))
    else:
        narrowed = loop or since or reason
        here.out.lines([line(f"No dead runs{' like that' if narrowed else ''} in {here.store}.")])
    return Exit.DONE
