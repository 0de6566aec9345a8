"""
Who is alive: a lock the operating system frees when its holder dies, however it dies.

On Linux one file per store, `<store>-lock`, and one byte of it per worker, held by an open-file-description
lock: it can be tested without being taken, is not dropped when some other descriptor of the file is closed,
and is free about 1.5 ms after SIGKILL. Elsewhere one file per worker, held by flock. Locks survive SIGSTOP:
a hung worker is alive here.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import Protocol

__all__ = ["ByteLocks", "FileLocks", "Liveness", "liveness"]

_FLOCK = struct.Struct("@hhqqi0q")
"""`struct flock`: type, whence, start, length, pid (0 for these locks), padded to its alignment."""


class Liveness(Protocol):
    """Locks of the workers of one store."""

    def hold(self, worker: int) -> None:
        """Take the worker's lock, for as long as this object is open. Raises OSError if it is taken."""
        ...

    def alive(self, worker: int) -> bool:
        """Whether some *other* object holds the worker's lock."""
        ...

    def held_by(self, worker: int, pid: int) -> bool:
        """Whether the process of that number, as numbered here, is the one that holds the worker's lock."""
        ...

    def close(self) -> None:
        """Let go of it. Also called in a forked child, which inherits the lock with the descriptor."""
        ...


def liveness(store: str) -> Liveness:
    """Return what this system offers."""
    if sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK"):
        return ByteLocks(store)
    return FileLocks(store)


class ByteLocks:
    """One byte per worker in `<store>-lock`, by F_OFD_SETLK (Linux)."""

    def __init__(self, store: str) -> None:
        self._fd = os.open(f"{store}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def hold(self, worker: int) -> None:
        """Take byte `worker`."""
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _byte(worker))

    def alive(self, worker: int) -> bool:
        """Whether another open file holds byte `worker`."""
        answer = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _byte(worker))
        kind: int = _FLOCK.unpack(answer)[0]
        return kind != fcntl.F_UNLCK

    def held_by(self, worker: int, pid: int) -> bool:
        """Whether that process has the lock; `True` also for one that may not be looked into: a signal then fails."""
        held = (f":{os.fstat(self._fd).st_ino}", str(worker), str(worker))
        try:
            descriptors = os.listdir(f"/proc/{pid}/fdinfo")  # noqa: PTH208 - pathlib costs what importing yaoki may not
        except PermissionError:
            return True
        except OSError:
            return False
        return any(_holds(f"/proc/{pid}/fdinfo/{descriptor}", held) for descriptor in descriptors)

    def close(self) -> None:
        """Close the file; the kernel frees the byte."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _byte(worker: int) -> bytes:
    return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, worker, 1, 0)


def _holds(path: str, held: tuple[str, str, str]) -> bool:
    """Whether a descriptor has a lock: `lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:2148047 7 7`, see proc(5)."""
    try:
        with open(path) as info:  # noqa: PTH123
            locks = [line.split() for line in info if line.startswith("lock:")]
    except OSError:  # closed meanwhile
        return False
    return any(lock[-3].endswith(held[0]) and tuple(lock[-2:]) == held[1:] for lock in locks)


class FileLocks:
    """One file per worker, `<store>-lock.<worker>`, by flock. What the dead leave is removed by whoever sees it."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._held: tuple[int, int, str] | None = None

    def hold(self, worker: int) -> None:
        """Create and lock the worker's file."""
        path = f"{self._store}-lock.{worker}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        self._held = fd, os.getpid(), path

    def alive(self, worker: int) -> bool:
        """Whether the worker's file is locked."""
        path = f"{self._store}-lock.{worker}"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            os.unlink(path)  # noqa: PTH108 - numbers are never reused, so nobody will lock it again
            return False
        finally:
            os.close(fd)

    def held_by(self, worker: int, pid: int) -> bool:
        """Whether the worker lives and there is such a process; whose a lock is, flock does not say."""
        if not self.alive(worker):
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def close(self) -> None:
        """Close the file, and remove it unless this is a forked child: the parent still holds it."""
        if self._held is None:
            return
        fd, pid, path = self._held
        self._held = None
        if pid == os.getpid():
            os.unlink(path)  # noqa: PTH108
        os.close(fd)
