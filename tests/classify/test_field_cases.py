"""
Cases from the field, each by the error at its heart: that it is treated as the case asks.

The names are the issues the cases were met in; what else they ask for (leases, receipts, repair of a history)
is the runtime's, and held there.
"""

from __future__ import annotations

import asyncio
import sqlite3
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.classify.rebuilt import built
from yaoki.classify import Executed, FailureKind, classify, is_control_flow

K, NO, MAYBE, YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES


def named(*mro: str) -> Any:
    return built((*mro, "builtins.Exception"))


def answer(status: int, text: str = "", **headers: str) -> object:
    return SimpleNamespace(status_code=status, text=text, headers=headers)


def mcp(code: int, message: str) -> BaseException:
    error = named("mcp.shared.exceptions.McpError")(message)
    error.error = SimpleNamespace(code=code, message=message, data=None)
    return error


CASES: list[tuple[str, object, FailureKind, Executed]] = [
    ("langgraph#8136", sqlite3.OperationalError("database is locked"), K.TRANSIENT, NO),
    ("langgraph#4231", named("langgraph.errors.GraphRecursionError", "builtins.RecursionError")("limit"),
     K.CAPABILITY, MAYBE),
    ("langgraph#8702", TimeoutError(), K.TRANSIENT, MAYBE),
    ("langgraph#6486", ValueError("boom"), K.PROGRAMMING, MAYBE),
    ("langchain#38893", KeyError("choices"), K.PROGRAMMING, MAYBE),
    ("pydantic-ai#931", named("pydantic_ai.exceptions.UsageLimitExceeded")("request_limit of 2"), K.BUDGET, MAYBE),
    ("pydantic-ai#4953", httpx.RemoteProtocolError("peer closed connection"), K.TRANSIENT, MAYBE),
    ("pydantic-ai-harness#775", httpx.ReadTimeout("timed out"), K.TRANSIENT, MAYBE),
    ("openai-agents#844", named("agents.exceptions.MaxTurnsExceeded")("Max turns (3) exceeded"), K.CAPABILITY, MAYBE),
    ("openai-agents#2204", named("agents.exceptions.ModelBehaviorError")("Tool x not found"), K.SEMANTIC, YES),
    ("instructor#2273", named("instructor.core.exceptions.IncompleteOutputException")("max_tokens"),
     K.CAPABILITY, YES),
    ("python-sdk#1577", mcp(-32000, "Connection closed"), K.TRANSIENT, MAYBE),
    ("python-sdk#1789", mcp(-32001, "Timed out while waiting for response to ClientRequest. Waited 2.0 seconds."),
     K.TRANSIENT, MAYBE),
    ("qwen-code#5381", mcp(-32602, "Invalid params"), K.SEMANTIC, NO),
    ("claude-code#52864", answer(429, "rate limited", **{"retry-after": "18000"}), K.RATE_LIMITED, NO),
    ("agentarea#320", answer(400, '{"error": {"message": "bad"}}'), K.PERMANENT, NO),
    ("OpenBitFun#2690 401", answer(401), K.PERMANENT, NO),
    ("OpenBitFun#2690 413", answer(413), K.CAPABILITY, NO),
    ("OpenBitFun#2690 context", answer(400, '{"error": {"code": "context_length_exceeded"}}'), K.CAPABILITY, NO),
    ("litellm#40130", answer(429, "", **{"retry-after": "1"}), K.RATE_LIMITED, NO),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind", "executed"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_error_of_a_case_is_what_the_case_asks_for(error: object, kind: FailureKind, executed: Executed) -> None:
    assert not isinstance(error, BaseException) or not is_control_flow(error)
    failure = classify(error, now_ms=0)
    assert (failure.kind, failure.executed) == (kind, executed), failure


@pytest.mark.parametrize(
    "error",
    [
        named("pydantic_ai.exceptions.ModelRetry")("again"),
        named("pydantic_ai.exceptions.ApprovalRequired")(""),
        named("langgraph.errors.GraphInterrupt", "langgraph.errors.GraphBubbleUp")(""),
        asyncio.CancelledError(),
    ],
    ids=["pydantic-ai#3298", "pydantic-ai#6370", "langgraph#8837", "openai-agents#2584"],
)
def test_what_steers_a_framework_is_no_failure(error: BaseException) -> None:
    assert is_control_flow(error)


def test_a_wrapper_of_retries_is_what_it_gave_up_on() -> None:
    """instructor#2273: the same failure, wrapped or not, is the same failure."""
    wrapped = named("instructor.core.exceptions.InstructorRetryException")("gave up")
    assert (classify(wrapped).kind, classify(wrapped).executed) == (K.SEMANTIC, YES)
    wrapped.__cause__ = httpx.ConnectTimeout("timed out")
    assert (classify(wrapped).kind, classify(wrapped).executed) == (K.TRANSIENT, NO)
