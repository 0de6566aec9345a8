"""Real processes: started, killed by themselves or by us, and taken up again by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.crash.matrix import RUN, Case, Ending, answer_truthfully, url_of
from tests.crash.world import Points, World
from yaoki import Runner
from yaoki.records import Begin

__all__ = ["ROOT", "environment", "python", "run_processes"]

ROOT = Path(__file__).parents[2]
LIVES_MOST = 120
LIFE_S = 50


def environment() -> dict[str, str]:
    """The tests' own environment, with the tests to be found beside the package."""
    paths = [os.environ.get("PYTHONPATH", ""), str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def python(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run a module or program of the tests to its end, bounded."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=LIFE_S, check=False, **options
    )


def run_processes(case: Case, directory: Path, kills: Iterator[int]) -> Ending:
    """As `run_to_its_end` of the simulated matrix, each life a process that dies by SIGKILL."""
    url, outside = url_of(directory / "s.db"), directory / "world.jsonl"
    crashes = 0
    for _ in range(LIVES_MOST):
        colour = "async" if case.is_async else "sync"
        ended = python("-m", "tests.crash.program", url, str(outside), case.shape, colour, str(next(kills, 0)))
        if ended.returncode == -signal.SIGKILL:
            crashes += 1
            continue
        assert ended.returncode == 0, ended.stderr
        state, _, waits_for = ended.stdout.strip().partition(" ")
        world = World(outside)
        with Runner.verbs(url) as runner:
            receipt = runner.get(RUN)
            begun = sum(1 for _, _, record in runner.journal(RUN) if isinstance(record, Begin))
        assert receipt.status.value == state
        if receipt.status.final:
            receipt.budget = {"calls": 400, "retries": 300}
            return Ending(receipt, world, begun, crashes, Points().count, [])
        assert waits_for == "person", (receipt.text, receipt.diff)
        answer_truthfully(url, RUN, receipt, world)
    raise AssertionError(f"{case}: not final after {LIVES_MOST} processes")
