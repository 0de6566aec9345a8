"""
The table of `docs/classification.md`: a signal, and what is said of it.

    python -m tests.classify.signals            print the tables
    python -m tests.classify.signals --write    put them into the page, between their marks
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from yaoki.classify import FailureKind, classify, is_control_flow, reported, resend
from yaoki.classify._resend import TREATMENT

__all__ = ["PAGE", "filled", "rows"]

PAGE = Path(__file__).parents[2] / "docs" / "classification.md"
NOW_MS = 1_700_000_000_000

Signal = tuple[str, dict[str, Any]]


def status(code: int, said: str = "", **headers: str) -> dict[str, Any]:
    return {"http_status": code, "body": said, "headers": {name.replace("_", "-"): v for name, v in headers.items()}}


def error(name: str, said: str = "", **more: Any) -> dict[str, Any]:
    return {"exception_class": name, "body": said, **more}


def coded(code: int, word: str, message: str = "", key: str = "code") -> dict[str, Any]:
    return status(code, f'{{"error": {{"{key}": "{word}", "message": "{message}"}}}}')


def anthropic(code: int, type_: str, word: str = "") -> dict[str, Any]:
    details = f', "details": {{"error_code": "{word}"}}' if word else ""
    return status(code, f'{{"type": "error", "error": {{"type": "{type_}", "message": ""{details}}}}}')


def google(code: int, name: str, message: str = "", details: str = "") -> dict[str, Any]:
    return status(code, f'{{"error": {{"code": {code}, "status": "{name}", "message": "{message}"{details}}}}}')


def quota(name: str) -> str:
    return f', "details": [{{"@type": "…QuotaFailure", "violations": [{{"quotaId": "{name}"}}]}}]'


def postgres(state: str) -> dict[str, Any]:
    return error("psycopg.errors.Error", "", sqlstate=state)


def exited(code: str) -> dict[str, Any]:
    return error("subprocess.CalledProcessError", f"Command 'x' returned non-zero exit status {code}.")


SIGNALS: dict[str, tuple[Signal, ...]] = {
    "HTTP": (
        ("400, 404, 405, 409, 410, 422, and other 4xx", status(400)),
        ("401, 403, 407", status(401)),
        ("402", status(402)),
        ("408, 421, 423, 425", status(408)),
        ("424: the model behind it failed", status(424)),
        ("409, “in progress”", status(409, "A request with this key is in progress")),
        ("409, “duplicate”", status(409, "duplicate request")),
        ("413, 414, 431", status(413)),
        ("429", status(429)),
        ("429, `Retry-After: 20`", status(429, retry_after="20")),
        ("429, `Retry-After: 172800`", status(429, retry_after="172800")),
        ("429, a daily limit without a wait", status(429, "Rate limit exceeded: 200 requests per day")),
        ("429, money in code or sentence", status(429, "You exceeded your current quota, check your plan and billing")),
        ("429, too large in any minute", status(429, "Request too large for gpt-4o on tokens per min (TPM)")),
        ("499", status(499)),
        ("500, 502, 504, 520, 522, 524", status(500)),
        ("501, 505", status(501)),
        ("503", status(503)),
        ("503, `Retry-After: 5`", status(503, retry_after="5")),
        ("521, 523, 525: the gateway never reached the origin", status(521)),
        ("529", status(529)),
        ("`x-should-retry: false` on a 429", status(429, x_should_retry="false")),
        ("`x-should-retry: true` on a 400", status(400, x_should_retry="true")),
    ),
    "Model vendors: codes in the body": (
        ("Anthropic `overloaded_error`, with 529 or in a stream", anthropic(529, "overloaded_error")),
        ("Anthropic `overloaded_error` inside a 200 stream", anthropic(200, "overloaded_error")),
        ("Anthropic `rate_limit_error`", anthropic(429, "rate_limit_error")),
        ("Anthropic `enforced_spend_limit_reached`",
         anthropic(429, "rate_limit_error", "enforced_spend_limit_reached")),
        ("Anthropic `thread_continue_in_flight`",
         anthropic(400, "invalid_request_error", "thread_continue_in_flight")),
        ("Anthropic `change_outcome_unknown`", anthropic(503, "api_error", "change_outcome_unknown")),
        ("Anthropic `workspace_created_incomplete`", anthropic(503, "api_error", "workspace_created_incomplete")),
        ("Anthropic `billing_error`", anthropic(402, "billing_error")),
        ("OpenAI `insufficient_quota`", coded(429, "insufficient_quota")),
        ("OpenAI `rate_limit_exceeded`", coded(429, "rate_limit_exceeded", "Please try again in 6m0s.")),
        ("OpenAI `context_length_exceeded`", coded(400, "context_length_exceeded")),
        ("OpenAI `invalid_api_key`", coded(401, "invalid_api_key")),
        ("OpenAI `server_error` in a stream (a bare `APIError`)", error("openai.APIError", '{"code": "server_error"}')),
        ("Azure `DeploymentNotFound`", coded(404, "DeploymentNotFound")),
        ("Azure `content_filter`", coded(400, "content_filter")),
        ("Groq `tool_use_failed`", coded(400, "tool_use_failed")),
        ("Groq `capacity_exceeded` (498)", coded(498, "capacity_exceeded")),
        ("Moonshot `engine_overloaded_error`", coded(429, "engine_overloaded_error", key="type")),
        ("Moonshot `exceeded_current_quota_error`", coded(429, "exceeded_current_quota_error", key="type")),
        ("DashScope `Arrearage`", status(400, '{"code": "Arrearage"}')),
        ("Mistral `service_tier_capacity_exceeded`", coded(429, "service_tier_capacity_exceeded", key="type")),
        ("LiteLLM `budget_exceeded`", coded(400, "budget_exceeded", key="type")),
        ("Google `RESOURCE_EXHAUSTED`", google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted")),
        ("Google, quota per minute", google(429, "RESOURCE_EXHAUSTED", "", quota("RequestsPerMinutePerModel"))),
        ("Google, quota per day", google(429, "RESOURCE_EXHAUSTED", "", quota("RequestsPerDayPerModel"))),
        ("Google `UNAVAILABLE`", google(503, "UNAVAILABLE")),
        ("Google `MALFORMED_FUNCTION_CALL`", status(200, '{"finish_reason": "MALFORMED_FUNCTION_CALL"}')),
        ("AWS `ThrottlingException`", error("botocore.ThrottlingException", "Too many requests", http_status=429)),
        ("AWS `ExpiredTokenException`", error("botocore.ExpiredTokenException", "", http_status=403)),
        ("AWS `ModelNotReadyException`", error("botocore.ModelNotReadyException", "", http_status=429)),
        ("AWS `ServiceQuotaExceededException`", error("botocore.ServiceQuotaExceededException", "", http_status=400)),
    ),
    "The network": (
        ("connection refused, host or network unreachable", error("ConnectionRefusedError", "[Errno 111] refused")),
        ("no such name (`EAI_NONAME`)", error("socket.gaierror", "[Errno -2] Name or service not known")),
        ("name not resolved now (`EAI_AGAIN`)", error("socket.gaierror", "[Errno -3] Temporary failure")),
        ("certificate or protocol refused", error("ssl.SSLCertVerificationError", "certificate verify failed")),
        ("connect timeout", error("httpx.ConnectTimeout")),
        ("no free connection in the pool", error("httpx.PoolTimeout")),
        ("read timeout", error("httpx.ReadTimeout")),
        ("reset by peer, broken pipe", error("ConnectionResetError", "[Errno 104] reset")),
        ("closed without an answer", error("http.client.RemoteDisconnected")),
        ("answer cut short", error("requests.exceptions.ChunkedEncodingError")),
        ("an answer that is no HTTP", error("http.client.BadStatusLine")),
        ("too many redirects", error("httpx.TooManyRedirects")),
        ("a timeout of nobody in particular (`TimeoutError`)", error("TimeoutError")),
    ),
    "gRPC": (
        ("`UNAVAILABLE`", error("grpc.AioRpcError", "status = StatusCode.UNAVAILABLE")),
        ("`DEADLINE_EXCEEDED`", error("grpc.AioRpcError", "status = StatusCode.DEADLINE_EXCEEDED")),
        ("`RESOURCE_EXHAUSTED`", error("grpc.AioRpcError", "status = StatusCode.RESOURCE_EXHAUSTED")),
        ("`ABORTED`", error("grpc.AioRpcError", "status = StatusCode.ABORTED")),
        ("`INVALID_ARGUMENT`", error("grpc.AioRpcError", "status = StatusCode.INVALID_ARGUMENT")),
        ("`UNAUTHENTICATED`", error("grpc.AioRpcError", "status = StatusCode.UNAUTHENTICATED")),
    ),
    "MCP": (
        ("-32601 method not found", error("mcp.McpError", "Method not found", jsonrpc_code=-32601)),
        ("-32602 invalid params", error("mcp.McpError", "Invalid params", jsonrpc_code=-32602)),
        ("-32603 internal error", error("mcp.McpError", "Internal error", jsonrpc_code=-32603)),
        ("connection closed", error("mcp.McpError", "Connection closed", jsonrpc_code=-32000)),
        ("request timed out", error("mcp.McpError", "Request timed out", jsonrpc_code=-32001)),
        ("a result with `isError`",
         {"parsed": {"isError": True, "content": [{"type": "text", "text": "no such file"}]}}),
    ),
    "Databases": (
        ("40001, 40P01 serialization, deadlock", postgres("40001")),
        ("23505 unique violation", postgres("23505")),
        ("42601, 42P01, 42703 wrong SQL", postgres("42601")),
        ("53300 too many connections", postgres("53300")),
        ("57014 query cancelled by a timeout", postgres("57014")),
        ("57P01 the server shuts down", postgres("57P01")),
        ("08006 connection lost", postgres("08006")),
        ("28P01 password refused", postgres("28P01")),
        ("SQLite “database is locked”", error("sqlite3.OperationalError", "database is locked")),
        ("Redis `LOADING`", error("redis.exceptions.BusyLoadingError", "loading the dataset in memory")),
        ("Redis `READONLY`", error("redis.exceptions.ReadOnlyError", "can't write against a read only replica")),
    ),
    "Processes and browsers": (
        ("exit 1, and any other of the program's own", exited("1")),
        ("exit 64", exited("64")),
        ("exit 69, 71, 74, 75, 124", exited("75")),
        ("exit 126, 127, 77, 78", exited("127")),
        ("killed by SIGKILL, exit 137", exited("137")),
        ("killed by SIGTERM", exited("143")),
        ("killed by SIGSEGV, SIGABRT", exited("139")),
        ("timed out", error("subprocess.TimeoutExpired")),
        ("browser or page closed", error("playwright._impl._errors.TargetClosedError")),
        ("page timed out", error("playwright._impl._errors.TimeoutError", "Timeout 30000ms exceeded.")),
        ("`net::ERR_NAME_NOT_RESOLVED`", error("playwright._impl._errors.Error", "net::ERR_NAME_NOT_RESOLVED at x")),
    ),
    "Python and the machine": (
        ("`TypeError`, `KeyError`, `ValueError`, …", error("TypeError")),
        ("JSON, pydantic, msgspec: output that does not fit", error("json.JSONDecodeError", "Expecting value")),
        ("`MemoryError`, disk full", error("MemoryError")),
        ("too many open files", error("OSError", "[Errno 24] Too many open files")),
        ("no such file, permission denied", error("FileNotFoundError", "[Errno 2] No such file")),
        ("an error nobody knows", error("acme.Mystery", "?")),
        ("`CancelledError`, `KeyboardInterrupt`, LangGraph's `GraphInterrupt`, …", error("asyncio.CancelledError")),
    ),
}  # fmt: skip


def rows(section: str) -> list[str]:
    """Return the lines of a section's table."""
    lines = ["| signal | kind | executed | scope | wait | again? |", "|---|---|---|---|---|---|"]
    for name, fields in SIGNALS[section]:
        subject = fields["parsed"] if "parsed" in fields else reported(fields)
        failure = classify(subject, now_ms=NOW_MS)
        if isinstance(subject, BaseException) and is_control_flow(subject):
            lines.append(f"| {name} | *control flow* | | | | |")
            continue
        wait = "" if failure.retry_after_s is None else f"{failure.retry_after_s:g} s"
        again = resend(failure).replace("_", " ")
        lines.append(f"| {name} | `{failure.kind}` | {failure.executed} | {failure.scope} | {wait} | {again} |")
    return lines


def tables() -> str:
    """Return all of it: what Yaoki does about each kind, then the signals."""
    lines = ["| kind | what Yaoki does |", "|---|---|"]
    lines += [f"| `{kind}` | {TREATMENT[kind]} |" for kind in FailureKind]
    for section in SIGNALS:
        lines += ["", f"### {section}", "", *rows(section)]
    return "\n".join(lines) + "\n"


BEGIN, END = "<!-- tables: python -m tests.classify.signals --write -->\n", "<!-- end of the tables -->\n"


def filled(page: str) -> str:
    """Return the page with the tables as they are now."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + "\n" + tables() + "\n" + END + rest.partition(END)[2]


def main() -> None:
    if "--write" in sys.argv:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(tables())


if __name__ == "__main__":
    main()
