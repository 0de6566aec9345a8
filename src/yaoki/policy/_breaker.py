"""
Is a scope fit to be used? Breakers and cooldowns, as pure steps from one state of a scope to the next.

    closed      everything begins; failures in a row are counted, a success sets them to 0
    open        nothing begins until `until_ms`
    half-open   from then on one attempt may: the probe. Answered: closed. Failed: open again

From opening on only a probe's answer counts: what was in flight says nothing about now. A probe that ends without a
verdict gives its place back. A cooldown stands beside all that: nothing begins before it is over.

The breaker is Nygard's (*Release It!*, 2007, chapter 5), with its half-open state bounded to one call.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from yaoki.errors import DeclarationError
from yaoki.policy._bounds import require_count, require_number
from yaoki.records import Circuit, Executed, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.records import Failure

__all__ = [
    "PROBE_LOOK_MS",
    "Bar",
    "Breaker",
    "Probe",
    "after_attempt",
    "bar_of",
    "come_back_ms",
    "places_taken",
    "scopes_of",
    "spread_ms",
]

PROBE_LOOK_MS = 1_000
"""About how often those that wait look whether a probe under way has been answered."""

_DAY_S = 86_400.0
_COUNT = frozenset({FailureKind.TRANSIENT, FailureKind.OVERLOADED})
_COOL = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED})
_DEPTH = {Scope.VENDOR: 1, Scope.MODEL: 2}
_SPREAD_MIN_MS = 1_000
_SPREAD_MAX_MS = 10_000
Circuits: TypeAlias = Mapping[str, Circuit]
Alive: TypeAlias = Callable[[int], bool]


class Breaker(Struct, frozen=True, kw_only=True):
    """
    When a scope is given a rest, for every run of the store.

    Only `transient` and `overloaded` failures count, in a row over all who use the scope; not a death of the
    process, not control flow. Open, nothing begins on the scope for `open_s`, or for as long as the server said;
    then one probe at a time decides. Waiting for it costs no attempt, only deadline.

    Raises:
        DeclarationError: A bound that cannot work.
    """

    failures: int = 5
    """In a row that open it; 1 to 10,000."""
    open_s: float = 30
    """How long it stays open before each probe; a server's hint stands instead. Above 0, at most a day."""
    reset: Literal["probe", "never"] = "probe"
    """`never`: once it is open the scope is not used any more by the run that met it; others probe."""

    def __post_init__(self) -> None:
        """Refuse bounds that cannot work, before anything runs."""
        require_count("Breaker", "failures", self.failures, least=1, most=10_000)
        require_number("Breaker", "open_s", self.open_s, most=_DAY_S, zero=False)
        if self.reset not in ("probe", "never"):
            raise DeclarationError(f'Breaker: reset={self.reset!r} cannot work. Write "probe" or "never".')


class Probe(Struct, frozen=True):
    """Who asks for a probe's place, or had it: an attempt of a step, and when the place is lost in any case."""

    worker: int
    run: int
    step: str
    until_ms: int = 0

    def holds(self, circuit: Circuit) -> bool:
        """Whether it is this attempt that has the circuit's place."""
        return (
            circuit.probe_step == self.step
            and circuit.probe_run == self.run
            and circuit.probe_worker == self.worker
            and bool(circuit.probe_worker)
        )


class Bar(Struct, frozen=True):
    """Why an attempt may not begin on a scope now."""

    scope: str
    why: Literal["pause", "cooldown", "breaker"]
    since_ms: int = 0
    until_ms: int = 0
    """When to ask again; 0: when a person has acted."""
    probed: bool = False
    """Somebody probes: the answer may come any moment, `until_ms` is when it must have come."""
    reason: str = ""

    @property
    def text(self) -> str:
        """One line for people, without the time."""
        if self.why == "pause":
            return f"{self.scope} is paused" + (f" by {self.reason}" if self.reason else "")
        if self.why == "cooldown":
            return f"{self.scope} cools down"
        return f"{self.scope} is open ({self.reason})" if self.reason else f"{self.scope} is open"


def scopes_of(scope: str) -> tuple[str, ...]:
    """Return a scope and those it lies in, the widest first: `a`, `a/b`, `a/b/c`."""
    if "/" not in scope:
        return (scope,)
    parts = scope.split("/")
    return tuple("/".join(parts[: i + 1]) for i in range(len(parts)))


def _reached(scope: str, narrowed: Scope) -> str:
    """Return how far a failure on a scope reaches: the vendor, the model, or the scope as declared; nothing."""
    if narrowed is Scope.PROCESS:
        return ""
    scopes = scopes_of(scope)
    return scopes[min(_DEPTH.get(narrowed, len(scopes)), len(scopes)) - 1]


def bar_of(
    circuits: Circuits, scope: str, *, now_ms: int, alive: Alive, breaks: bool = True, me: Probe | None = None
) -> Bar | None:
    """
    Return what keeps an attempt from beginning on a scope, the longest of it; None: it may begin.

    Where it may, and a circuit is half-open, it must take that circuit's place: `places_taken`.

    Args:
        circuits: Those that are not well.
        scope: As declared, in full; the wider ones it lies in count too.
        now_ms: On the clock of the circuits.
        alive: Whether a worker lives.
        breaks: Whether open circuits count; a cooldown always does.
        me: An attempt that may have a place already.
    """
    found: Bar | None = None
    for name in scopes_of(scope):
        circuit = circuits.get(name)
        if circuit is None:
            continue
        for bar in (_cooling(circuit, now_ms), _broken(circuit, now_ms, alive, me) if breaks else None):
            if bar is not None and (found is None or bar.until_ms > found.until_ms):
                found = bar
    return found


def _cooling(circuit: Circuit, now_ms: int) -> Bar | None:
    if circuit.cool_ms <= now_ms:
        return None
    return Bar(circuit.scope, "cooldown", until_ms=circuit.cool_ms, reason=circuit.reason)


def _broken(circuit: Circuit, now_ms: int, alive: Alive, me: Probe | None) -> Bar | None:
    if not circuit.opened_ms:
        return None
    since_ms, reason = circuit.opened_ms, circuit.reason
    if now_ms < circuit.until_ms:
        return Bar(circuit.scope, "breaker", since_ms=since_ms, until_ms=circuit.until_ms, reason=reason)
    taken = now_ms < circuit.probe_until_ms and bool(circuit.probe_worker) and alive(circuit.probe_worker)
    if not taken or (me is not None and me.holds(circuit)):
        return None
    until_ms = circuit.probe_until_ms
    return Bar(circuit.scope, "breaker", since_ms=since_ms, until_ms=until_ms, probed=True, reason=reason)


def places_taken(circuits: Circuits, scope: str, probe: Probe) -> list[Circuit]:
    """Return the half-open circuits of a scope with the place of each taken; of an attempt that nothing bars."""
    return [
        replace(
            circuit,
            probe_worker=probe.worker,
            probe_run=probe.run,
            probe_step=probe.step,
            probe_until_ms=probe.until_ms,
        )
        for name in scopes_of(scope)
        if (circuit := circuits.get(name)) is not None and circuit.opened_ms
    ]


def after_attempt(
    circuits: Circuits, scope: str, failure: Failure | None, *, now_ms: int, breaker: Breaker | None, probe: Probe
) -> list[Circuit]:
    """
    Return the circuits that an attempt's outcome changes, as they are after it.

    Args:
        circuits: Those that are not well.
        scope: As declared, in full.
        failure: None: it succeeded. A cancel is one with the scope `process`.
        now_ms: When it ended.
        breaker: None counts nothing; a cooldown stands all the same.
        probe: The attempt.
    """
    changed: list[Circuit] = []
    reached = _reached(scope, failure.scope) if failure is not None else ""
    for name in scopes_of(scope):
        before = circuits.get(name)
        circuit = before or Circuit(scope=name)
        if breaker is not None:
            circuit = _judged(circuit, failure, now_ms, breaker, hit=name == reached, probing=probe.holds(circuit))
        if failure is not None and name == reached:
            circuit = _cooled(circuit, failure, now_ms)
        if circuit != (before or Circuit(scope=name)):
            changed.append(circuit)
    return changed


def _judged(
    circuit: Circuit, failure: Failure | None, now_ms: int, breaker: Breaker, *, hit: bool, probing: bool
) -> Circuit:
    if circuit.opened_ms and not probing:
        return circuit
    if failure is None or failure.executed is Executed.YES:  # it answered, whatever the answer was worth
        return Circuit(scope=circuit.scope, cool_ms=circuit.cool_ms, reason=circuit.reason if circuit.cool_ms else "")
    freed = replace(circuit, probe_worker=0, probe_run=0, probe_step="", probe_until_ms=0) if probing else circuit
    if failure.kind not in _COUNT or failure.scope is Scope.PROCESS or not (hit or probing):
        return freed
    failures = freed.failures + 1
    counted = replace(freed, failures=failures, reason=failure.reason)
    if not probing and failures < breaker.failures:
        return counted
    # A probe that fails opens again whoever it blames: the scope has not shown that it is well.
    until_ms = now_ms + _window_ms(failure, breaker)
    return replace(counted, opened_ms=circuit.opened_ms or now_ms, until_ms=until_ms)


def _window_ms(failure: Failure, breaker: Breaker) -> int:
    said_s = failure.retry_after_s or 0.0
    return math.ceil((min(said_s, _DAY_S) if said_s > 0 else breaker.open_s) * 1000)


def _cooled(circuit: Circuit, failure: Failure, now_ms: int) -> Circuit:
    said_s = failure.retry_after_s or 0.0
    if failure.kind not in _COOL or said_s <= 0:
        return circuit
    until_ms = now_ms + math.ceil(min(said_s, _DAY_S) * 1000)
    if until_ms <= circuit.cool_ms:
        return circuit
    return replace(circuit, cool_ms=until_ms, reason=failure.reason)


def spread_ms(wait_ms: int) -> int:
    """Return over how long those come back who waited so long: a tenth of it, from 1 s to 10 s."""
    return min(max(wait_ms // 10, _SPREAD_MIN_MS), _SPREAD_MAX_MS)


def come_back_ms(bar: Bar, who: str, *, now_ms: int, deadline_ms: int) -> int:
    """
    Return when one of those that a bar keeps waiting asks again: after it, each at a moment of its own.

    The moment is drawn from who asks and the bar's end, so a restart draws the same. It lies before the deadline
    if the bar's end does; else it is the bar's end, which cannot be waited for.
    """
    draw = zlib.crc32(f"{who} {bar.until_ms}".encode()) / 2**32
    if bar.probed:
        until_ms = min(bar.until_ms, now_ms + PROBE_LOOK_MS // 2)
        return until_ms + int(draw * PROBE_LOOK_MS)
    spread = spread_ms(bar.until_ms - now_ms)
    if deadline_ms:
        spread = min(spread, max(0, deadline_ms - bar.until_ms - 1))
    return bar.until_ms + int(draw * spread)
