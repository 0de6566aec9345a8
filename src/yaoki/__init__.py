"""Yaoki: the runtime that lets agent loops run unattended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.classify import classify
from yaoki.errors import (
    AnswerRefused,
    DeclarationError,
    EncodingError,
    InputMismatch,
    JournalError,
    OutsideBranch,
    OutsideRun,
    Paused,
    RetryableError,
    RunBusy,
    RunFailed,
    RunNotFound,
    RunWaiting,
    StateError,
    StepFailed,
    StoreCorrupt,
    StoreRefused,
    TerminalError,
    Unverified,
    YaokiError,
)
from yaoki.policy import Breaker, Budget, Hedge, Retry
from yaoki.records import Effect, Failure, FailureKind, Group
from yaoki.runtime import (
    INJECTED,
    AsyncRun,
    Feedback,
    ForModel,
    Happened,
    Local,
    NotHappened,
    Receipt,
    Run,
    Runner,
    Settled,
    Toolbox,
    ToolCall,
    ToolResult,
    Usage,
    Verdict,
    loop,
    retry,
    tool,
)

if TYPE_CHECKING:
    from yaoki.runtime import AsyncRunner

__all__ = [
    "INJECTED",
    "AnswerRefused",
    "AsyncRun",
    "AsyncRunner",
    "Breaker",
    "Budget",
    "DeclarationError",
    "Effect",
    "EncodingError",
    "Failure",
    "FailureKind",
    "Feedback",
    "ForModel",
    "Group",
    "Happened",
    "Hedge",
    "InputMismatch",
    "JournalError",
    "Local",
    "NotHappened",
    "OutsideBranch",
    "OutsideRun",
    "Paused",
    "Receipt",
    "Retry",
    "RetryableError",
    "Run",
    "RunBusy",
    "RunFailed",
    "RunNotFound",
    "RunWaiting",
    "Runner",
    "Settled",
    "StateError",
    "StepFailed",
    "StoreCorrupt",
    "StoreRefused",
    "TerminalError",
    "ToolCall",
    "ToolResult",
    "Toolbox",
    "Unverified",
    "Usage",
    "Verdict",
    "YaokiError",
    "classify",
    "loop",
    "retry",
    "tool",
]


def __getattr__(name: str) -> object:
    """Import the async runner, and asyncio with it, when it is asked for."""
    if name == "AsyncRunner":
        from yaoki.runtime import AsyncRunner

        return AsyncRunner
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
