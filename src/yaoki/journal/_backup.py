"""A copy of a store that is in use: consistent, whole, or not there."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from yaoki.clock import SystemClock
from yaoki.errors import JournalError, StoreCorrupt
from yaoki.journal._connect import connect
from yaoki.journal._faults import translate
from yaoki.journal._sqlite import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from yaoki.journal._sqlite import Connection


__all__ = ["copy_store"]

_PAGES = 256
"""Copied between two calls of the progress: 1 MB."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without hard links say: FAT, shares of another system."""


def copy_store(path: str, target: str, progress: Callable[[int, int], None] | None = None) -> int:
    """
    Copy a store to a new file of mode 0600; return its size in bytes.

    All pages come from one snapshot, so writers neither wait nor make it start over, as a copy in steps without a
    snapshot does with every commit of another process. Until it is done, the `-wal` is not reused and grows by what
    is written meanwhile; `VACUUM INTO` would hold it for longer, and tells no progress.
    The copy gets its name only once it was looked through (`quick_check`) and is on disk. A death leaves at most
    `<target>.<32 digits>.partial`, which the next backup to that target removes. Runs in flight are in the copy as if
    their process had died at that moment. Nothing is to be opened by it while the original is at work: keys and ids
    are the same in both.

    Args:
        path: The store, open in this process or not.
        target: A path that does not exist, and none of the store's own.
        progress: Called with the pages copied and all of them. What it raises ends the copy.

    Raises:
        JournalError: The target exists or cannot be written, or the disk is full; nothing is left there.
        StoreCorrupt: The store is damaged; no copy is left.
    """
    final = Path(target).absolute()
    try:
        _refuse(path, final, target)
        _clear_leftovers(final)
        with _partial(final) as partial:
            _copy(path, str(partial), target, progress)
            _sync(partial)
            _give_name(partial, final)
            _sync(final.parent)
    except FileExistsError as error:
        raise JournalError(
            f"backup: {target} exists; nothing is overwritten. Choose another name, or move it away."
        ) from error
    except OSError as error:
        raise JournalError(f"backup: cannot write {target}: {error.strerror}. Check the path and the disk.") from error
    return final.stat().st_size


def _refuse(path: str, final: Path, target: str) -> None:
    if os.path.lexists(final):
        raise FileExistsError(errno.EEXIST, "", target)
    # SQLite would take a file called <store>-journal for an interrupted transaction of the store.
    if str(final.parent.resolve() / final.name).startswith(f"{Path(path).resolve()}-"):
        raise JournalError(f"backup: {target} is a name of the store's own files. Choose another name.")


@contextmanager
def _partial(final: Path) -> Generator[Path, None, None]:
    """Make the file to copy to, locked as long as somebody is at it; it is gone afterwards, by that name."""
    partial = final.with_name(f"{final.name}.{SystemClock().new_id()}.partial")
    fd = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield partial
    finally:
        partial.unlink(missing_ok=True)
        os.close(fd)


def _clear_leftovers(final: Path) -> None:
    """Remove what backups to this name have left that were killed, and nothing of those under way."""
    ours = re.compile(re.escape(final.name) + r"\.[0-9a-f]{32}\.partial")
    for found in final.parent.iterdir():
        if not ours.fullmatch(found.name):
            continue
        with suppress(OSError):  # locked, or gone meanwhile
            fd = os.open(found, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.unlink()
            finally:
                os.close(fd)


def _give_name(partial: Path, final: Path) -> None:
    """Give the copy its name, unless that was taken meanwhile: a link refuses it, a rename would not."""
    try:
        os.link(partial, final)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, "", str(final)) from error
        partial.rename(final)


def _copy(path: str, partial: str, target: str, progress: Callable[[int, int], None] | None) -> None:
    try:
        source = connect(path, "")
        try:
            copy = open_connection(partial, "")
            try:
                _pages(source, copy, progress)
                _check(copy, path)
            finally:
                copy.close()
        finally:
            source.close()
    except apsw.Error as error:
        failure = translate(error, target, "write the backup")
        if isinstance(failure, StoreCorrupt):
            failure = translate(error, path, "copy it")
        raise failure from error


def _pages(source: Connection, copy: Connection, progress: Callable[[int, int], None] | None) -> None:
    for pragma in ("journal_mode = off", "synchronous = off"):  # whole or not there: nothing of it is rolled back
        copy.execute(f"pragma {pragma}").fetchall()
    source.execute("begin").fetchall()
    source.execute("select count(*) from sqlite_schema").fetchall()  # the snapshot is taken by the first read
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(_PAGES)
            if progress is not None:
                progress(backup.page_count - backup.remaining, backup.page_count)


def _check(copy: Connection, path: str) -> None:
    """Look the copy through: pages are copied unread, so that of a damaged store it would be no backup."""
    found: list[tuple[str]] = copy.execute("pragma quick_check(1)").fetchall()
    if found != [("ok",)]:
        raise StoreCorrupt(
            f"store {path}: is damaged ({found[0][0].splitlines()[-1]}); no copy was made. See: yaoki doctor. "
            "Restore an earlier backup; to keep what is left, copy the file and its -wal while nothing uses them."
        )


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
