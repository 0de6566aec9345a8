"""Real processes: started, killed by themselves or by us, and taken up again by the next."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tests.crash.matrix import RUN, Case, Ending, answer_truthfully, keys_of, redrive, url_of
from tests.crash.world import World
from yaoki import Runner
from yaoki.records import Begin

__all__ = ["ROOT", "Life", "environment", "run_processes"]

ROOT = Path(__file__).parents[2]
LIVES_MOST = 120
LIFE_S = 50


def environment() -> dict[str, str]:
    """Return the tests' own environment, with the tests to be found beside the package."""
    paths = [os.environ.get("PYTHONPATH", ""), str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


class Life:
    """One process, from its start to its end: `main` of a module, called with `arguments`."""

    _idle: ClassVar[list[subprocess.Popen[str]]] = []
    _living: ClassVar[set[int]] = set()

    def __init__(self, module: str, *arguments: str, bound_s: float = LIFE_S) -> None:
        self._zygote = self._idle.pop() if self._idle else self._start()
        self._directory = tempfile.TemporaryDirectory(prefix="yaoki-life-")
        self._out, self._err = (Path(self._directory.name) / name for name in ("out", "err"))
        asked = {"module": module, "arguments": arguments, "out": str(self._out), "err": str(self._err)}
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(json.dumps(asked) + "\n")
        self._zygote.stdin.flush()
        self.pid = self._heard("pid")
        self._living.add(self.pid)
        self.code: int | None = None
        self.out = self.err = ""
        self._bound = threading.Timer(bound_s, self.send, (signal.SIGKILL,))
        self._bound.daemon = True
        self._bound.start()

    def send(self, number: signal.Signals) -> None:
        """Send a signal. The process is not reaped before `end`, so the pid is still its own."""
        os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        self.code = self._heard("code")
        self._living.discard(self.pid)
        self._bound.cancel()
        self.out, self.err = self._out.read_text(), self._err.read_text()
        self._directory.cleanup()
        self._idle.append(self._zygote)
        return self.code

    def _heard(self, name: str) -> int:
        assert self._zygote.stdout is not None
        line = self._zygote.stdout.readline()
        assert line, "the zygote ended: the module could not be imported"
        return int(json.loads(line)[name])

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.crash.zygote"]
        started = subprocess.Popen(
            command, env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(_stop, started)
        return started

    @classmethod
    def stop_living(cls) -> None:
        """End what a failed test left behind; none of these pids has been reaped."""
        for pid in cls._living:
            os.kill(pid, signal.SIGKILL)
        cls._living.clear()


def _stop(zygote: subprocess.Popen[str]) -> None:
    Life.stop_living()
    with zygote:
        zygote.kill()


def run_processes(case: Case, directory: Path, kills: Iterator[int]) -> Ending:
    """As `run_to_its_end` of the simulated matrix, each life a process that dies by SIGKILL."""
    url, outside = url_of(directory / "s.db"), directory / "world.jsonl"
    crashes, redriven = 0, False
    for _ in range(LIVES_MOST):
        again = "again" if redriven else "first"
        colour = "async" if case.is_async else "sync"
        life = Life("tests.crash.program", url, str(outside), case.shape, colour, str(next(kills, 0)), again)
        if life.end() == -signal.SIGKILL:
            crashes += 1
            continue
        assert life.code == 0, life.err
        state, _, waits_for = life.out.strip().partition(" ")
        world = World(outside)
        with Runner.verbs(url) as runner:
            receipt = runner.get(RUN)
            begins = [record for _, _, record in runner.journal(RUN) if isinstance(record, Begin)]
        assert receipt.status.value == state
        if case.redrive and not redriven and case.again(receipt):
            redrive(url, case)
            redriven = True
            continue
        if receipt.status.final:
            receipt.budget = {"calls": 400, "retries": 300}  # a verb does not have the loop's
            return Ending(receipt, world, len(begins), crashes, [], [], keys_of(begins))
        assert waits_for == "person", (receipt.text, receipt.diff)
        answer_truthfully(url, RUN, receipt, world)
    raise AssertionError(f"{case}: not final after {LIVES_MOST} processes")
