"""The command as a person types it: processes, what they said, and their children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yaoki.cli._app import run_command

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

AGENTS = Path(__file__).with_name("agents.txt").read_text(encoding="utf-8")
PATIENCE_S = 20.0
_NOT_OURS = ("YAOKI_STORE", "PYTHONDONTWRITEBYTECODE")


@dataclass
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout, which must be one JSON document."""
        return json.loads(self.out)

    @property
    def last(self) -> str:
        """The last line on stderr: an error is one."""
        return self.err.splitlines()[-1]


def until(condition: Callable[[], object], what: str) -> Any:
    """Return what the condition returns, once it is true."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE_S} s for {what}")


class Place:
    """A folder with agents.py and a store, and commands typed in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "agents.py").write_text(AGENTS, encoding="utf-8")
        self.env = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        # Every command is a process: each compiling the package anew would be most of the time here.
        self.env["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / f"yaoki-tests-{os.getuid()}")
        self._started: list[subprocess.Popen[str]] = []

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def effects(self) -> list[str]:
        file = self.folder / "effects.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def start(self, *words: str) -> subprocess.Popen[str]:
        with self._err(len(self._started)).open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "yaoki", *words],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def _err(self, number: int) -> Path:
        return self.folder / f"stderr-{number}"

    def err(self, process: subprocess.Popen[str]) -> str:
        """Return what it has said on stderr so far."""
        return self._err(self._started.index(process)).read_text(encoding="utf-8")

    def end(self, process: subprocess.Popen[str]) -> Said:
        out, _ = process.communicate(timeout=PATIENCE_S * 2)
        return Said(process.returncode, out, self.err(process))

    def type(self, *words: str) -> Said:
        return self.end(self.start(*words))

    def call(self, capfd: pytest.CaptureFixture[str], *words: str) -> Said:
        """Type a command without a process of its own; the worker of `run` has one all the same."""
        before, saved = Path.cwd(), dict(os.environ)
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.env)
        try:
            capfd.readouterr()
            code = run_command(words)
            out, err = capfd.readouterr()
        finally:
            os.environ.clear()
            os.environ.update(saved)
            os.chdir(before)
        return Said(code, out, err)

    def worker_of(self, process: subprocess.Popen[str], *, other_than: int = 0) -> int:
        """Return the pid of the supervisor's first child, as `ps --ppid` lists it."""

        def child() -> int:
            found = subprocess.run(
                ["ps", "--ppid", str(process.pid), "-o", "pid=", "--sort", "start_time"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.split()
            return int(found[0]) if found and int(found[0]) != other_than else 0

        return int(until(child, "a worker"))

    def wait_for(self, name: str) -> None:
        until((self.folder / name).exists, name)

    def open(self, name: str) -> None:
        (self.folder / name).touch()

    def close(self) -> None:
        """Kill what was started and still lives; its worker dies with it."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def alive(pid: int) -> bool:
    """Whether a process is there and is no zombie; while one of its threads still ends, it holds what it held."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return False
    return state not in "ZX" or threads > 1
