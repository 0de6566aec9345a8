"""A tool's ladder at its worst, and whether it fits the loops that use it. Pure; for the process that imported it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yaoki.cli._findings import Fit, Ladder, Rise
from yaoki.policy import Abort, Ask, Cached, Compensate, DeadLetter, Degrade, Fallback, backoff_ceiling_s
from yaoki.policy._retry import OVERLOADED_FACTOR
from yaoki.policy._rungs import MOVES_ON, ladder_of
from yaoki.records import Effect
from yaoki.runtime._acting import member_of
from yaoki.runtime._preflight import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from yaoki.policy import Retry, Rung
    from yaoki.runtime import Loop, Tool

__all__ = ["ladder_for"]

_SHOWN_MAX: Final = 12
_VALUE_MAX: Final = 60
_HANGS_AT: Final = 2
"""Times its timeout: then a supervisor kills the worker of a call that cannot be interrupted."""


def ladder_for(tool: Tool[Any, Any], loops: Sequence[Loop[..., Any]]) -> Ladder:
    """Return the tool's ladder; the first of the loops that use it supplies rungs where the tool declares none."""
    file, number = place_of(tool.fn)
    retry = tool.retry
    reached, rises = _rises(retry, tool.timeout_s)
    rungs, of = _rungs(tool, loops)
    effect = "by its arguments" if callable(tool.effect) and tool.check is None else tool.effect_of({}).name
    hangs = not tool.is_async and tool.interrupt != "thread"
    return Ladder(
        tool=tool.name,
        file=file,
        line=number,
        effect=effect,
        undeclared=tool.undeclared,
        timeout_s=tool.timeout_s,
        attempts_max=retry.attempts_max,
        deadline_s=retry.deadline_s,
        base_s=retry.base_s,
        cap_s=retry.cap_s,
        same_error_limit=retry.same_error_limit,
        unknown_attempts=retry.unknown_attempts,
        repairs_max=tool.agent.repairs_max if tool.agent.validate is not None else 0,
        worst_case_s=retry.worst_case_s(tool.timeout_s),
        reached=reached,
        rises=rises,
        after_maybe=_after_maybe(tool),
        rungs=[_named(tool, rung) for rung in rungs],
        rungs_of=of,
        killed_after_s=tool.timeout_s * _HANGS_AT if hangs else None,
        hedge=tool.hedge.quantile if tool.hedge is not None else 0.0,
        fits=[fit for loop in loops for fit in _fits(tool, loop, hangs=hangs)],
    )


def _rises(retry: Retry, timeout_s: float) -> tuple[int, list[Rise]]:
    """Return how many attempts begin before the deadline, each taking its timeout, and the first of them."""
    rises: list[Rise] = []
    begins_s, base_s = 0.0, retry.base_s * OVERLOADED_FACTOR
    for n in range(1, retry.attempts_max + 1):
        takes_s = min(timeout_s, retry.deadline_s - begins_s)
        wait_s = backoff_ceiling_s(n, base_s=base_s, cap_s=retry.cap_s)
        ends = n == retry.attempts_max or begins_s + takes_s + wait_s >= retry.deadline_s
        if n <= _SHOWN_MAX:
            rises.append(Rise(attempt=n, begins_s=begins_s, takes_s=takes_s, wait_s=0.0 if ends else wait_s))
        if ends:
            return n, rises
        begins_s += takes_s + wait_s
    return retry.attempts_max, rises


def _after_maybe(tool: Tool[Any, Any]) -> str:
    if tool.check is not None:
        return "check"
    if callable(tool.effect):
        return "by its arguments"
    free = {Effect.READ_ONLY: "repeat", Effect.IDEMPOTENT: "repeat", Effect.KEYED: "same_key"}
    found = free.get(tool.effect_of({}))
    return found or ("tell" if tool.agent.unsure == "tell" else "ask")


def _rungs(tool: Tool[Any, Any], loops: Sequence[Loop[..., Any]]) -> tuple[Sequence[Rung], str]:
    if tool.rungs is not None:
        return tool.rungs, "tool"
    for loop in loops:
        if loop.rungs != ladder_of():
            return loop.rungs, loop.name
    return ladder_of(), "default"


def _named(tool: Tool[Any, Any], rung: Rung) -> str:
    """Return a rung in words."""
    match rung:
        case Fallback():
            return _named_fallback(tool, rung)
        case Cached():
            name = getattr(rung.fn, "__qualname__", type(rung.fn).__name__).rpartition(".")[2]
            return f"cached: what {name}() has; if it has nothing, the next rung{_gap(rung.gap)}"
        case Degrade():
            return f"degrade: goes on with {_shown(rung.value)}{_gap(rung.gap or 'what failed')}"
        case Compensate():
            return "compensate: what the run has done is undone, the newest first; then the next rung"
        case Ask():
            days = rung.expires_s / 86_400
            return f"ask a person; a dead letter if nobody answers in {days:g} d"
        case DeadLetter():
            return "dead letter: the run ends dead, this step named; yaoki redrive"
        case Abort():
            return "abort: StepFailed in the loop; uncaught, the run ends dead"


def _named_fallback(tool: Tool[Any, Any], rung: Fallback) -> str:
    member = member_of(tool, rung)
    changes = ", ".join(f"{name}={_shown(value)}" for name, value in member.changes.items())
    whom = "itself" if member.tool is tool else member.tool.name
    scope = member.tool.scope
    where = f" at {scope}" if isinstance(scope, str) and member.tool is not tool else ""
    kinds = "" if rung.on == MOVES_ON else f", only after {', '.join(sorted(kind.value for kind in rung.on))}"
    again = "a ladder of its own" if member.tool is tool else f"{member.tool.retry.attempts_max} attempts of its own"
    return f"fallback to {whom}{where}{f' with {changes}' if changes else ''}: {again}{kinds}"


def _gap(gap: str | None) -> str:
    return f"; noted as a gap: {gap}" if gap else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…"


def _fits(tool: Tool[Any, Any], loop: Loop[..., Any], *, hangs: bool) -> Iterator[Fit]:
    """Yield what one step alone, at its worst, wants of each bound of the loop."""
    retry, budget = tool.retry, loop.budget
    wanted: list[tuple[str, float, float | None]] = [
        ("retries", retry.attempts_max - 1, budget.retries),
        ("retry_wait_s", retry.worst_case_s(0), budget.retry_wait_s),
        ("calls", retry.attempts_max, budget.calls),
        ("wall_s", retry.worst_case_s(tool.timeout_s), budget.wall_s),
    ]
    if hangs:  # every attempt may end its process
        wanted.append(("crashes_max", retry.attempts_max, loop.crashes_max))
    for field, wants, bound in wanted:
        yield Fit(loop=loop.name, field=field, wants=wants, bound=bound, fits=bound is None or wants <= bound)
