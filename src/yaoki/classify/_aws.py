"""
AWS by botocore's own classes: configuration, credentials, parameters.

Connections of botocore are among the HTTP clients. What a service answered (`ClientError`) is judged like any
answer: the code in `response["Error"]`, else the HTTP status beside it; of text alone, the code it quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from yaoki.classify._codes import judge_code
from yaoki.classify._later import later
from yaoki.classify._patterns import pattern
from yaoki.classify._status import failure_of_status
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["CODES", "judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"botocore", "boto3", "s3transfer"})

_CLASSES: Final = table(
    "aws.class",
    "class",
    # Asked of the machine's metadata service or an identity provider before anything is signed and sent.
    (_K.TRANSIENT, _NO, Scope.KEY, "aws.{}", ("CredentialRetrievalError MetadataRetrievalError TokenRetrievalError"
     " BadIMDSRequestError _RetriesExceededError")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "aws.{}", ("ChecksumError FlexibleChecksumError ParserError"
     " ResponseParserError EndpointDiscoveryRefreshFailed HTTPClientError RetriesExceededError")),
    (_K.PERMANENT, _NO, Scope.KEY, "aws.{}",
     ("NoCredentialsError PartialCredentialsError NoAuthTokenError UnauthorizedSSOTokenError SSOError SSOTokenLoadError"
     " LoginError ProfileNotFound ConfigNotFound ConfigParseError UnknownCredentialError UnknownTokenProviderError"
     " RefreshWithMFAUnsupportedError InfiniteLoopConfigError InvalidConfigError")),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "aws.{}", "WaiterError PaginationError"),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "aws.{}", "CapacityNotAvailableError"),
    # Everything else botocore raises it raises before it sends: a parameter, a region, a name it does not know.
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "aws.{}",
     ("BotoCoreError UndefinedModelAttributeError InvalidShapeError InvalidShapeReferenceError NoShapeFoundError"
     " OperationNotFoundError InvalidArnException Boto3Error")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "aws.{}", "S3UploadFailedError TransferNotDoneError"),
    hints={"NoCredentialsError": "No credentials were found: configure a profile, a role or keys."},
)  # fmt: skip

CODES: Final = table(
    "vendor.aws",
    "body.code",
    (_K.RATE_LIMITED, _NO, Scope.KEY, "{}",
     ("throttling throttling_exception throttled_exception request_throttled_exception request_throttled"
      " too_many_requests_exception provisioned_throughput_exceeded_exception request_limit_exceeded"
      " bandwidth_limit_exceeded ec2_throttled_exception")),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "{}",
     "slow_down service_unavailable_exception service_unavailable insufficient_instance_capacity"),
    (_K.BUDGET, _NO, Scope.KEY, "{}", "service_quota_exceeded_exception"),
    (_K.TRANSIENT, _NO, Scope.MODEL, "{}", "model_not_ready_exception"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "{}", ("transaction_in_progress_exception transaction_conflict_exception"
     " prior_request_not_complete")),
    (_K.TRANSIENT, _MAYBE, Scope.MODEL, "{}",
     "model_timeout_exception model_stream_error_exception model_error_exception"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "{}",
     ("request_timeout request_timeout_exception internal_server_exception internal_failure internal_error"
      " internal_server_error internal_service_exception dependency_failed_exception")),
    (_K.PERMANENT, _NO, Scope.KEY, "{}",
     ("access_denied_exception access_denied unrecognized_client_exception expired_token_exception expired_token"
      " invalid_signature_exception signature_does_not_match invalid_client_token_id request_time_too_skewed"
      " request_expired incomplete_signature missing_authentication_token missing_authentication_token_exception"
      " not_authorized opt_in_required auth_failure invalid_access_key_id")),
    (_K.PERMANENT, _NO, Scope.MODEL, "{}", "resource_not_found_exception"),
    hints={
        "service_quota_exceeded_exception": "A quota of the account: ask for more, or use another region.",
        "request_time_too_skewed": "This machine's clock is wrong.",
    },
)  # fmt: skip
"""By the name in the answer, as spelled here: small letters, words apart."""

_CONNECTIONS: Final = frozenset(
    f"botocore.{own}"
    for own in [
        "ConnectionError",
        "HTTPClientError",
        "IncompleteReadError",
        "ResponseStreamingError",
        "ReadTimeoutError",
        "ConnectionClosedError",
        "SSLError",
    ]
)


_QUOTED: Final = pattern(r"An error occurred \(([\w.]{1,100})\) when calling the (\w{1,100}) operation")


class _Answer(Struct):
    """What a service answered, in the shape of any client's response."""

    status_code: int | None
    headers: dict[object, object]
    body: dict[str, object]


def judge(evidence: Evidence) -> Failure | None:
    """Judge an answer by its code and status, anything but a connection by its class."""
    if evidence.is_a("botocore.ClientError"):
        return _answered(evidence)
    if evidence.is_a(*_CONNECTIONS):
        return None
    return by_class(evidence, _PACKAGES, _CLASSES)


def _answered(evidence: Evidence) -> Failure | None:
    response = _fields(evidence.get("response"))
    error, about = _fields(response.get("Error")), _fields(response.get("ResponseMetadata"))
    status = about.get("HTTPStatusCode")
    known = status if type(status) is int and 100 <= status <= 599 else evidence.status
    code, said = error.get("Code"), error.get("Message")
    if not isinstance(code, str) and (quoted := _QUOTED.search(evidence.message)):
        code, said = quoted[1], evidence.message[quoted.end() :]
    body: dict[str, object] = {"code": code if isinstance(code, str) else "", "message": said}
    answer = evidence.under(_Answer(known, _fields(about.get("HTTPHeaders")), body))
    found = judge_code(answer) or (failure_of_status(known) if known is not None else None)
    if found is None:
        return None
    wait_s = None
    if found.kind in _HEALING:
        wait_s = later(answer.headers, said if isinstance(said, str) else "", evidence.now_ms)
    return Failure(
        kind=found.kind,
        reason=found.reason,
        executed=_NO if known == 503 and "retry-after" in answer.headers else found.executed,
        scope=found.scope,
        retry_after_s=found.retry_after_s if wait_s is None else wait_s,
        evidence=f"{found.evidence.partition(' ')[0]} aws.answer",
        hint=found.hint,
    )


def _fields(value: object) -> dict[object, object]:
    return cast("dict[object, object]", value) if type(value) is dict else {}


_HEALING: Final = frozenset({_K.TRANSIENT, _K.RATE_LIMITED, _K.OVERLOADED})
