"""`yaoki submit` and `yaoki worker` as processes: served, stopped, killed, hung, paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.cli.command import Place, alive, until
from yaoki import AsyncRun, Run, Runner, loop
from yaoki.cli._report import Service
from yaoki.cli._serve import _Crew
from yaoki.records import Begin, Claimed, Settle, State

WORK = Path(__file__).with_name("work.txt").read_text(encoding="utf-8")
TWICE = """\
from yaoki import Run, loop


@loop(name="same")
def one(run: Run) -> int:
    return 1


@loop(name="same")
def two(run: Run) -> int:
    return 2
"""


class Shop(Place):
    """A place with work.py, and what its store says."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder)
        self.write("work.py", WORK)
        self.capfd = capfd

    def do(self, *words: str) -> None:
        """Type a command that must succeed."""
        said = self.call(self.capfd, *words)
        assert said.code == 0, (words, said)

    def submit(self, loop: str, run_id: str, input_: str | None = None) -> None:
        self.do("submit", f"work.py:{loop}", "--run-id", run_id, *(["--input", input_] if input_ else []))

    def worker(self, *words: str) -> subprocess.Popen[str]:
        return self.start("worker", "work.py", *words)

    @property
    def verbs(self) -> Runner:
        return Runner.verbs(f"sqlite:///{self.folder / 'yaoki.db'}")

    def state(self, run_id: str) -> State:
        with self.verbs as runner:
            return runner.get(run_id).status

    def settled(self, run_id: str, state: State = State.COMPLETED) -> None:
        """Wait until a run is in a state."""
        until(lambda: self.state(run_id) is state, f"{run_id} to be {state.value}")

    def records(self, run_id: str, kind: type) -> list:
        with self.verbs as runner:
            return [record for _, _, record in runner.journal(run_id) if isinstance(record, kind)]

    def deaths(self, run_id: str) -> set[int]:
        return {record.deaths for record in self.records(run_id, Claimed)}

    def driving(self, *, other_than: int = 0) -> tuple[int, int]:
        """Wait for a living worker that drives a run; its number and pid. A dead one's threads may end last."""

        def found() -> tuple[int, int] | None:
            with self.verbs as runner:
                found = [one for one in runner.store.workers() if one.alive and one.runs and one.pid != other_than]
                return (found[0].id, found[0].pid) if found else None

        return until(found, "a worker that drives")

    def said(self, process: subprocess.Popen[str], text: str) -> None:
        until(lambda: text in self.err(process), f"stderr to say {text!r}")

    def effect(self, line: str, times: int = 1) -> None:
        until(lambda: self.effects.count(line) >= times, f"{line}, {times} times")

    def stop(self, process: subprocess.Popen[str]) -> None:
        """Tell a supervisor to stop; it must end well."""
        process.send_signal(signal.SIGTERM)
        ended = self.end(process)
        assert ended.code == 0, ended.err


@pytest.fixture
def shop(tmp_path, capfd):
    here = Shop(tmp_path, capfd)
    yield here
    here.close()


# --- served


def test_async_and_plain_loops_of_one_file_are_served_until_idle(shop):
    for n in range(3):
        shop.submit("plain", f"p{n}", f'"p{n}"')
        shop.submit("coro", f"c{n}", f'"c{n}"')
    said = shop.type("worker", "work.py", "--until-idle")
    assert said.code == 0, said.err
    assert said.out == "6 completed\n"
    assert sorted(shop.effects) == [f"look {kind}{n}" for kind in "cp" for n in range(3)]
    assert "yaoki: p0  plain  completed" in said.err


def test_json_says_what_was_left_where_and_nothing_else_on_stdout(shop):
    shop.submit("plain", "r1", '"a"')
    shop.submit("fails", "r2")
    shop.submit("doubts", "r3")
    said = shop.type("worker", "work.py", "--until-idle", "--json")
    assert said.code == 0, said.err
    assert said.json == {
        "left": {"completed": 1, "dead": 1, "waiting": 1},
        "stopped": False,
        "pending": 0,
        "sleeping": 0,
        "waiting": 1,
        "dead": 1,
    }


def test_runs_that_died_or_wait_are_pointed_at(shop):
    shop.submit("fails", "r1")
    said = shop.type("worker", "work.py", "--until-idle")
    assert (said.code, said.out.splitlines()[0]) == (0, "1 dead")
    assert "Needs you   yaoki runs" in said.out


# --- refused


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("none.py",), "no file none.py"),
        (("work.py", "--concurrency", "0"), "between 1 and 1,000, not 0"),
        (("work.py", "--hung-after-s", "0"), "above zero"),
    ],
)
def test_bad_words_are_refused_before_a_worker_is_started(shop, words, text):
    said = shop.call(shop.capfd, "worker", *words)
    assert said.code == 2
    assert text in said.last


@pytest.mark.parametrize(
    ("file", "source", "text"),
    [
        ("empty.py", "x = 1\n", "empty.py has no loop"),
        ("twice.py", TWICE, "two loops called same"),
        ("other.py", WORK, "work.py and other.py both have a loop called"),
    ],
)
def test_files_that_cannot_be_served_are_refused(shop, file, source, text):
    shop.write(file, source)
    said = shop.call(shop.capfd, "worker", "work.py", file, "--until-idle")
    assert said.code == 2, said.err
    assert text in said.last


# --- stopped


def test_told_to_stop_an_attempt_in_flight_settles_and_is_not_made_again(shop):
    shop.submit("gated", "r1", '"open"')
    process = shop.worker("--drain-s", "60")
    shop.effect("gate open")
    process.send_signal(signal.SIGTERM)
    shop.said(process, "stopping")
    shop.open("open")
    ended = shop.end(process)
    assert ended.code == 0, ended.err
    assert shop.state("r1") is State.PENDING
    assert shop.effects == ["look before", "gate open"]

    assert shop.type("worker", "work.py", "--until-idle").code == 0
    assert shop.state("r1") is State.COMPLETED
    assert shop.effects == ["look before", "gate open", "look after"]
    assert shop.deaths("r1") == {0}


def test_told_to_stop_an_attempt_that_does_not_settle_is_killed_and_counts_no_crash(shop):
    shop.submit("gated", "r1", '"open"')
    process = shop.worker("--drain-s", "0.2")
    shop.effect("gate open")
    process.send_signal(signal.SIGTERM)
    ended = shop.end(process)
    assert ended.code == 0, ended.err

    shop.open("open")
    assert shop.type("worker", "work.py", "--until-idle").out == "1 completed\n"
    assert shop.deaths("r1") == {0}
    assert shop.effects.count("gate open") == 2


# --- killed


def test_a_worker_killed_again_and_again_ends_every_run(shop):
    for n in range(5):
        shop.submit("ticks", f"r{n}", f'"{n}"')
    process = shop.worker("--until-idle", "--concurrency", "3")
    pid = 0
    for _ in range(4):
        before = len(shop.effects)
        _, pid = shop.driving(other_than=pid)
        until(lambda before=before: len(shop.effects) > before, "a tick")
        os.kill(pid, signal.SIGKILL)
    ended = shop.end(process)
    assert ended.code == 0, ended.err
    assert ended.err.count("killed by SIGKILL; starting another") == 4
    assert [shop.state(f"r{n}") for n in range(5)] == [State.COMPLETED] * 5
    for n in range(5):
        oks = [record for record in shop.records(f"r{n}", Settle) if record.outcome == "ok"]
        assert len(oks) == 6, "a settled step is never executed again"


def test_a_tool_that_hangs_in_its_thread_is_ended_by_the_supervisor_and_the_ladder_goes_on(shop):
    shop.submit("hangs", "r1")
    said = shop.type("worker", "work.py", "--until-idle")
    assert (said.code, said.out) == (0, "1 completed\n"), said.err
    assert "stuck() has run 1 s, twice its timeout" in said.err
    assert shop.effects == ["stuck", "stuck"]
    reasons = [one.failure.reason for one in shop.records("r1", Settle) if one.failure is not None]
    assert reasons == ["process.died"]


def test_a_stopped_worker_is_ended_by_its_supervisor(shop):
    shop.submit("plain", "r1", '"a"')
    process = shop.worker("--hung-after-s", "2")
    shop.settled("r1")  # it has begun to beat before
    with shop.verbs as runner:
        pid = next(one.pid for one in runner.store.workers() if one.alive)
    os.kill(pid, signal.SIGSTOP)
    shop.said(process, f"killing the worker (pid {pid})")
    assert "no sign of life" in shop.err(process)
    until(lambda: not alive(pid), "its end")
    shop.submit("plain", "r2", '"b"')
    shop.settled("r2")
    shop.stop(process)


def test_what_a_killed_worker_left_running_is_gone_before_the_next_attempt(shop):
    shop.submit("parents", "r1")
    process = shop.worker("--until-idle")
    shop.wait_for("child.pid")
    child = int((shop.folder / "child.pid").read_text())
    _, pid = shop.driving()
    os.kill(pid, signal.SIGKILL)
    ended = shop.end(process)
    assert ended.code == 0, ended.err
    assert shop.effects == ["child gone"]
    assert not alive(child)


def test_yaoki_kill_ends_a_worker_its_supervisor_starts_another_and_no_crash_is_counted(shop):
    shop.submit("gated", "r1", '"open"')
    process = shop.worker()
    shop.effect("gate open")
    number, pid = shop.driving()
    shop.do("kill", str(number))
    assert not alive(pid)
    shop.effect("gate open", times=2)
    shop.driving(other_than=pid)
    shop.open("open")
    shop.settled("r1")
    shop.stop(process)
    assert shop.deaths("r1") == {0}
    assert len(shop.records("r1", Begin)) == 4


# --- while a worker is alive


def test_an_answer_is_taken_up_by_a_living_worker(shop):
    shop.submit("doubts", "r1")
    process = shop.worker()
    shop.settled("r1", State.WAITING)
    shop.do("answer", "r1", "happened", "ch_1")
    shop.settled("r1")
    shop.stop(process)
    assert shop.effects == ["charge 4200"]


def test_under_the_brake_nothing_more_begins_and_after_it_all_goes_on(shop):
    shop.submit("endless", "r1")
    process = shop.worker()
    shop.effect("go on 3")
    shop.do("pause")
    shop.submit("plain", "r2", '"b"')
    shop.settled("r1", State.PENDING)
    before = len(shop.effects)
    assert shop.state("r2") is State.PENDING
    assert f"go on {before}" not in shop.effects
    shop.do("unpause")
    shop.effect(f"go on {before}")
    shop.settled("r2")
    shop.open("enough")
    shop.settled("r1")
    shop.stop(process)
    assert len(shop.records("r1", Begin)) == len(shop.effects) - 1, "no attempt was cut"
    assert shop.deaths("r1") == {0}


def test_where_the_plain_loops_cannot_be_served_any_more_the_worker_ends(tmp_path, monkeypatch):
    @loop
    def plain(run: Run) -> int:
        return 1

    @loop
    async def coro(run: AsyncRun) -> int:
        return 1

    def work(*loops: object, **options: object) -> None:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(Runner, "work", work)
    service = Service(files=[], store=f"sqlite:///{tmp_path / 's.db'}", until="stopped", concurrency=2)
    with pytest.raises(RuntimeError, match="no thread"):
        _Crew(service, Mock()).serve([coro], [plain])


# --- as process 1

REAPER = """\
import ctypes, os, subprocess, sys, time

from yaoki.cli import _supervisor

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come here, as they come to process 1
parent = subprocess.Popen(["sh", "-c", "sleep 0 & sleep 0 & exec true"])
own = subprocess.Popen(["sleep", "60"])
parent.wait()
os.getpid, me = (lambda: 1), os.getpid()


def children() -> list[str]:
    listed = subprocess.run(["ps", "--ppid", str(me), "-o", "stat=,args="], capture_output=True, text=True)
    return listed.stdout.splitlines()


until_s = time.monotonic() + 20
while sum("defunct" in line and "sleep" in line for line in children()) < 2 and time.monotonic() < until_s:
    time.sleep(0.01)
print(sum("defunct" in line and "sleep" in line for line in children()), "to reap")
_supervisor.reap_others(own.pid)
print(sum("defunct" in line and "sleep" in line for line in children()), "left")
own.kill()
os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
_supervisor.reap_others(own.pid)
print("own status", own.wait())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process stand in for process 1")
def test_process_1_reaps_what_lost_its_parent_and_never_its_worker():
    done = subprocess.run([sys.executable, "-c", REAPER], capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout.splitlines() == ["2 to reap", "0 left", "own status -9"], done.stderr
