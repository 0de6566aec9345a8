"""One attempt of a step: admitted, begun, called, settled with what is decided about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from yaoki.policy import Admission, in_doubt
from yaoki.records import (
    ABSENT,
    LADDER_MS,
    Adopt,
    Begin,
    Effect,
    Failure,
)
from yaoki.runtime._acting import act_on
from yaoki.runtime._approve import approval_asked
from yaoki.runtime._barred import hold_of, rung_to_start_on, until_available
from yaoki.runtime._effects import Barrier, Call, EffectOf, Enter, Steps, Suspend, Write
from yaoki.runtime._live import Halt, Live
from yaoki.runtime._orphans import orphans_asked_about, tool_has_orphans
from yaoki.runtime._settling import ended_settle, judge, moved_on, settle
from yaoki.runtime._step import Step, action_key
from yaoki.runtime._tool import Feedback

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._past import Past

__all__ = ["adopted", "attempt", "barrier_of", "call_of", "first_begin"]


def attempt(
    live: Live, step: Step, past: Past | None, rung: int | None = None
) -> Generator[EffectOf, Any, tuple[bool, Any]]:
    """
    Make one attempt, if it is admitted; return whether there is a value, and it.

    On another `rung` than the last one, attempts, deadline and key start anew. A ladder whose tool cannot be used
    now starts on the rung of a fallback that can, with no attempt of its own.

    A step without a slot takes one only now: while it waited to be admitted, an equal call may have taken the
    lowest, or have come into doubt, which this one then joins.
    """
    before = 0 if past is None else past.rung
    starts = rung is None and not before and (past is None or not past.attempts)
    rung = before if rung is None else rung
    known = past.begin.tool if past is not None and past.begin is not None and rung == before else ""
    if not act_on(live, step, rung, known):
        assert past is not None
        yield Write(step.key, moved_on(live, past, f"the fallback {known} is declared no more"))
        return False, None
    stand = _Stand(live, step, past, rung)
    refused: Admission | None = None
    while True:
        if live.halt is not None and not live.undoing(step):
            yield Suspend("halt")
        if starts and refused is None and (rung := rung_to_start_on(live, step, past)) != stand.rung:
            act_on(live, step, rung)
            stand = _Stand(live, step, past, rung)
        admission = refused or stand.admission(live, step)
        refused = None
        if admission.go:
            available = yield from until_available(
                live, step, past, stand.deadline_ms, rung=stand.rung, stands=stand.stands
            )
            if available == "never":
                return False, None
            if available == "now":
                made = yield from _made(live, step, stand)
                if not isinstance(made, Admission):
                    return made
                refused = None if made.wait == "scope" else made
            stand.stands = stand.stands or available == "waited"
            stand.move(live.now_ms(), give_back=available == "unpaused")
            past = live.history.steps.get(step.key)
            continue
        in_question = past is not None and bool(admission.cap) and in_doubt(past.effect, past.executed)
        if past is not None and (admission.stop == "ladder" or in_question):
            yield Write(step.key, ended_settle(live, step, past, admission.text))
            return False, None
        yield from _not_admitted(live, step, past, admission, stand)
        stand.move(live.now_ms(), give_back=True)


class _Stand:
    """Where a ladder stands before its next attempt: on which rung, until when, with what reserved."""

    __slots__ = ("before", "deadline_ms", "first", "now_ms", "reserved", "rung", "stands")

    def __init__(self, live: Live, step: Step, past: Past | None, rung: int) -> None:
        """Take it from the journal; the tool of that rung acts for the step already."""
        self.rung = rung
        self.before = 0 if past is None else past.rung
        ladder = past if rung == self.before else None
        held = past if past is not None and past.hold is not None and past.hold.rung == rung else ladder
        self.first = ladder is None or not ladder.attempts or ladder.ordered
        self.stands = held is not None and held.deadline_stands
        """Whether the deadline is in the journal; else it starts now: with a ladder, and with a person's order."""
        self.now_ms = live.now_ms()
        self.deadline_ms = self.now_ms + step.tool.deadline_ms
        if held is not None and self.stands:
            self.deadline_ms = held.deadline_at + _given_back_ms(live, held, self.now_ms)
        self.reserved = step.tool.reserves(step.values)

    def admission(self, live: Live, step: Step) -> Admission:
        """Return whether the run and its budgets let the attempt begin."""
        return live.admit(
            step, first=self.first, deadline_ms=self.deadline_ms, now_ms=self.now_ms, reserved=self.reserved
        )

    def move(self, now_ms: int, *, give_back: bool) -> None:
        """Go on at a later time; the deadline moves with it if what was waited for is nobody's fault."""
        if give_back:
            self.deadline_ms += now_ms - self.now_ms
        self.now_ms = now_ms


def _made(live: Live, step: Step, stand: _Stand) -> Generator[EffectOf, Any, tuple[bool, Any] | Admission]:
    """Begin an admitted attempt and make it; or return why it was refused in the moment it began."""
    past = live.history.steps.get(step.key)
    if step.branch.ended_by_raise or (past is None and step.branch.replaying):
        # What ended this branch, in the journal, did so before this: it comes first again.
        yield Suspend("replay")
    slot = past.slot if past is not None else -1
    if slot < 0:
        act_on(live, step, 0)  # it is the call as it was made that is approved, and held against orphans
        slot = yield from _slot_for(live, step, past)
        if slot < 0:
            return False, None
        act_on(live, step, stand.rung)
        past = live.history.steps.get(step.key)
    number = 1 if past is None or stand.rung != stand.before else past.attempts + 1
    begin = _begin(live, step, past, stand.now_ms, number, slot, stand.deadline_ms, stand.reserved, stand.rung)
    refused: Admission | None = yield Enter(step, begin, barrier_of(begin))
    if refused is not None:
        return refused
    outcome = yield call_of(step, past, begin, stand.now_ms)
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
    if live.history.stale_tools and (yield from orphans_asked_about(live, step, past, slot)):
        return -1
    if step.tool.approve is not None and (yield from approval_asked(live, step, live.history.steps.get(step.key))):
        return -1
    return slot


def first_begin(live: Live, step: Step) -> Begin | None:
    """
    Return the begin of a new step's first attempt, where nothing stands in its way; None: let `attempt` see.

    The way of nearly every step, so it takes no generator: the same questions as `attempt` asks, all answered yes.
    """
    if live.halt is not None or live.group or step.branch.replaying or tool_has_orphans(live, step):
        return None
    if step.tool.approve is not None or not live.scopes.clear(step):
        return None
    now_ms = live.now_ms()
    deadline_ms = now_ms + step.tool.deadline_ms
    reserved = None if step.tool.agent.reserve is None else step.tool.reserves(step.values)
    if not live.admit(step, first=True, deadline_ms=deadline_ms, now_ms=now_ms, reserved=reserved).go:
        return None
    slot, joined = live.history.slots.lowest(step.action, step.key, live.driven)
    return None if joined is not None else _begin(live, step, None, now_ms, 1, slot, deadline_ms, reserved)


def barrier_of(begin: Begin) -> Barrier:
    """Return how far a begin must have got before its call: an effect's is on disk."""
    return Barrier.WRITTEN if begin.effect is Effect.READ_ONLY else Barrier.SYNCED


def call_of(step: Step, past: Past | None, begin: Begin, now_ms: int) -> Call:
    """Return the call of an attempt: bounded by its timeout and what is left of the deadline."""
    timeout_s = min(step.tool.timeout_s, max(0.001, (begin.ends_at - now_ms) / 1000))
    return Call(step, _injected(step, past, begin, timeout_s) if step.tool.params.injected else None, timeout_s)


def _begin(
    live: Live,
    step: Step,
    past: Past | None,
    now_ms: int,
    number: int,
    slot: int,
    deadline_ms: int,
    reserved: dict[str, float] | None,
    rung: int = 0,
) -> Begin:
    """Return the record; what the tool alone decides was made ready when it was declared."""
    tool = step.tool
    effect = tool.effect_of(step.values) if rung else step.effect
    assert effect is not None
    attempts_max, base_ms, cap_ms, check_after_ms, timeout_ms = tool.recorded
    return Begin(
        at=now_ms,
        attempt=number,
        rung=rung,
        slot=slot,
        key=_key_of(live, step, past, slot, rung),
        action=step.action,
        args="" if step.args == step.action else step.args,
        tool=tool.name if rung else "",
        call=step.call,
        call_id=step.call_id,
        effect=effect,
        undeclared=tool.undeclared,
        scope=tool.scope_of(step.values),
        attempts_max=max(attempts_max, number),
        deadline_at=0 if deadline_ms == now_ms + LADDER_MS else deadline_ms,
        base_ms=base_ms,
        cap_ms=cap_ms,
        check_after_ms=check_after_ms,
        timeout_ms=timeout_ms,
        reserved=reserved,
        pgid=live.limits.pgid,
        given=ABSENT if tool.undo is None else live.given_to(step),
    )


def _key_of(live: Live, step: Step, past: Past | None, slot: int, rung: int) -> str:
    """Return the key an action has, once it has one on this rung."""
    if step.fixed_key:
        return step.fixed_key
    if rung:
        known = past.begin if past is not None and past.rung == rung else None
        return known.key if known is not None else action_key(live.name, step.action, slot, rung)
    return past.key if past is not None and past.key else action_key(live.name, step.action, slot)


def _not_admitted(live: Live, step: Step, past: Past | None, admission: Admission, stand: _Stand) -> Steps:
    text = admission.text
    if admission.stop == "cancel":
        live.stop_with(Halt(to="cancelled", text=text, stopped_by="cancel", step=step.key))
        yield Suspend("halt")
    elif admission.cap:
        live.stop_with(Halt(to="capped", text=text, stopped_by=admission.cap, step=step.key))
        yield Suspend("halt")
    else:
        known = past or live.history.steps.get(step.key)
        if known is None or known.hold is None or known.hold.reason != "budget":
            yield Write(step.key, hold_of(live, step, "budget", stand.deadline_ms, rung=stand.rung))
        yield Suspend("budget", text=text, room=admission.wait == "room", freed=admission.freed)


def adopted(
    live: Live,
    step: Step,
    past: Past | None,
    source: str,
    value: Raw,
    failure: Failure | None = None,
    gap: str = "",
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
        gap=gap,
    )


def _given_back_ms(live: Live, past: Past, now_ms: int) -> int:
    """Return how long a ladder waited for a person or a budget: that is no part of its time."""
    if past.hold is not None and past.hold.reason == "budget":
        return max(0, now_ms - past.hold.since)
    if past.last is not None and past.last.decision is not None and past.last.decision.do == "pause":
        return max(0, now_ms - past.settled_ms)  # for a vendor's budget, also where the run slept meanwhile
    return max(0, live.history.waited_ms - past.waited_ms)


def _injected(step: Step, past: Past | None, begin: Begin, timeout_s: float) -> dict[str, object]:
    feedback: Feedback | None = None
    if past is not None and past.outputs:
        output, why = past.outputs[-1]
        found = None if output is ABSENT else msgspec.json.decode(output)
        feedback = Feedback(output=found, error=why, attempt=begin.attempt)
    values: dict[str, object] = {
        "idempotency_key": step.about or begin.key,
        "feedback": feedback,
        "timeout_s": timeout_s,
    }
    return {name: values[name] for name in step.tool.params.injected}
