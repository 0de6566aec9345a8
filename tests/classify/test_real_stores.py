"""Real errors of SQLite by both its modules, of MongoDB's driver and of AWS's, provoked on loopback."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import botocore.config
import botocore.exceptions
import botocore.session
import bson
import pymongo
import pymongo.errors
import pytest
import sqlalchemy

from tests.classify.rebuilt import built
from tests.classify.wild_server import answering, closed_port, serving
from yaoki.classify import Executed, Failure, FailureKind, Scope, classify

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE


def failure_of(call: Callable[[], object]) -> Failure:
    try:
        found = call()
    except Exception as error:
        return classify(error, now_ms=0)
    raise AssertionError(f"it did not fail: {found!r}")


# --- SQLite -------------------------------------------------------------------------------------------------


def by_sqlite3(path: Path, sql: str, values: tuple[object, ...] = ()) -> object:
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as conn:
        return conn.execute(sql, values).fetchall()


def by_apsw(path: Path, sql: str, values: tuple[object, ...] = ()) -> object:
    with contextlib.closing(apsw.Connection(str(path))) as conn:
        return list(conn.execute(sql, values))


def by_sqlalchemy(path: Path, sql: str, values: tuple[object, ...] = ()) -> object:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0}, poolclass=sqlalchemy.NullPool)
    with engine.connect() as conn:
        return conn.exec_driver_sql(sql, values).all()


each_sqlite = pytest.mark.parametrize(
    "call", [by_sqlite3, by_apsw, by_sqlalchemy], ids=["sqlite3", "apsw", "sqlalchemy"]
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(found)) as conn:
        conn.executescript(
            "create table shelf (id integer primary key, n int not null); insert into shelf values (1, 1)"
        )
    return found


@each_sqlite
def test_sqlite_says_by_its_code_what_happened(path: Path, call: Any) -> None:
    def shape(sql: str, values: tuple[object, ...] = ()) -> tuple[FailureKind, Executed, str]:
        failure = failure_of(lambda: call(path, sql, values))
        return failure.kind, failure.executed, failure.reason

    assert shape("selec 1") == (K.PROGRAMMING, NO, "sqlite.ERROR")
    assert shape("select * from nothing") == (K.PROGRAMMING, NO, "sqlite.ERROR")
    assert shape("insert into shelf values (1, 2)") == (K.PERMANENT, NO, "sqlite.CONSTRAINT")
    assert shape("insert into shelf values (2, null)") == (K.PERMANENT, NO, "sqlite.CONSTRAINT")
    assert shape("insert into shelf values ('x', 1)") == (K.SEMANTIC, NO, "sqlite.MISMATCH")
    assert shape("select ?", (1, 2))[:2] == (K.PROGRAMMING, NO)
    # By the same library: two copies of SQLite in one process do not see each other's locks.
    writer = apsw.Connection(str(path)) if call is by_apsw else sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(writer) as other:
        other.execute("begin immediate")
        assert shape("insert into shelf values (3, 3)") == (K.TRANSIENT, NO, "sqlite.BUSY")
        other.execute("rollback")
    path.write_bytes(b"no database at all" * 100)
    assert shape("select * from shelf") == (K.PERMANENT, NO, "sqlite.NOTADB")


def test_sqlite_cannot_open_or_write(path: Path) -> None:
    failure = failure_of(lambda: sqlite3.connect("/nonexistent/folder/x.db"))
    assert (failure.kind, failure.executed, failure.reason) == (K.PERMANENT, NO, "sqlite.CANTOPEN")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        failure = failure_of(lambda: conn.execute("insert into shelf values (9, 9)"))
        assert (failure.kind, failure.reason) == (K.PERMANENT, "sqlite.READONLY")
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute("pragma max_page_count = 3")
        failure = failure_of(lambda: conn.execute("create table wide as select zeroblob(100000) as b"))
        assert (failure.kind, failure.executed, failure.reason) == (K.FATAL, NO, "sqlite.FULL")
    closed = sqlite3.connect(path)
    closed.close()
    assert failure_of(lambda: closed.execute("select 1")).kind is K.PROGRAMMING


@pytest.mark.parametrize(
    "said", ["database is locked", "(sqlite3.OperationalError) database is locked\n[SQL: select 1]"]
)
def test_the_sentence_alone_says_it_too(said: str) -> None:
    assert classify(sqlite3.OperationalError(said)).reason == "sqlite.BUSY"
    assert (
        classify(sqlalchemy.exc.OperationalError("select 1", {}, sqlite3.OperationalError(said))).reason
        == "sqlite.BUSY"
    )


# --- MongoDB ------------------------------------------------------------------------------------------------


HELLO = {
    "isWritablePrimary": True, "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000, "maxWireVersion": 21, "minWireVersion": 0, "readOnly": False, "ok": 1.0,
    "helloOk": True,
}  # fmt: skip


def mongo(reply: dict[str, Any] | None) -> Callable[[socket.socket], None]:
    """Speak the wire protocol: answer greetings, and every other command with this reply, or by hanging up."""

    def speak(sock: socket.socket) -> None:
        while True:
            head = b""
            while len(head) < 16:
                part = sock.recv(16 - len(head))
                if not part:
                    return
                head += part
            size, request, _, opcode = struct.unpack("<iiii", head)
            body = b""
            while len(body) < size - 16:
                body += sock.recv(size - 16 - len(body))
            greeting = opcode == 2004 or b"hello" in body[:40] or b"isMaster" in body[:40] or b"ismaster" in body[:40]
            if not greeting and reply is None:
                return
            packed = bson.encode(HELLO if greeting else reply or {})
            if opcode == 2004:
                answer = struct.pack("<iqii", 0, 0, 0, 1) + packed
                sock.sendall(struct.pack("<iiii", 16 + len(answer), 0, request, 1) + answer)
            else:
                answer = struct.pack("<ib", 0, 0) + packed
                sock.sendall(struct.pack("<iiii", 16 + len(answer), 0, request, 2013) + answer)

    return speak


def asked(port: int, **options: Any) -> object:
    with pymongo.MongoClient(
        "127.0.0.1", port, **{"serverSelectionTimeoutMS": 20_000, "retryWrites": False, "retryReads": False, **options}
    ) as client:
        return client.shop.shelf.insert_one({"x": 1})


@pytest.mark.parametrize(
    ("reply", "kind", "executed"),
    [
        ({"ok": 0, "code": 11600, "codeName": "InterruptedAtShutdown", "errmsg": "going away"}, K.TRANSIENT, MAYBE),
        ({"ok": 0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary"}, K.TRANSIENT, NO),
        ({"ok": 0, "code": 112, "codeName": "WriteConflict", "errmsg": "conflict",
          "errorLabels": ["TransientTransactionError"]}, K.TRANSIENT, NO),
        ({"ok": 0, "code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "operation exceeded time limit"},
         K.TRANSIENT, MAYBE),
        ({"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not authorized"}, K.PERMANENT, NO),
        ({"ok": 0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no such command"}, K.PROGRAMMING, NO),
        ({"ok": 0, "code": 99_999, "errmsg": "something"}, K.PERMANENT, MAYBE),
        ({"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000 duplicate key"}]},
         K.PERMANENT, NO),
        ({"ok": 1, "n": 1, "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}},
         K.TRANSIENT, MAYBE),
        (None, K.TRANSIENT, MAYBE),
    ],
    ids=lambda value: str(value.get("codeName", "")) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_mongo_answers(reply: dict[str, Any] | None, kind: FailureKind, executed: Executed) -> None:
    with answering(mongo(reply)) as port:
        failure = failure_of(lambda: asked(port))
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_mongo_that_is_not_there_or_not_mongo_got_nothing() -> None:
    failure = failure_of(lambda: asked(closed_port(), serverSelectionTimeoutMS=100))
    assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure
    failure = failure_of(lambda: pymongo.MongoClient("http://127.0.0.1/"))
    assert (failure.kind, failure.executed) == (K.PROGRAMMING, NO), failure
    failure = failure_of(lambda: bson.encode({"x": object()}))
    assert (failure.kind, failure.executed) == (K.SEMANTIC, NO), failure


# --- AWS ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sts() -> Callable[[str], Any]:
    session = botocore.session.Session()
    session.set_credentials("AKIAEXAMPLE", "secret")
    settings = botocore.config.Config(
        retries={"max_attempts": 0, "mode": "standard"}, connect_timeout=5, read_timeout=0.3, proxies={}
    )

    def client(url: str) -> Any:
        return session.create_client("sts", "us-east-1", endpoint_url=url, config=settings)

    return client


@pytest.mark.parametrize(
    ("path", "kind", "executed"),
    [
        ("/hang", K.TRANSIENT, MAYBE),
        ("/reset", K.TRANSIENT, MAYBE),
        ("/early", K.TRANSIENT, MAYBE),
        ("/truncated", K.TRANSIENT, MAYBE),
        ("/short", K.TRANSIENT, MAYBE),
        ("/garbage", K.PERMANENT, MAYBE),
    ],
)
def test_a_connection_of_aws_fails_like_any_other(sts: Any, path: str, kind: FailureKind, executed: Executed) -> None:
    with serving() as port:
        failure = failure_of(sts(f"http://127.0.0.1:{port}{path}?").get_caller_identity)
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_what_aws_never_sent(sts: Any) -> None:
    refused = failure_of(sts(f"http://127.0.0.1:{closed_port()}").get_caller_identity)
    assert (refused.kind, refused.executed, refused.reason) == (K.TRANSIENT, NO, "os.ECONNREFUSED")
    with serving(tls=True) as port:
        untrusted = failure_of(sts(f"https://127.0.0.1:{port}").get_caller_identity)
    assert (untrusted.kind, untrusted.executed) == (K.PERMANENT, NO), untrusted
    missing = failure_of(sts("http://127.0.0.1:1").assume_role)
    assert (missing.kind, missing.executed) == (K.PROGRAMMING, NO)
    nobody = classify(botocore.exceptions.NoCredentialsError())
    assert (nobody.kind, nobody.executed, nobody.scope) == (K.PERMANENT, NO, Scope.KEY)


XML = "<ErrorResponse><Error><Code>{}</Code><Message>{}</Message></Error><RequestId>r</RequestId></ErrorResponse>"


@pytest.mark.parametrize(
    ("status", "code", "said", "kind", "executed", "wait_s"),
    [
        (400, "Throttling", "Rate exceeded", K.RATE_LIMITED, NO, 4.0),
        (400, "ThrottlingException", "Too many requests, please wait", K.RATE_LIMITED, NO, 4.0),
        (403, "ExpiredToken", "The security token included in the request is expired", K.PERMANENT, NO, None),
        (403, "AccessDenied", "User is not authorized to perform sts:x", K.PERMANENT, NO, None),
        (400, "ServiceQuotaExceededException", "quota exceeded", K.BUDGET, NO, None),
        (404, "ResourceNotFoundException", "not found", K.PERMANENT, NO, None),
        (500, "InternalFailure", "boom", K.TRANSIENT, MAYBE, 4.0),
        (503, "ServiceUnavailable", "try later", K.OVERLOADED, NO, 4.0),
    ],
)
def test_what_a_service_of_aws_answers(
    sts: Any, status: int, code: str, said: str, kind: FailureKind, executed: Executed, wait_s: float | None
) -> None:
    body = XML.format(code, said).encode()

    def speak(sock: socket.socket) -> None:
        sock.recv(65_536)
        sock.sendall(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\nRetry-After: 4\r\n\r\n".encode() + body)

    with answering(speak) as port:
        failure = failure_of(sts(f"http://127.0.0.1:{port}").get_caller_identity)
    assert (failure.kind, failure.executed, failure.retry_after_s) == (kind, executed, wait_s), failure
    text = built(("botocore.exceptions.ClientError", "builtins.Exception"))(
        f"An error occurred ({code}) when calling the Converse operation: {said}"
    )
    assert classify(text).executed in {executed, MAYBE}
