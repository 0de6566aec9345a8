"""
What a failure means for the same request, sent again as it is; and what Yaoki does about it, in a sentence.

The decision itself is the policy's, and knows more: the effect's kind, attempts, budgets, breakers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from yaoki.records import Executed, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.records import Failure

__all__ = ["Resend", "resend", "treatment"]

_K = FailureKind
_HEALING: Final = frozenset({_K.TRANSIENT, _K.RATE_LIMITED, _K.OVERLOADED})

Resend: TypeAlias = Literal["yes", "no", "if_idempotent", "after_action"]


def resend(failure: Failure) -> Resend:
    """
    Say whether the same request, sent again as it is, can succeed.

    `if_idempotent`: it can, and it may have been acted upon already. `after_action`: only after something
    outside it has changed, such as a key, a balance or a permission.
    """
    if failure.kind in _HEALING:
        return "yes" if failure.executed is Executed.NO else "if_idempotent"
    if failure.kind is _K.BUDGET or (failure.kind is _K.PERMANENT and failure.scope is Scope.KEY):
        return "after_action"
    return "no"


TREATMENT: Final = {
    _K.TRANSIENT: "retries with full jitter from 0.5 s",
    _K.RATE_LIMITED: "waits as long as the server says, and so does every run on that scope; then retries",
    _K.OVERLOADED: "retries with full jitter from 5 s; counts for the breaker",
    _K.PERMANENT: "never retries; the next rung of the ladder at once",
    _K.BUDGET: "never resends to the same account: a rung with another scope, else the run waits for a top-up",
    _K.CAPABILITY: "never resends it as it is; the next rung of the ladder",
    _K.SEMANTIC: "asks again with the error, where the tool can be told; else the next rung",
    _K.PROGRAMMING: "never retries: it would hide the bug",
    _K.FATAL: "ends the run with what it has",
    _K.UNKNOWN: "treats it as permanent, unless a policy allows attempts",
}
"""By kind, after the gate has let it pass."""

_GATED: Final = {
    Executed.NO: "",
    Executed.MAYBE: "; first, unless repeating is harmless, it is asked whether it happened",
    Executed.YES: "; it happened, so only what only reads or is idempotent is called again",
}


def treatment(failure: Failure) -> str:
    """Return in a sentence what Yaoki does after this failure."""
    return f"{TREATMENT[failure.kind]}{_GATED[failure.executed]}"
