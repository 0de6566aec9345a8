"""A copy of a store that is in use: consistent, whole, or not there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from yaoki.errors import JournalError
from yaoki.journal._connect import connect
from yaoki.journal._faults import translate
from yaoki.journal._sqlite import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.journal._sqlite import Connection


__all__ = ["copy_store"]

_PAGES = 256
"""Copied between two calls of the progress: 1 MB."""


def copy_store(path: str, target: str, progress: Callable[[int, int], None] | None = None) -> int:
    """
    Copy a store to a new file of mode 0600; return its size in bytes.

    All pages come from one snapshot, so writers neither wait nor make it start over; until it is done, the
    `-wal` is not reused and grows by what is written meanwhile. The copy gets its name only once it is on disk:
    a death leaves at most a file called `<target>.partial`, which the next backup to that target replaces.
    Runs in flight are in the copy as if their process had died at that moment. Nothing is to be opened by it
    while the original is at work: keys and ids are the same in both.

    Args:
        path: The store, open in this process or not.
        target: A path that does not exist.
        progress: Called with the pages copied and all of them.

    Raises:
        JournalError: The target exists or cannot be written, or the disk is full; nothing is left there.
    """
    final = Path(target).absolute()
    partial = final.with_name(final.name + ".partial")
    if os.path.lexists(final):
        raise JournalError(f"backup: {target} exists; nothing is overwritten. Choose another name, or move it away.")
    try:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            _copy(path, partial, progress)
            _sync(partial)
            os.link(partial, final)  # unlike a rename, it refuses a name taken meanwhile
            _sync(final.parent)
        finally:
            for leftover in (partial, Path(f"{partial}-journal"), Path(f"{partial}-wal"), Path(f"{partial}-shm")):
                leftover.unlink(missing_ok=True)
    except OSError as error:
        raise JournalError(f"backup: cannot write {target}: {error.strerror}. Check the path and the disk.") from error
    return final.stat().st_size


def _copy(path: str, partial: Path, progress: Callable[[int, int], None] | None) -> None:
    source = connect(path, "")
    try:
        copy = open_connection(str(partial), "")
        try:
            _pages(source, copy, progress)
        finally:
            copy.close()
    except apsw.Error as error:
        raise translate(error, str(partial), "write the backup") from error
    finally:
        with suppress(apsw.Error):
            source.execute("rollback")
        source.close()


def _pages(source: Connection, copy: Connection, progress: Callable[[int, int], None] | None) -> None:
    source.execute("begin").fetchall()
    source.execute("select count(*) from run").fetchall()  # the snapshot is taken by the first read
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(_PAGES)
            if progress is not None:
                progress(backup.page_count - backup.remaining, backup.page_count)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
