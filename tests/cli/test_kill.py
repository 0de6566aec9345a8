"""`yaoki kill`: a worker that hangs is ended, and only the worker that is meant."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import apsw
import pytest

from tests.cli.command import PATIENCE_S, alive, until
from tests.cli.fleets import UNSHARE, Yard, unshares
from yaoki.journal import _connect
from yaoki.journal._fleet import Fleet
from yaoki.records import State


@pytest.fixture
def yard(tmp_path):
    here = Yard(tmp_path)
    yield here
    here.close()


@pytest.fixture
def busy(yard):
    """Return a worker inside a call. No other thread of it still registers: stopped then, it would lock the store."""
    yard.submit("slow", "r1")
    process = yard.start("worker", "fleet.py", "--until-idle", "--concurrency", "1")
    yard.wait_for("open.waiting")
    return process


def edit(yard: Yard, statement: str, *bindings: object) -> None:
    """Change the store; the test's own process holds nothing of it."""
    connection = apsw.Connection(str(yard.folder / "yaoki.db"))
    connection.set_busy_timeout(10_000)
    connection.execute(statement, bindings)
    connection.close()


def test_a_stopped_worker_keeps_its_run_until_it_is_killed(yard, busy, capfd):
    """Nobody steals from one that lives; killed by hand it did not crash, and its supervisor starts another."""
    (worker,) = yard.workers()
    (listed,) = yard.call(capfd, "kill", "--json").json
    assert listed == {"worker": listed["worker"], "pid": worker.pid, "host": worker.host, "runs": 1}
    os.kill(worker.pid, signal.SIGSTOP)
    other = yard.type("worker", "fleet.py", "--until-idle")
    assert (other.code, other.out) == (0, "nothing ended\n")
    assert yard.get("r1").status is State.RUNNING
    said = yard.call(capfd, "kill")
    assert re.fullmatch(rf" *{listed['worker']}  pid {worker.pid}  \S+  1 run\n", said.out)
    yard.open("open")
    said = yard.call(capfd, "kill", str(worker.id))
    assert said.code == 0, said.err
    assert said.out == f"worker {worker.id} (pid {worker.pid}) is killed; others take up its 1 run\n"
    assert yard.end(busy).code == 0
    assert yard.get("r1").value == "slept"
    assert [claim.deaths for claim in yard.claims("r1")] == [0, 0]
    again = yard.call(capfd, "kill", str(worker.id))
    assert again.code == 2
    assert re.search(rf"worker {worker.id} (is dead already|is not in this store); alive: none", again.last)


HOLDS_THE_STORE = """
import os, signal, sys
from yaoki.clock import SystemClock
from yaoki.journal import Journal
journal = Journal.open(sys.argv[1], clock=SystemClock())
journal._cursor.execute("begin immediate")
print(journal.worker, flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_worker_that_was_stopped_in_the_middle_of_a_commit_is_killed_and_the_store_is_free(yard, capfd, monkeypatch):
    yard.submit("plain", "r1", what="x")
    monkeypatch.setattr(_connect._Patience, "__call__", lambda self, tries: False)
    command = [sys.executable, "-c", HOLDS_THE_STORE, yard.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stopped:
        number = stopped.stdout.readline().strip()
        assert "another process kept it locked" in yard.call(capfd, "cancel", "r1").last
        said = yard.call(capfd, "kill", number)
    assert (said.code, stopped.returncode) == (0, -signal.SIGKILL), said.err
    assert said.out == f"worker {number} (pid {stopped.pid}) is killed\n"
    assert said.last.endswith("It is killed all the same, and counted as a crash.")
    assert yard.call(capfd, "cancel", "r1").code == 0


def test_a_worker_that_died_while_it_was_looked_for_is_dead_and_not_elsewhere(yard, busy, capfd, monkeypatch):
    """Its lock lives until its last thread has ended: for a moment it is alive, and its process holds nothing."""
    (worker,) = yard.workers()
    held_by = Fleet.held_by

    def killed_meanwhile(journal: Fleet, number: int, pid: int) -> bool:
        assert held_by(journal, number, pid)
        busy.send_signal(signal.SIGKILL)  # the supervisor, and with it the worker
        return False

    monkeypatch.setattr(Fleet, "held_by", killed_meanwhile)
    said = yard.call(capfd, "kill", str(worker.id))
    assert (said.code, said.last) == (2, f"yaoki: worker {worker.id} is dead already; alive: none")


@pytest.mark.parametrize(("words", "said"), [(["99"], "worker 99 is not in this store; alive: "), (["x"], "WORKER")])
def test_what_is_no_worker_is_refused(yard, busy, capfd, words, said):
    ended = yard.call(capfd, "kill", *words)
    assert ended.code == 2
    assert said in ended.last
    assert alive(yard.workers()[0].pid)


def test_a_worker_of_another_host_is_not_killed_from_here(yard, busy, capfd):
    (worker,) = yard.workers()
    edit(yard, "update worker set host = 'elsewhere' where id = ?", worker.id)
    said = yard.call(capfd, "kill", str(worker.id))
    assert said.code == 2
    assert f"worker {worker.id} runs on elsewhere, this is " in said.last
    assert alive(worker.pid)


def test_a_worker_of_another_container_is_not_mistaken_for_who_has_its_number_here(yard, busy, capfd):
    (worker,) = yard.workers()
    with subprocess.Popen(["sleep", "60"]) as innocent:
        try:
            edit(yard, "update worker set pid = ? where id = ?", innocent.pid, worker.id)
            said = yard.call(capfd, "kill", str(worker.id))
            assert said.code == 2
            assert f"worker {worker.id} is alive, but process {innocent.pid} here is not it" in said.last
            assert innocent.poll() is None
        finally:
            innocent.kill()
    assert alive(worker.pid)


def test_nobody_steals_from_a_worker_in_a_container_nor_kills_what_has_its_number_outside(yard, capfd):
    yard.submit("slow", "r1")
    apart = UNSHARE if unshares() else []
    command = [*apart, sys.executable, "-m", "yaoki", "worker", "fleet.py", "--until-idle"]
    with subprocess.Popen(command, cwd=yard.folder, env=yard.env, start_new_session=True) as inside:
        try:
            yard.wait_for("open.waiting")
            other = yard.type("worker", "fleet.py", "--until-idle")
            assert (other.code, other.out) == (0, "nothing ended\n")
            (worker,) = yard.workers()
            if apart:
                said = yard.call(capfd, "kill", str(worker.id))
                assert said.code == 2
                assert f"process {worker.pid} here is not it: it runs in another container" in said.last
            yard.open("open")
            assert inside.wait(PATIENCE_S) == 0
        finally:
            inside.kill()
    assert yard.get("r1").value == "slept"
    assert len(yard.claims("r1")) == 1


def test_the_workers_of_an_empty_store_are_none(yard, capfd):
    yard.submit("plain", "r1", what="x")
    assert yard.call(capfd, "kill").out == "no worker is alive\n"
    until(lambda: not yard.workers(), "nobody")
