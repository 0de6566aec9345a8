"""
A step's way from its call to its outcome: a generator that decides, and yields effects for a driver.

It starts from what the journal says about the step (nothing, for a new one) and goes round: is there an
outcome, an answer, a decision to carry out? else an attempt. Live and after a crash it is the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from yaoki.errors import EncodingError, StepFailed
from yaoki.policy import allows_repeat
from yaoki.records import ABSENT, Begin, Decision, Executed, Failure, FailureKind, Gap, sub_key
from yaoki.runtime._acting import act_on
from yaoki.runtime._approve import approval_refused
from yaoki.runtime._attempt import adopted, attempt, first_begin
from yaoki.runtime._doubt import asked_in_place_of, carry_out_answer, question_of, until_answered
from yaoki.runtime._effects import EffectOf, Steps, Suspend, Wait, Write
from yaoki.runtime._escalation import escalate
from yaoki.runtime._failures import last_failure, orphan_refused, own_failure, step_failed, unknown_outcome
from yaoki.runtime._live import Halt, Live
from yaoki.runtime._settling import Kept, Rejected, decide_for, settle
from yaoki.runtime._step import Step, check_step
from yaoki.runtime._toolbox import StandIn

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._past import Asked, Past
    from yaoki.runtime._tool import Tool

__all__ = ["Made", "begin_at_once", "drifted", "ladder"]

_SKIPPED = "outcome.skipped"
_SHOWN_BYTES = 200


def ladder(live: Live, step: Step, made: Made | None = None) -> Steps:
    """
    Bring a step to its outcome: return its value as its annotation decodes it, or raise StepFailed.

    A recorded outcome is returned without executing anything; a record that does not fit the call parks
    the run with a diff before anything executes.

    Args:
        live: The run.
        step: The call.
        made: A first attempt that its driver has already made, of a new step that nothing stood in the way of.
    """
    live.ask(step.key)
    live.driven.add(step.key)
    try:
        past = live.history.steps.get(step.key)
        if made is not None:
            yield from settle(live, step, made.begin, made.outcome, made.kept)
            past = live.history.steps[step.key]
        elif past is None:
            left_out = _left_out(live, step)
            if left_out:
                yield from drifted(live, step.key, left_out, step.call)
            step.effect = step.tool.effect_of(step.values)
            done, value = yield from attempt(live, step, None)
            if done:
                return value
            past = live.history.steps[step.key]
        else:
            yield from _recorded(live, step, past)
        while True:
            if past.settled:
                return _told(step, past, (yield from live_value(live, step, past.value)))
            done, value = yield from _next(live, step, past)
            if done:
                return value
    finally:
        live.driven.discard(step.key)
        live.left.add(step.key)


class Made(NamedTuple):
    """A first attempt made by a driver, and not kept."""

    begin: Begin
    outcome: object
    kept: Kept | Rejected | None


def begin_at_once(live: Live, step: Step) -> Begin | None:
    """
    Return the begin of a new step that nothing stands in the way of; None: its ladder decides.

    Nearly every step is one: its driver writes this, makes the call, and writes what `judge` keeps, with no
    generator between. The questions are the ladder's own.
    """
    if live.recorded or step.key in live.history.steps:
        return None
    live.asked.add(step.key)
    step.effect = step.tool.effect_of(step.values)
    return first_begin(live, step)


def _left_out(live: Live, step: Step) -> str:
    """Return the recorded call that this new one would be made before, for people; or nothing."""
    key = "" if step.branch.replaying or step.fixed_key else step.branch.next_left_out()
    known = live.history.steps.get(key)
    return known.call or key if known is not None else key


def _recorded(live: Live, step: Step, past: Past) -> Steps:
    """Hold a call against its record: it must be the same; one that a timeout had cut waits for that timeout."""
    if past.args != step.args:
        yield from drifted(live, step.key, past.call or step.tool.name, step.call)
    step.effect = past.effect if past.begun else step.tool.effect_of(step.values)
    if past.begin is not None and past.begin.rung:
        act_on(live, step, past.begin.rung, past.begin.tool)
    if step.tool.undo is not None:
        live.given[step.key] = step
    while past.cut_by_timeout:
        # Whatever was answered since: the loop went on with that TimeoutError, and does so again.
        yield Suspend("replay")


def live_value(live: Live, step: Step, data: Raw) -> Steps:
    """Decode a recorded value; where the code wants another type by now, the run is parked for code."""
    codec = step.declared.codec
    try:
        return codec.decode(data)
    except EncodingError as error:
        wrong = str(error)
    shown = bytes(data)[:_SHOWN_BYTES].decode(errors="replace")
    while True:
        yield from drifted(live, step.key, f"{step.call} = {shown}", f"{step.call} -> {codec.type_name} ({wrong})")


def _told(step: Step, past: Past, value: object) -> object:
    """Return a step's value; what a model gets says that it is a stand-in."""
    gap = past.adopt.gap if past.adopt is not None else ""
    return StandIn(value, gap) if gap and step.for_model else value


def drifted(live: Live, key: str, recorded: str, called: str) -> Steps:
    """Park the run for code: the journal and the code disagree."""
    diff = f"at {key}\n- recorded: {recorded}\n+ called:   {called}"
    text = f"the code asks for {called} where the journal has {recorded}"
    live.stop_with(Halt(to="code", text=text, diff=diff, step=key))
    yield Suspend("code")


def _next(live: Live, step: Step, past: Past) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Carry out what stands: an adopted failure, a question, a decision; or make the next attempt."""
    if past.adopt is not None and past.adopt.failure is not None:
        if past.adopt.failure.reason != _SKIPPED:
            raise step_failed(live, step, past.adopt.failure, 0)
        return (yield from _skipped(live, step))
    if past.hold is not None and past.hold.joins and not past.begun:
        joined = live.history.step_ever(past.hold.joins)
        if joined is not None and live.history.slots.owned(past.action, joined):
            return True, (yield from _join(live, step, joined))
    if past.given_up and past.last is not None and past.last.decision is not None:
        return (yield from _carry_out(live, step, past, past.last.decision))
    asked = past.question
    if asked is not None:
        return (yield from _answered(live, step, past, asked))
    if past.redriven and not allows_repeat(past.effect, past.executed):
        yield from _redriven_in_doubt(live, step, past)
        return False, None
    if not past.begun or past.redriven:
        return (yield from attempt(live, step, past))
    last = past.last
    if last is None or last.decision is None:
        return (yield from attempt(live, step, past))
    return (yield from _carry_out(live, step, past, last.decision))


def _answered(live: Live, step: Step, past: Past, asked: Asked) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Wait for the step's answer and do as it says."""
    outcome = yield from carry_out_answer(live, step, past, asked)
    if asked.question.why == "orphan" and outcome == "abort":
        raise step_failed(live, step, orphan_refused(step), 0)
    if outcome == "again":
        return False, None
    if outcome == "skip":
        return (yield from _skipped(live, step))
    if outcome == "abort":
        answer = asked.answer if asked.question.why == "approve" else None
        raise step_failed(live, step, approval_refused(step, answer) if answer else last_failure(past), past.attempts)
    return (yield from attempt(live, step, past))


def _redriven_in_doubt(live: Live, step: Step, past: Past) -> Steps:
    """A redrive orders a new ladder, not a repeat of what may have happened: check, or ask, first."""
    if step.tool.check is not None and past.executed is Executed.MAYBE:
        yield from _check(live, step, past, Decision(do="check", next_at=live.now_ms()))
    else:
        yield Write(step.key, question_of(live, step, past, "doubt"))


def _carry_out(live: Live, step: Step, past: Past, decision: Decision) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    do = decision.do
    if do in ("retry", "repair"):
        question = asked_in_place_of(live, step, past, decision.next_at)
        if question is not None:
            yield Write(step.key, question)
            return False, None
        back_ms = live.scopes.back_ms(step, decision.next_at, past.deadline_at)
        yield Wait(back_ms, "retry", through=bool(step.fixed_key))
        return (yield from attempt(live, step, past))
    if do == "check":
        yield from _check(live, step, past, decision)
        return False, None
    if do == "tell":
        raise step_failed(live, step, unknown_outcome(past), past.attempts)
    if do == "ask":
        # The tool's word on it is looked at here: a decision made at a claim had only the records.
        yield from _ask_or_tell(live, step, past)
        return False, None
    if do == "pause":
        yield from _hold_for_budget(live, step, past, decision.why)
        return (yield from attempt(live, step, past))
    if do == "end":
        failure = last_failure(past)
        live.stop_with(Halt(to="dead", text=failure.message, stopped_by="fatal", step=step.key, failure=failure))
        yield Suspend("halt")
    return (yield from escalate(live, step, past, ladder))


def _check(live: Live, step: Step, past: Past, decision: Decision) -> Steps:
    """Ask the receiver whether it happened; a verdict is a value, or leave to go on."""
    check = step.tool.check
    if check is None:  # the code has lost it since this was decided
        yield from _ask_or_tell(live, step, past, note="The tool has no check= any more.")
        return
    assert past.last is not None
    assert past.begin is not None
    yield Wait(decision.next_at, "check", through=bool(step.fixed_key))
    key = _check_key(step, past.begun, past.ladder - 1)
    found = yield from _verdict(live, step, check, key, past.begin.key)
    if isinstance(found, Failure):
        yield from _ask_or_tell(live, step, past, note=f"The check failed: {found.message}")
        return
    if found is not ABSENT:
        yield Write(step.key, adopted(live, step, past, "check", found))
        return
    failure = _as_not_happened(last_failure(past))
    now_ms = live.now_ms()
    after = decide_for(live, step, past, failure, past.begin, now_ms, executed=Executed.NO)
    yield Write(
        step.key,
        msgspec.structs.replace(
            past.last, at=now_ms, outcome="failed", cause=None, executed=Executed.NO, failure=failure, decision=after
        ),
    )


def _check_key(step: Step, number: int, again: int) -> str:
    """Return the identity of a check: of the number-th attempt, and, asked `again`, another than that which failed."""
    key = sub_key(step.key, "check", number)
    return f"{key}.{again}" if again else key


def _verdict(
    live: Live, step: Step, check: Tool[Any, Any], key: str, about: str
) -> Generator[EffectOf, Any, Raw | Failure]:
    """Return the value the receiver has, nothing if it did not happen, or why the check could not say."""
    try:
        verdict = yield from ladder(live, check_step(step, check, key, about))
    except StepFailed as error:
        return error.failure
    return ABSENT if verdict is None else Raw(msgspec.json.encode(verdict["happened"]))


def _ask_or_tell(live: Live, step: Step, past: Past, *, note: str = "") -> Steps:
    """
    Have a person say whether it happened; of a tool that is `unsure="tell"`, say that nobody knows.

    Who orders a new ladder while it is in doubt is a person, and is asked whatever the tool says.
    """
    last = past.last
    if last is None or last.decision is None or step.tool.agent.unsure != "tell" or past.redriven:
        yield Write(step.key, question_of(live, step, past, "doubt", note=note))
        return
    told = Decision(do="tell", why=note or last.decision.why)
    yield Write(step.key, msgspec.structs.replace(last, at=live.now_ms(), decision=told))


def _as_not_happened(failure: Failure) -> Failure:
    return msgspec.structs.replace(failure, executed=Executed.NO)


def _join(live: Live, step: Step, joined: Past) -> Steps:
    """An equal call whose slot is in doubt, skipped or lost: share its answer, never execute."""
    past = live.history.steps[step.key]
    while live.history.slots.owned(past.action, joined):  # else an equal call beside this one has taken it over
        if joined.settled:
            yield Write(step.key, adopted(live, step, joined, joined.step, joined.value))
            return (yield from live_value(live, step, past.value))
        asked = live.history.open_question(joined)
        if asked is not None or (joined.doubt_unasked and joined.step not in live.driven):
            done, value = yield from _said(live, step, joined, asked)
            if done:
                return value
            continue
        if joined.slot_shared(driven=joined.step in live.driven):
            return (yield from _share(live, step, joined))
        under_way = joined.step in live.asked and joined.step not in live.left
        if under_way and not (joined.closed or joined.cut_by_timeout):
            yield Suspend("join", text=joined.step)  # it is sent again: what comes of that is the answer
            continue
        break
    done, value = yield from attempt(live, step, past)
    while not done and not past.settled:
        done, value = yield from _next(live, step, past)
    return value if done else (yield from live_value(live, step, past.value))


def _said(live: Live, step: Step, joined: Past, asked: Asked | None) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """Have it said whether the joined step happened; return whether that decides this one, and its value."""
    found = yield from _checked_anew(live, step, joined)
    if found is ABSENT:
        return False, None
    if isinstance(found, Raw):
        if not live.history.slots.owned(step.action, joined):
            return False, None
        yield Write(step.key, adopted(live, step, joined, joined.step, found))
        return True, (yield from live_value(live, step, found))
    if step.tool.agent.unsure == "tell":
        return True, (yield from _share(live, step, joined))
    if asked is not None and not _ran_out(live, asked):
        yield from until_answered(live, asked, joined.step)
    else:  # a cancel left it, or an earlier pass
        note = f"The check failed: {found.message}" if found is not None else ""
        yield Write(joined.step, question_of(live, step, joined, "doubt", note=note))
    return False, None


def _ran_out(live: Live, asked: Asked) -> bool:
    """Whether nobody answered a question before the run was redriven: it is asked anew."""
    return 0 < asked.question.expires_at <= live.history.redriven_ms


def _checked_anew(live: Live, step: Step, joined: Past) -> Generator[EffectOf, Any, Raw | Failure | None]:
    """
    Ask the receiver about a doubt that an earlier pass left, also where a person is asked already: once a pass.

    Return the value it has, nothing if it did not happen, or why the check could not say; None if there is none to ask.
    """
    check = step.tool.check
    if check is None or not joined.stale or joined.executed is not Executed.MAYBE:
        return None
    yield Wait(joined.settled_ms + int(step.tool.check_after_s * 1000), "check")
    again = sum(not asked.open or _ran_out(live, asked) for asked in joined.questions)
    return (yield from _verdict(live, step, check, _check_key(step, 0, again), joined.key))


def _share(live: Live, step: Step, joined: Past) -> Steps:
    """Give an equal call what stands for the joined one: it was skipped, or nobody can say what came of it."""
    if not joined.skipped:
        failure = unknown_outcome(joined)
        yield Write(step.key, adopted(live, step, joined, joined.step, ABSENT, failure))
        raise step_failed(live, step, failure, 0)
    yield Write(step.key, adopted(live, step, joined, joined.step, ABSENT, _skip_failure(step)))
    _, value = yield from _skipped(live, step)
    return value


def _skip_failure(step: Step) -> Failure:
    message = f"{step.call} was skipped by a person; whether it happened is unknown. It must not be repeated."
    return own_failure(FailureKind.PERMANENT, _SKIPPED, message, Executed.MAYBE)


def _skipped(live: Live, step: Step) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """
    Go on without a step that a person skipped: a gap is noted, and the loop gets None, whatever the annotation says.

    A model is told that the outcome is unknown.
    """
    if step.for_model:
        raise step_failed(live, step, unknown_outcome(live.history.steps[step.key]), 0)
    key = f"{step.key}!gap.0"
    if key not in live.history.points:
        yield Write(key, Gap(at=live.now_ms(), text=f"{step.call}: skipped; whether it happened is unknown"))
    return True, None


def _hold_for_budget(live: Live, step: Step, past: Past, why: str) -> Steps:
    """A vendor's budget is used up: wait for a top-up written after that."""
    assert past.last is not None
    while not any(top_up.at >= past.last.at for top_up in live.history.top_ups):
        yield Suspend("budget", text=f"{step.tool.name}: {why}")
