"""A house whose tools are shells, and what its commands do to the world."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runtime.house import House, got
from yaoki.shell import ashell, ashell_tool, shell, shell_tool

__all__ = ["ShellHouse", "alive", "until"]

PATIENCE_S = 30.0


class ShellHouse(House):
    """Commands note effects in the same log as tools do."""

    def __init__(self, kind: str, path: Path) -> None:
        super().__init__(kind, path, real_time=True)

    @property
    def shell(self) -> Any:
        """The shell of this world."""
        return ashell if self.is_async else shell

    def shell_tool(self, *args: Any, **policy: Any) -> Any:
        return (ashell_tool if self.is_async else shell_tool)(*args, **policy)

    def one(self, command: str | list[str], shell: Any = None, **options: Any) -> Any:
        """Make a loop that executes one command and returns what came of it, as a dict."""
        used = shell or self.shell

        @self.loop(name="one")
        async def one(run) -> dict[str, Any]:
            result = await got(used(command, **options))
            return {"code": result.exit_code, "output": result.output, "cut": result.cut_bytes}

        return one.bind()

    def noting(self, text: str) -> str:
        """Return a command that notes an effect."""
        return f"echo {text} >> {shlex.quote(str(self._log))}"

    def noting_and_waiting(self, gate: str = "gate") -> str:
        """Return one that notes an effect, then waits until somebody makes a file, and says so; 30 s at most."""
        return f"{self.noting('done')}; for i in $(seq 3000); do test -e {gate} && break; sleep 0.01; done; echo said"

    @property
    def folder(self) -> Path:
        return self.path / "store.db-shell"

    @property
    def files(self) -> list[str]:
        """What is kept of commands, by suffix."""
        return sorted(path.suffix for path in self.folder.iterdir()) if self.folder.exists() else []


def until(condition: Callable[[], Any], what: str) -> Any:
    """Return what the condition returns, once it is true."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE_S} s for {what}")


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        os.kill(pid, 0)
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except (ProcessLookupError, FileNotFoundError):
        return False
