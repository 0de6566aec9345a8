"""What the user says outright: `TerminalError` and `RetryableError`, and what a step's failure carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.classify._rule import Rule
from yaoki.errors import RetryableError, StepFailed, TerminalError
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.classify._evidence import Evidence

__all__ = ["own_rule"]


def own_rule(below: Callable[[Evidence], Failure]) -> Rule:
    """Return the rule; `below` classifies what the error was raised from, which alone tells whether it was executed."""

    def judge(evidence: Evidence) -> Failure | None:
        error = evidence.subject
        if not isinstance(error, (TerminalError, RetryableError, StepFailed)):
            return None
        if isinstance(error, StepFailed):
            return error.failure
        cause = below(evidence.cause) if evidence.cause is not None else None
        executed = cause.executed if cause else Executed.MAYBE
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
            retry_after_s=None if delay_s is None else max(0.0, float(delay_s)),
            evidence="user",
        )

    return Rule(name="user.errors", stage="user", judge=judge)
