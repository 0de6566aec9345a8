"""`yaoki stats`: how often tools fail at first, and how it ends."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._deaths import every_run, known_loop
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._meter import Meter
from yaoki.cli._options import DebugOption, JsonOption, LoopOption, StoreOption, session
from yaoki.cli._spans import span_ms
from yaoki.cli._store import open_store
from yaoki.cli._tally import Tally
from yaoki.cli._views_stats import stats_data, stats_lines
from yaoki.cli._views_text import line
from yaoki.records import State

if TYPE_CHECKING:
    from yaoki.journal import Journal

__all__ = ["stats"]


def stats(
    *,
    tool: Annotated[str | None, typer.Option("--tool", metavar="T", help="Only steps of that tool.")] = None,
    loop: LoopOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="24h", help="Only what happened in that time.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Say how often each tool fails at its first attempt, and how its steps end; and where each loop's runs are.

    Reads every record of the runs it looks at, one run after the other: some seconds for 100,000 runs.
    """
    here = session(store, as_json=as_json)
    since_ms = here.now().now_ms - span_ms(since, option="--since") if since is not None else 0
    with open_store(here.store) as verbs:
        chosen = known_loop(verbs.store, loop)
        tally = Tally(since_ms=since_ms, tool=tool or "")
        with Meter(here) as meter:
            _count(tally, verbs.store, meter, chosen, since_ms)
        if tool is not None and not tally.tools:
            raise CommandError("tool.not_found", _no_steps(verbs.store, here.store, tool))
    if as_json:
        here.out.data(stats_data(tally))
    else:
        here.out.lines(stats_lines(tally) or [line(f"No runs in {here.store}.")])
    return Exit.DONE


def _count(tally: Tally, journal: Journal, meter: Meter, loop: str, since_ms: int) -> None:
    for (name, state), count in journal.counts().items():
        if loop in ("", name):
            tally.states.setdefault(name, Counter())[state] += count
    for run in every_run(journal, meter):
        moved = run.changed_ms >= since_ms or run.state is State.RUNNING
        if moved and loop in ("", run.loop):
            tally.add(run.loop, journal.load(run.id))


def _no_steps(journal: Journal, url: str, tool: str) -> str:
    """Return what to say about a tool without steps, with the name that was meant, if the newest runs have it."""
    every = Tally()
    for row in journal.list(limit=100, newest=True):
        every.add(row.loop, journal.load(row.id))
    close = get_close_matches(tool, list(every.tools), n=1) or [one for one in every.tools if one.startswith(tool)][:1]
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"no step of a tool {tool} in {url}{meant}"
