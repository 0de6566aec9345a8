"""Real errors of a real Postgres, through every driver agents use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.extensions
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from tests.classify.real_servers import Server, free_port, postgres
from tests.classify.wild_server import answering
from yaoki.classify import Executed, Failure, FailureKind, Scope, classify

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as found:
        with psycopg.connect(dsn(found), autocommit=True) as conn:
            conn.execute("create role joe login")
            conn.execute("create role slow login")
            conn.execute("alter role slow set statement_timeout = 20")
            conn.execute("create table shelf (id int primary key, n int not null check (n > 0))")
            conn.execute("insert into shelf values (1, 1), (2, 2)")
        yield found


def dsn(server: Server, **changed: object) -> str:
    fields = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "dbname": "postgres", "connect_timeout": 20}
    return " ".join(f"{key}={value}" for key, value in {**fields, **changed}.items())


def by_psycopg(server: Server, sql: str, **changed: object) -> object:
    with psycopg.connect(dsn(server, **changed), autocommit=True) as conn:
        return conn.execute(sql).fetchall()


def by_psycopg2(server: Server, sql: str, **changed: object) -> object:
    conn = psycopg2.connect(dsn(server, **changed))
    try:
        with conn.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()
    finally:
        conn.close()


def by_asyncpg(server: Server, sql: str, **changed: object) -> object:
    async def call() -> object:
        where = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "database": "postgres"}
        named = {{"dbname": "database"}.get(key, key): value for key, value in changed.items()}
        conn = await asyncpg.connect(**{**where, **named}, timeout=20)
        try:
            return await conn.fetch(sql)
        finally:
            await conn.close()

    return asyncio.run(call())


def url(server: Server, driver: str, changed: dict[str, Any]) -> sqlalchemy.URL:
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=changed.get("user", "postgres"),
        host=changed.get("host", "127.0.0.1"),
        port=changed.get("port", server.port),
        database=changed.get("dbname", "postgres"),
    )


def by_sqlalchemy(server: Server, sql: str, **changed: object) -> object:
    engine = sqlalchemy.create_engine(url(server, "psycopg", changed), poolclass=sqlalchemy.NullPool)
    with engine.connect() as conn:
        return conn.execute(sqlalchemy.text(sql)).all()


def by_sqlalchemy_asyncpg(server: Server, sql: str, **changed: object) -> object:
    async def call() -> object:
        engine = create_async_engine(url(server, "asyncpg", changed), poolclass=sqlalchemy.NullPool)
        async with engine.connect() as conn:
            return (await conn.execute(sqlalchemy.text(sql))).all()

    return asyncio.run(call())


CLIENTS = [by_psycopg, by_psycopg2, by_asyncpg, by_sqlalchemy, by_sqlalchemy_asyncpg]
each_client = pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)


def failure_of(call: Callable[[], object]) -> Failure:
    try:
        found = call()
    except Exception as error:
        return classify(error, now_ms=0)
    raise AssertionError(f"it did not fail: {found}")


RAISE = "do $$ begin raise exception 'made' using errcode = '{}'; end $$"


@each_client
@pytest.mark.parametrize(
    ("sql", "kind", "reason"),
    [
        ("selec 1", K.PROGRAMMING, "sql.42601"),
        ("select * from nothing", K.PROGRAMMING, "sql.42P01"),
        ("select nothing from shelf", K.PROGRAMMING, "sql.42703"),
        ("select 'x'::int", K.SEMANTIC, "sql.22P02"),
        ("insert into shelf values (1, 1) returning id", K.PERMANENT, "sql.23505"),
        ("insert into shelf values (9, null) returning id", K.PERMANENT, "sql.23502"),
        ("insert into shelf values (9, -1) returning id", K.PERMANENT, "sql.23514"),
        (RAISE.format("40001"), K.TRANSIENT, "sql.40001"),
        (RAISE.format("55P03"), K.TRANSIENT, "sql.55P03"),
        (RAISE.format("53100"), K.FATAL, "sql.53100"),
        (RAISE.format("P0001"), K.PERMANENT, "sql.P0001"),
        # A statement that quotes what a rule about bodies would take for a server's word.
        ('select \'{"error": {"code": "rate_limit_exceeded"}}\'::int', K.SEMANTIC, "sql.22P02"),
    ],
)
def test_a_statement_that_failed_was_undone(
    server: Server, call: Any, sql: str, kind: FailureKind, reason: str
) -> None:
    failure = failure_of(lambda: call(server, sql))
    assert (failure.kind, failure.executed, failure.reason) == (kind, NO, reason), failure


@each_client
def test_a_statement_past_its_time_was_undone_and_a_session_that_was_ended_may_have_acted(
    server: Server, call: Any
) -> None:
    late = failure_of(lambda: call(server, "select pg_sleep(30)", user="slow"))
    assert (late.kind, late.executed, late.reason) == (K.TRANSIENT, NO, "sql.57014"), late
    ended = failure_of(lambda: call(server, "select pg_terminate_backend(pg_backend_pid())"))
    assert (ended.kind, ended.executed) == (K.TRANSIENT, MAYBE), ended


@each_client
def test_a_connection_that_is_not_made_sends_nothing_and_says_why(server: Server, call: Any) -> None:
    def shape(**changed: object) -> tuple[FailureKind, Executed, Scope]:
        failure = failure_of(lambda: call(server, "select 1", **changed))
        return failure.kind, failure.executed, failure.scope

    assert shape(port=free_port()) == (K.TRANSIENT, NO, Scope.VENDOR)
    assert shape(host="no-such-host.invalid")[:2] in {(K.PERMANENT, NO), (K.TRANSIENT, NO)}
    assert shape(user="nobody") == (K.PERMANENT, NO, Scope.KEY)
    assert shape(dbname="nothing")[:2] == (K.PERMANENT, NO)


def test_a_password_that_is_wrong_stays_wrong() -> None:
    with postgres(password="right") as server:
        for call in (by_psycopg, by_psycopg2, by_asyncpg):
            failure = failure_of(lambda call=call: call(server, "select 1", password="wrong"))
            assert (failure.kind, failure.executed, failure.scope) == (K.PERMANENT, NO, Scope.KEY), failure
            assert "wrong" not in failure.message


@pytest.mark.parametrize("connect", [psycopg.connect, psycopg2.connect], ids=["psycopg", "psycopg2"])
def test_a_server_without_a_free_connection_is_overloaded(server: Server, connect: Any) -> None:
    def fill() -> None:
        with contextlib.ExitStack() as taken:
            for _ in range(20):
                taken.enter_context(contextlib.closing(connect(dsn(server, user="joe"))))

    failure = failure_of(fill)
    assert (failure.kind, failure.executed) == (K.OVERLOADED, NO), failure


def test_a_real_deadlock_and_a_real_serialization_failure_are_tried_again(server: Server) -> None:
    first, second = psycopg.connect(dsn(server)), psycopg.connect(dsn(server))
    with first, second:
        first.execute("set deadlock_timeout = '10ms'")
        second.execute("set deadlock_timeout = '10ms'")
        first.execute("update shelf set n = n + 1 where id = 1")
        second.execute("update shelf set n = n + 1 where id = 2")
        caught: list[BaseException] = []

        def cross(conn: Any, other: int) -> None:
            try:
                conn.execute("update shelf set n = n + 1 where id = %s", [other])
            except psycopg.Error as error:
                caught.append(error)
                conn.rollback()

        thread = threading.Thread(target=cross, args=(first, 2))
        thread.start()
        cross(second, 1)
        thread.join()
        first.rollback()
        second.rollback()
        failure = classify(caught[0])
        assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, NO, "sql.40P01")

        for conn in (first, second):
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("select * from shelf").fetchall()
        first.execute("update shelf set n = n + 1 where id = 1")
        first.commit()
        stale = failure_of(lambda: second.execute("update shelf set n = n + 1 where id = 1"))
        assert (stale.kind, stale.executed, stale.reason) == (K.TRANSIENT, NO, "sql.40001")
        second.rollback()


def test_a_transaction_that_failed_before_is_a_bug_of_the_caller(server: Server) -> None:
    with psycopg.connect(dsn(server)) as conn:
        failure_of(lambda: conn.execute("select 1/0"))
        failure = failure_of(lambda: conn.execute("select 1"))
        conn.rollback()
    assert (failure.kind, failure.reason) == (K.PROGRAMMING, "sql.25P02")
    engine = sqlalchemy.create_engine(url(server, "psycopg", {}), poolclass=sqlalchemy.NullPool)
    with Session(engine) as session:
        session.begin_nested()
        failure_of(lambda: session.execute(sqlalchemy.text("select 1/0")))
        failure = failure_of(lambda: session.execute(sqlalchemy.text("select 1")))
    assert (failure.kind, failure.executed) == (K.PROGRAMMING, NO), failure


def test_a_pool_without_a_free_connection_sent_nothing(server: Server) -> None:
    engine = sqlalchemy.create_engine(url(server, "psycopg", {}), pool_size=1, max_overflow=0, pool_timeout=0.01)
    with engine.connect():
        failure = failure_of(engine.connect)
    engine.dispose()
    assert (failure.kind, failure.executed, failure.scope) == (K.OVERLOADED, NO, Scope.PROCESS)


def test_a_connection_closed_before_sent_nothing(server: Server) -> None:
    conn, other = psycopg.connect(dsn(server)), psycopg2.connect(dsn(server))
    conn.close()
    other.close()
    for call in (lambda: conn.execute("select 1"), other.cursor):
        failure = failure_of(call)
        assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure


def test_a_server_that_is_killed_may_have_acted() -> None:
    with postgres() as server:
        conn, other = psycopg.connect(dsn(server), autocommit=True), psycopg2.connect(dsn(server))
        os.kill(server.pid, signal.SIGQUIT)
        for call in (
            lambda: conn.execute("select pg_sleep(20)"),
            lambda: other.cursor().execute("select pg_sleep(20)"),
        ):
            failure = failure_of(call)
            assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure
        conn.close()
        other.close()


def fatal(state: bytes, text: bytes) -> bytes:
    """Return the packet by which a server refuses a session (PostgreSQL, "Message Formats": ErrorResponse)."""
    body = b"SFATAL\0VFATAL\0C" + state + b"\0M" + text + b"\0\0"
    return b"E" + (len(body) + 4).to_bytes(4, "big") + body


STARTING = fatal(b"57P03", b"the database system is starting up")


@pytest.mark.parametrize("call", [by_psycopg, by_psycopg2, by_asyncpg], ids=lambda call: call.__name__)
@pytest.mark.parametrize(
    ("replies", "kind", "executed"),
    [
        (STARTING, K.TRANSIENT, NO),
        (fatal(b"53300", b"sorry, too many clients already"), K.OVERLOADED, NO),
        (fatal(b"28P01", b'password authentication failed for user "joe"'), K.PERMANENT, NO),
        (b"", K.TRANSIENT, MAYBE),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", None, MAYBE),
    ],
    ids=["starting", "full", "password", "hangs up", "garbage"],
)
def test_what_a_server_says_at_the_door(
    call: Any, replies: bytes, kind: FailureKind | None, executed: Executed
) -> None:
    with answering(lambda sock: greet(sock, replies)) as port:
        failure = failure_of(lambda: call(Server(port, 0, None), "select 1"))  # type: ignore[arg-type]
    if kind is not None:
        assert (failure.kind, failure.executed) == (kind, executed), failure
    assert failure.executed is not Executed.YES


def greet(sock: socket.socket, replies: bytes) -> None:
    """Decline TLS, as a server without it, then say the rest."""
    asked = sock.recv(8)
    if asked[4:8] == b"\x04\xd2\x16\x2f":
        sock.sendall(b"N")
        sock.recv(4096)
    sock.sendall(replies)
