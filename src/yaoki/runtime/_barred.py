"""Steps that may not begin now: what they wait for, and how a ladder ends that cannot go on in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from yaoki.policy import Fallback, come_back_ms, in_doubt, scopes_of
from yaoki.records import Decision, Executed, FailureKind, Hold, Scope, Settle
from yaoki.runtime._acting import member_of, rungs_of, values_for
from yaoki.runtime._effects import EffectOf, Suspend, Wait, Write
from yaoki.runtime._failures import own_failure
from yaoki.runtime._settling import ended_settle

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.policy import Bar
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step

__all__ = ["hold_of", "rung_to_start_on", "until_available"]

_SHUT_BY = {
    "breaker": frozenset({FailureKind.TRANSIENT, FailureKind.OVERLOADED}),
    "cooldown": frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED}),
    "pause": frozenset(FailureKind),
}
"""The kinds of failure that stand behind a bar: a fallback that does not move on from them is not for it."""

Available: TypeAlias = Literal["now", "waited", "unpaused", "never"]


def until_available(
    live: Live, step: Step, past: Past | None, deadline_ms: int, *, rung: int, stands: bool
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
        rung: Which rung that ladder is on.
        stands: Whether that is in the journal already; else the wait is held there, so that no crash starts it anew.
    """
    bar = live.scopes.bar(step)
    gone = live.scopes.given_up(step, bar)
    if bar is None and not gone:
        return "now"
    if bar is not None and bar.why == "pause":
        if past is None:
            yield Write(step.key, hold_of(live, step, "pause"))
        yield Suspend("pause", text=bar.text, scope=bar.scope)
        return "unpaused"
    now_ms = live.now_ms()
    back_ms = 0 if bar is None else come_back_ms(bar, f"{live.name} {step.key}", now_ms=now_ms, deadline_ms=deadline_ms)
    if bar is None or gone or back_ms >= deadline_ms:
        yield from _over(live, step, past, bar, gone, deadline_ms)
        return "never"
    if not stands:
        yield Write(step.key, hold_of(live, step, bar.why, deadline_ms, until_ms=back_ms, rung=rung))
    yield Wait(back_ms, bar.text, through=bool(step.fixed_key))
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
            decision=Decision(do="rung", why=why, rung=0 if past is None else past.position + 1),
        )
    yield Write(step.key, msgspec.structs.replace(ended, unavailable=gone) if gone else ended)


def _kind_of(scope: str) -> Scope:
    return (Scope.VENDOR, Scope.MODEL, Scope.KEY)[min(len(scopes_of(scope)), 3) - 1]


def hold_of(
    live: Live, step: Step, reason: Any, deadline_ms: int = 0, joins: str = "", *, until_ms: int = 0, rung: int = 0
) -> Hold:
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
        rung=rung,
    )


def rung_to_start_on(live: Live, step: Step, past: Past | None) -> int:
    """
    Return the rung a new ladder starts on: 0, or, while the tool's own scope is shut, that of who may act at once.

    Only fallbacks that come before any other rung are asked, each for whether it moves on from what shuts the scope
    and may itself be used. Never one for an action of an earlier pass that is in doubt.
    """
    own = step.values if step.own is None else step.own[2]
    bar = live.scopes.shut(step, step.declared, own)
    if bar is None or _in_doubt(live, step, past):
        return 0
    for place, rung in enumerate(rungs_of(live, step)):
        if not isinstance(rung, Fallback):
            break
        member = member_of(step.declared, rung)
        if rung.on & _SHUT_BY[bar.why] and live.scopes.shut(step, member.tool, values_for(step, member)) is None:
            return place + 1
    return 0


def _in_doubt(live: Live, step: Step, past: Past | None) -> bool:
    if past is not None and in_doubt(past.effect, past.executed):
        return True
    slots = live.history.slots
    slot = past.slot if past is not None and past.slot >= 0 else slots.lowest(step.action, step.key, live.driven)[0]
    owner = slots.owner(step.action, slot)
    return owner is not None and owner.stale and in_doubt(owner.effect, owner.executed)
