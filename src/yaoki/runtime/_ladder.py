"""
A step's way from its call to its outcome: a generator that decides, and yields effects for a driver.

It starts from what the journal says about the step (nothing, for a new one) and goes round: is there an
outcome, an answer, a decision to carry out? else an attempt. Live and after a crash it is the same code.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw

from yaoki.classify import attempt_timed_out, classify, fingerprint as fingerprint_of
from yaoki.errors import EncodingError, StepFailed
from yaoki.policy import Abort, Ask, DeadLetter, Ladder, decide, end_of_ladder, in_doubt, keyed_conflict
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
    Hold,
    Scope,
    Settle,
    strongest,
    sub_key,
)
from yaoki.runtime._doubt import carry_out_answer, question_of
from yaoki.runtime._effects import Barrier, Call, EffectOf, Raised, Suspend, Wait, Write
from yaoki.runtime._live import Halt, Live
from yaoki.runtime._step import Step, action_key, make_step
from yaoki.runtime._tool import Feedback

if TYPE_CHECKING:
    from yaoki.runtime._past import Past

__all__ = ["Steps", "ladder"]

Steps: TypeAlias = Generator[EffectOf, Any, Any]
_FREE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})
_SYNCED_SETTLE = frozenset({Effect.AT_MOST_ONCE, Effect.CHECKED})


def ladder(live: Live, step: Step) -> Steps:
    """
    Bring a step to its outcome: return its value as its annotation decodes it, or raise StepFailed.

    A recorded outcome is returned without executing anything; a record that does not fit the call parks
    the run with a diff before anything executes.
    """
    live.asked.add(step.key)
    past = live.history.steps.get(step.key)
    if past is None:
        if live.halt is not None:
            yield Suspend("halt")
        step.effect = step.tool.effect_of(step.values)
        slot, joined = live.history.slots.lowest(step.action)
        if joined is not None:
            return (yield from _join(live, step, joined))
        done, value = yield from _attempt(live, step, None, slot)
        if done:
            return value
        past = live.history.steps[step.key]
    else:
        if past.args != step.args:
            yield from drifted(live, step.key, f"{past.call or step.tool.name}", step.call)
        step.effect = past.effect if past.begun else step.tool.effect_of(step.values)
    while True:
        if past.settled:
            return live_value(live, step, past.value)
        done, value = yield from _next(live, step, past)
        if done:
            return value


def live_value(live: Live, step: Step, data: Raw) -> object:
    """Decode a recorded value; one that no longer fits its annotation is a StepFailed that says so."""
    try:
        return step.tool.codec.decode(data)
    except EncodingError as error:
        failure = _own_failure(FailureKind.PROGRAMMING, "value.mismatch", str(error), Executed.YES)
        raise step_failed(live, step, failure, 0) from None


def drifted(live: Live, key: str, recorded: str, called: str) -> Steps:
    """Park the run for code: the journal and the code disagree."""
    diff = f"at {key}\n- recorded: {recorded}\n+ called:   {called}"
    text = f"the code asks for {called} where the journal has {recorded}"
    live.stop_with(Halt(to="code", text=text, diff=diff, step=key))
    yield Suspend("code")


def _next(live: Live, step: Step, past: Past) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Carry out what stands: an adopted failure, a question, a decision; or make the next attempt."""
    if past.adopt is not None and past.adopt.failure is not None:
        return (yield from _skipped(live, step, past.adopt.failure))
    if past.hold is not None and past.hold.joins and not past.begun:
        joined = live.history.steps.get(past.hold.joins)
        if joined is not None:
            return True, (yield from _join(live, step, joined))
    asked = past.question
    if asked is not None:
        outcome = yield from carry_out_answer(live, step, past, asked)
        if outcome == "again":
            return False, None
        if outcome == "skip":
            return (yield from _skipped(live, step, _unknown_outcome(past)))
        if outcome == "abort":
            raise step_failed(live, step, _last_failure(past), past.attempts)
        return (yield from _attempt(live, step, past, _slot(live, step, past)))
    if not past.begun or past.redriven:
        return (yield from _attempt(live, step, past, _slot(live, step, past)))
    last = past.last
    if last is None or last.decision is None:
        return (yield from _attempt(live, step, past, past.slot))
    return (yield from _carry_out(live, step, past, last, last.decision))


def _slot(live: Live, step: Step, past: Past) -> int:
    """Return the slot a step already has, else the lowest free one."""
    return past.slot if past.slot >= 0 else live.history.slots.lowest(step.action)[0]


def _carry_out(
    live: Live, step: Step, past: Past, last: Settle, decision: Decision
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    do = decision.do
    if do in ("retry", "repair"):
        yield Wait(decision.next_at, "retry")
        return (yield from _attempt(live, step, past, past.slot))
    if do == "check":
        yield from _check(live, step, past, decision)
        return False, None
    if do == "ask":
        yield Write(step.key, question_of(live, step, past, "doubt"))
        return False, None
    if do == "tell":
        raise step_failed(live, step, _unknown_outcome(past), past.attempts)
    if do == "pause":
        yield from _hold_for_budget(live, step, past, decision.why)
        return (yield from _attempt(live, step, past, past.slot))
    if do == "end":
        failure = _last_failure(past)
        live.stop_with(Halt(to="dead", text=failure.message, stopped_by="fatal", step=step.key, failure=failure))
        yield Suspend("halt")
    if do == "pass":
        yield Suspend("replay", text=last.timeout)
        return False, None
    yield from _rung(live, step, past)
    return False, None


def _rung(live: Live, step: Step, past: Past) -> Steps:
    """The ladder is over: the next escalation."""
    rungs = step.tool.rungs or live.loop.rungs
    taken = sum(1 for asked in past.questions if asked.ladder == past.ladder and asked.question.why == "ask")
    rung = rungs[min(taken, len(rungs) - 1)]
    failure = _last_failure(past)
    if isinstance(rung, Ask):
        yield Write(step.key, question_of(live, step, past, "ask", text=rung.text, expires_s=rung.expires_s))
        return
    if isinstance(rung, DeadLetter):
        text = f"{step.tool.name}: {failure.reason} {failure.message}".strip()
        live.stop_with(Halt(to="dead", text=text, stopped_by="dead_letter", step=step.key, failure=failure))
        yield Suspend("halt")
    assert isinstance(rung, Abort)
    raise step_failed(live, step, failure, past.attempts)


# --- one attempt


def _attempt(
    live: Live, step: Step, past: Past | None, slot: int
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Make one attempt, if it is admitted; return whether there is a value, and it."""
    tool = step.tool
    retry = tool.retry
    now_ms = live.now_ms()
    first = past is None or not past.attempts or past.question is not None
    deadline_ms = past.deadline_at if past is not None and past.deadline_at else now_ms + int(retry.deadline_s * 1000)
    if past is not None:
        deadline_ms = _deadline_after_answer(past, deadline_ms, now_ms)
    while True:
        if live.halt is not None:
            yield Suspend("halt")
        admission = live.admit(first=first, deadline_ms=deadline_ms, now_ms=now_ms)
        if admission.go:
            break
        if admission.stop == "ladder" and past is not None:
            yield Write(step.key, _ended_settle(live, step, past, admission.text))
            return False, None
        yield from _not_admitted(live, step, past, admission.cap, admission.stop, admission.text, deadline_ms)
        waited_ms = live.now_ms() - now_ms
        now_ms += waited_ms
        deadline_ms += waited_ms
    number = 1 if past is None else past.attempts + 1
    effect = step.effect
    assert effect is not None
    begin = Begin(
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
        attempts_max=max(retry.attempts_max, number),
        deadline_at=deadline_ms,
        base_ms=int(retry.base_s * 1000),
        timeout_ms=int(tool.timeout_s * 1000),
    )
    timeout_s = min(tool.timeout_s, max(0.001, (deadline_ms - now_ms) / 1000))
    yield Write(step.key, begin, Barrier.WRITTEN if effect in _FREE else Barrier.SYNCED)
    outcome = yield Call(step, _injected(step, past, begin, timeout_s) if tool.params.injected else None, timeout_s)
    if type(outcome) is Raised:
        yield from _failed(live, step, begin, outcome)
        return False, None
    return (yield from _answered(live, step, begin, outcome))


def _not_admitted(  # noqa: PLR0913
    live: Live, step: Step, past: Past | None, cap: str, stop: str, text: str, deadline_ms: int
) -> Steps:
    if stop == "cancel":
        live.stop_with(Halt(to="cancelled", text=text, stopped_by="cancel", step=step.key))
        yield Suspend("halt")
    elif cap:
        live.stop_with(Halt(to="capped", text=text, stopped_by=cap, step=step.key))
        yield Suspend("halt")
    else:
        if past is None and step.key not in live.history.steps:
            yield Write(step.key, _hold(live, step, "budget", deadline_ms))
        yield Suspend("budget", text=text)


def _hold(live: Live, step: Step, reason: Any, deadline_ms: int = 0, joins: str = "") -> Hold:
    now_ms = live.now_ms()
    return Hold(
        at=now_ms,
        since=now_ms,
        reason=reason,
        action=step.action,
        args="" if step.args == step.action else step.args,
        call=step.call,
        deadline_at=deadline_ms,
        joins=joins,
    )


def _deadline_after_answer(past: Past, deadline_ms: int, now_ms: int) -> int:
    """Waiting for a person is not counted: an answered ladder gets that time back."""
    asked = past.question
    if asked is None or asked.answer is None:
        return deadline_ms
    return max(deadline_ms, now_ms) + max(0, now_ms - asked.question.at)


def _injected(step: Step, past: Past | None, begin: Begin, timeout_s: float) -> dict[str, object]:
    feedback: Feedback | None = None
    if past is not None and past.outputs and past.last is not None and past.last.failure is not None:
        output = msgspec.json.decode(past.outputs[-1])
        feedback = Feedback(output=output, error=past.last.failure.message, attempt=begin.attempt)
    values: dict[str, object] = {"idempotency_key": begin.key, "feedback": feedback, "timeout_s": timeout_s}
    return {name: values[name] for name in step.tool.params.injected}


def _answered(
    live: Live, step: Step, begin: Begin, value: object
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """The call returned: keep the value, or say why it cannot be kept."""
    tool = step.tool
    try:
        data = tool.codec.encode(value)
        if len(data) > live.limits.result_max_bytes:
            msg = f"its result has {len(data):,} bytes; result_max_bytes is {live.limits.result_max_bytes:,}"
            raise EncodingError(msg)  # noqa: TRY301
        decoded = tool.codec.decode(data)
    except EncodingError as error:
        failure = _own_failure(FailureKind.PROGRAMMING, "value.lost", f"{tool.name}: {error}", Executed.YES)
        yield from _settle_failure(live, step, begin, failure, value_lost=True)
        return False, None
    if tool.agent.validate is not None:
        wrong = _verdict(tool.agent.validate, decoded)
        if wrong is not None:
            failure = _own_failure(FailureKind.SEMANTIC, "output.rejected", wrong, Executed.YES)
            yield from _settle_failure(live, step, begin, failure, output=Raw(data))
            return False, None
    settle = Settle(at=live.now_ms(), attempt=begin.attempt, rung=begin.rung, value=Raw(data))
    yield Write(step.key, settle, Barrier.STARTED if begin.effect in _SYNCED_SETTLE else Barrier.WRITTEN)
    return True, decoded


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


def _settle_failure(  # noqa: PLR0913
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


def decide_for(  # noqa: PLR0913
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
        output_changed=not past.outputs or bytes(past.outputs[-1]) != bytes(output),
        has_check=tool.check is not None,
        check_after_s=tool.check_after_s,
        unsure=tool.agent.unsure,
        has_rung=len(rungs) > 1,
        thread_alive=thread_alive,
        retries_left=budget.left(spent, "retries"),
        retry_wait_left_s=budget.left(spent, "retry_wait_s"),
    )
    return decide(failure, position, now_ms=now_ms, rng=live.clock.rng())


def _ended_settle(live: Live, step: Step, past: Past, why: str) -> Settle:
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


# --- doubt


def _check(live: Live, step: Step, past: Past, decision: Decision) -> Steps:
    """Ask the receiver whether it happened; a verdict is a value, or leave to go on."""
    check = step.tool.check
    assert check is not None
    assert past.last is not None
    assert past.begin is not None
    yield Wait(decision.next_at, "check")
    key = sub_key(step.key, "check", past.begun)
    sub = make_step(step.branch, check, (), step.values, key=key)
    try:
        verdict = yield from ladder(live, sub)
    except StepFailed as error:
        yield Write(step.key, question_of(live, step, past, "doubt", note=f"The check failed: {error.failure.message}"))
        return
    if verdict is not None:
        value = Raw(msgspec.json.encode(verdict["happened"]))
        yield Write(step.key, _adopted(live, step, past, "check", value))
        return
    failure = _as_not_happened(_last_failure(past))
    now_ms = live.now_ms()
    after = decide_for(live, step, past, failure, past.begin, now_ms, executed=Executed.NO)
    yield Write(
        step.key,
        msgspec.structs.replace(past.last, at=now_ms, outcome="failed", cause=None, executed=Executed.NO, failure=failure, decision=after),
    )


def _as_not_happened(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, executed=Executed.NO)


def _adopted(live: Live, step: Step, past: Past | None, source: str, value: Raw, failure: Failure | None = None) -> Adopt:
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


def _join(live: Live, step: Step, joined: Past) -> Steps:
    """An equal call whose slot is in doubt, skipped or lost: share its answer, never execute."""
    past = live.history.steps.get(step.key)
    if past is None:
        yield Write(step.key, _hold(live, step, "question", joins=joined.step))
        past = live.history.steps[step.key]
    while True:
        if joined.settled:
            yield Write(step.key, _adopted(live, step, joined, joined.step, joined.value))
            return live_value(live, step, past.value)
        asked = live.history.open_question(joined)
        if asked is not None:
            yield Suspend("person", question=asked.question.id, until_ms=asked.question.expires_at)
            continue
        if joined.slot_shared:
            failure = _unknown_outcome(joined)
            yield Write(step.key, _adopted(live, step, joined, joined.step, ABSENT, failure))
            done, value = yield from _skipped(live, step, failure, quiet=True)
            assert done
            return value
        done, value = yield from _attempt(live, step, past, live.history.slots.lowest(step.action)[0])
        while not done and not past.settled:
            done, value = yield from _next(live, step, past)
        return value if done else live_value(live, step, past.value)


def _skipped(
    live: Live, step: Step, failure: Failure, *, quiet: bool = False
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Somebody skipped the step: the loop goes on with None and a noted gap; a model is told it is unknown."""
    if step.for_model or failure.reason == "value.lost":
        raise step_failed(live, step, failure, 0)
    key = f"{step.key}!gap.0"
    if not quiet and key not in live.history.points:
        from yaoki.records import Gap  # noqa: PLC0415

        yield Write(key, Gap(at=live.now_ms(), text=f"{step.call}: skipped; whether it happened is unknown"))
    return True, None


def _hold_for_budget(live: Live, step: Step, past: Past, why: str) -> Steps:
    """A vendor's budget is used up: wait for a top-up written after that."""
    assert past.last is not None
    while not any(top_up.at >= past.last.at for top_up in live.history.top_ups):
        yield Suspend("budget", text=f"{step.tool.name}: {why}")


# --- failures for people


def _own_failure(kind: FailureKind, reason: str, message: str, executed: Executed) -> Failure:
    return Failure(
        kind=kind,
        reason=reason,
        message=message[:2000],
        executed=executed,
        scope=Scope.REQUEST,
        evidence=f"yaoki: {reason}",
        fingerprint=fingerprint_of(f"{reason} {message}"),
    )


def _last_failure(past: Past) -> Failure:
    if past.last is not None and past.last.failure is not None:
        return past.last.failure
    return _own_failure(FailureKind.TRANSIENT, "attempt.cancelled", "the attempt was cancelled", past.executed)


def _unknown_outcome(past: Past) -> Failure:
    """What the loop or the model is told of an effect nobody can vouch for."""
    if past.lost is not None:
        return past.lost
    last = _last_failure(past)
    message = f"the outcome is unknown: it may have happened ({last.reason}). It was not and must not be repeated."
    return _own_failure(FailureKind.PERMANENT, "outcome.unknown", message, strongest(past.executed, Executed.MAYBE))


def step_failed(live: Live, step: Step, failure: Failure, attempts: int) -> StepFailed:
    """Return the exception the loop sees: what, where, what next."""
    tried = f" after {attempts} attempt{'s' if attempts > 1 else ''}" if attempts else ""
    message = (
        f"run {live.name}, step {step.tool.name}: gave up{tried} ({failure.reason}). "
        f"Last: {failure.message or failure.kind.value}. See: yaoki show {live.name}"
    )
    return StepFailed(message, failure=failure, run_id=live.name, step=step.key, attempts=attempts)
