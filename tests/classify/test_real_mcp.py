"""A real MCP server over stdio and HTTP, and HTTP servers that answer what MCP's client does not expect."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.classify.real_servers import free_port
from tests.classify.wild_server import answering, closed_port
from yaoki.classify import Executed, Failure, FailureKind, classify, is_control_flow

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE
SERVER = Path(__file__).parent / "mcp_server.py"


@contextlib.asynccontextmanager
async def over_stdio(_port: int) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(command=sys.executable, args=[str(SERVER)])
    with Path("/dev/null").open("w") as quiet:  # noqa: ASYNC230 - it does not block
        async with stdio_client(server, errlog=quiet) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            yield session


@contextlib.asynccontextmanager
async def over_http(port: int) -> AsyncIterator[ClientSession]:
    url = f"http://127.0.0.1:{port}/mcp"
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


@pytest.fixture
def port() -> Iterator[int]:
    found = free_port()
    process = subprocess.Popen(
        [sys.executable, str(SERVER), str(found)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", found), 1):
            break
        time.sleep(0.02)
    yield found
    process.kill()
    process.wait()


def failure_of(value: object) -> Failure:
    if isinstance(value, BaseException):
        assert not is_control_flow(value)
    return classify(value, now_ms=0)


CALLS: list[tuple[str, dict[str, Any], FailureKind, Executed]] = [
    ("fail", {"text": "no such city"}, K.SEMANTIC, MAYBE),
    ("fail", {"text": "Rate limit reached, try again in 7s"}, K.RATE_LIMITED, MAYBE),
    ("fail", {"text": "Your credit balance is too low"}, K.BUDGET, MAYBE),
    ("add", {"a": "x"}, K.SEMANTIC, MAYBE),
    ("missing", {}, K.CAPABILITY, NO),
    ("protocol", {"code": -32603, "text": "boom"}, K.TRANSIENT, MAYBE),
    ("protocol", {"code": -32602, "text": "Invalid params"}, K.SEMANTIC, NO),
    ("protocol", {"code": -32601, "text": "Method not found"}, K.CAPABILITY, NO),
    ("protocol", {"code": -32002, "text": "Resource not found"}, K.PERMANENT, NO),
    ("protocol", {"code": -32042, "text": "URL elicitation required"}, K.PERMANENT, NO),
    ("protocol", {"code": -32000, "text": "Unauthorized"}, K.PERMANENT, MAYBE),
    ("protocol", {"code": -32000, "text": "whatever"}, K.UNKNOWN, MAYBE),
    ("protocol", {"code": -32001, "text": "Session not found"}, K.PERMANENT, NO),
    ("protocol", {"code": 503, "text": "down"}, K.OVERLOADED, MAYBE),
]


@pytest.mark.parametrize("session_over", [over_stdio, over_http], ids=["stdio", "http"])
def test_what_a_tool_server_answers(session_over: Any, port: int) -> None:
    """Protocol errors by their code, tool errors as the model's to read, a silent tool and a server that dies."""

    async def talk() -> list[tuple[object, Any]]:
        found: list[tuple[object, Any]] = []
        async with session_over(port) as session:
            ok = await session.call_tool("add", {"a": 1, "b": 2})
            assert classify(ok).kind is K.UNKNOWN
            for name, arguments, kind, executed in CALLS:
                found.append((await outcome(session.call_tool(name, arguments)), (name, arguments, kind, executed)))
            late = await outcome(session.call_tool("hang", {}, read_timeout_seconds=0.2))
            found.append((late, ("hang", {}, K.TRANSIENT, MAYBE)))
            gone = await outcome(session.call_tool("leave", {}, read_timeout_seconds=20))
            found.append((gone, ("leave", {}, K.TRANSIENT, MAYBE)))
        return found

    for value, (name, arguments, kind, executed) in asyncio.run(ending(talk)):
        failure = failure_of(value)
        assert (failure.kind, failure.executed) == (kind, executed), (name, arguments, value, failure)
        assert failure.message


async def outcome(call: Any) -> object:
    try:
        return await call
    except Exception as error:
        return error


async def ending(talk: Callable[[], Any]) -> Any:
    """Return what was found; that the transport breaks as it is left is the next test's subject."""
    found: list[Any] = []
    try:
        found = await talk()
    except BaseExceptionGroup as group:
        failure = failure_of(group)
        raise AssertionError(failure) from group
    return found


def test_a_server_that_is_not_there_got_nothing() -> None:
    async def call() -> None:
        async with over_http(closed_port()):
            pass

    with pytest.raises(Exception) as caught:
        asyncio.run(call())
    failure = failure_of(caught.value)
    assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure


@pytest.mark.parametrize(
    ("reply", "kinds"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", {K.OVERLOADED, K.TRANSIENT}),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", {K.PERMANENT, K.TRANSIENT}),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", {K.PERMANENT, K.CAPABILITY}),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", {K.PERMANENT}),
        (b"", {K.TRANSIENT}),
        (b"no http\r\n\r\n", {K.PERMANENT, K.TRANSIENT}),
    ],
    ids=["503", "401", "404", "html", "hangs-up", "garbage"],
)
def test_what_a_web_server_answers_in_place_of_a_tool_server(reply: bytes, kinds: set[FailureKind]) -> None:
    def speak(sock: socket.socket) -> None:
        sock.recv(65_536)
        sock.sendall(reply)

    async def call(port: int) -> None:
        async with over_http(port):
            pass

    with answering(speak) as port, pytest.raises(Exception) as caught:
        asyncio.run(asyncio.wait_for(call(port), 20))
    failure = failure_of(caught.value)
    assert failure.kind in kinds, failure


@pytest.mark.parametrize(
    ("value", "kind", "executed"),
    [
        ("MCP error -32001: Request timed out", K.TRANSIENT, MAYBE),
        ("MCP error -32000: Connection closed", K.TRANSIENT, MAYBE),
        ("MCP error -32602: Invalid arguments for tool search", K.SEMANTIC, NO),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}, K.CAPABILITY, NO),
        ({"jsonrpc": "2.0", "id": 1, "result": {"isError": True, "content": [{"text": "no"}]}}, K.SEMANTIC, MAYBE),
        ({"isError": True, "content": [{"type": "text", "text": "Too many requests"}]}, K.RATE_LIMITED, MAYBE),
        (CallToolResult(content=[TextContent(type="text", text="no")], isError=True), K.SEMANTIC, MAYBE),
    ],
    ids=repr,
)
def test_printed_and_parsed_forms_say_the_same(value: object, kind: FailureKind, executed: Executed) -> None:
    failure = classify(value)
    assert (failure.kind, failure.executed) == (kind, executed), failure
