"""Real errors of a real Redis (Valkey), and of servers that are none."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.classify.real_servers import Server, free_port
from tests.classify.real_servers import redis as serving
from tests.classify.wild_server import answering
from yaoki.classify import Executed, Failure, FailureKind, Scope, classify

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--maxclients", "20") as found:
        yield found


def client(port: int, **options: Any) -> Any:
    return redis.Redis("127.0.0.1", port, **{"retry": None, "protocol": 2, "driver_info": None, **options})


def asked(port: int, *command: Any, **options: Any) -> object:
    with client(port, **options) as link:
        return link.execute_command(*command)


def asked_async(port: int, *command: Any, **options: Any) -> object:
    async def call() -> object:
        async with redis.asyncio.Redis(
            host="127.0.0.1", port=port, **{"retry": None, "protocol": 2, "driver_info": None, **options}
        ) as link:
            return await link.execute_command(*command)

    return asyncio.run(call())


def failure_of(call: Callable[[], object]) -> Failure:
    try:
        found = call()
    except Exception as error:
        return classify(error, now_ms=0)
    raise AssertionError(f"it did not fail: {found}")


each_client = pytest.mark.parametrize("call", [asked, asked_async], ids=["sync", "async"])


@each_client
@pytest.mark.parametrize(
    ("command", "kind", "executed"),
    [
        (("LPUSH", "text", "x"), K.PROGRAMMING, NO),
        (("NOSUCHCOMMAND",), K.PROGRAMMING, NO),
        (("SET", "text"), K.PROGRAMMING, NO),
        (("INCR", "text"), K.PROGRAMMING, NO),
        (("EVALSHA", "0" * 40, "0"), K.CAPABILITY, NO),
        (("EVAL", "redis.call('set', 'a', 'b'); return redis.call('lpush', 'a', 'c')", "0"), K.PROGRAMMING, MAYBE),
        (("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"), K.PERMANENT, NO),
        (("AUTH", "someone", "wrong"), K.PERMANENT, NO),
        (("CLUSTER", "INFO"), K.PROGRAMMING, NO),
    ],
    ids=lambda value: value[0].lower() if isinstance(value, tuple) else "",
)
def test_a_reply_that_is_an_error_refused_the_command(
    server: Server, call: Any, command: tuple[str, ...], kind: FailureKind, executed: Executed
) -> None:
    with client(server.port) as link:
        link.set("text", "words")
    failure = failure_of(lambda: call(server.port, *command))
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_a_replica_a_full_memory_and_a_missing_password_refuse(server: Server) -> None:
    with serving("--replicaof", "127.0.0.1", str(server.port)) as replica:
        failure = failure_of(lambda: asked(replica.port, "SET", "a", "b"))
        assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure
    with serving("--maxmemory", "1") as full:
        failure = failure_of(lambda: asked(full.port, "SET", "a", "b"))
        assert (failure.kind, failure.executed, failure.reason) == (K.OVERLOADED, NO, "redis.OutOfMemoryError")
    with serving("--requirepass", "s3cret-word") as shut:
        for options in ({}, {"password": "not-this-word"}):
            failure = failure_of(lambda options=options: asked(shut.port, "GET", "a", **options))
            assert (failure.kind, failure.executed, failure.scope) == (K.PERMANENT, NO, Scope.KEY), failure
            assert "not-this-word" not in failure.message
    with serving("--min-replicas-to-write", "1") as alone:
        failure = failure_of(lambda: asked(alone.port, "SET", "a", "b"))
        assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, NO, "redis.NOREPLICAS")
    with serving("--cluster-enabled", "yes", "--cluster-port", str(free_port())) as part:
        failure = failure_of(lambda: asked(part.port, "SET", "a", "b"))
        assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, NO, "redis.ClusterDownError")


def test_a_watched_key_that_changed_undid_the_transaction(server: Server) -> None:
    with client(server.port) as link, link.pipeline() as pipe:
        pipe.watch("guarded")
        link.set("guarded", "changed")
        pipe.multi()
        pipe.set("guarded", "mine")
        failure = failure_of(pipe.execute)
    assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, NO, "redis.WatchError")


def test_a_lock_that_is_held_and_one_that_ran_out(server: Server) -> None:
    with client(server.port) as link:
        with link.lock("held", timeout=60):
            failure = failure_of(lambda: link.lock("held", blocking_timeout=0.01).__enter__())
        assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure
        lock = link.lock("lost", timeout=60)
        lock.acquire()
        link.delete("lost")
        failure = failure_of(lock.release)
        assert failure.kind is K.PERMANENT, failure


def test_an_error_in_a_pipeline_came_after_other_commands(server: Server) -> None:
    with client(server.port) as link:
        link.set("text", "words")
        with link.pipeline(transaction=False) as pipe:
            pipe.set("other", "x")
            pipe.lpush("text", "y")
            failure = failure_of(pipe.execute)
        assert link.get("other") == b"x"
    assert (failure.kind, failure.executed, failure.reason) == (K.PROGRAMMING, MAYBE, "redis.WRONGTYPE"), failure


def test_too_many_clients_and_an_empty_pool_sent_nothing(server: Server) -> None:
    links = [client(server.port) for _ in range(25)]

    def fill() -> None:
        for link in links:
            link.ping()

    failure = failure_of(fill)
    for link in links:
        link.close()
    # The refusal is there before the first command; redis-py finds the connection "not ready".
    assert failure.kind in {K.OVERLOADED, K.TRANSIENT}, failure
    assert failure.executed is NO, failure

    pool = redis.ConnectionPool(host="127.0.0.1", port=server.port, max_connections=1)
    taken = pool.get_connection()
    failure = failure_of(pool.get_connection)
    pool.release(taken)
    pool.disconnect()
    assert (failure.kind, failure.executed, failure.scope) == (K.OVERLOADED, NO, Scope.PROCESS), failure


@each_client
def test_a_connection_that_is_not_made_sends_nothing(call: Any) -> None:
    failure = failure_of(lambda: call(free_port(), "PING"))
    assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, NO, "os.ECONNREFUSED"), failure


@each_client
def test_a_server_that_is_silent_or_leaves_may_have_acted(call: Any) -> None:
    def hang(sock: socket.socket) -> None:
        while sock.recv(4096):
            pass

    def leave(sock: socket.socket) -> None:
        sock.recv(4096)

    def reset(sock: socket.socket) -> None:
        sock.recv(4096)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    for speak, options in ((hang, {"socket_timeout": 0.1}), (leave, {}), (reset, {})):
        with answering(speak) as port:
            failure = failure_of(lambda port=port, options=options: call(port, "INCR", "x", **options))
        assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure


@each_client
@pytest.mark.parametrize(
    ("reply", "kind", "executed"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", K.TRANSIENT, NO),
        (b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL.\r\n", K.TRANSIENT, NO),
        (b"-READONLY You can't write against a read only replica.\r\n", K.TRANSIENT, NO),
        (b"-MOVED 3999 127.0.0.1:6381\r\n", K.TRANSIENT, NO),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", K.TRANSIENT, NO),
        (b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", K.TRANSIENT, NO),
        (b"-NOPERM this user has no permissions to run the 'incr' command\r\n", K.PERMANENT, NO),
        (
            b"-MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.\r\n",
            K.PERMANENT,
            NO,
        ),
        (b"-CROSSSLOT Keys in request don't hash to the same slot\r\n", K.PROGRAMMING, NO),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", K.PERMANENT, MAYBE),
    ],
    ids=lambda value: value[:8].decode() if isinstance(value, bytes) else "",
)
def test_what_a_server_replies(call: Any, reply: bytes, kind: FailureKind, executed: Executed) -> None:
    def speak(sock: socket.socket) -> None:
        while sock.recv(4096):
            sock.sendall(reply)

    with answering(speak) as port:
        failure = failure_of(lambda: call(port, "INCR", "x"))
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_a_server_that_is_killed_may_have_acted() -> None:
    with serving() as server, client(server.port) as link, client(server.port) as watch:
        link.ping()

        def kill() -> None:
            while watch.info("clients")["blocked_clients"] < 1:
                time.sleep(0.005)
            os.kill(server.pid, signal.SIGKILL)

        with ThreadPoolExecutor(1) as pool:
            killed = pool.submit(kill)
            failure = failure_of(lambda: link.blpop("x", timeout=20))
            killed.result()
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure
