"""Under `yaoki run` and `yaoki worker`: what a worker's death ends, a command of the shell tool survives."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress

import pytest

from tests.cli.command import Place, until

PROGRAM = """\
from yaoki import AsyncRun, Run, loop
from yaoki.shell import ashell, shell

BUILD = "echo started >> effects.txt; while ! test -e gate; do sleep 0.02; done; echo built"


@loop
def builds(run: Run) -> str:
    return shell(BUILD).output


@loop
async def abuilds(run: AsyncRun) -> str:
    return (await ashell(BUILD)).output


def noting(n: int, k: int) -> str:
    return f"echo {n}.{k} >> effects.txt; sleep 0.05; seq 2000; echo {n}.{k}"


@loop
def many(run: Run, n: int) -> list[str]:
    return [shell(noting(n, k)).output.splitlines()[-1] for k in range(3)]


@loop
async def amany(run: AsyncRun, n: int) -> list[str]:
    async def one(k: int) -> str:
        return (await ashell(noting(n, k))).output.splitlines()[-1]

    return [settled.value for settled in await run.map(one, range(3))]
"""
RUNS = 8
KILLS = 4


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    here.write("builds.py", PROGRAM)
    yield here
    here.open("gate")
    here.close()


@pytest.mark.parametrize("loop", ["builds", "abuilds"])
def test_a_worker_killed_while_a_command_runs_learns_its_result_from_the_next_life(place, loop):
    process = place.start("run", f"builds.py:{loop}", "--run-id", "b", "--json")
    first = place.worker_of(process)
    until(lambda: place.effects, "the command")
    os.kill(first, signal.SIGKILL)
    place.worker_of(process, other_than=first)
    place.open("gate")
    said = place.end(process)
    assert said.code == 0, said.err
    assert (said.json["value"], said.json["restarts"]) == ("built\n", 1)
    assert place.effects == ["started"]
    assert list((place.folder / "yaoki.db-shell").iterdir()) == []


@pytest.mark.parametrize("loop", ["many", "amany"])
def test_a_worker_of_several_runs_at_once_killed_again_and_again_repeats_no_command_and_loses_no_output(
    place, loop, capfd
):
    for n in range(RUNS):
        submitted = place.call(capfd, "submit", f"builds.py:{loop}", "--run-id", f"r{n}", "--input", str(n))
        assert submitted.code == 0, submitted.err
    process = place.start("worker", "builds.py", "--concurrency", "4", "--until-idle")
    worker = restarts = 0
    for kill in range(KILLS):
        worker = place.worker_of(process, other_than=worker)
        until(lambda kill=kill: len(place.effects) > 3 * kill or process.poll() is not None, "more commands")
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    said = place.end(process)
    assert said.code == 0, said.err
    for n in range(RUNS):
        shown = place.call(capfd, "show", f"r{n}", "--json").json
        assert (shown["status"], shown["value"]) == ("completed", [f"{n}.{k}" for k in range(3)]), shown
        restarts += shown["restarts"]
    assert Counter(place.effects) == Counter(f"{n}.{k}" for n in range(RUNS) for k in range(3))
    assert restarts >= KILLS


def test_the_supervisor_killed_too_the_next_command_line_learns_it(place):
    process = place.start("run", "builds.py:builds", "--run-id", "b", "--json")
    until(lambda: place.effects, "the command")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    place.open("gate")
    said = place.type("run", "builds.py:builds", "--run-id", "b", "--json")
    assert said.json["value"] == "built\n", said.err
    assert place.effects == ["started"]
