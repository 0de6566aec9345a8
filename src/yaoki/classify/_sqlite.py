"""
SQLite, by its result codes: the standard module's `sqlite_errorcode`, APSW's `extendedresult`.

Codes and their meaning: sqlite.org/rescode.html. The low eight bits are the primary code. A statement that
failed was undone; an I/O error may strike while the change is being written, so that is `maybe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._patterns import pattern
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge", "judge_text"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE

_PRIMARY: Final = (
    "OK ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL"
    " EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB"
)
_NAMES: Final = _PRIMARY.split()
"""By their number, from 0."""

_CODES: Final = table(
    "sqlite.code",
    "sqlite.code",
    (_K.TRANSIENT, _NO, Scope.PROCESS, "sqlite.{}", "BUSY LOCKED PROTOCOL SCHEMA"),
    (_K.FATAL, _NO, Scope.PROCESS, "sqlite.{}", "NOMEM FULL"),
    (_K.FATAL, _MAYBE, Scope.PROCESS, "sqlite.{}", "IOERR CORRUPT INTERNAL"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sqlite.{}",
     "PERM READONLY CANTOPEN CONSTRAINT AUTH NOTADB ABORT INTERRUPT NOTFOUND EMPTY FORMAT NOLFS"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "sqlite.{}", "TOOBIG"),
    (_K.SEMANTIC, _NO, Scope.REQUEST, "sqlite.{}", "MISMATCH"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sqlite.{}", "ERROR MISUSE RANGE"),
    hints={"BUSY": "Another connection is writing: set a busy timeout, and begin with BEGIN IMMEDIATE."},
)  # fmt: skip

_CLASSES: Final = table(
    "sqlite.class",
    "class",
    (_K.PERMANENT, _NO, Scope.REQUEST, "sqlite.{}", "IntegrityError NotSupportedError NotADBError"),
    (_K.SEMANTIC, _NO, Scope.REQUEST, "sqlite.{}", "DataError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sqlite.{}", "ProgrammingError InterfaceError OperationalError Warning"),
    (_K.FATAL, _MAYBE, Scope.PROCESS, "sqlite.{}", "InternalError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "sqlite.{}", "DatabaseError"),
    # APSW's own, which are about the binding and not the database.
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sqlite.{}",
     ("ThreadingViolationError IncompleteExecutionError BindingsError CursorClosedError ConnectionClosedError"
     " ConnectionNotClosedError ExecutionCompleteError ForkingViolationError InvalidContextError VFSFileClosedError"
     " VFSNotImplementedError ExtensionLoadingError NoFTS5Error")),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "sqlite.{}", "ExecTraceAbort"),
)  # fmt: skip

_APSW: Final = {
    f"{own}Error": _CODES[code]
    for own, code in {
        "SQL": "ERROR", "Internal": "INTERNAL", "Permissions": "PERM", "Abort": "ABORT", "Busy": "BUSY",
        "Locked": "LOCKED", "NoMem": "NOMEM", "ReadOnly": "READONLY", "Interrupt": "INTERRUPT", "IO": "IOERR",
        "Corrupt": "CORRUPT", "NotFound": "NOTFOUND", "Full": "FULL", "CantOpen": "CANTOPEN",
        "Protocol": "PROTOCOL", "Empty": "EMPTY", "SchemaChange": "SCHEMA", "TooBig": "TOOBIG",
        "Constraint": "CONSTRAINT", "Mismatch": "MISMATCH", "Misuse": "MISUSE", "NoLFS": "NOLFS", "Auth": "AUTH",
        "Format": "FORMAT", "Range": "RANGE", "NotADB": "NOTADB",
    }.items()
}  # fmt: skip

_SAID: Final = (
    ("BUSY", r"^database is locked"),
    ("LOCKED", r"^database (table|schema) is locked"),
    ("FULL", r"^database or disk is full"),
    ("IOERR", r"^disk I/O error"),
    ("CORRUPT", r"^database disk image is malformed"),
    ("NOTADB", r"^file is not a database"),
    ("READONLY", r"^attempt to write a readonly database"),
    ("CANTOPEN", r"^unable to open database file"),
    ("CONSTRAINT", r"^(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed"),
    ("TOOBIG", r"^(string or blob|query string is) too (big|large)"),
    ("SCHEMA", r"^database schema has changed"),
    ("INTERRUPT", r"^interrupted$"),
    ("ERROR", r"^no such (table|column|function)|^near \"|^table \S{1,200} already exists|^incomplete input"),
)
_PATTERNS: Final = [(key, pattern(source.replace("^", r"^(?:\(\S{1,80}\) )?"))) for key, source in _SAID]
"""SQLite's own sentences (sqlite3_errstr), also behind the class that SQLAlchemy puts before them."""

_PACKAGES: Final = frozenset({"sqlite3", "apsw", "aiosqlite"})


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the result code; of an error without one by its sentence, then its class."""
    for name in ("sqlite_errorcode", "extendedresult", "result"):
        code = evidence.get(name)
        if isinstance(code, int) and not isinstance(code, bool) and 0 < (primary := code & 0xFF) < len(_NAMES):
            return _CODES[_NAMES[primary]]
    return (
        by_class(evidence, {"apsw"}, _APSW) or judge_text(evidence.message) or by_class(evidence, _PACKAGES, _CLASSES)
    )


def judge_text(text: str) -> Failure | None:
    """Judge by SQLite's sentence alone."""
    for key, words in _PATTERNS:
        if words.search(text):
            return _CODES[key]
    return None
