"""
The command `yaoki`: one file per verb, views that are pure, and a supervisor around the worker of `run`.

typer and rich are imported when the command runs, never by `import yaoki` and never in a worker.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> int:
    """Run the command with the process's own arguments and return its exit code."""
    import sys

    from yaoki.cli._app import run_command

    return run_command(sys.argv[1:])
