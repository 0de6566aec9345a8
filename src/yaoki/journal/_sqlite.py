"""The part of apsw the journal uses, with the types its own stubs lack before Python 3.12."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Connection", "Cursor", "Row", "Value", "open_connection"]

Value: TypeAlias = int | float | bytes | str | None
Row: TypeAlias = tuple[Any, ...]
"""Columns as the STRICT schema types them."""


class Cursor(Protocol):
    """A cursor; one statement an `execute`."""

    def execute(self, statements: str, bindings: Sequence[Value] = (), /) -> Cursor:
        """Run one statement with its parameters."""
        ...

    def executemany(self, statements: str, sequence: Sequence[Sequence[Value]], /) -> Cursor:
        """Run one statement for each set of parameters."""
        ...

    def fetchall(self) -> list[Row]:
        """Return all rows, which ends the statement."""
        ...

    @property
    def get(self) -> Any:  # noqa: ANN401 - a column of any type
        """The only column of the only row."""
        ...


class Connection(Protocol):
    """A connection."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def backup(self, database: str, source: Connection, source_database: str, /) -> Any:  # noqa: ANN401 - untyped there
        """Start to copy a database of the source into this one, page by page."""
        ...

    def changes(self) -> int:
        """Return how many rows the last statement wrote."""
        ...

    def close(self) -> None:
        """Close it; the last one of a store checkpoints it."""
        ...

    def config(self, op: int, value: int, /) -> int:
        """Set one of SQLite's own switches."""
        ...

    def cursor(self) -> Cursor:
        """Return a cursor."""
        ...

    def execute(self, statements: str, bindings: Sequence[Value] = (), /) -> Cursor:
        """Run one statement on a cursor of its own."""
        ...

    def set_busy_handler(self, callable: Callable[[int], bool] | None, /) -> None:  # noqa: A002 - apsw's name
        """Set who is asked, with the number of tries so far, whether to try again for a lock."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> tuple[int, int]:
        """Copy the `-wal` back; return its frames, and how many are copied."""
        ...


def open_connection(path: str, vfs: str) -> Connection:
    """Open an existing database file for reading and writing; nothing is read from it yet."""
    return cast("Connection", apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None))
