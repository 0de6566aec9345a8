"""
Python's own exceptions, and those of validators.

A bug inside a tool is `programming`, and executed `maybe`: the tool may have acted before it. Output that
does not parse or validate is `semantic`; that too is `maybe`, since a reply that is no JSON may have been a
gateway's page. `yaoki` raises `yes` itself where it knows that the tool returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._rule import Rule
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "quotes_no_server"]

_K = FailureKind


def _group(kind: FailureKind, names: str, executed: Executed, scope: Scope, reason: str = "") -> dict[str, Failure]:
    return {
        f"builtins.{name}": Failure(
            kind=kind, reason=reason or f"python.{name}", executed=executed, scope=scope, evidence="class"
        )
        for name in names.split()
    }


_BUILTIN: Final = {
    **_group(
        _K.PROGRAMMING,
        "TypeError AttributeError NameError UnboundLocalError ImportError ModuleNotFoundError LookupError KeyError"
        " IndexError ValueError UnicodeError UnicodeDecodeError UnicodeEncodeError ArithmeticError ZeroDivisionError"
        " OverflowError FloatingPointError AssertionError NotImplementedError RecursionError SyntaxError"
        " IndentationError StopIteration StopAsyncIteration BufferError ReferenceError SystemError"
        " PythonFinalizationError Warning",
        Executed.MAYBE,
        Scope.REQUEST,
    ),
    **_group(_K.FATAL, "MemoryError", Executed.MAYBE, Scope.PROCESS),
    **_group(_K.TRANSIENT, "TimeoutError", Executed.MAYBE, Scope.VENDOR, "timeout"),
    **_group(_K.TRANSIENT, "ConnectionRefusedError", Executed.NO, Scope.VENDOR, "os.ECONNREFUSED"),
    **_group(_K.TRANSIENT, "ConnectionResetError", Executed.MAYBE, Scope.VENDOR, "os.ECONNRESET"),
    **_group(_K.TRANSIENT, "ConnectionAbortedError", Executed.MAYBE, Scope.VENDOR, "os.ECONNABORTED"),
    **_group(_K.TRANSIENT, "BrokenPipeError", Executed.MAYBE, Scope.VENDOR, "os.EPIPE"),
    **_group(_K.TRANSIENT, "ConnectionError", Executed.MAYBE, Scope.VENDOR),
    **_group(_K.TRANSIENT, "InterruptedError BlockingIOError", Executed.MAYBE, Scope.REQUEST),
    **_group(
        _K.PERMANENT,
        "FileNotFoundError PermissionError FileExistsError IsADirectoryError NotADirectoryError ChildProcessError"
        " ProcessLookupError",
        Executed.MAYBE,
        Scope.REQUEST,
    ),
}

_LIBRARY: Final = {
    "asyncio.IncompleteReadError": Failure(
        kind=_K.TRANSIENT, reason="stream.cut", scope=Scope.VENDOR, evidence="class"
    ),
    "asyncio.LimitOverrunError": Failure(kind=_K.CAPABILITY, reason="stream.too_large", evidence="class"),
    "asyncio.InvalidStateError": Failure(kind=_K.PROGRAMMING, reason="python.InvalidStateError", evidence="class"),
    "asyncio.QueueEmpty": Failure(kind=_K.PROGRAMMING, reason="python.QueueEmpty", evidence="class"),
    "asyncio.QueueFull": Failure(kind=_K.OVERLOADED, reason="python.QueueFull", scope=Scope.PROCESS, evidence="class"),
    "concurrent.TimeoutError": Failure(kind=_K.TRANSIENT, reason="timeout", evidence="class"),
    "concurrent.BrokenExecutor": Failure(
        kind=_K.TRANSIENT, reason="process.broken_pool", scope=Scope.PROCESS, evidence="class"
    ),
    "msgspec.ValidationError": Failure(kind=_K.SEMANTIC, reason="validation.msgspec", evidence="class"),
    "msgspec.DecodeError": Failure(kind=_K.SEMANTIC, reason="json.malformed", evidence="class"),
    "msgspec.EncodeError": Failure(kind=_K.PROGRAMMING, reason="json.unencodable", evidence="class"),
    "pydantic.PydanticUserError": Failure(kind=_K.PROGRAMMING, reason="python.PydanticUserError", evidence="class"),
    "pydantic.InvalidSchemaError": Failure(kind=_K.PROGRAMMING, reason="python.InvalidSchemaError", evidence="class"),
    "yaoki.JournalError": Failure(kind=_K.FATAL, reason="journal", scope=Scope.PROCESS, evidence="class"),
    "yaoki.OutsideRun": Failure(
        kind=_K.PROGRAMMING, reason="outside.run", executed=Executed.NO, evidence="class"
    ),
    "yaoki.OutsideBranch": Failure(
        kind=_K.PROGRAMMING, reason="outside.branch", executed=Executed.NO, evidence="class"
    ),
    "yaoki.YaokiError": Failure(kind=_K.PROGRAMMING, reason="yaoki", evidence="class"),
}  # fmt: skip

_INVALID: Final = {
    "JSONDecodeError": "json.malformed",
    "TOMLDecodeError": "toml.malformed",
    "YAMLError": "yaml.malformed",
    "ParseError": "parse.malformed",
    "ExpatError": "parse.malformed",
    "ValidationError": "validation",
    "SchemaError": "validation.schema",
}
"""By the class's own name, whatever the package: pydantic, jsonschema, marshmallow, simplejson, orjson, …"""


_BY_NAME: Final = {
    "TimeoutError": Failure(kind=_K.TRANSIENT, reason="timeout", scope=Scope.VENDOR, evidence="class"),
    "ConnectionError": Failure(kind=_K.TRANSIENT, reason="net.broken", scope=Scope.VENDOR, evidence="class"),
}
"""Names every driver uses for the same thing."""

_VAGUE = frozenset({"builtins.ValueError", "builtins.LookupError"})
"""Bases libraries derive their own errors from, and raise with a server's answer as message."""


def quotes_no_server(evidence: Evidence) -> bool:
    """Whether the class is a bug's or a validator's own, whose message echoes input and not a server's answer."""
    return evidence.names[0] not in _VAGUE and _judge(evidence) is not None


def _judge(evidence: Evidence) -> Failure | None:
    if evidence.status is not None and not evidence.names[0].startswith("builtins."):
        return None
    for name in evidence.names:
        package, _, own = name.partition(".")
        if own in _INVALID and name not in _LIBRARY:
            reason = _INVALID[own]
            return Failure(
                kind=_K.PROGRAMMING if reason == "validation.schema" else _K.SEMANTIC,
                reason=f"validation.{package}" if reason == "validation" else reason,
                evidence="class",
            )
        if found := _LIBRARY.get(name) or _BUILTIN.get(name) or _BY_NAME.get(own):
            return found
    return None


RULES = (Rule(name="python.class", stage="class", judge=_judge),)
