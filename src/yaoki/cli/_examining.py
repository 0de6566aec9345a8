"""The side of `check` and `doctor` that imports nothing: it starts a process that does, and reads what it found."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Literal

import msgspec

from yaoki.cli._exits import CommandError
from yaoki.cli._findings import Examined

__all__ = ["examine"]

_IMPORT_MAX_S = 60


def examine(target: str, mode: Literal["check", "measure", "explain"] = "check") -> Examined:
    """
    Return what importing that file shows; what it prints goes to stderr.

    Raises:
        KeyboardInterrupt: Somebody did not want to wait for it.
    """
    with tempfile.TemporaryFile() as report:
        command = [sys.executable, "-P", "-m", "yaoki.cli._examine", mode, str(report.fileno()), target]
        sys.stderr.flush()
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=(report.fileno(),),
                timeout=_IMPORT_MAX_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"importing {target} did not end within {_IMPORT_MAX_S} s; a file that is imported must not run"
            return Examined(file=target, error=message, code="file.import")
        report.seek(0)
        try:
            return msgspec.json.decode(report.read(), type=Examined)
        except msgspec.DecodeError as error:
            how = f"exit status {done.returncode}" if done.returncode >= 0 else f"signal {-done.returncode}"
            message = f"importing {target} ended its process ({how}); import it by hand to see why"
            raise CommandError("file.import", message) from error
