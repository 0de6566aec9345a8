"""
Decide whether an action's call may be made again, given what is known about whether it happened.

    kind                      no     maybe                          yes
    READ_ONLY, IDEMPOTENT     yes    yes                            yes
    KEYED                     yes    yes, same key and same tool    no
    CHECKED                   yes    no: the check first            no
    AT_MOST_ONCE              yes    no                             no

The gate comes first in every decision. What it forbids is not only the retry: a repair, a fallback or any
other strategy would call a tool for the same action (a charge at vendor B after a timeout at vendor A).
"""

from __future__ import annotations

import re

from yaoki.records import Effect, Executed, Failure, FailureKind

__all__ = ["allows_repeat", "in_doubt", "keyed_conflict"]

_FREE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})

_IN_PROGRESS = re.compile(
    r"in[ _-]?progress|in[ _-]use|(?:still|being|currently) (?:being )?process|outstanding|concurrent",
    re.IGNORECASE,
)


def allows_repeat(effect: Effect, executed: Executed) -> bool:
    """Return whether the same tool may be called again for the action, with the same key."""
    if executed is Executed.NO or effect in _FREE:
        return True
    return effect is Effect.KEYED and executed is Executed.MAYBE


def in_doubt(effect: Effect, executed: Executed) -> bool:
    """Return whether a ladder without a value must ask before it ends: an effect that may have, or has, happened."""
    return executed is not Executed.NO and effect not in _FREE


def keyed_conflict(failure: Failure, effect: Effect, executed_before: Executed) -> Failure:
    """
    Read a 409 to a repeated key: the receiver has met this key before, so it knows about the action.

    Only for a KEYED action that was already `maybe`; any other failure is returned unchanged. "In progress" (as
    in the IETF draft `Idempotency-Key` HTTP header field, section 2.6, and Stripe's
    `idempotency_key_in_use`), or a 409 with a time to come back: `transient`, still `maybe`. Any other 409 is
    taken for a duplicate: it happened, and its value is lost. Either mistake is safe: the one costs a
    retry with the same key, the other a question.
    """
    repeated = effect is Effect.KEYED and executed_before is Executed.MAYBE
    if not repeated or not (failure.reason == "http.409" or failure.reason.startswith("http.409.")):
        return failure
    said = f"{failure.reason} {failure.message}"
    if failure.retry_after_s is not None or _IN_PROGRESS.search(said):
        return _recast(failure, FailureKind.TRANSIENT, Executed.MAYBE, "keyed.in_progress")
    return _recast(failure, failure.kind, Executed.YES, "keyed.duplicate")


def _recast(failure: Failure, kind: FailureKind, executed: Executed, rule: str) -> Failure:
    return Failure(
        kind=kind,
        reason=failure.reason,
        message=failure.message,
        executed=executed,
        scope=failure.scope,
        retry_after_s=failure.retry_after_s,
        evidence=f"{failure.evidence} {rule}".strip(),
        fingerprint=failure.fingerprint,
        hint=failure.hint,
    )
