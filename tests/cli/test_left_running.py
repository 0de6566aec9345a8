"""What a worker has left running: ended when it died, left alone when it ended as it should; orphans are reaped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.command import PATIENCE_S, alive, until
from tests.cli.fleets import UNSHARE, Yard, unshares
from yaoki.records import State

SUBREAPER = """
import ctypes, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
from yaoki.__main__ import main
main()
"""


@pytest.fixture
def yard(tmp_path):
    here = Yard(tmp_path)
    yield here
    here.close()


def test_what_a_killed_worker_has_left_running_ends_before_the_next_attempt(yard):
    yard.submit("leaver", "r1")
    worker = yard.start("worker", "fleet.py", "--until-idle")
    left = yard.number_of("left.pid")
    assert alive(left)
    yard.open("left")
    assert yard.end(worker).code == 0
    assert yard.get("r1").value == "gone"
    assert not alive(left)


def test_where_the_supervisor_died_too_whoever_takes_the_run_up_ends_it(yard):
    yard.submit("leaver", "r1")
    worker = yard.start("worker", "fleet.py")
    left, child = yard.number_of("left.pid"), yard.worker_of(worker)
    worker.send_signal(signal.SIGKILL)
    worker.wait(PATIENCE_S)
    until(lambda: not alive(child), "the worker's death")
    assert alive(left)
    assert yard.type("worker", "fleet.py", "--until-idle").code == 0
    assert yard.get("r1").value == "gone"


def test_a_program_started_without_the_mark_outlives_its_worker(yard):
    yard.submit("leaver", "r1", marked=False)
    worker = yard.start("worker", "fleet.py", "--until-idle")
    left = yard.number_of("left.pid")
    yard.open("left")
    assert yard.end(worker).code == 0
    assert yard.get("r1").value == "alive"
    assert alive(left)


def test_what_a_settled_call_has_started_outlives_a_worker_that_ends_as_it_should(yard):
    yard.submit("starter", "r1")
    assert yard.type("worker", "fleet.py", "--until-idle").code == 0
    assert yard.get("r1").status is State.COMPLETED
    assert alive(yard.number_of("left.pid"))


def launched(yard: Yard, *, first: bool) -> tuple[subprocess.Popen[bytes], int]:
    """Start a worker as process 1 of a container, or as a subreaper; return that and its supervisor's pid."""
    words = ["worker", "fleet.py"]
    command = [*UNSHARE, sys.executable, "-m", "yaoki", *words] if first else [sys.executable, "-c", SUBREAPER, *words]
    process = subprocess.Popen(command, cwd=yard.folder, env=yard.env, start_new_session=True)
    if not first:
        return process, process.pid
    return process, until(lambda: next(iter(children(process.pid)), 0), "process 1")


def children(pid: int) -> dict[int, str]:
    """Return a process's children with their states."""
    listed = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid=,state="], capture_output=True, text=True, check=False
    ).stdout
    return {int(line.split()[0]): line.split()[1] for line in listed.splitlines()}


def test_process_1_of_a_container_ends_when_told_even_before_it_supervises(yard):
    """The kernel lets no signal end process 1 that it has no handler for."""
    yard.write("slow.py", "import pathlib, time\npathlib.Path('open.waiting').touch()\ntime.sleep(60)\n")
    command = "import os, sys; os.getpid = lambda: 1; from yaoki.cli import main; sys.exit(main())"
    words = ["submit", "slow.py:any", "--run-id", "r1"]
    with subprocess.Popen([sys.executable, "-c", command, *words], cwd=yard.folder, env=yard.env) as process:
        yard.wait_for("open.waiting")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize("first", [True, False] if unshares() else [False], ids=lambda first: "1" if first else "sub")
def test_who_gets_the_orphans_reaps_them_and_ends_at_once_when_told(yard, first):
    yard.submit("orphans", "r1", count=5)
    process, supervisor = launched(yard, first=first)
    try:
        yard.wait_for("open.waiting")
        assert len(children(supervisor)) >= 1
        until(lambda: list(children(supervisor).values()).count("Z") == 0, "the orphans to be reaped")
        assert len(children(supervisor)) == 1, "its worker alone is left"
        yard.open("open")
        until(lambda: yard.get("r1").status is State.COMPLETED, "the run")
        os.kill(supervisor, signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
