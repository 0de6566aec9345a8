"""What is said outright: `TerminalError` and `RetryableError` by the user, `StreamBroken` by our own models."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from yaoki.classify._rule import Rule
from yaoki.errors import RetryableError, StreamBroken, TerminalError
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.classify._evidence import Evidence

__all__ = ["own_rule"]

_DEPTH_MAX = 8


def own_rule(below: Callable[[Evidence], Failure]) -> Rule:
    """Return the rule; `below` classifies what the error was raised from, which alone tells whether it was executed."""

    def judge(evidence: Evidence) -> Failure | None:
        error = evidence.subject
        if not evidence.is_exception or not isinstance(error, (TerminalError, RetryableError, StreamBroken)):
            return None
        cause = below(evidence.cause) if evidence.cause is not None and evidence.depth < _DEPTH_MAX else None
        if isinstance(error, StreamBroken):
            broken = Failure(
                kind=FailureKind.TRANSIENT,
                reason=f"stream.{error.why}",
                executed=Executed.MAYBE,
                scope=Scope.MODEL,
                evidence="yaoki",
            )
            return cause or broken
        executed = cause.executed if cause else Executed.MAYBE
        if error.happened is not None:
            executed = Executed.YES if error.happened else Executed.NO
        scope = cause.scope if cause else Scope.REQUEST
        if isinstance(error, TerminalError):
            return Failure(
                kind=FailureKind.PERMANENT, reason=error.code, executed=executed, scope=scope, evidence="user"
            )
        delay_s = error.delay_s
        if delay_s is None and cause is not None:
            delay_s = cause.retry_after_s
        return Failure(
            kind=FailureKind.TRANSIENT,
            reason=error.code,
            executed=executed,
            scope=scope,
            retry_after_s=_delay_s(delay_s),
            evidence="user",
        )

    return Rule(name="user.errors", stage="user", judge=judge)


def _delay_s(delay_s: object) -> float | None:
    """Return the user's delay if it is one: finite, and not before now."""
    if not isinstance(delay_s, (int, float)) or not isfinite(delay_s):
        return None
    return max(0.0, float(delay_s))
