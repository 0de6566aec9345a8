"""
The watcher of one command: outlives the worker that started it, and writes down how the command ended.

Started by its path with a bare interpreter, so it imports nothing of Yaoki and little of Python. Its arguments: the
descriptor that holds the command's lock, the one whose end tells the worker, the path its files begin with, how
long the command may run (milliseconds), how many bytes of output are kept, the folder, and the command.

    PATH.start  created, exclusively and on disk, before the command is started
    PATH.done   renamed into place, on disk, once it has ended: how, exit status, bytes cut; then the output's end
"""

from __future__ import annotations

import os
import select
import signal
import sys

__all__ = ["GRACE_S", "main"]

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""
_DRAINS_MOST = 32
"""Reads after the command's end: what is in the pipe, but not what something left behind goes on writing."""
_CHUNK = 65_536
_NOT_FOUND, _NOT_STARTED, _BY_SIGNAL = 127, 126, 128
_HEARD = (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)
_DEAF = (signal.SIGINT, signal.SIGHUP)


def main(lock: str, end: str, path: str, timeout_ms: str, keep: str, folder: str, *command: str) -> None:  # noqa: PLR0917 - argv
    """Watch one command from its start to its end."""
    for fd in (lock, end):  # open until this process ends, and not in the command
        os.set_inheritable(int(fd), False)  # noqa: FBT003
    woken = _hear()
    if select.select([woken], [], [], 0)[0]:  # stopped before it began
        return
    _mark_started(path)
    read, write = os.pipe()
    pid = _start(write, folder, command)
    os.close(write)
    signal.setitimer(signal.ITIMER_REAL, int(timeout_ms) / 1000)
    watch = _Watch(pid, read, int(keep))
    while watch.status is None:
        watch.look(woken)
    watch.drain()
    _mark_done(path, watch.how, watch.status, watch.cut, watch.output)


class _Watch:
    """A command under way."""

    def __init__(self, pid: int, read: int, keep: int) -> None:
        self.how = "exited"
        self.status: int | None = None
        self.output = bytearray()
        self.cut = 0
        self._pid = pid
        self._read = read
        self._keep = keep
        self._open = True

    def look(self, woken: int) -> None:
        """Wait for output or a signal, and take it in."""
        ready = select.select([woken, self._read] if self._open else [woken], [], [])[0]
        if self._read in ready:
            self._open = self._take()
        if woken in ready:
            for number in os.read(woken, 512):
                self._heed(number)

    def drain(self) -> None:
        """Take what is left in the pipe."""
        os.set_blocking(self._read, False)
        try:
            for _ in range(_DRAINS_MOST):
                if not self._open or not self._take():
                    break
        except BlockingIOError:
            pass
        self._trim(self._keep)

    def _take(self) -> bool:
        data = os.read(self._read, _CHUNK)
        self.output += data
        self._trim(2 * self._keep)
        return bool(data)

    def _trim(self, most: int) -> None:
        if len(self.output) > most:
            over = len(self.output) - self._keep
            self.cut += over
            del self.output[:over]

    def _heed(self, number: int) -> None:
        if number == signal.SIGCHLD:
            if self.how != "exited":
                self._signal(signal.SIGKILL)  # the rest of its group, whose number is still its own
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        elif self.how != "exited":
            self._signal(signal.SIGKILL)
        else:
            self.how = "timeout" if number == signal.SIGALRM else "stopped"
            self._signal(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def _signal(self, number: int) -> None:
        try:  # noqa: SIM105 - contextlib would be loaded for it
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):  # it has ended, or only what may not be signalled is left
            pass


def _hear() -> int:
    """Have signals written to a pipe; return its end to read."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in _HEARD:
        signal.signal(number, _nothing)
    for number in _DEAF:
        signal.signal(number, signal.SIG_IGN)
    return read


def _nothing(*_: object) -> None:
    """Be a handler: what counts is that the signal's number is written."""


def _mark_started(path: str) -> None:
    fd = os.open(path + ".start", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, b"%d\n" % os.getpid())
    os.fsync(fd)
    os.close(fd)
    _sync_folder(path)


def _mark_done(path: str, how: str, status: int, cut: int, output: bytearray) -> None:
    code = status if status >= 0 else _BY_SIGNAL - status
    fd = os.open(path + ".ending", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    left = b"%s %d %d\n" % (how.encode(), code, cut) + output
    while left:
        left = left[os.write(fd, left) :]
    os.fsync(fd)
    os.close(fd)
    os.rename(path + ".ending", path + ".done")  # noqa: PTH104 - pathlib would be half of what starting costs
    _sync_folder(path)


def _sync_folder(path: str) -> None:
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
    os.fsync(fd)
    os.close(fd)


def _start(write: int, folder: str, command: tuple[str, ...]) -> int:
    """Start the command in a process group of its own, which its number names; return that."""
    pid = os.fork()
    if not pid:
        _become(write, folder, command)
    try:  # noqa: SIM105
        os.setpgid(pid, pid)  # as the child does: whichever of the two comes first
    except OSError:  # it did, and runs the command already
        pass
    return pid


def _become(write: int, folder: str, command: tuple[str, ...]) -> None:
    """Be the command; where that cannot be, say why as a shell does, and end."""
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(write, 1)
        os.dup2(write, 2)
        for number in (*_HEARD, *_DEAF, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        if folder:
            os.chdir(folder)
        os.execvp(command[0], command)  # noqa: S606 - what it is for
    except OSError as error:
        what = folder if folder and error.filename == folder else command[0]
        os.write(2, os.fsencode(f"cannot start {what}: {error.strerror}\n"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED)
    finally:
        os._exit(_NOT_STARTED)


if __name__ == "__main__":
    main(*sys.argv[1:])
