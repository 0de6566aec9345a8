"""
A second, equal call beside a slow attempt (`@tool(hedge=Hedge())`): begun, counted and settled as a sub-step.

The attempt's own records tell what was taken: the first success of the two, or, if neither succeeded, what the first
call raised. The sub-step's settle tells what came of the other, and follows the attempt's. A death leaves one or two
calls open, of a tool that may make them again: the attempt is decided as ever, and the second call goes with it.
"""

from __future__ import annotations

import copy
import queue
import threading
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from yaoki.records import Decision, Effect, Executed, Settle, sub_key
from yaoki.runtime._attempt import barrier_of
from yaoki.runtime._effects import Call, Raised
from yaoki.runtime._entering import enter_inline
from yaoki.runtime._past import HEDGE
from yaoki.runtime._settling import failure_of
from yaoki.runtime._usage import UNUSED, used_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.policy import Admission, Pace
    from yaoki.records import Begin
    from yaoki.runtime._effects import Barrier
    from yaoki.runtime._live import Live
    from yaoki.runtime._step import Step

__all__ = ["CUT", "Second", "begin_second", "hedged_in_threads", "pace_of", "with_time_left"]

CUT: Final = object()
"""Stands for what came of a call that was cut or left: nobody knows."""
_HEDGED = frozenset({Effect.READ_ONLY, Effect.KEYED})


class Second:
    """The second call of one attempt."""

    __slots__ = ("begin", "first", "live", "started", "step")

    def __init__(self, live: Live, first: str, step: Step, begin: Begin) -> None:
        self.live = live
        self.first = first
        """The attempt's step."""
        self.step = step
        self.begin = begin
        self.started = False
        """Whether it was sent."""

    def close(self, first: object, other: object) -> object:
        """
        Return what stands for the attempt, of what came of both calls; what is left is settled after it.

        Control flow passes; then a value, the first call's before the other's; then what the first raised.
        """
        if other is not CUT and (first is CUT or (_failed(first) and not _failed(other))):
            first, other = other, first
        left = self._settled(other)
        self.live.owed[self.first] = (self.step.key, left)
        return replace(first, beside=left.executed) if type(first) is Raised else first

    def _settled(self, came: object) -> Settle:
        begin, live = self.begin, self.live
        why = Decision(do="pass", why="of two equal calls, the other's outcome stands")
        made = Settle(at=live.now_ms(), attempt=begin.attempt, rung=begin.rung, decision=why)
        if came is CUT or (type(came) is Raised and came.cause is not None):
            executed = Executed.MAYBE if self.started else Executed.NO
            used: dict[str, float] | None = None if self.started or not begin.reserved else {}
            return replace(made, outcome="cancelled", executed=executed, used=used)
        if type(came) is Raised:
            failure = failure_of(self.step, came, made.at)
            used = {} if begin.reserved and failure.executed is Executed.NO else None
            return replace(made, outcome="failed", executed=failure.executed, failure=failure, used=used)
        tool, used_so = self.step.tool, UNUSED
        if tool.counts_usage:
            used_so = used_by(tool.name, tool.agent.usage, came, begin.reserved, cost_bounded=live.cost_bounded)
        return replace(made, used=used_so.used, uncounted=used_so.uncounted)


def _failed(came: object) -> bool:
    return type(came) is Raised and came.cause is None


def pace_of(call: Call) -> Pace | None:
    """Return what a call's tool is measured by, if a second call may be made beside this one."""
    pace = call.step.tool.pace
    if pace is None or call.begin.effect not in _HEDGED or "!" in call.step.key:
        return None
    return pace


def begin_second(live: Live, call: Call, pace: Pace, barrier: Barrier) -> Second | None:
    """
    Begin a second call if nothing stands in its way; None: it is not made, and nobody waits for that.

    Raises:
        JournalError: As for any begin.
        Fenced: As for any begin.
    """
    step, begin = call.step, call.begin
    if live.halt is not None or live.stopping or live.detached or step.changed or not live.scopes.clear(step):
        return None
    now_ms = live.now_ms()
    admitted = live.admit(step, first=True, deadline_ms=begin.ends_at, now_ms=now_ms, reserved=begin.reserved)
    if not admitted.go or now_ms >= begin.ends_at or not pace.take():
        return None
    beside = copy.copy(step)
    beside.key = sub_key(step.key, HEDGE, live.history.steps[step.key].begun)
    second = replace(begin, at=now_ms, attempt=1, deadline_at=begin.ends_at)
    refused: Admission | None = enter_inline(live, beside, second, barrier)
    return Second(live, step.key, beside, second) if refused is None else None


def with_time_left(call: Call, left_s: float) -> Call:
    """Return the second call's: equal, but for the time it has."""
    injected = call.injected
    if injected is not None and "timeout_s" in injected:
        injected = {**injected, "timeout_s": left_s}
    return Call(call.step, injected, left_s, call.begin)


def hedged_in_threads(live: Live, call: Call, make: Callable[[Call], object], pace: Pace, after_s: float) -> object:
    """
    Make an attempt in a helper thread, and a second call in another once it is slow; leave what is not needed.

    Args:
        live: The run; its lock is not held.
        call: The attempt.
        make: Makes a call where it is called; returns its value, or `Raised`.
        pace: Its tool's.
        after_s: When it is slow.
    """
    clock = live.clock
    ends_s = clock.monotonic_s() + call.timeout_s
    answers: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()
    _start(call, make, lambda outcome: answers.put((True, outcome)))
    first: Any = CUT
    other: Any = CUT
    second: Second | None = None
    wait_s, asked, under_way = min(after_s, call.timeout_s), False, 1
    while under_way:
        try:
            is_first, outcome = answers.get(timeout=max(0.0, wait_s))
        except queue.Empty:
            wait_s = ends_s - clock.monotonic_s()
            if asked or wait_s <= 0:
                break
            asked = True
            with live.lock:
                second = begin_second(live, call, pace, barrier_of(call.begin))
            wait_s = ends_s - clock.monotonic_s()
            if second is not None and wait_s > 0 and answers.empty():
                second.started = True
                under_way += 1
                _start(with_time_left(call, wait_s), make, lambda outcome: answers.put((False, outcome)))
            continue
        first, other = (outcome, other) if is_first else (first, outcome)
        under_way -= 1
        if not _failed(outcome):
            break
        wait_s = ends_s - clock.monotonic_s()
    if first is CUT and (other is CUT or _failed(other)):
        first = Raised(TimeoutError(f"no answer within {call.timeout_s:g} s"), timed_out=True, thread_alive=True)
    elif type(first) is Raised and under_way and other is CUT:
        first = replace(first, thread_alive=True)
    return first if second is None else second.close(first, other)


def _start(call: Call, make: Callable[[Call], object], answer: Callable[[object], None]) -> None:
    import contextvars

    context = contextvars.copy_context()
    name = f"yaoki-{call.step.tool.name}"
    threading.Thread(target=lambda: answer(context.run(make, call)), name=name, daemon=True).start()
