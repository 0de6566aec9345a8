"""Failures of Yaoki's own making, and what a person or a model reads of any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from yaoki.classify import fingerprint as fingerprint_of
from yaoki.classify import redact
from yaoki.errors import StepFailed
from yaoki.records import Executed, Failure, FailureKind, Scope, strongest

if TYPE_CHECKING:
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step

__all__ = [
    "arguments_changed",
    "last_failure",
    "orphan_refused",
    "own_failure",
    "placed",
    "step_failed",
    "unknown_outcome",
]


def own_failure(kind: FailureKind, reason: str, message: str, executed: Executed) -> Failure:
    return Failure(
        kind=kind,
        reason=reason,
        message=redact(message)[:2000],
        executed=executed,
        scope=Scope.REQUEST,
        evidence=f"yaoki: {reason}",
        fingerprint=fingerprint_of(f"{reason} {message}"),
    )


def last_failure(past: Past) -> Failure:
    if past.last is not None and past.last.failure is not None:
        return past.last.failure
    return own_failure(FailureKind.TRANSIENT, "attempt.cancelled", "the attempt was cancelled", past.executed)


def arguments_changed(step: Step) -> Failure:
    """Return why an attempt was not made: what it would send is not what its key stands for."""
    message = (
        f"{step.tool.name}: its arguments were changed after the call, by the loop or by the tool itself, so it was "
        "not made with them. Give it a copy, and let the tool change none."
    )
    return own_failure(FailureKind.PROGRAMMING, "arguments.changed", message, Executed.NO)


def orphan_refused(step: Step) -> Failure:
    """Return why a call was not made: an earlier pass did something like it, and a person said to stop."""
    message = f"{step.call} was not sent: a person decided so, for an earlier pass did something like it"
    return own_failure(FailureKind.PERMANENT, "outcome.orphan", message, Executed.NO)


def unknown_outcome(past: Past) -> Failure:
    """What the loop or the model is told of an effect nobody can vouch for."""
    if past.lost is not None:
        return past.lost
    last = last_failure(past)
    message = f"the outcome is unknown: it may have happened ({last.reason}). It was not and must not be repeated."
    return own_failure(FailureKind.PERMANENT, "outcome.unknown", message, strongest(past.executed, Executed.MAYBE))


def step_failed(live: Live, step: Step, failure: Failure, attempts: int) -> StepFailed:
    """Return the exception the loop sees: what, where, what next."""
    tried = f" after {attempts} attempt{'s' if attempts > 1 else ''}" if attempts else ""
    message = (
        f"run {live.name}, step {step.tool.name}: gave up{tried} ({failure.reason}). "
        f"Last: {failure.message or failure.kind.value}. See: yaoki show {live.name}"
    )
    return StepFailed(message, failure=failure, run_id=live.name, step=step.key, attempts=attempts)


def placed(failure: Failure, error: BaseException, file: str) -> Failure:
    """Say which exception it was and where: the innermost line in `file`, else the innermost of all."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if name == file or not found.startswith(_HERE):
            found = f"{_HERE if name == file else ''}{name.rpartition('/')[2]}:{line}"
        trace = trace.tb_next
    where = f" ({found.removeprefix(_HERE)})" if found else ""
    return msgspec.structs.replace(failure, message=f"{type(error).__name__}: {failure.message}{where}"[:2000])


_HERE = "\0"
