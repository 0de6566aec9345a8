"""The options every verb takes, and what they come to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer

from yaoki.cli._exits import CommandError
from yaoki.cli._out import Out
from yaoki.cli._views_text import Commands, Now
from yaoki.clock import SystemClock

__all__ = [
    "DEFAULT_STORE",
    "DeadOption",
    "DebugOption",
    "DiedSinceOption",
    "InputOption",
    "JsonOption",
    "LoopOption",
    "NotifyOption",
    "OlderThanOption",
    "ReasonOption",
    "RunArgument",
    "Session",
    "StoreOption",
    "TargetArgument",
    "YesOption",
    "addresses",
    "session",
]

DEFAULT_STORE = "sqlite:///yaoki.db"

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Where the runs are. [default: $YAOKI_STORE or sqlite:///yaoki.db]"),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
DebugOption: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
LoopOption: TypeAlias = Annotated[str | None, typer.Option("--loop", metavar="L", help="Only runs of that loop.")]
ReasonOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--reason", metavar="P", help="Only those that died of that: http.401, or a pattern: 'os.*'."),
]
DeadOption: TypeAlias = Annotated[
    bool, typer.Option("--dead", help="Every dead run, or those the options below choose.")
]
OlderThanOption: TypeAlias = Annotated[
    str | None, typer.Option("--older-than", metavar="7d", help="Only those that died longer ago.")
]
DiedSinceOption: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="24h", help="Only those that died in that time.")
]
TargetArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE:LOOP", help="The loop, as in agents.py:refund_agent.", show_default=False)
]
InputOption: TypeAlias = Annotated[
    str | None, typer.Option("--input", metavar="JSON|@FILE", help="Arguments by name, or the only one's value.")
]
NotifyOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="URL",
        help="Who is told of runs that need somebody: apprise's addresses, https://…, cmd:PROGRAM. [env: YAOKI_NOTIFY]",
    ),
]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RunArgument: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a verb works with: the store's URL, where to speak, how to write commands, and the clock."""

    store: str
    out: Out
    commands: Commands
    clock: SystemClock

    def now(self) -> Now:
        """Return the moment views speak of."""
        return Now(now_ms=self.clock.now_ms())


def session(store: str | None, *, as_json: bool) -> Session:
    """
    Return the session for a verb's options; `--store` is repeated in commands only if it had to be given.

    Raises:
        CommandError: What was given is no store's URL.
    """
    from yaoki.errors import StoreRefused
    from yaoki.journal._place import path_of

    default = os.environ.get("YAOKI_STORE") or DEFAULT_STORE
    if store == "":
        raise CommandError("usage", "--store is empty; leave it out for $YAOKI_STORE, or sqlite:///yaoki.db")
    given = store if store and store != default else ""
    try:
        path_of(store or default)
    except StoreRefused as error:
        raise CommandError(error.code, str(error)) from error
    return Session(
        store=store or default,
        out=Out(as_json=as_json),
        commands=Commands(store=given, cwd=os.path.realpath(".")),
        clock=SystemClock(),
    )


def addresses(given: list[str] | None) -> list[str]:
    """
    Return who is to be told: `--notify`, else the words of `$YAOKI_NOTIFY`; looked at before anything runs.

    Raises:
        DeclarationError: An address that cannot work.
    """
    found = given or os.environ.get("YAOKI_NOTIFY", "").split()
    if found:
        from yaoki.notify import sink_of

        for one in found:
            sink_of(one)
    return found
