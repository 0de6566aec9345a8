"""
Failures of agent frameworks: LangGraph and LangChain, Pydantic AI, the OpenAI Agents SDK, Instructor.

Their control flow is told apart elsewhere. A limit of the user's own (turns, recursion, tokens) is
`capability`: the same run meets it again. A model that answered, but wrongly, is `semantic`, and the call was
made. What wraps a vendor's error keeps its status, and is left to the rules about answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE, _YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES
_NAMES: Final = "langgraph langchain langchain_core pydantic_ai pydantic_graph agents instructor"
_PACKAGES: Final = frozenset(_NAMES.split())

_CLASSES: Final = table(
    "frameworks.class",
    "class",
    # The user's own limits. What ran before them ran.
    (_K.CAPABILITY, _MAYBE, Scope.REQUEST, "agent.{}",
     ("GraphRecursionError MaxTurnsExceeded OutputTokenLimitExceeded IncompleteToolCall WorkspaceOutputLimitError"
     " InlinedSchemaTooLargeError ArchiveResourceLimitError")),
    (_K.BUDGET, _MAYBE, Scope.REQUEST, "agent.{}", "UsageLimitExceeded"),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "agent.{}", "ConcurrencyLimitExceeded"),
    # The model answered, and the answer is of no use as it is.
    (_K.SEMANTIC, _YES, Scope.REQUEST, "agent.{}",
     "OutputParserException UnexpectedModelBehavior ModelBehaviorError ResponseRejected"),
    (_K.SEMANTIC, _YES, Scope.REQUEST, "agent.{}", "InstructorRetryException ResponseParsingError"),
    (_K.CAPABILITY, _YES, Scope.REQUEST, "agent.{}", "IncompleteOutputException"),
    (_K.PERMANENT, _YES, Scope.REQUEST, "agent.{}", "ContentFilterError ModelRefusalError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "agent.{}",
     ("InputGuardrailTripwireTriggered OutputGuardrailTripwireTriggered ToolInputGuardrailTripwireTriggered"
     " ToolOutputGuardrailTripwireTriggered SuspendedResponseExpired NodeCancelledError UnknownInterruptError"
     " TaskNotFound RunCancelled ExternalEventError WorkspaceReadOnlyError UnsafeZipMemberError"
     " UnsafeTarMemberError InvalidModuleError")),
    # Time.
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout",
     ("NodeTimeoutError RunTimedOut HookTimeoutError ModelTimeoutError ToolTimeoutError ModelRequestTimeout"
     " WorkspaceTimeoutError ExecTimeoutError")),
    # A session with a tool server broke under the call; nobody outside cancelled it.
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "agent.{}",
     ("MCPToolCancellationError _FunctionToolCancelledError _ToolTaskCancellation ExecTransportError"
     " WorkspaceUnavailableError WorkspaceStartError WorkspaceStopError SnapshotPersistError")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "net.broken", "ModelConnectionError"),
    (_K.SEMANTIC, _MAYBE, Scope.REQUEST, "agent.{}",
     ("ToolException ExecNonZeroError ApplyPatchError ApplyPatchDecodeError ApplyPatchFileNotFoundError"
      " WorkspaceReadNotFoundError WorkspaceWriteTypeError")),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "agent.{}", "SandboxError WorkspaceError"),
    # Where an integration names the kind and keeps no status.
    (_K.PERMANENT, _NO, Scope.KEY, "agent.{}", "ModelAuthenticationError ModelPermissionDeniedError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "agent.{}", "ModelInvalidRequestError ModelRequestRejectedError"),
    (_K.PERMANENT, _NO, Scope.MODEL, "agent.{}", "ModelNotFoundError"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "agent.{}", "ContextOverflowError ModelContextWindowExceededError"),
    (_K.RATE_LIMITED, _NO, Scope.KEY, "agent.{}", "ModelRateLimitError"),
    (_K.BUDGET, _NO, Scope.KEY, "agent.{}", "ModelQuotaExceededError"),
    (_K.OVERLOADED, _NO, Scope.MODEL, "agent.{}", "ModelOverloadedError"),
    (_K.OVERLOADED, _MAYBE, Scope.VENDOR, "agent.{}", "ModelUnavailableError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "agent.{}", "ModelAPIError ModelServerError"),
    # A graph or an agent put together wrongly.
    (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "agent.{}",
     ("UserError InvalidUpdateError EmptyInputError EmptyChannelError GraphBuildingError GraphSetupError"
     " GraphValidationError GraphRuntimeError InvalidNamespaceError TracerException DependenciesError"
     " UnsupportedEventLoopError ConfigurationError _UninspectableArguments _InvalidRawMountManifestError")),
    hints={
        "UsageLimitExceeded": "A limit you set yourself: raise it, or let the run end with what it has.",
        "GraphRecursionError": "The graph took as many steps as it may: see why it does not end.",
    },
)  # fmt: skip


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the class, unless the error carries a vendor's answer, or names its own cause."""
    if evidence.status is not None or evidence.is_a("openai.APIError", "anthropic.APIError"):
        return None
    found = by_class(evidence, _PACKAGES, _CLASSES)
    if found is None:
        return None
    if (says := evidence.get("retryable")) is not None and found.reason.startswith("agent."):
        return _as_said(found, says)
    # The wrapper of an API error without a status: what it was raised from knows more.
    if found.reason in _WRAPPERS and evidence.cause is not None:
        return None
    return found


def _as_said(found: Failure, retryable: object) -> Failure:
    """Follow the sandbox's own word on its errors: `retryable` is True, False or None."""
    if retryable is True and found.kind is _K.PERMANENT:
        return _RETRYABLE
    return found


_WRAPPERS: Final = frozenset({"agent.ModelAPIError", "agent.InstructorRetryException"})

_RETRYABLE: Final = Failure(
    kind=_K.TRANSIENT, reason="agent.retryable", scope=Scope.VENDOR, evidence="directive frameworks.class"
)
