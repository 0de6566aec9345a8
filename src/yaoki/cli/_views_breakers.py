"""Scopes that are given a rest, for people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from yaoki.classify import redact
from yaoki.cli._views_text import Line, columns, line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yaoki.cli._views_text import Commands, Now, Span
    from yaoki.journal import ScopeView
    from yaoki.records import Circuit

__all__ = ["Rest", "breakers_lines", "rests"]

_HAPPENS = {
    "open": "open",
    "half-open": "half-open",
    "cooldown": "cools down",
    "pause": "paused",
    "failing": "failing",
}


class Rest(Struct, frozen=True, kw_only=True):
    """One scope that is not well, or that a person has paused."""

    scope: str
    state: Literal["open", "half-open", "cooldown", "pause", "failing"]
    """`failing`: still closed, its failures in a row counted."""
    since: int = 0
    until: int = 0
    """Open: the next probe; cooling down: its end. 0: none is known."""
    failures: int = 0
    reason: str = ""
    by: str = ""
    probing_run: int = 0
    """The number of the run that probes it; 0: none does."""
    waiting: int = 0
    """How many runs sleep or wait for it; those in memory wait beside them, uncounted."""
    waiting_first: str = ""


def rests(
    view: ScopeView, waiting: Mapping[str, tuple[int, str]], now_ms: int, alive: Callable[[int], bool]
) -> list[Rest]:
    """Return what is to be told of each scope: what a person has paused first, then what is open, the longest first."""
    paused = [
        _with(Rest(scope=name, state="pause", since=brake.at_ms, by=brake.by), waiting)
        for name, brake in sorted(view.paused.items())
    ]
    circuits = sorted(view.circuits.values(), key=lambda one: (not one.opened_ms, one.opened_ms, one.scope))
    return [*paused, *(_with(_rest(one, now_ms, alive), waiting) for one in circuits if _told(one, now_ms))]


def _told(one: Circuit, now_ms: int) -> bool:
    return bool(one.opened_ms or one.failures or one.cool_ms > now_ms)


def _rest(one: Circuit, now_ms: int, alive: Callable[[int], bool]) -> Rest:
    probed = bool(one.probe_worker) and one.probe_until_ms > now_ms and alive(one.probe_worker)
    state: Literal["open", "half-open", "cooldown", "failing"] = "failing"
    until_ms = one.until_ms
    if one.opened_ms:
        state = "open" if now_ms < one.until_ms else "half-open"
    elif one.cool_ms > now_ms:
        state, until_ms = "cooldown", one.cool_ms
    return Rest(
        scope=one.scope,
        state=state,
        since=one.opened_ms,
        until=until_ms,
        failures=one.failures,
        reason=one.reason,
        probing_run=one.probe_run if probed else 0,
    )


def _with(one: Rest, waiting: Mapping[str, tuple[int, str]]) -> Rest:
    count, first = waiting.get(one.scope, (0, ""))
    return replace(one, waiting=count, waiting_first=first)


def breakers_lines(found: Sequence[Rest], now: Now, commands: Commands) -> list[Line]:
    """Return a row for each scope, and what to type about it."""
    table: list[list[Span]] = [
        [
            (redact(one.scope), "head"),
            (_HAPPENS[one.state], "ask" if one.state in ("open", "half-open", "pause") else ""),
            (f"since {now.time(one.since)} ({now.since(one.since)})" if one.since else "", ""),
            (_why(one), ""),
            (_next(one, now), ""),
            (_waits(one), "dim"),
        ]
        for one in found
    ]
    lines = columns(table)
    for one in found:
        if one.state == "pause":
            lines.append(line("Go on  ", (commands.verb("unpause", one.scope), "command")))
    first = next((one for one in found if one.state != "pause"), None)
    if first is not None:
        lines.append(line("Use it at once  ", (commands.verb("breakers", "--reset", first.scope), "command")))
    return lines


def _why(one: Rest) -> str:
    if one.state == "pause":
        return f"by {one.by}" if one.by else ""
    failed = f"{plural(one.failures, 'failure')} in a row, last " if one.failures else ""
    return f"{failed}{one.reason}" if one.reason else failed


def _next(one: Rest, now: Now) -> str:
    if one.state == "open":
        return f"next probe {now.time(one.until)}"
    if one.state == "half-open":
        return "a probe is under way" if one.probing_run else "the next attempt probes it"
    return f"until {now.time(one.until)}" if one.state == "cooldown" else ""


def _waits(one: Rest) -> str:
    if not one.waiting:
        return ""
    rest = " …" if one.waiting > 1 else ""
    verb = "waits" if one.waiting == 1 else "wait"
    return f"{plural(one.waiting, 'run')} {verb} ({one.waiting_first}{rest})"
