"""Starting a command under its watcher, waiting for its end, and ending it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from yaoki.runtime import MARK
from yaoki.shell import _watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yaoki.shell._files import Files

__all__ = ["Started", "argv_of", "end_earlier"]

_SHELL = "/bin/sh"


def argv_of(command: str | Sequence[str]) -> list[str]:
    """
    Return what is executed: a string by the shell, a list as it is.

    Raises:
        ValueError: Nothing to execute.
    """
    argv = [_SHELL, "-c", command] if isinstance(command, str) else list(command)
    if not argv or not argv[-1 if isinstance(command, str) else 0].strip():
        msg = "there is no command to execute"
        raise ValueError(msg)
    return argv


class Started:
    """A command under its watcher: in a session of its own, so that neither a Ctrl-C nor the worker's end meets it."""

    def __init__(
        self,
        files: Files,
        lock: int,
        argv: Sequence[str],
        *,
        folder: str | None,
        env: Mapping[str, str] | None,
        timeout_s: float,
        keep: int,
    ) -> None:
        """Start it. `lock` is closed here: the watcher holds it from now on."""
        _left[:] = [process for process in _left if process.poll() is None]
        self._end, end = os.pipe()
        bounds = [str(max(1, int(timeout_s * 1000))), str(keep)]
        watcher = [sys.executable, "-I", "-S", _watch.__file__, str(lock), str(end), files.path, *bounds]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - what the tool is for
                [*watcher, folder or "", *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock, end),
                start_new_session=True,
                env=_environment(env),
            )
        except BaseException:
            os.close(self._end)
            raise
        finally:
            os.close(lock)
            os.close(end)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the command has ended."""
        return self._end

    def wait(self) -> None:
        """Block until it has ended."""
        os.read(self._end, 1)

    def stop(self) -> None:
        """Have it ended: SIGTERM, and SIGKILL 2 s later. Not waited for."""
        self._process.terminate()

    def close(self, *, ended: bool = True) -> None:
        """Let go of it; one that has ended is reaped."""
        os.close(self._end)
        if ended:
            self._process.wait()  # its end was closed by its exit, which takes a moment more
        else:
            _left.append(self._process)


_left: list[subprocess.Popen[bytes]] = []
"""Watchers nobody waits for any more, until they are reaped."""


def end_earlier(files: Files) -> None:
    """Have an earlier start ended, if it got as far as a command. Not waited for."""
    pid = files.watcher()
    if pid and files.under_way():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the command's environment, without what would have it killed with its worker."""
    return {name: value for name, value in {**os.environ, **(env or {})}.items() if name != MARK}
