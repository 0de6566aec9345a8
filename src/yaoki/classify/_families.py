"""
Which family knows which library, and its loading when an error of that library is met.

A process that never meets Postgres does not load what is known of Postgres. Families stand before the rules
about bodies: what a driver's error quotes is the caller's own SQL or page, and no server's answer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

import msgspec

from yaoki.classify._rule import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.classify._evidence import Evidence
    from yaoki.records import Failure

__all__ = ["RULES"]

_PACKAGES: Final = {
    "_sql": "psycopg psycopg_pool psycopg2 asyncpg sqlalchemy pg8000 pymysql MySQLdb aiomysql pyodbc oracledb",
    "_sqlite": "sqlite3 apsw aiosqlite",
    "_redis": "redis valkey",
    "_mongo": "pymongo gridfs bson",
    "_grpc": "grpc",
    "_mcp": "mcp mcp_types fastmcp",
    "_browser": "playwright patchright",
    "_aws": "botocore boto3 s3transfer",
    "_sdk": (
        "openai anthropic groq together cerebras writerai litellm google vertexai mistralai cohere azure ollama"
        " huggingface_hub text_generation replicate fireworks xai_sdk openrouter stripe"
    ),
    "_streams": "anyio trio websockets",
    "_mail": "smtplib aiosmtplib",
    "_frameworks": "langgraph langchain langchain_core pydantic_ai pydantic_graph agents instructor",
}
_HOMES: Final = {package: home for home, packages in _PACKAGES.items() for package in packages.split()}
"""A package, and the module here that knows it."""

_CLASSES: Final = {
    "_mcp": "McpError MCPError CallToolResult",
    "_redis": "BusyLoadingError ClusterDownError",
    "_sql": "PendingRollbackError SerializationFailure DeadlockDetected OperationalError IntegrityError"
    " ProgrammingError InterfaceError",
    "_grpc": "AioRpcError _InactiveRpcError _MultiThreadedRendezvous",
    "_browser": "TargetClosedError",
}
_STRAYS: Final = {own: home for home, names in _CLASSES.items() for own in names.split()}
"""Class names that are one library's whatever package says so: a copy, a wrapper, a log that kept the name alone."""

_loaded: dict[str, Callable[[Evidence], Failure | None]] = {}


def _judge(evidence: Evidence) -> Failure | None:
    """Ask the family of the most specific class that has one."""
    subject = evidence.subject
    if type(subject) is str or type(subject) is dict:
        return _judge_value(evidence, cast("str | dict[object, object]", subject))
    for name in evidence.names:
        package, _, own = name.partition(".")
        home = _HOMES.get(package) or (_STRAYS.get(own) if package != "builtins" else None)
        if home is not None:
            judge = _loaded.get(home) or _load(home)
            return judge(evidence)
    return None if evidence.is_exception else _judge_answer(evidence)


def _judge_answer(evidence: Evidence) -> Failure | None:
    """Judge a response of 2xx whose body is JSON-RPC, by that."""
    status, text = evidence.status, evidence.payload
    if status is None or not 200 <= status < 300 or not isinstance(text, str) or '"jsonrpc"' not in text[:_HEAD_MAX]:
        return None
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return _judge(evidence.under(cast("object", value))) if type(value) is dict else None


_HEAD_MAX: Final = 2000


def _judge_value(evidence: Evidence, value: str | dict[object, object]) -> Failure | None:
    """Judge text or parsed JSON: an error or a tool's result of MCP."""
    if isinstance(value, str):
        known = value.startswith("MCP error ")
    else:
        known = "jsonrpc" in value or value.get("isError") is True
    return (_loaded.get("_mcp") or _load("_mcp"))(evidence) if known else None


def _load(home: str) -> Callable[[Evidence], Failure | None]:
    module = import_module(f"yaoki.classify.{home}")
    judge = _loaded[home] = cast("Callable[[Evidence], Failure | None]", module.judge)
    return judge


RULES = (Rule(name="families", stage="body", judge=_judge),)
