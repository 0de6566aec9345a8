"""How a store is: what can be asked of its file beside its runs. Used by `yaoki doctor`; nothing is changed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import apsw
from msgspec import Struct

from yaoki.journal._connect import WAL_LIMIT_BYTES, connect
from yaoki.journal._faults import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from yaoki.clock import Clock
    from yaoki.journal._sqlite import Connection

__all__ = ["Health", "StoreSize", "quick_check", "readers_of", "size_of", "sqlite_version"]

_STEPS = 100_000
"""SQLite's virtual machine steps between two looks at the time: some milliseconds."""
_SAID_MAX = 5
_READ_MARKS = range(123, 128)
"""Bytes of the `-shm` that a reader locks: one of five marks (SQLite, *WAL-mode File Format*, 2.2)."""


class Health(Struct, frozen=True, kw_only=True):
    """What SQLite's own check said."""

    finished: bool
    """Whether it saw the whole file in the time it had."""
    wrong: list[str]
    """What it found, at most five lines; empty is well."""


class StoreSize(Struct, frozen=True, kw_only=True):
    """Bytes of a store."""

    file: int
    free: int
    """Inside the file, left by what was discarded; used again by what comes."""
    wal: int
    wal_limit: int
    """What the `-wal` is cut back to whenever it can start over."""
    wal_open: int
    """Of the `-wal`, not copied back yet."""
    newest_ms: int
    """The latest time any run carries."""


def sqlite_version() -> tuple[str, str]:
    """Return the versions of SQLite and of apsw, which brings it."""
    return apsw.sqlite_lib_version(), apsw.apsw_version()


def quick_check(path: str, clock: Clock, *, most_s: float, tell: Callable[[float], None]) -> Health:
    """
    Let SQLite look through the whole store, for at most `most_s`; `tell` hears how many seconds it has taken.

    It reads one snapshot meanwhile; writers go on, and the `-wal` grows by what they write.

    Raises:
        JournalError: The store cannot be read at all.
    """
    began_s = clock.monotonic_s()

    def late() -> bool:
        tell(clock.monotonic_s() - began_s)
        return clock.monotonic_s() - began_s > most_s

    with _opened(path, "check it") as connection:
        cast("apsw.Connection", connection).set_progress_handler(late, _STEPS)
        try:
            rows = connection.execute(f"pragma quick_check({_SAID_MAX})").fetchall()
        except apsw.InterruptError:
            return Health(finished=False, wrong=[])
    said = [str(row[0]) for row in rows]
    return Health(finished=True, wrong=[] if said == ["ok"] else said)


def size_of(path: str) -> StoreSize:
    """
    Return how large a store is, and how much of its `-wal` is not copied back.

    Raises:
        JournalError: The store cannot be read.
    """
    with _opened(path, "measure it") as connection:
        page: int = connection.execute("pragma page_size").get
        free: int = connection.execute("pragma freelist_count").get
        newest: int | None = connection.execute("select max(max(changed_ms, created_ms)) from run").get
        frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return StoreSize(
        file=os.path.getsize(path),  # noqa: PTH202 - strings throughout, as SQLite takes them
        free=free * page,
        wal=_size(f"{path}-wal"),
        wal_limit=WAL_LIMIT_BYTES,
        wal_open=max(frames - copied, 0) * page,
        newest_ms=newest or 0,
    )


def readers_of(path: str) -> set[tuple[int, int]]:
    """
    Return (pid, mark) of each process that reads a snapshot of the store just now, by `/proc/locks`.

    Empty where there is no such file. A mark that one process holds for long keeps the `-wal` from starting over.
    """
    try:
        inode = os.stat(f"{path}-shm").st_ino  # noqa: PTH116
        with open("/proc/locks", encoding="ascii") as locks:  # noqa: PTH123
            lines = locks.read().splitlines()
    except OSError:
        return set()
    found: set[tuple[int, int]] = set()
    for line in lines:
        words = line.replace(" ->", "").split()
        if len(words) < 8 or words[5].rpartition(":")[2] != str(inode) or not words[6].isdigit():  # noqa: PLR2004
            continue
        if int(words[6]) in _READ_MARKS:
            found.add((int(words[4]), int(words[6])))
    return found


@contextmanager
def _opened(path: str, doing: str) -> Generator[Connection, None, None]:
    """Open one more connection; what goes wrong on it is said in Yaoki's words."""
    try:
        connection = connect(path, "")
        try:
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise translate(error, path, doing) from error


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)  # noqa: PTH202
    except OSError:
        return 0
