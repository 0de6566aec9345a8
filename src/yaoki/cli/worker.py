"""`yaoki worker`: serves every loop of some files, under the supervisor."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, NotifyOption, StoreOption, addresses, session
from yaoki.cli._report import HUNG_AFTER_S, Service
from yaoki.cli._store import open_store
from yaoki.cli._views_text import line, plural

if TYPE_CHECKING:
    from collections import Counter

    from yaoki.cli._options import Session
    from yaoki.cli._views_text import Line, Span

__all__ = ["worker"]

_CONCURRENCY_MAX = 1_000
_DAY_S = 86_400


def worker(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Their loops are served.", show_default=False)],
    *,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing can go on now; for cron.")] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="Runs at once.")] = 8,
    drain_s: Annotated[
        float, typer.Option("--drain-s", metavar="S", help="Told to stop, how long attempts in flight may take.")
    ] = 5.0,
    hung_after_s: Annotated[
        float,
        typer.Option("--hung-after-s", metavar="S", help="Kill the worker when a run does nothing for so long."),
    ] = HUNG_AFTER_S,
    notify: NotifyOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Drive submitted runs, and those that wake, are answered, or were left by a death; it restarts when it dies."""
    from yaoki.cli._charges import ManyRuns
    from yaoki.cli._supervisor import Interrupted, supervise

    here = session(store, as_json=as_json)
    if not 1 <= concurrency <= _CONCURRENCY_MAX:
        raise CommandError("usage", f"--concurrency lies between 1 and {_CONCURRENCY_MAX:,}, not {concurrency}")
    if not 0 <= drain_s <= _DAY_S:
        raise CommandError("usage", f"--drain-s lies between 0 and {_DAY_S:,}, not {drain_s:g}")
    if not 0 < hung_after_s <= _DAY_S:
        raise CommandError("usage", f"--hung-after-s lies above 0, and is at most {_DAY_S:,}, not {hung_after_s:g}")
    for file in files:
        if not Path(file).is_file():
            raise CommandError("file.not_found", f"no file {file}; a worker takes files: yaoki worker agents.py")
    service = Service(
        files=files,
        store=here.store,
        until="idle" if until_idle else "stopped",
        concurrency=concurrency,
        drain_s=drain_s,
        tell=not as_json,
        debug=debug,
        hung_after_s=hung_after_s,
        notify=addresses(notify),
    )
    charge = ManyRuns(service, here)
    stopped = False
    try:
        supervise(charge, here, drain_s=drain_s)
    except Interrupted:
        stopped = True
    left = charge.left()
    if as_json:
        here.out.data({"left": dict(left), "stopped": stopped, **_rest(here)})
    else:
        here.out.lines(_summary(left, here, files))
    return Exit.DONE


def _rest(here: Session) -> dict[str, int]:
    """
    Return what is left in the store to wake or to be looked at, and when the next of it wakes (ms, 0 is never).

    `paused_ms` is since when the store is paused, 0 if it is not.
    """
    with open_store(here.store) as verbs:
        brake = verbs.store.paused()
        counts = verbs.store.counts()
        next_wake_ms = verbs.store.next_wake({loop for loop, _ in counts})
    rest = {
        state: sum(count for (_, is_), count in counts.items() if is_.value == state)
        for state in ("pending", "sleeping", "waiting", "dead")
    }
    return {**rest, "next_wake_ms": next_wake_ms, "paused_ms": brake.at_ms if brake is not None else 0}


def _summary(left: Counter[str], here: Session, files: list[str]) -> list[Line]:
    ended = [f"{left[state]} {state}" for state in ("completed", "capped", "dead", "cancelled") if left[state]]
    lines = [line("  ".join(ended) or "nothing ended")]
    rest = _rest(here)
    if rest["paused_ms"]:
        since = here.now().time(rest["paused_ms"])
        lines.append(line(f"The store is paused since {since}: nothing begins   ", _command(here, "unpause")))
    elif rest["pending"]:
        again = here.commands.dress(f"yaoki {shlex.join(['worker', *files])}")
        lines.append(line(f"{plural(rest['pending'], 'run')} pending   ", (again, "command")))
    if rest["sleeping"]:
        asleep = f"{plural(rest['sleeping'], 'run')} asleep until {here.now().time(rest['next_wake_ms'])} or later"
        lines.append(line(f"{asleep}: the next worker wakes them"))
    if rest["waiting"] or rest["dead"]:
        lines.append(line("Needs you   ", _command(here, "runs")))
    return lines


def _command(here: Session, verb: str) -> Span:
    return here.commands.verb(verb), "command"
