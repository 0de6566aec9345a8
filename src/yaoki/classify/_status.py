"""
HTTP status: what it says when nothing speaks more precisely.

Executed follows RFC 9110 and the gateways' own pages: a 4xx, 429 or 529 refused; 500, 502, 504 and a bare
503 may have acted; a 503 with Retry-After refused. 521, 523, 525 and 526 are a gateway's word that the
origin was never spoken to (Cloudflare, "5xx errors").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._rule import Rule
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "executed_by_status", "failure_of_status"]

_K = FailureKind
_OK, _REDIRECT, _CLIENT, _SERVER = 200, 300, 400, 500

_STATUSES: Final[dict[int, tuple[FailureKind, Scope]]] = {
    401: (_K.PERMANENT, Scope.KEY),
    402: (_K.BUDGET, Scope.KEY),
    403: (_K.PERMANENT, Scope.KEY),
    407: (_K.PERMANENT, Scope.KEY),
    408: (_K.TRANSIENT, Scope.REQUEST),
    413: (_K.CAPABILITY, Scope.REQUEST),
    414: (_K.CAPABILITY, Scope.REQUEST),
    421: (_K.TRANSIENT, Scope.REQUEST),
    423: (_K.TRANSIENT, Scope.REQUEST),
    424: (_K.TRANSIENT, Scope.MODEL),
    425: (_K.TRANSIENT, Scope.REQUEST),
    429: (_K.RATE_LIMITED, Scope.KEY),
    431: (_K.CAPABILITY, Scope.REQUEST),
    499: (_K.TRANSIENT, Scope.REQUEST),
    501: (_K.PERMANENT, Scope.REQUEST),
    503: (_K.OVERLOADED, Scope.VENDOR),
    505: (_K.PERMANENT, Scope.REQUEST),
    506: (_K.PERMANENT, Scope.REQUEST),
    507: (_K.PERMANENT, Scope.VENDOR),
    508: (_K.PERMANENT, Scope.REQUEST),
    510: (_K.PERMANENT, Scope.REQUEST),
    511: (_K.PERMANENT, Scope.PROCESS),
    526: (_K.PERMANENT, Scope.VENDOR),
    529: (_K.OVERLOADED, Scope.MODEL),
}

_REFUSED: Final = frozenset({501, 505, 506, 511, 521, 523, 525, 526, 529})
_UNSURE: Final = frozenset({499})
"""nginx's word for a client that left while the server was at it."""


def failure_of_status(status: int) -> Failure:
    """Return what a status alone says."""
    if status in _STATUSES:
        kind, scope = _STATUSES[status]
    elif status >= _SERVER:
        kind, scope = _K.TRANSIENT, Scope.VENDOR
    elif status >= _REDIRECT:
        kind, scope = _K.PERMANENT, Scope.REQUEST
    else:
        kind, scope = _K.UNKNOWN, Scope.REQUEST
    return Failure(
        kind=kind, reason=f"http.{status}", scope=scope, executed=executed_by_status(status), evidence="status"
    )


def executed_by_status(status: int) -> Executed:
    """Return whether a request answered with this status was acted upon."""
    if status in _REFUSED or (_CLIENT <= status < _SERVER and status not in _UNSURE):
        return Executed.NO
    return Executed.YES if _OK <= status < _REDIRECT else Executed.MAYBE


def _judge(evidence: Evidence) -> Failure | None:
    status = evidence.status
    if status is None:
        return None
    if status == 409 and (known := _conflict(evidence)):
        return known
    return failure_of_status(status)


def _conflict(evidence: Evidence) -> Failure | None:
    """Tell the two conflicts an idempotency key meets: the first request still runs, or has been done."""
    said = " ".join([*evidence.body.codes, evidence.prose])[:4000].lower().replace("_", " ")
    if any(
        word in said for word in ("in progress", "in flight", "in use", "being processed", "concurrent", "try again")
    ):
        return Failure(kind=_K.TRANSIENT, reason="http.409.in_progress", executed=Executed.NO, evidence="body.message")
    if any(word in said for word in ("duplicate", "already processed", "already been processed")):
        return Failure(
            kind=_K.PERMANENT,
            reason="http.409.duplicate",
            executed=Executed.NO,
            evidence="body.message",
            hint="The receiver has met this request before; look there whether it was done.",
        )
    return None


RULES = (Rule(name="http.status", stage="status", judge=_judge),)
