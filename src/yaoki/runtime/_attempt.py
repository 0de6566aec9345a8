"""One attempt of a step: admitted, begun, called, settled with what is decided about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from yaoki.classify import attempt_timed_out, classify
from yaoki.errors import EncodingError
from yaoki.policy import Ladder, decide, in_doubt, keyed_conflict
from yaoki.records import (
    ABSENT,
    Adopt,
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
from yaoki.runtime._barred import ended_settle, hold_of, until_available
from yaoki.runtime._doubt import question_of
from yaoki.runtime._effects import Barrier, Call, EffectOf, Enter, Raised, Steps, Suspend, Write
from yaoki.runtime._failures import own_failure, placed
from yaoki.runtime._live import Halt, Live
from yaoki.runtime._orphans import orphans_asked_about, tool_has_orphans
from yaoki.runtime._step import Step, action_key
from yaoki.runtime._tool import Feedback

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._past import Past

__all__ = [
    "Kept",
    "Rejected",
    "adopted",
    "attempt",
    "barrier_of",
    "call_of",
    "decide_for",
    "first_begin",
    "hold_of",
    "judge",
    "settle",
]

_FREE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})
_SYNCED_SETTLE = frozenset({Effect.AT_MOST_ONCE, Effect.CHECKED})


def attempt(live: Live, step: Step, past: Past | None) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """
    Make one attempt, if it is admitted; return whether there is a value, and it.

    A step without a slot takes one only now: while it waited to be admitted, an equal call may have taken the
    lowest, or have come into doubt, which this one then joins.
    """
    tool = step.tool
    retry = tool.retry
    now_ms = live.now_ms()
    first = past is None or not past.attempts or past.question is not None
    deadline_ms = now_ms + int(retry.deadline_s * 1000)
    stands = past is not None and past.deadline_stands  # a person's order starts it anew
    if past is not None and stands:
        deadline_ms = _deadline_left(live, past)
    while True:
        if live.halt is not None:
            yield Suspend("halt")
        admission = live.admit(first=first, deadline_ms=deadline_ms, now_ms=now_ms)
        if admission.go:
            available = yield from until_available(live, step, past, deadline_ms, stands=stands)
            if available == "never":
                return False, None
            if available == "now":
                made = yield from _made(live, step, now_ms, deadline_ms)
                if made is not None:
                    return made
            past = live.history.steps.get(step.key)
            stands = stands or available == "waited"
            deadline_ms += live.now_ms() - now_ms if available == "unpaused" else 0
            now_ms = live.now_ms()
            continue
        in_question = past is not None and bool(admission.cap) and in_doubt(past.effect, past.executed)
        if past is not None and (admission.stop == "ladder" or in_question):
            yield Write(step.key, ended_settle(live, step, past, admission.text))
            return False, None
        yield from _not_admitted(live, step, past, admission.cap, admission.stop, admission.text, deadline_ms)
        waited_ms = live.now_ms() - now_ms
        now_ms += waited_ms
        deadline_ms += waited_ms


def _made(live: Live, step: Step, now_ms: int, deadline_ms: int) -> Generator[EffectOf, Any, tuple[bool, Any] | None]:
    """Begin an admitted attempt and make it; None where its scope was barred in the moment it began."""
    past = live.history.steps.get(step.key)
    if past is None and step.branch.replaying:
        # A run.timeout around this step fired, in the journal, before it was ever begun: it comes first again.
        yield Suspend("replay")
    slot = past.slot if past is not None else -1
    if slot < 0:
        slot = yield from _slot_for(live, step, past)
        if slot < 0:
            return False, None
        past = live.history.steps.get(step.key)
    number = 1 if past is None else past.attempts + 1
    begin = _begin(live, step, past, now_ms, number, slot, deadline_ms)
    if not (yield Enter(step, begin, barrier_of(begin))):
        return None
    outcome = yield call_of(step, past, begin, now_ms)
    return (yield from settle(live, step, begin, outcome, judge(live, step, begin, outcome)))


def _slot_for(live: Live, step: Step, past: Past | None) -> Generator[EffectOf, Any, int]:
    """Return the slot a new step takes; -1 where it got an answer, or waits for one, instead."""
    slot, joined = live.history.slots.lowest(step.action, step.key, live.driven)
    if joined is not None and joined.stale and joined.settled:
        yield Write(step.key, adopted(live, step, joined, joined.step, joined.value))
        return -1
    if joined is not None:
        yield Write(step.key, hold_of(live, step, "question", joins=joined.step))
        return -1
    if live.history.stale_tools and (yield from orphans_asked_about(live, step, past)):
        return -1
    return slot


def first_begin(live: Live, step: Step) -> Begin | None:
    """
    Return the begin of a new step's first attempt, where nothing stands in its way; None: let `attempt` see.

    The way of nearly every step, so it takes no generator: the same questions as `attempt` asks, all answered yes.
    """
    if live.halt is not None or step.branch.replaying or tool_has_orphans(live, step) or not live.scopes.clear(step):
        return None
    now_ms = live.now_ms()
    deadline_ms = now_ms + step.tool.deadline_ms
    if not live.admit(first=True, deadline_ms=deadline_ms, now_ms=now_ms).go:
        return None
    slot, joined = live.history.slots.lowest(step.action, step.key, live.driven)
    return None if joined is not None else _begin(live, step, None, now_ms, 1, slot, deadline_ms)


def barrier_of(begin: Begin) -> Barrier:
    """Return how far a begin must have got before its call: an effect's is on disk."""
    return Barrier.WRITTEN if begin.effect is Effect.READ_ONLY else Barrier.SYNCED


def call_of(step: Step, past: Past | None, begin: Begin, now_ms: int) -> Call:
    """Return the call of an attempt: bounded by its timeout and what is left of the deadline."""
    timeout_s = min(step.tool.timeout_s, max(0.001, (begin.deadline_at - now_ms) / 1000))
    return Call(step, _injected(step, past, begin, timeout_s) if step.tool.params.injected else None, timeout_s)


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
        yield from _settle_failure(live, step, begin, kept.failure, value_lost=kept.lost, output=kept.output)
    return False, None


def _begin(live: Live, step: Step, past: Past | None, now_ms: int, number: int, slot: int, deadline_ms: int) -> Begin:
    """Return the record; what the tool alone decides was made ready when it was declared."""
    tool = step.tool
    effect = step.effect
    assert effect is not None
    attempts_max, base_ms, cap_ms, check_after_ms, timeout_ms = tool.recorded
    return Begin(
        at=now_ms,
        attempt=number,
        rung=0 if past is None else past.rung,
        slot=slot,
        key=past.key if past is not None and past.key else action_key(live.name, step.action, slot),
        action=step.action,
        args="" if step.args == step.action else step.args,
        call=step.call,
        call_id=step.call_id,
        effect=effect,
        undeclared=tool.undeclared,
        scope=tool.scope_of(step.values),
        attempts_max=max(attempts_max, number),
        deadline_at=deadline_ms,
        base_ms=base_ms,
        cap_ms=cap_ms,
        check_after_ms=check_after_ms,
        timeout_ms=timeout_ms,
        pgid=live.limits.pgid,
    )


def _not_admitted(live: Live, step: Step, past: Past | None, cap: str, stop: str, text: str, deadline_ms: int) -> Steps:
    if stop == "cancel":
        live.stop_with(Halt(to="cancelled", text=text, stopped_by="cancel", step=step.key))
        yield Suspend("halt")
    elif cap:
        live.stop_with(Halt(to="capped", text=text, stopped_by=cap, step=step.key))
        yield Suspend("halt")
    else:
        if past is None and step.key not in live.history.steps:
            yield Write(step.key, hold_of(live, step, "budget", deadline_ms))
        yield Suspend("budget", text=text)


def adopted(
    live: Live, step: Step, past: Past | None, source: str, value: Raw, failure: Failure | None = None
) -> Adopt:
    return Adopt(
        at=live.now_ms(),
        source=source,
        value=value,
        failure=failure,
        slot=max(0, past.slot) if past is not None else 0,
        key=past.key if past is not None else "",
        action=step.action,
        args="" if step.args == step.action else step.args,
        call=step.call,
    )


def _deadline_left(live: Live, past: Past) -> int:
    """Return the ladder's deadline; time spent waiting for a person or a budget is given back."""
    return past.deadline_at + max(0, live.history.waited_ms - past.waited_ms)


def _injected(step: Step, past: Past | None, begin: Begin, timeout_s: float) -> dict[str, object]:
    feedback: Feedback | None = None
    if past is not None and past.outputs:
        output, why = past.outputs[-1]
        feedback = Feedback(output=msgspec.json.decode(output), error=why, attempt=begin.attempt)
    values: dict[str, object] = {"idempotency_key": begin.key, "feedback": feedback, "timeout_s": timeout_s}
    return {name: values[name] for name in step.tool.params.injected}


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


def judge(live: Live, step: Step, begin: Begin, outcome: object) -> Kept | Rejected | None:
    """Return what is kept of a call that returned, or why nothing is; None if it raised."""
    if type(outcome) is Raised:
        return None
    tool = step.tool
    try:
        data = tool.codec.encode(outcome)
        if len(data) > live.limits.result_max_bytes:
            msg = f"its result has {len(data):,} bytes; result_max_bytes is {live.limits.result_max_bytes:,}"
            raise EncodingError(msg)  # noqa: TRY301
        decoded = tool.codec.decode(data)
    except EncodingError as error:
        failure = own_failure(FailureKind.PROGRAMMING, "value.lost", f"{tool.name}: {error}", Executed.YES)
        return Rejected(failure, lost=True, output=ABSENT)
    raw = Raw(data)
    if tool.agent.validate is not None:
        wrong = _verdict(tool.agent.validate, decoded)
        if wrong is not None:
            failure = own_failure(FailureKind.SEMANTIC, "output.rejected", wrong, Executed.YES)
            return Rejected(failure, lost=False, output=raw)
    barrier = Barrier.STARTED if begin.effect in _SYNCED_SETTLE else Barrier.WRITTEN
    return Kept(Settle(at=live.now_ms(), attempt=begin.attempt, rung=begin.rung, value=raw), decoded, barrier)


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
        yield Write(step.key, _cancelled(live, begin, raised))
        if raised.cause is Cause.TIMEOUT and in_doubt(begin.effect, Executed.MAYBE):
            past = live.history.steps[step.key]
            yield Write(step.key, question_of(live, step, past, "doubt"))
        raise error
    now_ms = live.now_ms()
    failure = attempt_timed_out(step.tool.timeout_s) if raised.timed_out else classify(error, now_ms=now_ms)
    if failure.kind is FailureKind.PROGRAMMING:  # a bug: whoever reads it needs the line
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
    rungs = tool.rungs or live.loop.rungs
    budget, spent = live.budget, live.history.spent
    repeated = past.last is not None and past.last.failure is not None
    same = repeated and past.last.failure.fingerprint == failure.fingerprint  # type: ignore[union-attr]
    position = Ladder(
        effect=begin.effect,
        executed=strongest(past.executed, failure.executed) if executed is None else executed,
        attempts=begin.attempt,
        attempts_max=retry.attempts_max,
        deadline_ms=begin.deadline_at,
        base_s=retry.base_s,
        cap_s=retry.cap_s,
        unknown_attempts=retry.unknown_attempts,
        same_error_limit=retry.same_error_limit,
        same_error=past.same_error + 1 if same else 1,
        semantic=past.semantic + (output is not ABSENT),
        repairs_max=tool.agent.repairs_max,
        repairable="feedback" in tool.params.injected,
        output_changed=not past.outputs or bytes(past.outputs[-1][0]) != bytes(output),
        has_check=tool.check is not None,
        check_after_s=tool.check_after_s,
        unsure=tool.agent.unsure,
        has_rung=len(rungs) > 1,
        thread_alive=thread_alive,
        retries_left=budget.left(spent, "retries"),
        retry_wait_left_s=budget.left(spent, "retry_wait_s"),
    )
    return decide(failure, position, now_ms=now_ms, rng=live.clock.rng())
