"""
SQLSTATE: what five characters say, by ISO/IEC 9075 and PostgreSQL's Appendix A ("PostgreSQL Error Codes").

A statement answered with an error was rolled back, so executed is `no`; `maybe` is left to the codes that say
the outcome itself is unknown, and to sessions that ended in the middle. CockroachDB, YugabyteDB and the ODBC
drivers use the same codes.
"""

from __future__ import annotations

from typing import Final

from yaoki.classify._table import table
from yaoki.records import Executed, Failure, FailureKind, Scope

__all__ = ["failure_of_sqlstate"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE

_STATES: Final = table(
    "sql.state",
    "sqlstate",
    # 40001, 40P01: "the client should retry the complete transaction". 55P03, 57014, 25P03, 25P04: a limit of time.
    (_K.TRANSIENT, _NO, Scope.REQUEST, "sql.{}", "40000 40001 40P01 55P03 55006 57014 25P03 25P04 57P05 72000"),
    # Never connected, or told to come back: nothing of the session ran.
    (_K.TRANSIENT, _NO, Scope.VENDOR, "sql.{}", "08001 57P03 HV00N"),
    # The connection, or the server, went away in the middle. 08007 and 40003 say outright that nobody knows.
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.{}",
     "08000 08003 08006 08007 08S01 40003 57P01 57P02 XX000 HYT00 HYT01 58000"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "sql.{}", "53000 53200 53300"),
    (_K.FATAL, _NO, Scope.VENDOR, "sql.{}", "53100 58030 XX001 XX002"),
    (_K.PERMANENT, _NO, Scope.KEY, "sql.{}", "08004 42501"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.{}", "25006 40002 55000 55P02 57P04 P0001 P0002 P0003 58P01 58P02 58P03"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.{}", "25P02 55P04 08P01"),
    hints={
        "25P02": "An earlier statement of this transaction failed: roll back before the next.",
        "53300": "The server takes no more connections: fewer workers, or a pooler.",
    },
)  # fmt: skip
"""Codes that say more than their class."""

_CLASSES: Final = table(
    "sql.state",
    "sqlstate",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "sql.class.{}", "08 57 58 XX"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "sql.class.{}", "40"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "sql.class.{}", "53"),
    # Values that do not fit their type: whoever made them, often a model, can make others.
    (_K.SEMANTIC, _NO, Scope.REQUEST, "sql.class.{}", "22"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "sql.class.{}", "0A 23 27 2B 3D 3F 44 55 P0 F0 0L 0P"),
    (_K.PERMANENT, _NO, Scope.KEY, "sql.class.{}", "28"),
    (_K.PERMANENT, _MAYBE, Scope.VENDOR, "sql.class.{}", "HV 38 39 2F"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "sql.class.{}", "54"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "sql.class.{}", "42 21 24 25 26 2D 34 3B 03 07 09 0B 0F 0Z 10 20"),
)

_LENGTH: Final = 5


def failure_of_sqlstate(state: str) -> Failure | None:
    """Return what a code says: it itself, else its class of the first two characters; nothing if it is no code."""
    if len(state) != _LENGTH or not state.isalnum() or not state.isascii() or not state.isupper() | state.isdigit():
        return None
    if found := _STATES.get(state):
        return found
    found = _CLASSES.get(state[:2])
    if found is None:
        return None
    return Failure(
        kind=found.kind,
        executed=found.executed,
        scope=found.scope,
        reason=f"sql.{state}",
        evidence=found.evidence,
    )
