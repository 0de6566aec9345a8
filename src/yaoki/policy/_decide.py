"""
What happens after a failure, in an order that is the contract.

1. control flow, live: pass through
2. the gate: check, ask, or tell
3. `fatal`: end the run
4. `permanent`, `programming`, `capability`, `unknown`: next rung (unknown: unless attempts are allowed)
5. `budget`: a rung with another scope, else pause
6. `semantic`: repair while it can help, else next rung
7. `transient`, `rate_limited`, `overloaded`: exhausted, or stuck on one error: next rung; else retry

Wherever that would leave the ladder while the action is in doubt, a person is asked (or the model told)
instead: no doubt ends silently.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, assert_never

from msgspec import Struct

from yaoki.policy._backoff import full_jitter_s
from yaoki.policy._gate import allows_repeat, in_doubt
from yaoki.policy._retry import OVERLOADED_FACTOR
from yaoki.records import Decision, Effect, Executed, FailureKind, strongest

if TYPE_CHECKING:
    from random import Random

    from yaoki.records import Failure

__all__ = ["Ladder", "decide", "end_of_ladder"]

_HINT_MAX_S = 366 * 86_400.0
"""A server's hint beyond this is no time to come back; it ends the ladder whatever the deadline."""


_LEFT_AT_ONCE = frozenset({"stream.first", "stream.silent"})
"""A model that is slow to start is slow again: another one is asked at once, where there is one."""


class Ladder(Struct, frozen=True, kw_only=True):
    """Where a step stands after a failed attempt: all that `decide` may look at, clock and chance aside."""

    effect: Effect
    """As resolved for these arguments; it stands in the begin."""
    executed: Executed
    """Strongest over the action so far, this failure included, lowered only by a check or a person."""
    attempts: int
    """Begun on this rung, the failed one included."""
    attempts_max: int
    deadline_ms: int
    """End of the ladder on this rung; 0 is none."""
    base_s: float
    cap_s: float
    unknown_attempts: int = 1
    same_error_limit: int = 3
    same_error: int = 1
    """Failures in a row with this fingerprint, this one included."""
    semantic: int = 0
    """Semantic settles so far, this one included."""
    repairs_max: int = 2
    repairable: bool = False
    """The tool takes `feedback`."""
    output_changed: bool = True
    """The rejected output differs from the one rejected before."""
    has_check: bool = False
    check_after_s: float = 5
    """How long after the attempt the receiver may be asked: the request may still be queued there."""
    unsure: Literal["ask", "tell"] = "ask"
    has_rung: bool = False
    """Another rung follows."""
    has_other_scope: bool = False
    """A rung with another scope follows."""
    thread_alive: bool = False
    """The attempt's helper thread still runs; ignored for READ_ONLY and IDEMPOTENT."""
    retries_left: float = math.inf
    retry_wait_left_s: float = math.inf


def decide(failure: Failure, ladder: Ladder, *, now_ms: int, rng: Random, live_control_flow: bool = False) -> Decision:
    """
    Decide what happens after a failure. Pure: the decision is journaled with the failure, and made once.

    A `retry` or `repair` begins at `next_at`, which lies before the deadline; its `wait_ms` is what it takes
    from the run's retry_wait_s. A `check` waits `check_after_s`; it is no attempt, so it takes nothing from
    the run's budgets and is made past the deadline too, where it still spares a person the question.

    Args:
        failure: What happened, classified. Whether it was executed is read from the ladder alone.
        ladder: Where the step stands.
        now_ms: On the deadline's clock.
        rng: The run's own; drawn from only for a retry's jitter.
        live_control_flow: Control flow met in the process that made the attempt; on resume it is decided like
            a death.
    """
    if live_control_flow:
        return Decision(do="pass", why="control flow")
    if not _may_repeat(ladder):
        return _settle_doubt(ladder, now_ms)
    match failure.kind:
        case FailureKind.FATAL:
            return end_of_ladder(ladder, "fatal", do="end")
        case FailureKind.PERMANENT | FailureKind.PROGRAMMING | FailureKind.CAPABILITY:
            return end_of_ladder(ladder, f"{failure.kind.value} failures are not retried")
        case FailureKind.UNKNOWN:
            return _unknown(failure, ladder, now_ms, rng)
        case FailureKind.BUDGET:
            return _budget(ladder, now_ms)
        case FailureKind.SEMANTIC:
            return _semantic(failure, ladder, now_ms)
        case FailureKind.TRANSIENT | FailureKind.RATE_LIMITED | FailureKind.OVERLOADED:
            return _retry(failure, ladder, now_ms, rng)
        case _:  # pragma: no cover - the kinds are closed, and the type checkers hold it
            assert_never(failure.kind)


def end_of_ladder(ladder: Ladder, why: str, *, do: Literal["rung", "end", "pause"] = "rung") -> Decision:
    """
    Leave the ladder: `do`, unless its action is in doubt, which is asked about (or told) first.

    For `decide`, and for whoever ends a ladder without a failure: a refused admission, a missed deadline.
    """
    executed = _executed(ladder)
    if not in_doubt(ladder.effect, executed):
        return Decision(do=do, why=why)
    doubt = "it happened, its result is lost" if executed is Executed.YES else "it may have happened"
    return Decision(do=ladder.unsure, why=f"{why}; {doubt}" if why else doubt)


def _executed(ladder: Ladder) -> Executed:
    """Return whether the action happened; while a thread still works on it, nobody can say it did not."""
    return strongest(ladder.executed, Executed.MAYBE) if ladder.thread_alive else ladder.executed


def _may_repeat(ladder: Ladder) -> bool:
    if ladder.thread_alive and in_doubt(ladder.effect, Executed.MAYBE):
        return False
    return allows_repeat(ladder.effect, ladder.executed)


def _settle_doubt(ladder: Ladder, now_ms: int) -> Decision:
    if ladder.thread_alive:
        # A check's "it did not happen" would mean nothing while the call is still being made.
        return end_of_ladder(ladder, "its thread still runs")
    if ladder.effect is Effect.CHECKED and ladder.has_check and ladder.executed is Executed.MAYBE:
        after_ms = math.ceil(ladder.check_after_s * 1000)
        return Decision(do="check", why="it may have happened", next_at=now_ms + after_ms)
    return end_of_ladder(ladder, "")


def _unknown(failure: Failure, ladder: Ladder, now_ms: int, rng: Random) -> Decision:
    if ladder.attempts >= ladder.unknown_attempts:
        allowed = ladder.unknown_attempts
        why = f"attempts {ladder.attempts} of {allowed} for unknown failures" if allowed > 1 else "unknown failure"
        return end_of_ladder(ladder, why)
    return _retry(failure, ladder, now_ms, rng)


def _budget(ladder: Ladder, now_ms: int) -> Decision:
    if ladder.has_other_scope:
        return end_of_ladder(ladder, "budget used up; another scope follows")
    if why := _exhausted(ladder, now_ms, 0):
        # Nobody is made to wait for a top-up that no attempt is left to use.
        return end_of_ladder(ladder, why)
    return end_of_ladder(ladder, "budget used up", do="pause")


def _semantic(failure: Failure, ladder: Ladder, now_ms: int) -> Decision:
    if not ladder.repairable:
        return end_of_ladder(ladder, "the tool takes no feedback")
    if ladder.semantic > ladder.repairs_max:
        return end_of_ladder(ladder, f"repairs {ladder.repairs_max} of {ladder.repairs_max}")
    if not ladder.output_changed:
        return end_of_ladder(ladder, "the same output again")
    return _again("repair", ladder, now_ms, _hint_ms(failure))


def _retry(failure: Failure, ladder: Ladder, now_ms: int, rng: Random) -> Decision:
    doubt = in_doubt(ladder.effect, ladder.executed)
    if failure.reason in _LEFT_AT_ONCE and ladder.has_other_scope and not doubt:
        return end_of_ladder(ladder, "it is silent; another scope follows")
    if ladder.same_error >= ladder.same_error_limit and ladder.has_rung and not doubt:
        # In doubt no other tool may be called, so there is no rung to prefer.
        return end_of_ladder(ladder, f"the same error {ladder.same_error} times")
    factor = OVERLOADED_FACTOR if failure.kind is FailureKind.OVERLOADED else 1
    jitter_s = full_jitter_s(ladder.attempts, base_s=ladder.base_s * factor, cap_s=ladder.cap_s, rng=rng)
    return _again("retry", ladder, now_ms, max(_hint_ms(failure), int(jitter_s * 1000)))


def _again(do: Literal["retry", "repair"], ladder: Ladder, now_ms: int, wait_ms: int) -> Decision:
    if why := _exhausted(ladder, now_ms, wait_ms):
        return end_of_ladder(ladder, why)
    why = f"attempt {ladder.attempts + 1} of {ladder.attempts_max}"
    return Decision(do=do, why=why, next_at=now_ms + wait_ms, wait_ms=wait_ms)


def _hint_ms(failure: Failure) -> int:
    """Return the server's hint, rounded up; one that is no time at all counts as beyond every bound."""
    hint_s = failure.retry_after_s or 0.0
    return math.ceil(min(max(0.0, hint_s), 2 * _HINT_MAX_S) * 1000)


def _exhausted(ladder: Ladder, now_ms: int, wait_ms: int) -> str:
    """Return why no further attempt fits after `wait_ms`, or nothing. Bounds that no wait changes come first."""
    if ladder.attempts >= ladder.attempts_max:
        return f"attempts {ladder.attempts} of {ladder.attempts_max}"
    if wait_ms > _HINT_MAX_S * 1000:
        return "the server names no time to come back"
    if ladder.deadline_ms and now_ms + wait_ms >= ladder.deadline_ms:
        left_s = (ladder.deadline_ms - now_ms) / 1000
        return "deadline" if left_s <= 0 else f"deadline: {left_s:.1f} s left, wait {wait_ms / 1000:.1f} s"
    if ladder.retries_left < 1:
        return "retry budget used up"
    if wait_ms / 1000 > ladder.retry_wait_left_s:
        return "retry wait budget used up"
    return ""
