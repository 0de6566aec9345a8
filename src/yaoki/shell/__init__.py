"""
The shell as a tool that is safe to crash under.

    from yaoki.shell import shell                 # in a plain loop; `ashell` in an async one
    result = shell("make test", cwd="app")        # ShellResult(exit_code=0, output="…")

A command is started once and outlives the worker: after a crash its exit code and output are learned, those of one
that still runs are waited for, and one that was never started is started. Only of a command that was cut off (its
time was over, the machine went down) a person is asked what it has done. A failing command is a result, no error.

What a restart goes by lies in files named by the idempotency key, in the folder `<store>-shell` (mode 0700): move it
with the store. Once their result is on disk in the journal, they go with the next use of the tool or the end of the
process.
"""

from __future__ import annotations

from yaoki.shell._call import ShellResult
from yaoki.shell._tools import AsyncShell, Shell, ashell_tool, shell_tool

__all__ = ["AsyncShell", "Shell", "ShellResult", "ashell", "ashell_tool", "shell", "shell_tool"]

shell = shell_tool()
"""Execute a command, started once: a tool for plain loops."""

ashell = ashell_tool()
"""Execute a command, started once: a tool for async loops."""
