"""Connections to a store: how they are opened, and the pragmas every one of them is held to."""

from __future__ import annotations

import os

import apsw

from yaoki.clock import SystemClock
from yaoki.errors import JournalError
from yaoki.journal._place import inspect, refuse_content
from yaoki.journal._schema import migrate
from yaoki.journal._sqlite import Connection, open_connection

__all__ = ["BUSY_S", "WAL_LIMIT_BYTES", "WORK_BUSY_S", "connect", "open_store", "outwait"]

BUSY_S = 10.0
"""How long a connection waits for another process's lock. Commits are short; nothing holds one for long."""

WORK_BUSY_S = 300.0
"""
How long a worker waits, from when it registers. Only a process that was stopped in the middle of a commit holds the
lock for longer than moments; its supervisor kills it after 240 s, and its neighbours' runs are to outlive that.
"""

WAL_LIMIT_BYTES = 8 << 20
"""A `-wal` is checkpointed at half of this, and cut back to it once it starts over."""

_DELAY_MIN_S = 0.000_1
_DELAY_MAX_S = 0.000_5

_PRAGMAS: tuple[tuple[str, str | int, str | int], ...] = (
    ("journal_mode", "wal", "wal"),
    ("synchronous", "normal", 1),  # the barrier is our own fdatasync, outside SQLite's write lock
    ("wal_autocheckpoint", 0, 0),  # the syncer thread does it, on a connection of its own
    ("journal_size_limit", WAL_LIMIT_BYTES, WAL_LIMIT_BYTES),
    ("mmap_size", 0, 0),  # a read error of a mapped page is a signal, not an exception
    ("trusted_schema", "off", 0),
)

_MACHINE = SystemClock()  # waiting for another process takes real time, whatever clock the runs go by


def open_store(path: str, vfs: str) -> Connection:
    """
    Open a store: create it if it is absent or empty, bring its schema up to date, set it to WAL.

    A new store gets its whole schema in one transaction under a rollback journal, before WAL: whatever
    kills us, the file is empty or ours, by its header alone.

    Raises:
        StoreRefused: Another program's database, or a newer schema. Nothing was changed.
        StoreCorrupt: No database.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        header = inspect(path, vfs)
        if header is not None:
            refuse_content(path, header.application_id, header.user_version)
    connection = _open(path, vfs)
    try:
        _prepare(connection, path)
        _configure(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: Connection, path: str) -> None:
    # A store that is refused keeps its -wal as it is, though we may be the last to close it.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Again through SQLite: a change of the header may still be in the -wal. In one snapshot: another process
    # may be creating the schema right now.
    connection.execute("begin")
    application_id: int = connection.execute("pragma application_id").get
    user_version: int = connection.execute("pragma user_version").get
    tables: int = connection.execute("select count(*) from sqlite_schema").get
    connection.execute("commit")
    if application_id or tables:
        refuse_content(path, application_id, user_version)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    if migrate(connection):
        connection.wal_checkpoint()  # so that the header in the file itself says which schema this is
        _fsync_directory(path)


def connect(path: str, vfs: str, *, busy_s: float = BUSY_S) -> Connection:
    """Open one more connection to a store that is open."""
    connection = _open(path, vfs, busy_s=busy_s)
    try:
        _configure(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def outwait(connection: Connection, path: str) -> None:
    """Let a connection wait for the lock as long as a worker does; from `BUSY_S` on a warning says so."""
    connection.set_busy_handler(_Patience(WORK_BUSY_S, path))


def _configure(connection: Connection, path: str) -> None:
    for name, value, expected in _PRAGMAS:
        _set(connection, f"pragma {name} = {value}")
        found = connection.execute(f"pragma {name}").get
        if found != expected:
            raise JournalError(f"store {path}: SQLite refused pragma {name} = {value} (it is {found}).")
    connection.execute("select count(*) from sqlite_schema").fetchall()  # from here on the -wal exists


def _open(path: str, vfs: str, *, busy_s: float = BUSY_S) -> Connection:
    connection = open_connection(path, vfs)
    connection.set_busy_handler(_Patience(busy_s))
    return connection


class _Patience:
    """
    SQLite's busy handler: short waits, so that writers of several processes take turns, and a bound.

    The lock is had by whoever asks in the moment it is free, so the longest waits are a matter of how often one asks.
    SQLite's own waits grow to 100 ms, in which three other processes commit thousands of times. With ten processes
    that write all the time, the worst of 100,000 appends waits about 100 ms here, and 300 ms at 2 ms a try.
    """

    def __init__(self, busy_s: float, store: str = "") -> None:
        self._busy_s = busy_s
        self._store = store
        self._since_s = 0.0
        self._silent = True

    def __call__(self, tries: int) -> bool:
        now_s = _MACHINE.monotonic_s()
        if tries == 0:
            self._since_s = now_s
            self._silent = True
        elif now_s - self._since_s > self._busy_s:
            return False
        elif self._silent and now_s - self._since_s > BUSY_S:
            self._silent = False
            self._warn()
        _MACHINE.sleep(min(_DELAY_MIN_S * (tries + 1), _DELAY_MAX_S))
        return True

    def _warn(self) -> None:
        import logging

        logging.getLogger("yaoki").warning(
            "store %s: another process has kept it locked for %d s; waiting up to %d s. "
            "Look for a stopped process on it (ps: state T), and let it go on or end it.",
            self._store,
            BUSY_S,
            self._busy_s,
        )


def _set(connection: Connection, pragma: str) -> None:
    """Set a pragma, waiting where SQLite would not: for the switch to WAL while another process makes it."""
    patience = _Patience(BUSY_S)
    tries = 0
    while True:
        try:
            connection.execute(pragma).fetchall()
        except apsw.BusyError:
            if not patience(tries):
                raise
            tries += 1
        else:
            return


def _fsync_directory(path: str) -> None:
    """Make the new file's name survive power loss; SQLite syncs the content."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY)  # noqa: PTH120
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
