"""SQLite's errors in Yaoki's words: what happened, where, what next."""

from __future__ import annotations

import os

import apsw

from yaoki.errors import JournalError, StoreCorrupt

__all__ = ["translate"]

_LEAST_BYTES = 1 << 16
"""SQLite needs 32 kB of shared memory beside a store to read it at all."""
_NEXT: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.FullError, "the disk is full", "Free space on that file system, then run again"),
    (apsw.ReadOnlyError, "it cannot be written", "Make the file and its directory writable, then run again"),
    (apsw.CantOpenError, "it cannot be opened", "Check the path and its permissions, then run again"),
    (apsw.BusyError, "another process kept it locked", "Look for a process stuck on it, then run again"),
    (apsw.IOError, "the disk failed", "Check the disk and free space, then run again"),
    (apsw.NoMemError, "out of memory", "Free memory, then run again"),
    (apsw.ConstraintError, "a record's place is already taken", "Two drivers wrote one run: please report this"),
)


def translate(error: apsw.Error, path: str, doing: str) -> JournalError:
    """Return the error to raise for `error`, met in `doing` (a verb phrase: "append to the journal")."""
    if isinstance(error, (apsw.NotADBError, apsw.CorruptError)):
        return StoreCorrupt(
            f"store {path}: cannot {doing}: the file is damaged or no database ({error}). "
            "Move it away with its -wal and restore a backup; nothing was repaired or removed."
        )
    if isinstance(error, apsw.IOError) and _full(path):  # SQLite's word for it where it makes room in a file by itself
        error = apsw.FullError(str(error))
    for kind, what, then in _NEXT:
        if isinstance(error, kind):
            return JournalError(
                f"store {path}: cannot {doing}: {what} ({error}). {then}; what was acknowledged is kept."
            )
    return JournalError(f"store {path}: cannot {doing}: {type(error).__name__}: {error}. Please report this.")


def _full(path: str) -> bool:
    """Whether nothing more fits on the file system of a store."""
    try:
        disk = os.statvfs(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120 - strings, as SQLite takes them
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_BYTES
