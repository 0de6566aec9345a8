"""
Databases by their drivers: psycopg 3 and 2, asyncpg, SQLAlchemy, and whatever keeps PEP 249's names.

The SQLSTATE decides where there is one. SQLAlchemy wraps the driver's own error in `orig`. An error of
connecting has no SQLSTATE in psycopg, only libpq's text, which quotes the system's or the server's words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from yaoki.classify._patterns import pattern
from yaoki.classify._sqlstate import failure_of_sqlstate
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_DEPTH_MAX: Final = 8

_CONNECTION: Final = table(
    "sql.connection",
    "message",
    (_K.TRANSIENT, _NO, Scope.VENDOR, "sql.{}", "refused starting closed"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "timeout.connect", "connect_timeout"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.{}", "lost"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "sql.{}", "too_many_connections"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "sql.{}", "no_such_host tls refused_by_server"),
    (_K.PERMANENT, _NO, Scope.KEY, "sql.{}", "authentication"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "no_such_database"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.{}", "in_use conninfo"),
    hints={"closed": "The connection was closed before: open another."},
)

_SAID: Final = (
    ("lost", (r"server closed the connection unexpectedly|connection (was closed|has been closed) unexpectedly"
             r"|connection is lost|connection not open|terminating connection|ssl syscall error|eof detected"
             r"|connection was closed in the middle|could not (receive|send) data|lost synchronization"
             r"|server has gone away|lost connection to|ssl connection has been closed")),
    ("authentication", (r"authentication failed|no pg_hba\.conf entry|role \"[^\"]{0,200}\" does not exist"
                       r"|no password supplied|is not permitted to log in|access denied for user")),
    ("no_such_database", r"database \"[^\"]{0,200}\" does not exist|unknown database"),
    ("too_many_connections", r"too many (clients|connections)|remaining connection slots|max_client_conn"),
    ("starting", r"database system is (starting up|shutting down|in recovery mode|not yet accepting)"),
    ("refused", r"connection refused|no route to host|network is unreachable|can't connect to"),
    ("connect_timeout", r"(connection|connect) ?time(d )?out|timeout expired"),
    ("no_such_host", r"could not translate host name|failed to resolve host|name or service not known|unknown host"),
    ("tls", r"does not support ssl|certificate verify failed|ssl error: certificate"),
    ("in_use", r"another operation is in progress|another command is already in progress"),
    ("conninfo", r"invalid (dsn|connection option|uri)|missing \"=\" after"),
    ("closed", r"connection( is)? (already )?closed|cursor (is )?already closed|pool is closed"),
    # Any other refusal the server sent while connecting: it would refuse again.
    ("refused_by_server", r"connection (to server[^\n]{0,300} )?failed: [^\n]{0,200}fatal: "),
)  # fmt: skip
"""What libpq, asyncpg and MySQL's drivers write of a connection; the first that is in the text counts."""

_PATTERNS: Final = [(key, pattern(source)) for key, source in _SAID]
_LOOKED_AT: Final = 4000

_DBAPI: Final = table(
    "sql.class",
    "class",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.{}", "OperationalError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "sql.{}", "InternalError DatabaseError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "IntegrityError NotSupportedError"),
    (_K.SEMANTIC, _NO, Scope.REQUEST, "sql.{}", "DataError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.{}", "ProgrammingError"),
    (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "sql.{}", "InterfaceError Rollback"),
    # Names a wrapper or a log kept without their SQLSTATE.
    (_K.TRANSIENT, _NO, Scope.REQUEST, "sql.{}",
     ("SerializationFailure DeadlockDetected LockNotAvailable QueryCanceled SerializationError DeadlockDetectedError"
     " TransactionRollbackError QueryCanceledError")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.{}", ("AdminShutdown ConnectionDoesNotExistError"
     " StatementCompletionUnknown StatementCompletionUnknownError TransactionResolutionUnknown")),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "sql.{}", "CannotConnectNow CannotConnectNowError"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "sql.{}", "TooManyConnections TooManyConnectionsError"),
    (_K.FATAL, _NO, Scope.VENDOR, "sql.{}", "DiskFull DiskFullError"),
    (_K.PERMANENT, _NO, Scope.KEY, "sql.{}", "InvalidPassword InvalidAuthorizationSpecification"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "DatabaseDropped InvalidCatalogName"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "TransactionIntegrityConstraintViolation"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "sql.{}", "ProgramLimitExceeded StatementTooComplex TooManyColumns"),
)  # fmt: skip
"""PEP 249's classes, and what they mean where no code says more."""

_OWN: Final = table(
    "sql.class",
    "class",
    # psycopg, psycopg_pool
    (_K.TRANSIENT, _NO, Scope.VENDOR, "timeout.connect", "ConnectionTimeout"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout", "CancellationTimeout"),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "sql.pool", "PoolTimeout TooManyRequests"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.{}", "PoolClosed"),
    # asyncpg
    (_K.TRANSIENT, _NO, Scope.VENDOR, "sql.{}", "TargetServerAttributeNotMatched"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "sql.{}", "OutdatedSchemaCacheError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.{}",
     "ClientConfigurationError UnsupportedClientFeatureError UnsupportedServerFeatureError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.{}", "ProtocolError InternalClientError"),
    # A PL/pgSQL or system error class of asyncpg without a code of its own.
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "PostgresError FatalPostgresError UnknownPostgresError"),
)  # fmt: skip

_SQLALCHEMY: Final = table(
    "sql.sqlalchemy",
    "class",
    # "QueuePool limit of size … reached": no connection was had.
    (_K.OVERLOADED, _NO, Scope.PROCESS, "sql.pool", "TimeoutError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.disconnected", "DisconnectionError InvalidatePoolError"),
    # The row changed under a version counter: read anew and try the whole transaction.
    (_K.TRANSIENT, _NO, Scope.REQUEST, "sql.stale", "StaleDataError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "NoResultFound MultipleResultsFound ObjectDeletedError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.{}",
     ("PendingRollbackError ArgumentError CompileError InvalidRequestError CircularDependencyError IdentifierError"
     " DetachedInstanceError FlushError ObjectDereferencedError")),
    (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "sql.{}", "StatementError"),
    hints={"PendingRollbackError": "Roll the session back before the next statement."},
)  # fmt: skip

_WRAPPERS: Final = frozenset({"sqlalchemy"})
_DRIVERS: Final = "psycopg psycopg_pool psycopg2 asyncpg sqlalchemy pg8000 pymysql MySQLdb aiomysql pyodbc oracledb"
_ANY: Final = frozenset(_DRIVERS.split())

_MYSQL: Final = table(
    "sql.mysql",
    "errno",
    (_K.TRANSIENT, _NO, Scope.REQUEST, "mysql.{}", "1205 1213"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "mysql.{}", "2002 2003 1053"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "mysql.{}", "2006 2013 2055 1927"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "mysql.{}", "1040 1203 1226"),
    (_K.FATAL, _NO, Scope.VENDOR, "mysql.{}", "1021 1114"),
    (_K.PERMANENT, _NO, Scope.KEY, "mysql.{}", "1044 1045 1142 1143"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "mysql.{}", "1048 1049 1062 1216 1217 1451 1452 2005"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "mysql.{}", "1054 1064 1146 1305"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "mysql.{}", "1153"),
)
"""MySQL's "Server Error Message Reference" and "Client Error Message Reference", the numbers agents meet."""


_MYSQL_DRIVERS: Final = ("pymysql.", "MySQLdb.", "aiomysql.")
_PRINTED: Final = pattern(r"\((\d{4}), ")


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the SQLSTATE, then what a wrapper holds, then what is said of the connection, then the class."""
    if evidence.names[0].partition(".")[0] in _WRAPPERS and (found := _wrapped(evidence)):
        return found
    return (
        _by_code(evidence)
        or _by_text(evidence)
        or by_class(evidence, _ANY, _OWN)
        or by_class(evidence, None, _DBAPI)
        or by_class(evidence, None, _STRAY)
    )


_STRAY: Final = {"PendingRollbackError": _SQLALCHEMY["PendingRollbackError"]}


def _by_code(evidence: Evidence) -> Failure | None:
    for name in ("sqlstate", "pgcode"):
        state = evidence.get(name)
        if isinstance(state, str) and (found := failure_of_sqlstate(state)):
            return found
    args = evidence.get("args")
    first = cast("tuple[object, ...]", args)[0] if isinstance(args, tuple) and args else None
    if isinstance(first, int) and not isinstance(first, bool):
        return _MYSQL.get(str(first))
    if (said := _PRINTED.match(evidence.message)) and evidence.names[0].startswith(_MYSQL_DRIVERS):
        return _MYSQL.get(said[1])
    if isinstance(first, str) and evidence.names[0].startswith("pyodbc."):
        return failure_of_sqlstate(first)
    return None


def _by_text(evidence: Evidence) -> Failure | None:
    """Judge what is said of a connection; a statement's own error quotes SQL, and is not looked at."""
    if not evidence.is_exception or not any(
        name.endswith((".OperationalError", ".InterfaceError", ".PostgresError")) for name in evidence.names
    ):
        return None
    text = evidence.message[:_LOOKED_AT].lower()
    for key, words in _PATTERNS:
        if words.search(text):
            return _CONNECTION[key]
    return None


def _wrapped(evidence: Evidence) -> Failure | None:
    """Judge SQLAlchemy's error by the driver's own beneath it; one that broke the connection may have been sent."""
    inside = evidence.inside
    if inside is not None and evidence.depth < _DEPTH_MAX:
        found = _of_driver(inside)
        if found is not None:
            broken = evidence.get("connection_invalidated") is True and found.kind in {_K.UNKNOWN, _K.PROGRAMMING}
            return _CONNECTION["lost"] if broken else found
    if found := by_class(evidence, _WRAPPERS, _SQLALCHEMY_FIRST):
        return found
    said = _QUOTED.match(evidence.message)
    if said and (found := _DBAPI.get(said[2])) and said[2] not in _GENERIC:
        return found
    if evidence.is_a("sqlalchemy.DBAPIError"):
        return (
            _sqlite_text(evidence)
            or _by_text(evidence)
            or by_class(evidence, None, _DBAPI)
            or (_SQLALCHEMY["StatementError"])
        )
    return by_class(evidence, _WRAPPERS, _SQLALCHEMY)


_SQLALCHEMY_FIRST: Final = {"TimeoutError": _SQLALCHEMY["TimeoutError"]}
_GENERIC: Final = frozenset({"OperationalError", "IntegrityError", "ProgrammingError", "DataError", "InterfaceError"})
_QUOTED: Final = pattern(r"\(([\w.]{1,80})\.(\w{1,80})\) ")
"""How SQLAlchemy begins its message: `(psycopg.errors.SerializationFailure) could not …`."""


def _of_driver(inside: Evidence) -> Failure | None:
    if inside.names[0].startswith(("sqlite3.", "apsw.")):
        from yaoki.classify import _sqlite

        return _sqlite.judge(inside)
    # asyncpg's error lies one deeper: SQLAlchemy's adapter raises its own from it.
    return judge(inside) if inside.inside is None else _of_driver(inside.inside) or judge(inside)


def _sqlite_text(evidence: Evidence) -> Failure | None:
    from yaoki.classify import _sqlite

    return _sqlite.judge_text(evidence.message)
