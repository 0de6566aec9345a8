"""
What is known of a command, in files named by its idempotency key, in a private folder beside the store.

    KEY.lock    who asked for it: held (flock) from before the watcher is started until that has ended
    KEY.start   the command is about to be started
    KEY.done    how it ended, its exit status, its output

So whoever finds the lock free finds the truth: nobody is left who could still start the command or write its end.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Done", "Files", "Who", "folder_beside", "folder_of_nobody", "left_in"]

_SUFFIXES = (".done", ".ending", ".start", ".lock")
"""In the order they are removed: the lock, by which they are found, goes last."""
_CHARACTER = 0x80, 0xC0
"""Bytes inside a UTF-8 character lie from the first up to the second."""


class Who(Struct, frozen=True):
    """Who asked for a command: a step of a run. Empty outside any run."""

    run: str = ""
    step: str = ""


class Done(NamedTuple):
    """How a command ended."""

    how: Literal["exited", "timeout", "stopped"]
    exit_code: int
    cut_bytes: int
    output: str


class Files:
    """The files of one action."""

    def __init__(self, folder: str, key: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, key)  # noqa: PTH118 - strings, as the watcher takes them

    def take(self, who: Who) -> int | None:
        """
        Take the lock, and forget what an earlier start has left; return the descriptor that holds it.

        None: an earlier start still runs.
        """
        fd = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(who), 0)
        self._unlink(*_SUFFIXES[:-1])
        return fd

    def under_way(self) -> bool:
        """Whether the command runs, or may still be started."""
        try:
            fd = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def watcher(self) -> int:
        """Return the pid of who watches the command, 0 if it was never started. Only while it is under way."""
        data = self._read(".start")
        return int(data) if data else 0

    @property
    def started(self) -> bool:
        """Whether the command was about to be started."""
        return os.path.exists(f"{self.path}.start")  # noqa: PTH110

    def done(self) -> Done | None:
        """Return how it ended, if that was written."""
        data = self._read(".done")
        if data is None:
            return None
        head, _, output = data.partition(b"\n")
        how, code, cut = head.decode().split(" ")
        if int(cut):  # the cut may lie inside a character
            while output and _CHARACTER[0] <= output[0] < _CHARACTER[1]:
                output = output[1:]
        text = output.decode("utf-8", "replace")
        return Done(cast("Literal['exited', 'timeout', 'stopped']", how), int(code), int(cut), text)

    def who(self) -> Who | None:
        """Return who asked for it."""
        try:
            return msgspec.json.decode(self._read(".lock") or b"", type=Who)
        except msgspec.DecodeError:  # cut by a death
            return None

    def remove(self) -> None:
        """Forget it all."""
        self._unlink(*_SUFFIXES)

    def _read(self, suffix: str) -> bytes | None:
        try:
            with open(self.path + suffix, "rb") as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None

    def _unlink(self, *suffixes: str) -> None:
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                os.unlink(self.path + suffix)  # noqa: PTH108


def folder_beside(store: str) -> str:
    """Return the folder of a store, made if need be."""
    return _private(f"{store}-shell")


def folder_of_nobody() -> str:
    """Return the folder for calls outside any run: of this user alone, among the temporary ones."""
    return _private(os.path.join(tempfile.gettempdir(), f"yaoki-shell-{os.geteuid()}"))  # noqa: PTH118


def left_in(folder: str) -> Iterator[str]:
    """Return the keys of the commands that left something in a folder."""
    return (name.removesuffix(".lock") for name in os.listdir(folder) if name.endswith(".lock"))  # noqa: PTH208


def _private(folder: str) -> str:
    """Make a folder that nobody else may look into, or refuse one that somebody else may."""
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            msg = f"{folder} is to be a folder that only its owner may use (mode 0700). Remove it, or mend its mode."
            raise PermissionError(msg) from None
    else:
        fd = os.open(os.path.dirname(folder), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
        try:
            os.fsync(fd)  # a start in it that is on disk can be found after a power cut
        finally:
            os.close(fd)
    return folder
