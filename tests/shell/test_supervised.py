"""Under `yaoki run`: what a worker's death ends, a command of the shell tool survives."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli.command import Place, until

PROGRAM = """\
from yaoki import Run, loop
from yaoki.shell import shell


@loop
def builds(run: Run) -> str:
    first = shell("echo started >> effects.txt; while ! test -e gate; do sleep 0.02; done; echo built")
    return first.output
"""


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    here.write("builds.py", PROGRAM)
    yield here
    here.open("gate")
    here.close()


def test_a_worker_killed_while_a_command_runs_learns_its_result_from_the_next_life(place):
    process = place.start("run", "builds.py:builds", "--run-id", "b", "--json")
    first = place.worker_of(process)
    until(lambda: place.effects, "the command")
    os.kill(first, signal.SIGKILL)
    place.worker_of(process, other_than=first)
    place.open("gate")
    said = place.end(process)
    assert said.code == 0, said.err
    assert (said.json["value"], said.json["restarts"]) == ("built\n", 1)
    assert place.effects == ["started"]


def test_the_supervisor_killed_too_the_next_command_line_learns_it(place):
    process = place.start("run", "builds.py:builds", "--run-id", "b", "--json")
    until(lambda: place.effects, "the command")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    place.open("gate")
    said = place.type("run", "builds.py:builds", "--run-id", "b", "--json")
    assert said.json["value"] == "built\n", said.err
    assert place.effects == ["started"]
