"""`yaoki breakers`: the scopes that are given a rest, why, until when, and who waits for them."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import open_store
from yaoki.cli._views_breakers import Rest, breakers_lines, rests
from yaoki.cli._views_text import line

__all__ = ["breakers"]


def breakers(
    *,
    reset: Annotated[
        str | None, typer.Option("--reset", metavar="SCOPE", help="Forget what is known of it: it is used at once.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """List the scopes that are open, cool down or are paused: since when, why, the next probe, and who waits."""
    here = session(store, as_json=as_json)
    with open_store(here.store) as verbs:
        now = here.now()
        if reset is not None and verbs.store.reset_scope(reset) is None:
            known = sorted(verbs.store.scopes().circuits)
            said = f"those known: {', '.join(known)}" if known else "all are well"
            raise CommandError("usage", f"--reset {reset}: nothing is kept of such a scope; {said}")
        view, waiting = verbs.store.scopes(), verbs.store.waiting_for_scopes()
        found: list[Rest] = rests(view, waiting, now.now_ms, verbs.store.lives)
    if as_json:
        here.out.data(found)
        return Exit.DONE
    if reset is not None:
        here.out.lines([line(("Reset", "head"), f": {reset} is used at once; what waits for it comes when it wakes.")])
    if found:
        here.out.lines(breakers_lines(found, now, here.commands))
    elif reset is None:
        here.out.lines([line("All scopes are well: nothing is open, cools down or is paused.")])
    return Exit.DONE
