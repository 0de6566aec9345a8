"""
Errors of the model vendors' SDKs, by class.

OpenAI, Anthropic and those generated alike, Google, Mistral, Cohere, LiteLLM, Azure, Ollama, Hugging Face.
What carries an answer is judged by the answer: its code, its sentence, its status. Here is what carries none, or
carries one that misleads: LiteLLM gives its timeouts the status 408 and its lost connections 500, though no
server said either. A connection is judged by what lies beneath it, which knows how far it came.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import structs

from yaoki.classify._anthropic import CODES
from yaoki.classify._codes import judge_code, spelled
from yaoki.classify._http import RULES as _HTTP
from yaoki.classify._phrases import judge_prose
from yaoki.classify._status import failure_of_status
from yaoki.classify._system import judge_system
from yaoki.classify._table import by_class, by_names, table
from yaoki.records import Executed, Failure, FailureKind, Scope, strongest

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge", "package_of"]

_K, _NO, _MAYBE, _YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES

_PACKAGES: Final = frozenset([
    *("openai", "anthropic", "groq", "together", "cerebras", "writerai", "fireworks", "openrouter", "xai_sdk"),
    *("litellm", "google", "vertexai", "mistralai", "cohere", "azure"),
    *("ollama", "huggingface_hub", "text_generation", "replicate", "stripe"),
])  # fmt: skip

_WHATEVER_IT_CARRIES: Final = table(
    "sdk.class",
    "class",
    # The vendor answered; the answer is not what the SDK or the caller asked for.
    (_K.SEMANTIC, _YES, Scope.REQUEST, "sdk.{}", "ResponseValidationError JSONSchemaValidationError"),
    (_K.CAPABILITY, _YES, Scope.REQUEST, "sdk.{}", "LengthFinishReasonError"),
    (_K.PERMANENT, _YES, Scope.REQUEST, "sdk.{}",
     "ContentFilterFinishReasonError BlockedPromptException StopCandidateException"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "sdk.{}", "ContextWindowExceededError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sdk.{}",
     ("ContentPolicyViolationError RejectedRequestError GuardrailRaisedException BlockedPiiEntityError"
      " ImageFetchError CardError IdempotencyError InvalidWebhookSignatureError SignatureVerificationError"
      " APIWebhookValidationError SensitiveDataRouteException")),
    (_K.BUDGET, _NO, Scope.KEY, "sdk.{}", "BudgetExceededError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sdk.{}",
     ("UnsupportedParamsError LiteLLMUnknownProvider ModelNotMappedError UnsupportedFunctionError"
      " FunctionInvocationError MalformedRequestFieldError UnsupportedEndpointError"
      " EndpointNotSupportedByModelError")),
    (_K.SEMANTIC, _YES, Scope.REQUEST, "sdk.{}", "UnknownFunctionCallArgumentError"),
    # No server said 408 or 503.
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout", "Timeout"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "stream.cut", "MidStreamFallbackError"),
    hints={
        "LengthFinishReasonError": "The answer was cut at max_tokens: ask for less, or allow more.",
        "BudgetExceededError": "A budget set in LiteLLM: raise it, or use another key.",
    },
)  # fmt: skip

_CONNECTIONS: Final = table(
    "sdk.class",
    "class",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout",
     "APITimeoutError APIConnectionTimeoutError ServiceResponseTimeoutError InferenceTimeoutError TimeoutException"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "net.broken",
     ("APIConnectionError ServiceResponseError NoResponseError RetryableError ContinuationInterruptedError"
      " TransportError RetryError IncompleteReadError StreamDisconnectedError")),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "net.connect", "ServiceRequestError ServiceRequestTimeoutError"),
)  # fmt: skip
"""Raised where there is no answer. `APIError` alone is what these SDKs raise for an error event in a stream."""

_STATUS: Final = {
    own: status
    for status, names in {
        400: "BadRequestError InvalidRequestError InvalidArgument",
        401: "AuthenticationError UnauthorizedError ClientAuthenticationError Unauthenticated",
        402: "PaymentRequiredError",
        403: "PermissionDeniedError PermissionError ForbiddenError PermissionDenied",
        404: "NotFoundError ResourceNotFoundError NotFound",
        408: "RequestTimeoutError",
        409: "ConflictError Aborted AlreadyExists ResourceExistsError",
        413: "ContentTooLargeError RequestTooLargeError",
        422: "UnprocessableEntityError",
        429: "RateLimitError TooManyRequestsError ResourceExhausted TooManyRequests",
        498: "InvalidTokenError",
        499: "ClientClosedRequestError",
        500: "InternalServerError InternalServerException",
        501: "HTTPNotImplementedError NotImplementedError",
        502: "BadGatewayError",
        503: "ServiceUnavailableError ServiceUnavailable",
        504: "GatewayTimeoutError DeadlineExceededError DeadlineExceeded",
        529: "OverloadedError",
    }.items()
    for own in names.split()
}
"""The status a class stands for, for where only its name is left."""

_ALONE: Final = table(
    "sdk.class",
    "class",
    # Raised while the client is made or its credentials are looked up: nothing was sent.
    (_K.PERMANENT, _NO, Scope.KEY, "sdk.{}",
     ("OpenAIError AnthropicError GroqError TogetherError CerebrasError WriterError CredentialsError"
      " IdentityTokenFileError DefaultCredentialsError RefreshError GoogleAuthError CredentialUnavailableError"
      " OAuthError SubjectTokenError ServiceAccountTokenError MCPAuthException AwsAuthError")),
    # An error event in a stream that says nothing anybody knows.
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "stream.error", "APIError"),
    (_K.SEMANTIC, _MAYBE, Scope.REQUEST, "json.malformed", "UnknownApiResponseError DecodeError ParsingError"),
    (_K.SEMANTIC, _YES, Scope.REQUEST, "sdk.{}", "GenerationError IncompleteGenerationError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "sdk.{}",
     "ModelError ComputerUseError RunException ToolLoopMaxRoundsExceeded"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sdk.{}", "LiteLLMException"),
    (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "sdk.{}",
     "RequestError StreamConsumedError StreamClosedError StreamAlreadyConsumed"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sdk.{}",
     ("MissingDependencyError MutuallyExclusiveAuthError APIRemovedInV1 TelemetryConfigurationError"
      " NoPythonImplementationError")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "websocket.closed", "WebSocketConnectionClosedError"),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "sdk.{}", "WebSocketQueueFullError"),
    # What a tool raises for the model to read.
    (_K.SEMANTIC, _MAYBE, Scope.REQUEST, "sdk.{}", "ToolError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sdk.{}", "FileStoreError"),
)  # fmt: skip

_INVALID: Final = Failure(kind=_K.SEMANTIC, reason="sdk.invalid_answer", executed=_YES, evidence="class sdk.class")


def judge(evidence: Evidence) -> Failure | None:
    """Judge what an answer does not: by what lies beneath a connection, by the class, by the status it stands for."""
    found, lost, invalid, in_litellm = _of_classes(evidence.names)
    if found is not None:
        return judge_code(evidence) or found if found.reason == "timeout" and evidence.payload else found
    status = evidence.status
    if invalid:
        return _INVALID if status is None or status < 300 else None
    if lost is not None and (status is None or evidence.is_a("litellm.APIConnectionError")):
        return _beneath(evidence) or judge_code(evidence) or lost
    if status is not None:
        if in_litellm:
            return _beneath(evidence)
        return _by_cause(evidence) if evidence.payload is None else None
    found = judge_code(evidence)
    if found is not None:
        return _in_a_stream(found) if evidence.name == "APIError" else found
    return _by_cause(evidence) or _by_status(evidence) or by_class(evidence, _PACKAGES, _ALONE)


@lru_cache(maxsize=500)
def _of_classes(names: tuple[str, ...]) -> tuple[Failure | None, Failure | None, bool, bool]:
    """
    Return what the class says whatever the error carries, and what it says of a connection.

    And whether it says that the answer was no answer, and whether it is LiteLLM's.
    """
    invalid = names[0].endswith(".APIResponseValidationError") or not _UNREADABLE.isdisjoint(names)
    in_litellm = names[0].startswith("litellm.")
    return (
        by_names(names, _PACKAGES, _WHATEVER_IT_CARRIES),
        by_names(names, _PACKAGES, _CONNECTIONS),
        invalid,
        in_litellm,
    )


_UNREADABLE: Final = frozenset({"openai.APIResponseValidationError", "anthropic.APIResponseValidationError"})


def _in_a_stream(found: Failure) -> Failure:
    """Take back "nothing was done" of an error event: the answer had begun."""
    return structs.replace(found, executed=strongest(found.executed, _MAYBE))


def package_of(own: str) -> str:
    """Return `openai` for a class name of these SDKs; they share them."""
    known = own in _STATUS or own in _CONNECTIONS or own in _WHATEVER_IT_CARRIES or own in _ALONE
    return "openai" if known or own == "APIResponseValidationError" else ""


def _beneath(evidence: Evidence) -> Failure | None:
    """Judge the connection by what the SDK caught: errno, or the HTTP client's own error."""
    for link in evidence.chain()[1:]:
        for rule in _HTTP:
            if found := rule.judge(link):
                return found
        if found := judge_system(link):
            return found
    return None


def _by_cause(evidence: Evidence) -> Failure | None:
    """Judge by the code that Anthropic's class is named after: `RampLimitExceededError`, `BetaScanPendingError`."""
    if not evidence.names[0].startswith("anthropic."):
        return None
    code = spelled(evidence.name).removesuffix("_error")
    return CODES.get(code) or CODES.get(code.removeprefix("beta_"))


def _by_status(evidence: Evidence) -> Failure | None:
    for name in evidence.names:
        package, _, own = name.partition(".")
        if package in _PACKAGES and (status := _STATUS.get(own)):
            found = failure_of_status(status)
            said = judge_prose(evidence)
            if said is not None and said.kind is not found.kind:
                return structs.replace(said, executed=found.executed, evidence="message sdk.status")
            return Failure(
                kind=found.kind,
                reason=found.reason,
                scope=found.scope,
                executed=found.executed,
                evidence="class sdk.status",
            )
    return None
