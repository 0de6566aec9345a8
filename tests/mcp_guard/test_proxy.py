"""`yaoki mcp-proxy` between the official client and a real server: as if it were not there, but for what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from yaoki import Runner
from yaoki.records import Begin, Effect, State

SERVER = Path(__file__).parent / "server.py"


def command(path: Path, *options: str) -> list[str]:
    store = f"sqlite:///{path / 's.db'}"
    server = ["--", sys.executable, str(SERVER)]
    return ["-m", "yaoki", "mcp-proxy", "--name", "files", "--store", store, *options, *server]


@contextlib.asynccontextmanager
async def client(path: Path, *options: str) -> AsyncIterator[ClientSession]:
    (path / "server.log").touch()
    env = {**os.environ, "SERVER_LOG": str(path / "server.log")}
    server = StdioServerParameters(command=sys.executable, args=command(path, *options), env=env)
    async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


def calling(path: Path, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[tuple[str, bool]]:
    async def main() -> list[tuple[str, bool]]:
        async with client(path, *options) as session:
            results = [await session.call_tool(name, args) for name, args in calls]
            return [(one.content[0].text, bool(one.is_error)) for one in results]

    return asyncio.run(main())


def done(path: Path) -> list[str]:
    return (path / "server.log").read_text().splitlines()


def test_tools_and_results_are_the_server_s(tmp_path):
    async def main() -> tuple[list[str], Any]:
        async with client(tmp_path) as session:
            tools = (await session.list_tools()).tools
            return [one.name for one in tools], await session.call_tool("read", {"name": "a"})

    names, result = asyncio.run(main())
    assert {"read", "delete", "charge"} <= set(names)
    assert result.content[0].text == "the text of a"
    assert result.structured_content == {"result": "the text of a"}
    with Runner.verbs(f"sqlite:///{tmp_path / 's.db'}") as verbs:
        (receipt,) = verbs.list()
        assert receipt.status is State.COMPLETED
        assert [one.record.effect for one in verbs.journal(receipt.run_id) if isinstance(one.record, Begin)] == [
            Effect.READ_ONLY
        ]


def test_a_server_that_dies_is_started_again_and_the_client_sees_nothing_of_it(tmp_path):
    assert calling(tmp_path, ("die_once", {"name": "a"}), ("read", {"name": "b"})) == [
        ("alive", False),
        ("the text of b", False),
    ]
    assert done(tmp_path) == ["die a", "die a", "read b"]


def test_what_may_have_happened_is_not_sent_again_and_that_is_said(tmp_path):
    (told,) = calling(tmp_path, ("delete", {"name": "deadly"}))
    assert told[1] is True
    assert "yaoki show" in told[0]
    assert done(tmp_path) == ["delete deadly"]
    with Runner.verbs(f"sqlite:///{tmp_path / 's.db'}") as verbs:
        assert [receipt.status for receipt in verbs.list()] == [State.WAITING]


def test_a_hang_ends_at_the_limit(tmp_path):
    began = time.monotonic()
    (told,) = calling(tmp_path, ("hang", {"name": "a"}), options=("--timeout-s", "0.3"))
    assert told[1] is True
    assert time.monotonic() - began < 55


def test_circles_are_refused(tmp_path):
    told = calling(tmp_path, *[("read", {"name": "a"})] * 4)
    assert [is_error for _, is_error in told] == [False, False, True, True]
    assert done(tmp_path) == ["read a"] * 2


def test_mistakes_and_errors_are_told(tmp_path):
    missing, wrong, error = calling(
        tmp_path, ("no_such", {}), ("read", {"name": 3}), ("fail", {"text": "no such city"})
    )
    assert missing[1] is wrong[1] is error[1] is True
    assert "there is no tool" in missing[0]
    assert "no such city" in error[0]


def test_over_http(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "server.log").touch()
    env = {**os.environ, "SERVER_LOG": str(tmp_path / "server.log")}
    process = subprocess.Popen([sys.executable, *command(tmp_path, "--listen", str(port))], env=env)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)

        async def main() -> str:
            async with (
                streamable_http_client(f"http://127.0.0.1:{port}/mcp") as streams,
                ClientSession(*streams[:2]) as session,
            ):
                await session.initialize()
                return (await session.call_tool("read", {"name": "a"})).content[0].text

        assert asyncio.run(main()) == "the text of a"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "say which server"),
        (["--url", "http://x", "--", "true"], "one of them"),
        (["--listen", "70000", "--", "x"], "port"),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path, words, why):
    made = subprocess.run(
        [sys.executable, "-m", "yaoki", "mcp-proxy", *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert made.returncode == 2
    assert why in made.stderr
    assert len(made.stderr.strip().splitlines()) == 1


def test_the_rules_in_plain_words():
    made = subprocess.run([sys.executable, "-m", "yaoki", "prompts"], capture_output=True, text=True, check=True)
    assert "Never repeat something that acts on the world" in made.stdout
    assert made.stderr == ""
