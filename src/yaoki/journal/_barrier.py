"""
Durability: the barrier, the thread that shares it, and checkpoints.

A commit is *written*: it survives the process. It is *synced*, and survives power loss, after an fdatasync
of the `-wal` that started after it. We do that ourselves, outside SQLite's write lock, which `synchronous=FULL`
would hold across its fsync. The `-wal` may be opened beside SQLite; never the database or `-shm`, since
closing a descriptor of theirs drops SQLite's own locks.

A sync that failed is never retried: the kernel may have dropped the pages, and the next call would lie
(Rebello et al., *Can Applications Recover from fsync Failures?*, USENIX ATC '20).
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import TYPE_CHECKING, TypeAlias

import apsw

from yaoki.errors import JournalError
from yaoki.journal._connect import WAL_LIMIT_BYTES, connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.journal._sqlite import Connection

    Sync: TypeAlias = Callable[[int], None]
    Deliver: TypeAlias = Callable[[list[object], BaseException | None], None]

__all__ = ["Barrier", "Deliver", "Sync", "default_sync"]

_CHECKPOINT_BUSY_S = 0.02  # writers wait as long
_FRAME_BYTES = 4096 + 24
_REST_FRAMES = 1000  # 4 MB: some 10 ms
_ROUNDS = 5
_SOON_S = 0.002
_HOT_ROUNDS = 50
_LOOK_EVERY = 64
_LOOK_AGAIN = 1024


def default_sync(fd: int) -> None:
    """Bring the file's data to the disk itself; raises OSError if that failed."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync on macOS stops at the drive's cache
    else:
        os.fdatasync(fd)


class Barrier:
    """The `-wal` of one journal: who waits for it, and how far it may grow."""

    def __init__(self, path: str, vfs: str, *, sync: Sync, sync_every_ms: int) -> None:
        self._path = path
        self._vfs = vfs
        self._sync = sync
        self._every_s = sync_every_ms / 1000
        self._fd = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        self._wake = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._waiters: list[object] = []
        self._marked = False
        self._armed = False  # the thread is up, and will look at `_marked` within sync_every_ms
        self._urgent = False  # `soon` was asked for, and no sync has started since
        self._seen = -1  # syncs started by the last such round
        self._hot = 0  # rounds of _SOON_S the thread will still look at `_urgent` by itself
        self._look = False  # whether the -wal has outgrown its limit
        self._closing = False
        self._look_at = _LOOK_EVERY  # number of the sync
        self._turn = threading.Lock()
        self._started = 0  # syncs, by number
        self._ended = 0  # the last of them that succeeded
        self.error: JournalError | None = None
        self.on_failure: Callable[[JournalError], None] = _ignore
        self.deliver: Deliver = _nobody

    def mark(self) -> None:
        """Ask for a sync within `sync_every_ms`; nearly free when asked already."""
        if not self._marked:
            self._marked = True
            if not self._armed:
                self._rouse()

    def soon(self) -> None:
        """
        Start a sync without waiting for it: within 4 ms, unless another starts before that and covers it.

        The little delay is what lets a tight loop of effects share: the next begin's own sync comes sooner.
        """
        self._marked = True
        self._urgent = True
        if not self._hot:
            self._hot = _HOT_ROUNDS
            self._rouse()

    def wait(self) -> None:
        """
        Sync here and now; threads that arrive during one share the next. Raises JournalError, for good, if it failed.

        One at a time, since the kernel reports a lost page to one caller only: a second call beside it could
        return success for the same page.
        """
        self._marked = self._urgent = False  # before the sync: what is marked from here on waits for the next
        arrived = self._started
        with self._turn:
            if self.error is not None:
                raise JournalError(str(self.error)) from self.error
            if self._ended > arrived:
                return
            self._started += 1
            try:
                self._sync(self._fd)
                if not os.fstat(self._fd).st_nlink:
                    raise OSError(errno.ENOENT, "the store was deleted while it was in use")  # noqa: TRY301
            except OSError as error:
                raise self._fail(error) from error
            self._ended = self._started
            if self._started < self._look_at:
                return
            self._look_at += _LOOK_EVERY
        self._look = True
        self._rouse()

    def enqueue(self, waiter: object) -> None:
        """Sync soon, together with everybody else who waits, then deliver."""
        with self._wake:
            self._waiters.append(waiter)
            self._start()
            self._wake.notify()

    def close(self) -> None:
        """Stop the thread, after it has served its waiters, and close the file."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        self.drop()

    def drop(self) -> None:
        """Close the file alone: for a forked child, where the thread does not exist and its locks may be held."""
        self._marked = self._armed = True  # mark() asks nobody any more
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _fail(self, error: OSError) -> JournalError:
        self.error = JournalError(
            f"store {self._path}: cannot sync the journal: {error.strerror or error}. "
            "What was not acknowledged may be lost; check the disk, then run again."
        )
        self.on_failure(self.error)
        return self.error

    def _rouse(self) -> None:
        with self._wake:
            self._armed = True
            self._start()
            self._wake.notify()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="yaoki-journal-sync", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        checkpointer = Checkpointer(self._path, self._vfs)
        try:
            while True:
                waiters, due = self._wait_for_work()
                if waiters or due:
                    self._sync_for(waiters)
                if due or self._look:
                    self._look = False
                    if not checkpointer.look():
                        self._look_at = self._started + _LOOK_AGAIN
                if self._closing and not self._waiters:
                    return
        finally:
            checkpointer.close()

    def _wait_for_work(self) -> tuple[list[object], bool]:
        """Return who waits, and whether what was marked is due."""
        with self._wake:
            due = self._look or self._closing
            if not (self._waiters or due):
                if self._hot:
                    due = self._wait_hot()
                elif self._armed:
                    due = not self._wake.wait(self._every_s)
                    self._armed = self._marked or not due
                    if self._marked:  # looked at after `_armed` was lowered: mark() looks in the other order
                        self._armed = True
                else:
                    self._wake.wait()
            waiters, self._waiters = self._waiters, []
            return waiters, due and self._marked

    def _wait_hot(self) -> bool:
        """Wait one short round; return whether a sync is wanted now."""
        self._wake.wait(_SOON_S)
        # Not at first sight: in a tight loop of effects the next begin's sync is on its way, and covers it.
        stale = self._urgent and self._seen == self._started
        self._seen = self._started
        self._hot = _HOT_ROUNDS if self._urgent else self._hot - 1
        if self._hot:
            return stale
        return self._urgent or self._marked  # `soon` looks in the other order, so nothing is missed

    def _sync_for(self, waiters: list[object]) -> None:
        error: JournalError | None = None
        try:
            self.wait()
        except JournalError as failed:
            error = failed
        if waiters:
            try:
                self.deliver(waiters, error)
            except RuntimeError:  # the event loop they waited in is closed: nobody waits any more
                return


class Checkpointer:
    """
    Copies the `-wal` back into the database, on the syncer thread's own connection.

    At half of `WAL_LIMIT_BYTES`, so that the file, once grown to the limit, is written over in place: an
    fdatasync of a file that grows writes its metadata too, and takes half as long again.
    """

    def __init__(self, path: str, vfs: str) -> None:
        self._path = path
        self._vfs = vfs
        self._connection: Connection | None = None

    def look(self) -> bool:
        """Checkpoint if it is time; return whether the `-wal` can start over, or need not yet."""
        try:
            if self._connection is None:
                self._connection = connect(self._path, self._vfs, busy_s=_CHECKPOINT_BUSY_S)
            return self._copy_back(self._connection)
        except apsw.Error:
            # A reader in the way, mostly. Nothing is lost: the records are in the -wal, and a disk that fails
            # shows at the next write.
            return False

    def _copy_back(self, connection: Connection) -> bool:
        """
        Copy most of it beside the writers; then, holding them for the little that came meanwhile, the rest.

        Writers that never pause would leave a rest every time, and the `-wal` never start over. A large rest is
        not copied while they are held: one a long reader had kept back took 400 ms.
        """
        frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if frames == copied or frames * _FRAME_BYTES <= WAL_LIMIT_BYTES // 2:
            return True
        for _ in range(_ROUNDS):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            before = copied
            frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if frames - copied <= _REST_FRAMES:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                return True
            if copied <= before:  # a reader is in the way
                return False
        return False

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


def _ignore(error: JournalError) -> None:
    del error


def _nobody(waiters: list[object], error: BaseException | None) -> None:
    raise AssertionError(f"{len(waiters)} wait for a sync and `deliver` is not set") from error
