"""The schema and its forward migrations: SQL files `sql/NNNN_name.sql`, one transaction each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apsw import complete

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaoki.journal._sqlite import Connection

__all__ = ["APPLICATION_ID", "VERSION", "migrate", "migrations", "statements"]

APPLICATION_ID = 0x59414F4B
"""In the database header, so that no other program's file is taken for a store. ASCII "YAOK"."""

VERSION = 4
"""The schema this code reads and writes: the number of the last migration."""


def migrations() -> list[tuple[int, str]]:
    """Return all migrations as (number, SQL), in order."""
    from pathlib import Path  # not at import: a store is made once, and processes start often

    folder = Path(__file__).parent / "sql"
    return sorted((int(file.name[:4]), file.read_text("utf-8")) for file in folder.glob("[0-9]*.sql"))


def statements(sql: str) -> Iterator[str]:
    """Split a script into its statements, since `execute` of several stops at the first that returns a row."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if complete(statement):
            yield statement
            statement = ""


def migrate(connection: Connection) -> bool:
    """Bring the schema to `VERSION`, one transaction a migration, and say whether anything was done."""
    changed = False
    if connection.execute("pragma user_version").get == VERSION:
        return changed
    for number, sql in migrations():
        connection.execute("begin immediate")
        try:
            # Read inside the transaction: another process may have migrated while we waited for the lock.
            if connection.execute("pragma user_version").get < number:
                for statement in statements(sql):
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {number}")
                changed = True
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
    return changed
