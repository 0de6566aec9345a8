"""The worker process as its supervisor holds it: started, listened to, signalled, reaped."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from yaoki.cli._report import Beat, Report, Said
from yaoki.clock import SystemClock
from yaoki.runtime import end_survivors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Child", "Wakeup", "signal_name"]

_SAID = msgspec.json.Decoder(Said)
_POLL_S = 0.05
"""How often death is looked for where the system has no pidfd."""


class Wakeup:
    """A pipe that becomes readable when a signal arrives, so that no wait outlives one."""

    def __init__(self) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        self._write = write
        self._before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._read

    def drain(self) -> None:
        """Forget the signals that arrived."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 512):
                pass

    def wait(self, timeout_s: float) -> None:
        """Return after that time, or as soon as a signal arrives."""
        select.select([self._read], [], [], max(timeout_s, 0.0))
        self.drain()

    def close(self) -> None:
        """Give the process's wakeup descriptor back."""
        signal.set_wakeup_fd(self._before)
        os.close(self._read)
        os.close(self._write)


class Child:
    """
    One worker, from its start to its end.

    It is a direct child in a process group of its own, so that a Ctrl-C reaches the supervisor alone and the
    attempt in flight may settle. Its stdout is our stderr; its input comes through a pipe, since arguments are
    public and bounded; what it has to say comes through another.
    """

    def __init__(self, module: str, shown: Sequence[str], spec: bytes) -> None:
        """
        Start it.

        Args:
            module: Run with `python -m`; it takes its supervisor's pid and the descriptor to speak to.
            shown: Arguments for who reads a list of processes.
            spec: What it is to do, for its stdin.
        """
        self._reports, write = os.pipe()
        os.set_blocking(self._reports, False)
        self.mark = SystemClock().new_id()[:16]
        # -P: the folder it is started in is no place to import from; a signal.py there is not Python's.
        command = [sys.executable, "-P", "-m", module, *shown]
        sys.stderr.flush()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, str(os.getpid()), str(write)],
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno(),
                pass_fds=(write,),
                process_group=0,
                env={**os.environ, "YAOKI_MARK": self.mark},
            )
        finally:
            os.close(write)
        self.pid = self._process.pid
        self._pidfd = _pidfd(self.pid)
        self._buffer = b""
        self._report: Report | None = None
        self._heard_s = SystemClock().monotonic_s()
        self.beat: Beat | None = None
        """The last sign of life; `None`: it has not got as far as its work."""
        self._tell(spec)

    def _tell(self, spec: bytes) -> None:
        stdin = self._process.stdin
        if stdin is None:
            return
        with contextlib.suppress(OSError):
            stdin.write(spec)
        with contextlib.suppress(OSError):
            stdin.close()

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; `None` while it lives."""
        return self._process.poll()

    def wait(self, timeout_s: float, wakeup: Wakeup) -> bool:
        """Wait until it has ended, a signal came, or the time is over; return whether it has ended."""
        if self.returncode is not None:
            return True
        watched: list[Any] = [wakeup.fileno()]
        if self._pidfd >= 0:
            watched.append(self._pidfd)
        else:
            timeout_s = min(timeout_s, _POLL_S)
        select.select(watched, [], [], max(timeout_s, 0.0))
        wakeup.drain()
        return self.returncode is not None

    def listen(self) -> None:
        """Take in what it has said since; what it has said stays known when it is closed."""
        if self._reports < 0:
            return
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reports, 65_536):
                self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            try:
                said = _SAID.decode(line)
            except msgspec.DecodeError:  # cut by a death
                continue
            self._heard_s = SystemClock().monotonic_s()
            if isinstance(said, Report):
                self._report = said
            else:
                self.beat = said

    def report(self) -> Report | None:
        """Return what it said about how it ended, or `None`: then it did not end as it should."""
        self.listen()
        return self._report

    def hung(self) -> str:
        """Return why it has to be killed, for people, or nothing."""
        self.listen()
        if self.beat is None:
            return ""
        silent_s = SystemClock().monotonic_s() - self._heard_s
        if silent_s > self.beat.patience_s:
            return f"it has shown no sign of life for {silent_s:.0f} s"
        return self.beat.hung

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """
        Kill it, unless it has ended, and wait until it is gone; of one that died, also what it has left running.

        One that ended as it should has settled what it began; what that has started may go on.
        """
        self.signal(signal.SIGKILL)
        self._process.wait()
        left = [] if self.report() is not None else end_survivors(self.mark)
        if left:
            sys.stderr.write(f"yaoki: processes {', '.join(map(str, left))} of the dead worker do not end\n")

    def close(self) -> None:
        """Let go of its descriptors; it must have ended."""
        self.listen()
        os.close(self._reports)
        self._reports = -1
        if self._pidfd >= 0:
            os.close(self._pidfd)


def _pidfd(pid: int) -> int:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return -1
    try:
        return int(opener(pid))
    except OSError:
        return -1


def signal_name(returncode: int) -> str:
    """Return how a process ended, for people: `killed by SIGKILL`, `exit status 3`."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"
