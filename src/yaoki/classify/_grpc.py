"""
gRPC by its status code, and what Google's services add in the trailing metadata.

Codes: grpc.io "Status codes", AIP-193 and AIP-194. Refusals (a code of the 4xx sort) executed nothing. Trailers:
`grpc-status-details-bin` holds a google.rpc.Status with RetryInfo, QuotaFailure and ErrorInfo;
`grpc-retry-pushback-ms` is the server's own word on retrying (gRFC A6: negative means do not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from yaoki.classify._codes import judge_code
from yaoki.classify._patterns import pattern
from yaoki.classify._phrases import judge_prose
from yaoki.classify._protobuf import rpc_status
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE

_CODES: Final = table(
    "grpc.code",
    "grpc.code",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "grpc.{}", "UNAVAILABLE DEADLINE_EXCEEDED INTERNAL"),
    # "The client should retry at a higher level": the transaction was aborted.
    (_K.TRANSIENT, _NO, Scope.REQUEST, "grpc.{}", "ABORTED"),
    (_K.RATE_LIMITED, _NO, Scope.KEY, "grpc.{}", "RESOURCE_EXHAUSTED"),
    (_K.PERMANENT, _NO, Scope.KEY, "grpc.{}", "PERMISSION_DENIED UNAUTHENTICATED"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "grpc.{}",
     "INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS FAILED_PRECONDITION OUT_OF_RANGE"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "grpc.{}", "UNIMPLEMENTED"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "grpc.{}", "CANCELLED DATA_LOSS"),
    # What a Python server answers when its handler raised: as a bug of the other side, not tried again.
    (_K.UNKNOWN, _MAYBE, Scope.VENDOR, "grpc.{}", "UNKNOWN"),
)  # fmt: skip

_CLASSES: Final = table(
    "grpc.class",
    "class",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout", "FutureTimeoutError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "grpc.{}",
     "InternalError ExecuteBatchError _RequestCallError _ServerStoppedError _WatchConnectivityFailed"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "grpc.{}", "UsageError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "grpc.{}", "AbortError AioRpcStatus BaseError"),
)  # fmt: skip

_SAID: Final = table(
    "grpc.details",
    "message",
    (_K.TRANSIENT, _NO, Scope.VENDOR, "net.connect", "refused"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "dns.EAI_NONAME", "no_name"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "dns.EAI_AGAIN", "dns"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "tls.handshake", "tls"),
    (_K.CAPABILITY, _MAYBE, Scope.REQUEST, "grpc.too_large", "too_large"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "grpc.too_large", "sent_too_large"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "grpc.pushback", "pushback"),
)

_DETAILS: Final = (
    ("no_name", pattern(r"DNS resolution failed[^\n]{0,300}(not found|name or service not known|NXDOMAIN|no address)")),
    ("dns", pattern(r"DNS resolution failed|name resolution")),
    ("tls", pattern(r"Ssl handshake failed|certificate verify failed|CERTIFICATE_VERIFY_FAILED|TSI_|WRONG_VERSION")),
    ("refused", pattern(r"[Cc]onnection refused|No route to host|Network is unreachable|failed to connect to all add")),
)  # fmt: skip
_TOO_LARGE: Final = pattern(r"(Sent|Received|CLIENT: Received|SERVER: Received)? ?message larger than max")
_CODE: Final = pattern(r"status = StatusCode\.([A-Z_]{2,30})")
_DETAIL: Final = pattern(r'details = "([^\n]{0,4000})"')
_TRAILERS_MAX: Final = 64
_PUSHBACK: Final = "grpc-retry-pushback-ms"


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the code; where the connection failed or something ran out, by the details too."""
    code = _code_of(evidence)
    if code is None:
        return by_class(evidence, {"grpc"}, _CLASSES)
    found = _CODES.get(code)
    if found is None:
        return None
    details, trailers = _details_of(evidence), _trailers_of(evidence)
    if code == "RESOURCE_EXHAUSTED":
        found = _exhausted(evidence, details, trailers) or found
    elif code == "UNAVAILABLE":
        found = next((_SAID[key] for key, words in _DETAILS if words.search(details)), None) or _said(
            evidence, details, found
        )
    elif code == "INTERNAL" and _TOO_LARGE.search(details):
        found = _SAID["too_large"]
    return _pushed_back(found, trailers)


def _code_of(evidence: Evidence) -> str | None:
    name = evidence.under(evidence.call("code")).get("name")
    if isinstance(name, str):
        return name
    said = _CODE.search(evidence.message[:2000])
    return said[1] if said else None


def _details_of(evidence: Evidence) -> str:
    found = evidence.call("details")
    if not isinstance(found, str):
        said = _DETAIL.search(evidence.message)
        found = said[1] if said else ""
    return found[:4000]


def _trailers_of(evidence: Evidence) -> dict[str, str | bytes]:
    found = evidence.call("trailing_metadata")
    trailers: dict[str, str | bytes] = {}
    if found is None:
        return trailers
    try:
        for pair in list(cast("list[object]", found))[:_TRAILERS_MAX]:
            key, value = cast("tuple[object, object]", pair)
            if isinstance(key, str) and isinstance(value, (str, bytes)):
                trailers[key.lower()] = value
    except Exception:  # noqa: BLE001 - metadata of a stranger may be anything
        return trailers
    return trailers


def _exhausted(evidence: Evidence, details: str, trailers: dict[str, str | bytes]) -> Failure | None:
    """Tell a rate from a quota and from a message that is too large."""
    if said := _TOO_LARGE.search(details):
        return _SAID["sent_too_large" if (said[1] or "") == "Sent" else "too_large"]
    packed = trailers.get("grpc-status-details-bin")
    body = rpc_status(packed) if isinstance(packed, bytes) else {}
    found = None
    if body:
        answer = evidence.under({"error": {**body, "status": "RESOURCE_EXHAUSTED", "message": details}})
        found = judge_code(answer)
    found = found or _prose(evidence, details)
    wait_s = body.get("retry_s")
    if found is None and not isinstance(wait_s, float):
        return None
    base = found or _CODES["RESOURCE_EXHAUSTED"]
    return Failure(
        kind=base.kind,
        reason=f"grpc.RESOURCE_EXHAUSTED.{base.reason.rpartition('.')[2]}" if found else base.reason,
        executed=_NO,
        scope=base.scope,
        retry_after_s=wait_s if isinstance(wait_s, float) else base.retry_after_s,
        evidence=f"{base.evidence.partition(' ')[0]} grpc.code",
        hint=base.hint,
    )


def _prose(evidence: Evidence, details: str) -> Failure | None:
    return judge_prose(evidence.under(details)) if details else None


def _said(evidence: Evidence, details: str, found: Failure) -> Failure:
    """Return `overloaded` where a server that answers UNAVAILABLE says so in words."""
    said = _prose(evidence, details)
    if said is None or said.kind is not _K.OVERLOADED:
        return found
    return Failure(
        kind=_K.OVERLOADED, reason="grpc.UNAVAILABLE", executed=_NO, scope=Scope.MODEL, evidence="message grpc.details"
    )


def _pushed_back(found: Failure, trailers: dict[str, str | bytes]) -> Failure:
    """Follow the server's word on retrying where it gives one."""
    said = trailers.get(_PUSHBACK)
    if not isinstance(said, str) or found.kind not in {_K.TRANSIENT, _K.RATE_LIMITED, _K.OVERLOADED}:
        return found
    try:
        wait_ms = int(said)
    except ValueError:
        wait_ms = -1  # gRFC A6: what is no number means "do not retry" too
    if wait_ms < 0:
        return _SAID["pushback"] if found.executed is _NO else Failure(
            kind=_K.PERMANENT, reason="grpc.pushback", scope=Scope.VENDOR, evidence="directive grpc.details"
        )  # fmt: skip
    return Failure(
        kind=found.kind,
        reason=found.reason,
        executed=found.executed,
        scope=found.scope,
        retry_after_s=wait_ms / 1000,
        evidence=found.evidence,
        hint=found.hint,
    )
