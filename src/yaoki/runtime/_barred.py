"""Steps that may not begin now: what they wait for, and how a ladder ends that cannot go on in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from yaoki.policy import Ladder, come_back_ms, end_of_ladder, scopes_of
from yaoki.records import Decision, Executed, FailureKind, Hold, Scope, Settle
from yaoki.runtime._effects import EffectOf, Suspend, Wait, Write
from yaoki.runtime._failures import own_failure

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.policy import Bar
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step

__all__ = ["ended_settle", "hold_of", "until_available"]

Available: TypeAlias = Literal["now", "waited", "unpaused", "never"]


def until_available(
    live: Live, step: Step, past: Past | None, deadline_ms: int, *, stands: bool
) -> Generator[EffectOf, Any, Available]:
    """
    Wait until a step's scope may be used, once; no attempt is spent, the deadline runs on.

    now: nothing bars it · waited: ask again · unpaused: ask again, and the time is given back, since a person had
    stopped it · never: it could not be in time, or the run has given the scope up; the ladder is over, and that is
    written.

    Args:
        live: The run.
        step: The call.
        past: What the journal has of it.
        deadline_ms: End of its ladder.
        stands: Whether that is in the journal already; else the wait is held there, so that no crash starts it anew.
    """
    bar = live.scopes.bar(step)
    gone = live.scopes.given_up(step, bar)
    if bar is None and not gone:
        return "now"
    if bar is not None and bar.why == "pause":
        if past is None:
            yield Write(step.key, hold_of(live, step, "pause"))
        by = f" by {bar.reason}" if bar.reason else ""
        yield Suspend("pause", text=f"{bar.scope} is paused{by}", scope=bar.scope)
        return "unpaused"
    now_ms = live.now_ms()
    back_ms = 0 if bar is None else come_back_ms(bar, f"{live.name} {step.key}", now_ms=now_ms, deadline_ms=deadline_ms)
    if bar is None or gone or back_ms >= deadline_ms:
        yield from _over(live, step, past, bar, gone, deadline_ms)
        return "never"
    if not stands:
        yield Write(step.key, hold_of(live, step, bar.why, deadline_ms, until_ms=back_ms))
    yield Wait(back_ms, bar.text)
    return "waited"


def _over(
    live: Live, step: Step, past: Past | None, bar: Bar | None, gone: str, deadline_ms: int
) -> Generator[EffectOf, Any, None]:
    """Its scope cannot be used in time: the ladder ends where it stands, with no attempt spent."""
    text = bar.text if bar is not None else f"{gone} was open"
    why = f"{text}; not used any more in this run" if gone else f"{text} until after the deadline"
    if past is not None and past.last is not None and past.begun and not past.redriven and past.question is None:
        ended = ended_settle(live, step, past, why)
    else:
        if past is None:
            yield Write(step.key, hold_of(live, step, "breaker" if bar is None else bar.why, deadline_ms))
        reason = "cooldown" if bar is not None and bar.why == "cooldown" else "breaker.open"
        failure = own_failure(FailureKind.TRANSIENT, reason, f"{step.tool.name} was not called: {why}", Executed.NO)
        failure = msgspec.structs.replace(failure, scope=_kind_of(bar.scope if bar is not None else gone))
        ended = Settle(
            at=live.now_ms(),
            attempt=0,
            rung=0 if past is None else past.rung,
            outcome="failed",
            executed=Executed.NO,
            failure=failure,
            decision=Decision(do="rung", why=why),
        )
    yield Write(step.key, msgspec.structs.replace(ended, unavailable=gone) if gone else ended)


def _kind_of(scope: str) -> Scope:
    return (Scope.VENDOR, Scope.MODEL, Scope.KEY)[min(len(scopes_of(scope)), 3) - 1]


def hold_of(live: Live, step: Step, reason: Any, deadline_ms: int = 0, joins: str = "", *, until_ms: int = 0) -> Hold:
    now_ms = live.now_ms()
    return Hold(
        at=now_ms,
        since=now_ms,
        until=until_ms,
        reason=reason,
        action=step.action,
        args="" if step.args == step.action else step.args,
        call=step.call,
        deadline_at=deadline_ms,
        joins=joins,
    )


def ended_settle(live: Live, step: Step, past: Past, why: str) -> Settle:
    """A retry that is not admitted ends its ladder: the last attempt is settled anew, with that decision."""
    assert past.last is not None
    assert past.begin is not None
    position = Ladder(
        effect=past.effect,
        executed=past.executed,
        attempts=past.attempts,
        attempts_max=past.begin.attempts_max,
        deadline_ms=past.deadline_at,
        base_s=0,
        cap_s=0,
        unsure=step.tool.agent.unsure,
    )
    return msgspec.structs.replace(past.last, at=live.now_ms(), decision=end_of_ladder(position, why))
