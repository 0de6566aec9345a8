"""
MCP: protocol errors by their JSON-RPC code, and tool results that are errors.

A protocol error (JSON-RPC 2.0, section 5.1; MCP's allocation in -32000..-32099) says that the request was not
carried out, unless it says that the connection or the time ran out. An `isError` result is the tool's own
word, meant for the model to read (MCP specification, "Tools: Error Handling"): `semantic`, and the tool ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from yaoki.classify._patterns import pattern
from yaoki.classify._phrases import judge_prose
from yaoki.classify._status import failure_of_status
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["failure_of_jsonrpc", "judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"mcp", "mcp_types", "fastmcp"})

_CODES: Final = table(
    "mcp.code",
    "jsonrpc.code",
    (_K.PERMANENT, _NO, Scope.REQUEST, "jsonrpc.{}", "-32700 -32600 -32002 -32020 -32042"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "jsonrpc.{}", "-32601 -32021 -32022"),
    (_K.SEMANTIC, _NO, Scope.REQUEST, "jsonrpc.{}", "-32602"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "jsonrpc.{}", "-32603 -32001 -32802"),
    # "Request cancelled" and "content modified" are the Language Server Protocol's numbers, used by MCP servers too.
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "jsonrpc.{}", "-32800"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "jsonrpc.{}", "-32801"),
    hints={
        "-32042": "A person has to open the URL of the error first.",
        "-32602": "Ask again with the error: the arguments do not fit the tool.",
    },
)

_SAID: Final = table(
    "mcp.message",
    "message",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "mcp.{}", "closed timeout"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "mcp.{}", "session"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "mcp.{}", "not_initialised"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "mcp.{}", "unknown_tool"),
    hints={
        "session": "The server forgot the session: open a new one, then send again.",
        "closed": "The server's process or connection ended: open a new session.",
        "not_initialised": "The session was not initialised, or the server was restarted: open a new one.",
    },
)

_PATTERNS: Final = (
    ("not_initialised", pattern(r"before initiali[sz]ation|not (been )?initiali[sz]ed")),
    ("session", pattern(r"session (was )?(terminated|not found|expired|closed)|(no|missing) (valid )?session")),
    ("closed", pattern(r"(connection|server|transport|stream) (was )?(closed|ended|lost)")),
    ("timeout", pattern(r"request ('[^']{0,80}' )?timed out|timed out while waiting for response")),
    ("unknown_tool", pattern(r"^(unknown tool|tool (\S{1,80} )?not found|no such tool)")),
)  # fmt: skip
_STANDARD: Final = {
    "parse error": -32700,
    "invalid request": -32600,
    "method not found": -32601,
    "invalid params": -32602,
    "internal error": -32603,
    "request cancelled": -32800,
}
"""JSON-RPC's own sentences, for where only they are left."""
_PRINTED: Final = pattern(r"^MCP error (-?\d{1,6}): ")

_CLASSES: Final = table(
    "mcp.class",
    "class",
    (_K.SEMANTIC, _MAYBE, Scope.REQUEST, "mcp.tool_error", "ToolError UnexpectedToolError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "mcp.{}",
     ("ResourceNotFoundError NotFoundError ResourceSecurityError PathEscapeError InvalidUriTemplate NoBackChannelError"
     " UrlElicitationRequiredError DisabledError")),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "mcp.{}",
     "ResourceError UnexpectedResourceError PromptError MCPServerError FastMCPError InputRequiredRoundsExceededError"),
    (_K.PERMANENT, _NO, Scope.KEY, "mcp.{}",
     ("OAuthFlowError OAuthRegistrationError OAuthTokenError AuthenticationError AuthorizeError RegistrationError"
     " TokenError InvalidRedirectUriError InvalidScopeError")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "mcp.{}", "StreamableHTTPError SubscriptionLost ClientError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "mcp.{}",
     "ResumptionError ListenNotSupportedError UnexpectedClaimedResult InvalidSignature InvalidRequestState _Pending"),
)  # fmt: skip

_ERRORS: Final = frozenset({"McpError", "MCPError"})
_RESULTS: Final = frozenset({"CallToolResult"})
_CONTENT_MAX: Final = 16
_DEFINED_BY_SERVERS = range(-32099, -31999)


def judge(evidence: Evidence) -> Failure | None:
    """Judge an error of the protocol, a tool's result, or one of the SDK's own classes."""
    if type(evidence.subject) in {str, dict}:
        return _value(evidence, cast("str | dict[object, object]", evidence.subject))
    if any(name.partition(".")[2] in _ERRORS for name in evidence.names):
        return _protocol(evidence)
    if evidence.name in _RESULTS:
        failed = evidence.get("isError") is True or evidence.get("is_error") is True
        return _result(evidence, evidence.get("content")) if failed else None
    return by_class(evidence, _PACKAGES, _CLASSES)


def _value(evidence: Evidence, value: str | dict[object, object]) -> Failure | None:
    """Judge a printed error, a JSON-RPC answer, or a result as parsed."""
    if isinstance(value, str):
        return _protocol(evidence)
    error = value.get("error")
    if isinstance(error, dict):
        fields = cast("dict[object, object]", error)
        code, text = fields.get("code"), fields.get("message")
        return failure_of_jsonrpc(code if isinstance(code, int) else 0, text if isinstance(text, str) else "", evidence)
    result = value.get("result", value)
    if isinstance(result, dict) and cast("dict[object, object]", result).get("isError") is True:
        return _result(evidence, cast("dict[object, object]", result).get("content"))
    return None


def _protocol(evidence: Evidence) -> Failure | None:
    error = evidence.get("error")
    held = evidence.under(error) if error is not None else evidence
    code, message = held.get("code"), held.get("message")
    if not isinstance(code, int):
        code = evidence.get("code")
    text = message if isinstance(message, str) else evidence.message
    if said := _PRINTED.match(evidence.message):
        code = code if isinstance(code, int) else int(said[1])
        text = text[said.end() :] if text.startswith(said[0]) else text
    return failure_of_jsonrpc(code if isinstance(code, int) else 0, text, evidence)


def failure_of_jsonrpc(code: int, text: str, evidence: Evidence) -> Failure:
    """
    Return the failure of a JSON-RPC error.

    What it says of sessions and connections comes before its code, since servers use the codes they may define
    (-32000 and on) each in their own way; and a code that is an HTTP status is one.
    """
    low = text[:1000].lower()
    for key, words in _PATTERNS:
        if words.search(low):
            return _SAID[key]
    if found := _CODES.get(str(code or _STANDARD.get(text[:100].strip().lower(), 0))):
        return found
    if 400 <= code <= 599:
        return failure_of_status(code)
    said = judge_prose(evidence.under(text)) if text else None
    return Failure(
        kind=said.kind if said else _K.UNKNOWN,
        reason=f"jsonrpc.{code}",
        executed=_MAYBE,
        scope=said.scope if said else Scope.VENDOR,
        retry_after_s=said.retry_after_s if said else None,
        evidence="message mcp.message" if said else "jsonrpc.code mcp.code",
    )


def _result(evidence: Evidence, content: object) -> Failure:
    """Judge what a tool answered: by its sentences where they say money or rate, else as the model's to read."""
    texts: list[str] = []
    if isinstance(content, list):
        for part in cast("list[object]", content)[:_CONTENT_MAX]:
            text = _field(evidence, part, "text")
            if isinstance(text, str):
                texts.append(text)
    text = "\n".join(texts)
    low = text[:1000].lower()
    for key, words in _PATTERNS:
        if key in {"unknown_tool", "timeout"} and words.search(low):
            return _SAID[key]
    said = judge_prose(evidence.under(text)) if text else None
    if said is not None and said.kind in {_K.RATE_LIMITED, _K.OVERLOADED, _K.BUDGET}:
        return Failure(
            kind=said.kind, reason=said.reason, scope=said.scope, retry_after_s=said.retry_after_s,
            evidence="message mcp.result",
        )  # fmt: skip
    return Failure(kind=_K.SEMANTIC, reason="mcp.tool_error", message=text[:2000], evidence="result mcp.result")


def _field(evidence: Evidence, part: object, name: str) -> object:
    """Return a field of what may be a model of the SDK or parsed JSON."""
    if issubclass(type(part), dict):
        return cast("dict[object, object]", part).get(name)
    return evidence.under(part).get(name)
