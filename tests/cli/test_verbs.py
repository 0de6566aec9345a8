"""The verbs as a person types them, on one store with a run in every state they speak of."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.cli.command import Place, until


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Give a store with a run that waits, a dead one, a capped and a completed one; the tests only look."""
    here = Place(tmp_path_factory.mktemp("night"))
    for words in (["doubt", "--input", '"A-1"'], ["dead"], ["capped"], ["done"]):
        here.type("run", f"agents.py:{words[0]}", "--run-id", f"t-{words[0]}", *words[1:])
    yield here
    here.close()


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    yield here
    here.close()


def test_runs_lists_those_that_need_somebody_first(night, capfd):
    said = night.call(capfd, "runs")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "NEEDS YOU   1"
    assert lines[1].startswith("  t-doubt  doubt  waiting ")
    assert lines[1].endswith("yaoki show t-doubt")
    assert lines[2] == "DEAD        1"
    assert "broken" in lines[3]
    assert lines[4] == "DONE        2   1 completed · 1 capped"
    assert "\x1b" not in said.out


def test_runs_of_one_status_and_as_json(night, capfd):
    assert [run["run_id"] for run in night.call(capfd, "runs", "--json").json] == [
        "t-doubt",
        "t-dead",
        "t-done",
        "t-capped",
    ]
    (run,) = night.call(capfd, "runs", "--status", "waiting", "--json").json
    assert run["loop"] == "doubt"
    assert run["waits_for"] == "person"
    assert night.call(capfd, "runs", "--status", "active", "--json").json == []
    assert "No active runs" in night.call(capfd, "runs", "--status", "active").out


def test_show_explains_a_doubt_and_tells_the_story(night, capfd):
    said = night.call(capfd, "show", "t-doubt")
    assert said.code == 0, said.err
    assert 'Did this happen?   charge(order="A-1", cents=4200)' in said.out
    assert "charge is AT_MOST_ONCE (undeclared), so it is not sent again unless you say so." in said.out
    assert "yaoki answer t-doubt q1 not-happened" in said.out
    assert "charge(A-1, 4200)  UNKNOWN" in said.out
    assert "All: yaoki show t-doubt --journal" in said.out


def test_show_as_json_is_the_receipt_and_with_the_journal_has_its_records(night, capfd):
    plain = night.call(capfd, "show", "t-doubt", "--json").json
    assert plain["asks"][0]["id"] == "q1"
    whole = night.call(capfd, "show", "t-doubt", "--journal", "--json").json
    assert whole["status"] == "waiting"
    assert "question" in [entry["name"] for entry in whole["journal"]]


def test_show_journal_is_one_line_a_record(night, capfd):
    said = night.call(capfd, "show", "t-capped", "--journal")
    kinds = [line.split()[2] for line in said.out.splitlines()]
    assert kinds[0] == "claimed"
    assert kinds[-1] == "ended"


def test_a_store_that_had_to_be_named_is_named_in_every_command_shown(night, capfd):
    said = night.call(capfd, "show", "t-doubt", "--store", f"sqlite:///{night.folder}/yaoki.db")
    commands = [line for line in said.out.splitlines() if "yaoki answer" in line]
    assert len(commands) == 4
    assert all("--store sqlite:///" in line for line in commands)


def test_a_reader_that_leaves_early_is_no_error(night):
    line = f"'{sys.executable}' -m yaoki show t-doubt --journal; echo code $? >&2"
    piped = subprocess.run(
        ["bash", "-c", f"({line}) | true"], cwd=night.folder, env=night.env, capture_output=True, text=True, check=False
    )
    assert piped.stderr == "code 0\n"


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ("show t-doubt >&-", 0, "", ""),
        ("show t-doubt --json >&-", 0, "", ""),
        ("show t-doubt >/dev/full", 70, "", "yaoki: cannot write to stdout: No space left on device\n"),
        ("show t-doubt --json >/dev/full", 70, "", "yaoki: cannot write to stdout: No space left on device\n"),
        ("show nope --json >/dev/full", 2, "", "yaoki: no run nope in sqlite:///yaoki.db. All runs: yaoki runs\n"),
        ("show nope 2>&-", 2, "", ""),
        ("show nope 2>/dev/full", 2, "", ""),
        ("worker quiet.py --until-idle 2>&-", 0, "ended", ""),
        ("worker quiet.py --until-idle 2>/dev/full", 0, "ended", ""),
        ("kill <&-", 0, "no worker is alive\n", ""),
    ],
)
def test_a_stream_that_is_closed_or_full_loses_what_is_said_and_no_more(night, words, code, out, err):
    night.write("quiet.py", "from yaoki import loop\n\n@loop\ndef quiet(run) -> None: ...\n")
    line = f"'{sys.executable}' -m yaoki {words}; echo code $? >&3"
    ran = subprocess.run(
        ["bash", "-c", f"exec 3>code; {line}"],
        cwd=night.folder,
        env=night.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (night.folder / "code").read_text() == f"code {code}\n", ran.stderr
    assert out in ran.stdout
    assert ran.stderr == err


def test_no_colour_reaches_a_pipe_or_a_terminal_that_does_not_want_it(night):
    command = f"{sys.executable} -m yaoki runs"
    script = ["script", "-qec", command, "/dev/null"]
    env = {**night.env, "TERM": "xterm-256color", "COLUMNS": "100"}
    colour = subprocess.run(script, cwd=night.folder, env=env, capture_output=True, text=True, check=True)
    plain = subprocess.run(
        script, cwd=night.folder, env={**env, "NO_COLOR": "1"}, capture_output=True, text=True, check=True
    )
    assert "\x1b[1;33mNEEDS YOU" in colour.stdout
    assert "\x1b[1;33m" not in plain.stdout
    assert "NEEDS YOU" in plain.stdout


def test_a_cancelled_run_that_waits_ends_cancelled_and_exits_5(place, capfd):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    said = place.call(capfd, "cancel", "r1")
    assert said.code == 0, said.err
    assert "r1 is told to stop" in said.out
    assert "yaoki run agents.py:doubt --run-id r1" in said.out
    ended = place.type("run", "agents.py:doubt", "--run-id", "r1")
    assert ended.code == 5, ended.err
    assert "CANCELLED" in ended.out
    assert place.effects == ["charge A-1 4200"]
    again = place.call(capfd, "cancel", "r1")
    assert "was cancelled already; nothing changed" in again.out


def test_a_running_run_is_cancelled_from_outside_within_a_second_or_so(place, capfd):
    process = place.start("run", "agents.py:ticks", "--run-id", "r1", "--json")
    until(lambda: place.effects, "the first step")
    assert place.call(capfd, "cancel", "r1", "--json").json["run_id"] == "r1"
    said = place.end(process)
    assert said.code == 5, said.err
    assert said.json["status"] == "cancelled"
    assert len(place.effects) < 2_000


def test_a_dead_run_is_redriven_from_its_step_once_the_cause_is_gone(place, capfd):
    assert place.type("run", "agents.py:dead", "--run-id", "r1").code == 1
    redriven = place.call(capfd, "redrive", "r1", "--json")
    assert redriven.code == 0, redriven.err
    assert redriven.json["status"] == "pending"
    source = (place.folder / "agents.py").read_text()
    place.write("agents.py", source.replace('raise TypeError("it is broken")', 'return "mended"'))
    said = place.type("run", "agents.py:dead", "--run-id", "r1", "--json")
    assert said.code == 0, said.err
    assert said.json["value"] == "mended"


def test_a_completed_run_is_not_redriven(place, capfd):
    place.type("run", "agents.py:done", "--run-id", "r1")
    said = place.call(capfd, "redrive", "r1")
    assert said.code == 2
    assert "completed" in said.last


def test_the_first_answer_wins_and_as_json_is_a_receipt(place, capfd):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    said = place.call(capfd, "answer", "r1", "q1", "happened", "ch_1", "--json")
    assert said.json["asks"][0]["verdict"] == "happened"
    assert said.json["asks"][0]["answer"] == "ch_1"
    second = place.call(capfd, "answer", "r1", "q1", "not-happened", "--json")
    assert second.code == 2
    assert second.json["error"]["code"] == "answer.refused"
    assert "answered already" in second.last


def test_a_second_answer_is_refused_for_that_whatever_it_is(place, capfd):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    assert place.call(capfd, "answer", "r1", "happened", "ch_9").code == 0
    for words in (["happened", "ch_8"], ["ch_8"], ["q1", "happened", "ch_8"]):
        said = place.call(capfd, "answer", "r1", *words)
        assert said.code == 2
        assert "not JSON" not in said.last
        assert re.search("asks nothing|answered", said.last), said.last


def test_an_answer_of_another_type_is_refused_and_the_question_stays(place, capfd):
    place.type("run", "agents.py:counted", "--run-id", "r1")
    said = place.call(capfd, "answer", "r1", "happened", '"many"')
    assert said.code == 2, said.out
    assert "int" in said.last
    assert place.call(capfd, "answer", "r1", "happened", "3").code == 0
    assert place.type("run", "agents.py:counted", "--run-id", "r1", "--json").json["value"] == 3


def test_an_answer_is_refused_and_the_questions_listed_when_it_is_not_clear_which(place, capfd):
    place.type("run", "agents.py:two_doubts", "--run-id", "r1")
    said = place.call(capfd, "answer", "r1", "skip")
    assert said.code == 2
    assert "q1" in said.last
    assert "q2" in said.last
    shown = place.call(capfd, "show", "r1").out
    assert shown.count("Did this happen?") == 2


def test_a_running_run_says_which_process_drives_it(place, capfd):
    process = place.start("run", "agents.py:slow", "--run-id", "r1")
    place.wait_for("open.waiting")
    worker = place.worker_of(process)
    assert "RUNNING since " in place.call(capfd, "show", "r1").out
    assert f"by pid {worker}" in place.call(capfd, "show", "r1").out
    os.kill(worker, signal.SIGKILL)
    until(lambda: f"by pid {worker}" not in place.call(capfd, "show", "r1").out, "the next worker")
    place.open("open")
    assert place.end(process).code == 0


def test_a_run_that_was_answered_is_listed_with_the_command_that_takes_it_on(place, capfd):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    said = place.call(capfd, "answer", "r1", "q1", "skip")
    assert "the loop gets None: charge is declared -> str" in said.out
    head, row = place.call(capfd, "runs").out.splitlines()
    assert head.startswith("LEFT ")
    assert row.endswith("answered, or told to stop  yaoki run agents.py:doubt --run-id r1")
    shown = place.call(capfd, "show", "r1").out
    assert "q1 answered: skip" in shown
    assert "Did this happen?" not in shown
    assert [run["group"] for run in place.call(capfd, "runs", "--status", "left", "--json").json] == ["left"]


def test_a_doubt_of_a_cancelled_run_stays_under_needs_you_until_somebody_says_what_happened(place, capfd):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    place.call(capfd, "cancel", "r1")
    assert "told to stop" in place.call(capfd, "cancel", "r1").out
    place.type("run", "agents.py:doubt", "--run-id", "r1")
    head, row = place.call(capfd, "runs").out.splitlines()
    assert head.startswith("NEEDS YOU ")
    assert "charge" in row
    assert "Did this happen?" in place.call(capfd, "show", "r1").out
    said = place.call(capfd, "answer", "r1", "q1", "happened", "ch_1")
    assert "The run has ended (cancelled): this is recorded, and nothing is sent." in said.out
    assert place.call(capfd, "runs").out.startswith("DONE ")
