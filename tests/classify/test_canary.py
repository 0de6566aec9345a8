"""
Every exception class of every library under test has an answer that somebody looked at.

A new release of a library that adds a class fails here, and not in production: decide what the class means, add
it to its family, then `python -m tests.classify.canary --write` and read the diff.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import httpx

from tests.classify.canary import MODULES, named, reviewed

ROOT = Path(__file__).parents[2]

BASES = {
    # What everything of a library derives from: what it means depends on which it is, or on the answer it carries.
    "agents.AgentsException",
    "aiohttp.ClientError",
    "aiohttp.ClientResponseError",
    "aiohttp.WSServerHandshakeError",
    "apsw.Error",
    "botocore.ClientError",
    "botocore.EventStreamError",
    "grpc.RpcError",
    "grpc.AioRpcError",
    "httpx.HTTPError",
    "httpx.HTTPStatusError",
    "httpx.RequestError",
    "httpx2.HTTPError",
    "httpx2.HTTPStatusError",
    "httpx2.RequestError",
    "langchain_core.LangChainException",
    "langchain_core.ModelError",
    "msgspec.MsgspecError",
    "playwright.Error",
    "psycopg.Error",
    "psycopg2.Error",
    "pydantic_ai.AgentRunError",
    "pymongo.PyMongoError",
    "redis.RedisError",
    "requests.HTTPError",
    "requests.RequestException",
    "sqlalchemy.EmulatedDBAPIException",
    "sqlalchemy.SQLAlchemyError",
    "sqlite3.Error",
    "urllib3.HTTPError",
    "urllib3.PoolError",
    "urllib3.RequestError",
    "websockets.WebSocketException",
    # Carries a vendor's error event, which decides.
    "agents.ResponsesWebSocketError",
    # Said to people reading a log, and never raised at a caller.
    "psycopg.Warning",
    "psycopg2.Warning",
    # Internals that do not leave their library.
    "asyncpg.BufferError",
    "pydantic.MissingDefinitionForUnionRef",
    "redis.EventException",
    "sqlalchemy.Empty",
    "sqlalchemy.Full",
    "trio.MultipleExceptionError",
}


@functools.cache
def found() -> dict[str, str]:
    """Return the present answer for each class, asked in a process of its own: what else is imported adds classes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.classify.canary", "--json"], cwd=ROOT, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_no_class_is_without_an_answer_somebody_looked_at() -> None:
    known = reviewed()
    assert {name: said for name, said in found().items() if known.get(name) != said} == {}


def test_the_classes_of_every_library_are_found() -> None:
    assert {name.partition(".")[0] for name in found()} == set(MODULES)


def test_only_bases_and_internals_are_undecided() -> None:
    undecided = {name for name, said in found().items() if said.startswith("unknown maybe unknown.")}
    assert undecided - BASES == set()


def test_a_class_of_tomorrow_would_be_seen() -> None:
    class ReadSlowlyError(httpx.ReadError):
        pass

    ReadSlowlyError.__module__ = "httpx"
    assert named(ReadSlowlyError) not in reviewed()
