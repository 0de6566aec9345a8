"""
The command `yaoki`: one file per verb, views that are pure, and a supervisor around the worker of `run`.

typer and rich are imported when the command runs, never by `import yaoki` and never in a worker.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> int:
    """Run the command with the process's own arguments and return its exit code."""
    import os
    import sys

    if os.getpid() == 1:  # of a container: a signal it has no handler for does nothing to it
        import signal

        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))

    from yaoki.cli._app import run_command

    return run_command(sys.argv[1:])
