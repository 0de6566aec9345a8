"""What came of a call: judged, classified, decided about, and settled in one record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from yaoki.classify import attempt_timed_out, classify
from yaoki.errors import EncodingError
from yaoki.policy import Ladder, decide, end_of_ladder, in_doubt, keyed_conflict
from yaoki.records import (
    ABSENT,
    Begin,
    Cause,
    Decision,
    Effect,
    Executed,
    Failure,
    FailureKind,
    Settle,
    strongest,
)
from yaoki.runtime._acting import has_other_scope, has_rung
from yaoki.runtime._doubt import question_of
from yaoki.runtime._effects import Barrier, EffectOf, Raised, Steps, Write
from yaoki.runtime._failures import own_failure, placed
from yaoki.runtime._usage import UNUSED, Used, used_by

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step

__all__ = ["Kept", "Rejected", "at_rung", "decide_for", "ended_settle", "judge", "moved_on", "settle"]

_SYNCED_SETTLE = frozenset({Effect.AT_MOST_ONCE, Effect.CHECKED})


def settle(
    live: Live, step: Step, begin: Begin, outcome: object, kept: Kept | Rejected | None
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Record what came of a call, as it was judged; return whether there is a value, and it."""
    if isinstance(kept, Kept):
        yield Write(step.key, kept.settle, kept.barrier)
        return True, kept.value
    if isinstance(outcome, Raised):
        yield from _failed(live, step, begin, outcome)
    elif kept is not None:
        yield from _settle_failure(
            live, step, begin, kept.failure, value_lost=kept.lost, output=kept.output, used=kept.used
        )
    return False, None


class Kept(NamedTuple):
    """A call's value as it is recorded, and as the loop gets it."""

    settle: Settle
    value: object
    barrier: Barrier


class Rejected(NamedTuple):
    """A call's value that is not kept, and why."""

    failure: Failure
    lost: bool
    output: Raw
    used: Used = UNUSED


def judge(live: Live, step: Step, begin: Begin, outcome: object) -> Kept | Rejected | None:
    """Return what is kept of a call that returned, or why nothing is; None if it raised."""
    if type(outcome) is Raised:
        return None
    tool = step.tool
    used = UNUSED
    if tool.counts_usage:
        used = used_by(tool.name, tool.agent.usage, outcome, begin.reserved, cost_bounded=live.cost_bounded)
    try:
        data = tool.codec.encode(outcome)
        if len(data) > live.limits.result_max_bytes:
            msg = f"its result has {len(data):,} bytes; result_max_bytes is {live.limits.result_max_bytes:,}"
            raise EncodingError(msg)  # noqa: TRY301
        decoded = step.declared.codec.decode(data)
    except EncodingError as error:
        failure = own_failure(FailureKind.PROGRAMMING, "value.lost", f"{tool.name}: {error}", Executed.YES)
        return Rejected(failure, lost=True, output=ABSENT, used=used)
    raw = Raw(data)
    if tool.agent.validate is not None:
        wrong = _verdict(tool.agent.validate, decoded)
        if wrong is not None:
            failure = own_failure(FailureKind.SEMANTIC, "output.rejected", wrong, Executed.YES)
            return Rejected(failure, lost=False, output=raw, used=used)
    barrier = Barrier.STARTED if begin.effect in _SYNCED_SETTLE else Barrier.WRITTEN
    kept = Settle(at=live.now_ms(), attempt=begin.attempt, rung=begin.rung, value=raw)
    if used is not UNUSED:
        kept = msgspec.structs.replace(kept, used=used.used, uncounted=used.uncounted)
    return Kept(kept, decoded, barrier)


def _verdict(validate: Any, value: object) -> str | None:
    """Return why a validator rejects a value, or None."""
    try:
        verdict = validate(value)
    except Exception as error:  # noqa: BLE001 - raising is how a validator rejects
        return f"{type(error).__name__}: {error}"[:2000]
    return "the validator returned False" if verdict is False else None


def _failed(live: Live, step: Step, begin: Begin, raised: Raised) -> Steps:
    """The call raised: settle what was begun, with what is decided about it."""
    error = raised.error
    if raised.cause is not None:
        past = live.history.steps[step.key]
        settle = _cancelled(live, begin, raised)
        doubt = raised.cause is Cause.TIMEOUT and in_doubt(begin.effect, strongest(past.executed, settle.executed))
        told = doubt and step.tool.agent.unsure == "tell"
        if told:  # nobody is asked; whoever makes an equal call is told that the outcome is unknown
            told_so = Decision(do="tell", why="a timeout cut it; it may have happened")
            settle = msgspec.structs.replace(settle, decision=told_so)
        yield Write(step.key, settle)
        if doubt and not told:
            yield Write(step.key, question_of(live, step, past, "doubt"))
        raise error
    now_ms = live.now_ms()
    failure = raised.failure
    if failure is None:
        failure = attempt_timed_out(step.tool.timeout_s) if raised.timed_out else classify(error, now_ms=now_ms)
    if failure.kind is FailureKind.PROGRAMMING and raised.failure is None:  # a bug: whoever reads it needs the line
        code = getattr(step.tool.fn, "__code__", None)
        failure = placed(failure, error, code.co_filename if code is not None else "")
    before = live.history.steps[step.key].executed
    failure = keyed_conflict(failure, begin.effect, before)
    yield from _settle_failure(live, step, begin, failure, thread_alive=raised.thread_alive)


def _cancelled(live: Live, begin: Begin, raised: Raised) -> Settle:
    """Control flow does not undo an attempt already begun: it costs, and may have happened if it started."""
    return Settle(
        at=live.now_ms(),
        attempt=begin.attempt,
        rung=begin.rung,
        outcome="cancelled",
        executed=Executed.MAYBE if raised.started else Executed.NO,
        cause=raised.cause or Cause.LOOP,
        used={} if begin.reserved and not raised.started else None,
        timeout=raised.timeout_key,
        decision=Decision(do="pass", why="control flow"),
    )


def _settle_failure(
    live: Live,
    step: Step,
    begin: Begin,
    failure: Failure,
    *,
    value_lost: bool = False,
    output: Raw = ABSENT,
    thread_alive: bool = False,
    used: Used = UNUSED,
) -> Steps:
    past = live.history.steps[step.key]
    now_ms = live.now_ms()
    decision = decide_for(live, step, past, failure, begin, now_ms, output=output, thread_alive=thread_alive)
    settle = Settle(
        at=now_ms,
        attempt=begin.attempt,
        rung=begin.rung,
        outcome="failed",
        executed=failure.executed,
        failure=failure,
        decision=decision,
        value_lost=value_lost or (failure.executed is Executed.YES and output is ABSENT),
        output=output,
        # What did not happen used nothing; of what may have happened, what was reserved stays spent.
        used={} if begin.reserved and failure.executed is Executed.NO else used.used,
        uncounted=used.uncounted,
    )
    yield Write(step.key, settle, Barrier.STARTED if begin.effect in _SYNCED_SETTLE else Barrier.WRITTEN)


def decide_for(
    live: Live,
    step: Step,
    past: Past,
    failure: Failure,
    begin: Begin,
    now_ms: int,
    *,
    output: Raw = ABSENT,
    thread_alive: bool = False,
    executed: Executed | None = None,
) -> Decision:
    """Put a step's position before the policy."""
    tool = step.tool
    retry = tool.retry
    budget, spent = live.budget, live.history.spent
    repeated = past.last is not None and past.last.failure is not None
    same = repeated and past.last.failure.fingerprint == failure.fingerprint  # type: ignore[union-attr]
    position = Ladder(
        effect=begin.effect,
        executed=strongest(past.executed, failure.executed) if executed is None else executed,
        attempts=begin.attempt,
        attempts_max=retry.attempts_max,
        deadline_ms=begin.ends_at,
        base_s=retry.base_s,
        cap_s=retry.cap_s,
        unknown_attempts=retry.unknown_attempts,
        same_error_limit=retry.same_error_limit,
        same_error=past.same_error + 1 if same else 1,
        semantic=past.semantic + (failure.kind is FailureKind.SEMANTIC),
        repairs_max=tool.agent.repairs_max,
        repairable="feedback" in tool.params.injected,
        output_changed=output is ABSENT or not past.outputs or bytes(past.outputs[-1][0]) != bytes(output),
        has_check=tool.check is not None,
        check_after_s=tool.check_after_s,
        unsure=tool.agent.unsure,
        has_rung=has_rung(live, step, past.position),
        has_other_scope=has_other_scope(live, step, failure, past.position),
        thread_alive=thread_alive,
        retries_left=budget.left(spent, "retries"),
        retry_wait_left_s=budget.left(spent, "retry_wait_s"),
    )
    return at_rung(decide(failure, position, now_ms=now_ms, rng=live.clock.rng()), past)


def at_rung(decision: Decision, past: Past) -> Decision:
    """Return a decision with the rung it leads to, if it leads to one: that after the one reached last."""
    return msgspec.structs.replace(decision, rung=past.position + 1) if decision.do == "rung" else decision


def moved_on(live: Live, past: Past, why: str) -> Settle:
    """Leave a rung that gave nothing: the last attempt is settled anew, with the next rung decided."""
    assert past.last is not None
    decision = Decision(do="rung", why=why, rung=past.position + 1)
    return msgspec.structs.replace(past.last, at=live.now_ms(), decision=decision)


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
    decision = at_rung(end_of_ladder(position, why), past)
    return msgspec.structs.replace(past.last, at=live.now_ms(), decision=decision)
