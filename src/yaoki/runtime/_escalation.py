"""
The ladder is over: its rungs, in order.

The position is in the journal: a fallback's in its begin, any other's in the decision that the last attempt was
settled with. A rung that gives nothing settles that attempt anew, with the next one decided; so a restart goes on
where it was, and a rung is never passed twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from yaoki.errors import StepFailed
from yaoki.policy import Ask, Cached, Compensate, DeadLetter, Degrade, Fallback, Retry, next_rung
from yaoki.records import Effect, sub_key
from yaoki.runtime._acting import act_on, member_of, rungs_of, values_for, would_fail_too
from yaoki.runtime._attempt import adopted, attempt
from yaoki.runtime._doubt import question_of
from yaoki.runtime._effects import EffectOf, Steps, Suspend, Write
from yaoki.runtime._failures import last_failure, step_failed
from yaoki.runtime._live import Halt
from yaoki.runtime._settling import moved_on
from yaoki.runtime._step import check_step
from yaoki.runtime._undoing import compensation, still_to_undo

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from yaoki.records import Failure
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step
    from yaoki.runtime._tool import Tool

__all__ = ["escalate"]

_CACHED_RETRY = Retry(attempts_max=3, deadline_s=60)


def escalate(
    live: Live, step: Step, past: Past, climb: Callable[[Live, Step], Steps]
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """
    Carry out the rung that was reached; return whether there is a value, and it.

    Args:
        live: The run.
        step: Its action is in no doubt: the gate was asked before.
        past: What is recorded of it.
        climb: The ladder of a sub-step.
    """
    rungs = rungs_of(live, step)
    rung = rungs[min(past.position, len(rungs) - 1)]
    failure = last_failure(past)
    if isinstance(rung, Fallback):
        more = next_rung(rungs, past.position) is not None
        passed = _passed_over(live, step, rung, failure, more=more)
        if not passed:
            return (yield from attempt(live, step, past, past.position + 1))
        yield Write(step.key, moved_on(live, past, passed))
    elif isinstance(rung, Cached):
        yield from _stand_in(live, step, past, rung, climb)
    elif isinstance(rung, Degrade):
        gap = rung.gap or f"{step.call}: {failure.reason} {failure.message[:200]}".strip()
        value = Raw(step.declared.codec.encode(rung.value))
        yield Write(step.key, adopted(live, step, past, "degrade", value, gap=gap))
    elif isinstance(rung, Compensate):
        yield from compensation(live, step.key, climb)
        left = still_to_undo(live)
        if left and not isinstance(next_rung(rungs, past.position), Ask):
            yield from _dead_letter(live, step, failure, left)
        yield Write(step.key, moved_on(live, past, f"compensated{'; ' if left else ''}{left}"))
    elif isinstance(rung, Ask):
        left = still_to_undo(live)
        question = question_of(live, step, past, "ask", text=rung.text, expires_s=rung.expires_s, note=left)
        yield Write(step.key, question)
    elif isinstance(rung, DeadLetter):
        yield from _dead_letter(live, step, failure, "")
    else:
        raise step_failed(live, step, failure, past.attempts)
    return False, None


def _dead_letter(live: Live, step: Step, failure: Failure, left: str) -> Steps:
    text = f"{step.tool.name}: {failure.reason} {failure.message}".strip()
    text = f"{text}. {left}" if left else text
    live.stop_with(Halt(to="dead", text=text, stopped_by="dead_letter", step=step.key, failure=failure))
    yield Suspend("halt")


def _passed_over(live: Live, step: Step, rung: Fallback, failure: Failure, *, more: bool) -> str:
    """Return why a fallback is not tried, or nothing; one that cannot be used now only if there is `more` to try."""
    member = member_of(step.declared, rung)
    name = member.tool.name
    if failure.kind not in rung.on:
        return f"no fallback to {name} after {failure.kind.value} failures"
    if other := would_fail_too(step, failure, rung):
        return f"no fallback to {name}: {other} is what failed ({failure.scope.value})"
    if more and (bar := live.scopes.shut(step, member.tool, values_for(step, member))):
        return f"no fallback to {name}: {bar.text}"
    return ""


def _stand_in(live: Live, step: Step, past: Past, rung: Cached, climb: Callable[[Live, Step], Steps]) -> Steps:
    """Take an earlier value, if there is one."""
    act_on(live, step, 0)
    key = sub_key(step.key, "cached", past.position)
    try:
        found = yield from climb(live, check_step(step, _cached_tool(step.declared, rung), key))
    except StepFailed as error:
        yield Write(step.key, moved_on(live, past, f"cached: {error.failure.reason}"))
        return
    if found is None:
        yield Write(step.key, moved_on(live, past, "cached: nothing is there"))
        return
    value = Raw(msgspec.json.encode(found["value"]))
    yield Write(step.key, adopted(live, step, past, "cached", value, gap=rung.gap or ""))


def _cached_tool(owner: Tool[Any, Any], rung: Cached) -> Tool[Any, Any]:
    """Make the function a read-only tool of its own, so that its result is recorded like any other."""
    import inspect

    from yaoki.runtime._tool import Tool

    def on_wire(value: object) -> object:
        data = owner.codec.encode(value)
        owner.codec.decode(data)
        return {"value": msgspec.json.decode(data)}

    def asked(*own: object, **values: object) -> object:
        try:
            return on_wire(rung.fn(*own, **values))
        except LookupError:
            return None

    async def awaited(*own: object, **values: object) -> object:
        try:
            value = rung.fn(*own, **values)
            return on_wire(await value if inspect.isawaitable(value) else value)
        except LookupError:
            return None

    fn = awaited if owner.is_async else asked
    made = Tool(fn, effect=Effect.READ_ONLY, retry=_CACHED_RETRY, escalate=(), name=f"{owner.name}.cached", skip=0)
    made.is_method = owner.is_method
    made.hidden = owner.params.local | owner.params.injected
    return made
