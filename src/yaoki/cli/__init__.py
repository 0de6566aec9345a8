"""
The command `yaoki`: one file per verb, views that are pure, and a supervisor around the worker of `run`.

typer and rich are imported when the command runs, never by `import yaoki` and never in a worker.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command with the process's own arguments and return its exit code."""
    if os.getpid() == 1:  # of a container: a signal it has no handler for does nothing to it
        import signal

        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))

    _open_streams()
    from yaoki.cli._app import run_command

    return run_command(sys.argv[1:])


def _open_streams() -> None:
    """
    Let no stream be closed, as by `>&-`: its number would be the next file's, and what is said would go into that.

    What is written to one that was goes nowhere.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number there is: this one
            os.set_inheritable(number, True)  # noqa: FBT003 - os's own signature
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False, encoding="utf-8"))
