"""`yaoki submit` and `yaoki worker`, as processes."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.cli.command import alive, until
from tests.cli.fleets import Yard
from yaoki.records import State


@pytest.fixture
def yard(tmp_path):
    here = Yard(tmp_path)
    yield here
    here.close()


def test_submitted_runs_are_done_by_a_worker_that_ends_when_nothing_is_left(yard, capfd):
    for words in (("plain", "a"), ("coroutine", "b"), ("dies", "c"), ("sleeps", "d"), ("poor", "e")):
        given = ("--input", f'"{words[0]}"') if words[0] in ("plain", "coroutine") else ()
        said = yard.call(capfd, "submit", f"fleet.py:{words[0]}", *given, "--run-id", words[1])
        assert said.code == 0, said.err
        assert said.out == f"{words[1]}  pending\n"
        assert said.last.endswith("no worker is alive on this store; start one: yaoki worker fleet.py")
    assert yard.effects == []
    said = yard.type("worker", "fleet.py", "--until-idle")
    assert said.code == 0, said.err
    first, asleep, needs = said.out.splitlines()
    assert first == "2 completed  1 dead"
    assert asleep.startswith("1 run asleep until ")
    assert needs.split() == ["Needs", "you", "yaoki", "runs"]
    lines = [line for line in said.err.splitlines() if re.match("yaoki: [a-e] ", line)]
    assert sorted(line.split()[1:4] for line in lines) == [
        ["a", "plain", "completed"],
        ["b", "coroutine", "completed"],
        ["c", "dies", "dead"],
        ["e", "poor", "waiting"],
    ]
    assert [yard.get(run_id).status for run_id in "abcde"] == [
        State.COMPLETED,
        State.COMPLETED,
        State.DEAD,
        State.SLEEPING,
        State.WAITING,
    ]
    again = yard.type("worker", "fleet.py", "--until-idle", "--json")
    assert again.code == 0
    assert {name: again.json[name] for name in ("left", "stopped", "sleeping", "waiting", "dead")} == {
        "left": {},
        "stopped": False,
        "sleeping": 1,
        "waiting": 1,
        "dead": 1,
    }


def test_a_run_is_submitted_once_and_its_id_taken_for_other_input(yard, capfd):
    words = ("submit", "fleet.py:plain", "--run-id", "r1", "--group", "night")
    assert yard.call(capfd, *words, "--input", '"x"', "--json").json["status"] == "pending"
    assert yard.call(capfd, *words, "--input", '"x"').out == "r1  pending\n"
    other = yard.call(capfd, *words, "--input", '"y"')
    assert other.code == 2
    assert "r1 was started with other input" in other.last
    assert yard.get("r1").status is State.PENDING


def test_a_living_worker_takes_what_is_submitted_and_nobody_is_told_to_start_one(yard, capfd):
    yard.submit("slow", "r1")
    worker = yard.start("worker", "fleet.py", "--concurrency", "2")
    yard.wait_for("open.waiting")
    said = yard.call(capfd, "submit", "fleet.py:plain", "--input", '"x"', "--run-id", "r2")
    assert "no worker" not in said.err
    until(lambda: yard.get("r2").status is State.COMPLETED, "the run beside the slow one")
    yard.open("open")
    until(lambda: yard.get("r1").status is State.COMPLETED, "the slow one")
    worker.send_signal(signal.SIGTERM)
    ended = yard.end(worker)
    assert (ended.code, ended.out) == (0, "2 completed\n")


def test_on_a_paused_store_a_worker_says_so_and_what_lets_it_go_on(yard, capfd):
    yard.submit("plain", "r1", what="x")
    assert yard.call(capfd, "pause", "--by", "nina").code == 0
    said = yard.type("worker", "fleet.py", "--until-idle")
    assert said.code == 0
    assert "yaoki: the store is paused by nina: nothing begins. To go on: yaoki unpause" in said.err
    ended, paused = said.out.splitlines()
    assert ended == "nothing ended"
    assert re.fullmatch(r"The store is paused since \d\d:\d\d:\d\d: nothing begins   yaoki unpause", paused)
    assert yard.call(capfd, "unpause").code == 0
    again = yard.type("worker", "fleet.py", "--until-idle", "--json")
    assert (again.json["left"], again.json["paused_ms"]) == ({"completed": 1}, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.py"], "no file nowhere.py; a worker takes files: yaoki worker agents.py"),
        (["empty.py"], "empty.py has no loop; decorate one: @loop def my_loop(run, …)"),
        (
            ["fleet.py", "other.py"],
            "fleet.py and other.py both have a loop called plain; @loop(name=…) tells them apart",
        ),
        (["fleet.py", "--concurrency", "0"], "--concurrency lies between 1 and 1,000, not 0"),
        (["fleet.py", "--drain-s", "-1"], "--drain-s lies between 0 and 86,400, not -1"),
        (["needs.py"], "needs"),
    ],
)
def test_what_a_worker_cannot_serve_is_refused_in_one_line(yard, words, said):
    yard.write("empty.py", "x = 1\n")
    yard.write("other.py", "from yaoki import loop\n\n@loop\ndef plain(run, what: str) -> str:\n    return what\n")
    yard.write(
        "needs.py",
        "from yaoki import Local, Run, loop\n\n@loop\ndef needs(run: Run, client: Local[object]) -> None: ...\n",
    )
    ended = yard.type("worker", *words, "--until-idle")
    assert ended.code == 2, ended.err
    assert said in ended.last
    assert "Traceback" not in ended.err


def test_one_loop_in_two_files_is_served_once(yard):
    yard.write("again.py", "from fleet import plain\n")
    yard.submit("plain", "r1", what="x")
    said = yard.type("worker", "fleet.py", "again.py", "--until-idle")
    assert said.code == 0, said.err
    assert yard.effects == ["look x"]


def test_a_worker_that_was_killed_is_replaced_and_goes_on(yard):
    yard.submit("slow", "r1")
    worker = yard.start("worker", "fleet.py", "--until-idle")
    yard.wait_for("open.waiting")
    first = yard.worker_of(worker)
    os.kill(first, signal.SIGKILL)
    yard.open("open")
    said = yard.end(worker)
    assert said.code == 0, said.err
    assert f"worker (pid {first}) died, killed by SIGKILL; starting another" in said.err
    assert said.out == "1 completed\n"
    assert yard.effects.count("look before") == yard.effects.count("look after") == 1
    assert [claim.deaths for claim in yard.claims("r1")] == [0, 1]


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        pytest.param("stuck", "run r1 has done nothing for 1 s between two steps: killing", marks=pytest.mark.long),
        ("astuck", "run r1 has done nothing for 1 s between two steps: killing the worker"),
        ("mute", "it has shown no sign of life for"),
        ("stops", "it has shown no sign of life for"),
    ],
)
def test_a_worker_that_hangs_is_killed_by_its_supervisor_and_that_counts(yard, loop, why):
    yard.submit(loop, "r1")
    said = yard.type("worker", "fleet.py", "--until-idle", "--hung-after-s", "1")
    assert said.code == 0, said.err
    assert why in said.err
    assert said.out == "1 completed\n"
    assert yard.get("r1").value == "on"
    assert [claim.deaths for claim in yard.claims("r1")] == [0, 1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_a_worker_lets_what_is_in_flight_settle(yard, number):
    yard.submit("slow", "r1")
    worker = yard.start("worker", "fleet.py")
    yard.wait_for("open.waiting")
    worker.send_signal(number)
    yard.wait_for("told")
    yard.open("open")
    said = yard.end(worker)
    assert (said.code, said.out) == (0, "nothing ended\n1 run pending   yaoki worker fleet.py\n")
    assert (yard.get("r1").status, yard.get("r1").failures) == (State.PENDING, [])
    assert yard.type("worker", "fleet.py", "--until-idle").code == 0
    assert yard.effects == ["look before", "gate open", "look after"]
    assert [claim.deaths for claim in yard.claims("r1")] == [0, 0]


def test_a_deploy_in_the_middle_of_a_long_call_is_no_crash(yard):
    yard.submit("slow", "r1")
    worker = yard.start("worker", "fleet.py", "--drain-s", "0.2")
    yard.wait_for("open.waiting")
    worker.send_signal(signal.SIGTERM)
    assert yard.end(worker).code == 0
    yard.open("open")
    assert yard.type("worker", "fleet.py", "--until-idle").code == 0
    receipt = yard.get("r1")
    assert (receipt.value, receipt.restarts) == ("slept", 0)
    assert [met.failure.reason for met in receipt.failures] == ["process.died"]
    assert [claim.deaths for claim in yard.claims("r1")] == [0, 0]


def test_a_second_signal_waits_for_nothing(yard):
    yard.submit("slow", "r1")
    worker = yard.start("worker", "fleet.py", "--drain-s", "600")
    yard.wait_for("open.waiting")
    child = yard.worker_of(worker)
    worker.send_signal(signal.SIGTERM)
    until(lambda: "again kills it now" in yard.err(worker), "the first one to be taken")
    worker.send_signal(signal.SIGTERM)
    assert yard.end(worker).code == 0
    assert not alive(child)
