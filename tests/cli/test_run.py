from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.command import Place, alive, until

PLAIN = """\
import sys

from yaoki import Run, loop


@loop
def loaded(run: Run) -> list[str]:
    return sorted({"typer", "rich", "click", "asyncio", "yaoki.cli._app", "yaoki.cli._out"} & set(sys.modules))
"""


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    yield here
    here.close()


def test_a_run_that_is_done_exits_0_and_shows_its_result(place):
    said = place.type("run", "agents.py:done", "--input", '"pie"', "--run-id", "r1")
    assert said.code == 0, said.err
    assert "r1 · done · COMPLETED" in said.out
    assert "Result\n  found pie" in said.out
    assert "\x1b" not in said.out + said.err
    assert place.effects == ["look pie"]


def test_what_user_code_prints_goes_to_stderr_and_never_spoils_the_json(place):
    said = place.type("run", "agents.py:done", "--input", '"pie"', "--run-id", "r1", "--json")
    assert said.code == 0
    assert said.json["status"] == "completed"
    assert said.json["value"] == "found pie"
    for printed in ("imported", "a print of the loop", "looking for pie"):
        assert printed in said.err


def test_an_async_loop_takes_arguments_by_name(place):
    said = place.type("run", "agents.py:adone", "--input", '{"name": "x", "times": 2}', "--run-id", "r1", "--json")
    assert said.json["value"] == ["found x", "found x"]


def test_input_may_lie_in_a_file(place):
    place.write("in.json", '{"name": "filed"}')
    said = place.type("run", "agents.py:done", "--input", "@in.json", "--json")
    assert said.json["value"] == "found filed"


def test_without_an_id_a_readable_one_is_made_and_said(place):
    said = place.type("run", "agents.py:done", "--json")
    assert said.json["run_id"].startswith("done-")
    assert f"run {said.json['run_id']}" in said.err


def test_the_same_command_again_prints_the_same_receipt_and_executes_nothing(place):
    first = place.type("run", "agents.py:done", "--run-id", "r1", "--json")
    again = place.type("run", "agents.py:done", "--run-id", "r1", "--json")
    assert first.json == again.json
    assert place.effects == ["look x"]


def test_a_dead_run_exits_1_and_says_where_and_what_next(place):
    said = place.type("run", "agents.py:dead", "--run-id", "r1")
    assert said.code == 1, said.err
    assert "DEAD" in said.out
    assert "broken" in said.out
    assert "it is broken" in said.out
    assert "yaoki redrive r1" in said.out


def test_a_capped_run_exits_4_with_its_partial_result(place):
    said = place.type("run", "agents.py:capped", "--run-id", "r1", "--json")
    assert said.code == 4, said.err
    assert said.json["status"] == "capped"
    assert said.json["partial"] == "half"


def test_an_effect_in_doubt_exits_3_and_is_never_sent_again(place):
    said = place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    assert said.code == 3, said.err
    assert "died, killed by SIGKILL; starting another" in said.err
    assert 'Did this happen?   charge(order="A-1", cents=4200)' in said.out
    assert "yaoki answer r1 q1 happened" in said.out
    assert place.effects == ["charge A-1 4200"]
    again = place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    assert again.code == 3
    assert place.effects == ["charge A-1 4200"]


def test_preflight_names_what_is_undeclared_once(place):
    said = place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    assert said.err.count("undeclared, so AT_MOST_ONCE") == 1


@pytest.mark.parametrize(
    ("words", "code", "value", "charges"),
    [
        (["happened", "ch_9"], 0, "ch_9", 1),
        (["q1", "happened", '"ch_9"'], 0, "ch_9", 1),
        (["not-happened"], 0, "ch_A-1", 2),
        (["abort"], 1, None, 1),
        (["skip"], 0, "unknown", 1),
    ],
)
def test_each_answer_to_a_doubt_takes_the_run_on_without_repeating_the_input(place, capfd, words, code, value, charges):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    answered = place.call(capfd, "answer", "r1", *words)
    assert answered.code == 0, answered.err
    said = place.type("run", "agents.py:doubt", "--run-id", "r1", "--json")
    assert said.code == code, said.err
    assert said.json["value"] == value
    assert len(place.effects) == charges


def test_an_attempt_that_kills_its_process_runs_exactly_as_often_as_allowed(place):
    said = place.type("run", "agents.py:dies", "--run-id", "r1")
    assert said.code == 1, said.err
    assert place.effects == ["suicide"] * 4
    assert "suicide" in said.out


def test_a_killed_worker_is_replaced_and_nothing_is_repeated(place):
    process = place.start("run", "agents.py:slow", "--run-id", "r1", "--json")
    place.wait_for("open.waiting")
    first = place.worker_of(process)
    os.kill(first, signal.SIGKILL)
    second = place.worker_of(process, other_than=first)
    assert second != first
    place.open("open")
    said = place.end(process)
    assert said.code == 0, said.err
    assert said.json["value"] == "slept"
    assert said.json["restarts"] == 1
    assert place.effects.count("look before") == 1
    assert place.effects.count("look after") == 1


def test_a_worker_dies_with_its_supervisor_and_the_same_command_goes_on(place, capfd):
    process = place.start("run", "agents.py:slow", "--run-id", "r1")
    place.wait_for("open.waiting")
    worker = place.worker_of(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: not alive(worker), "the worker's death")
    assert f"but its process (pid {worker}) died" in place.call(capfd, "show", "r1").out
    assert "yaoki run agents.py:slow --run-id r1" in place.call(capfd, "runs").out
    place.open("open")
    said = place.type("run", "agents.py:slow", "--run-id", "r1", "--json")
    assert said.code == 0, said.err
    assert place.effects.count("look before") == 1


def test_two_commands_for_one_run_and_the_second_is_told_which_process_has_it(place):
    process = place.start("run", "agents.py:slow", "--run-id", "r1")
    place.wait_for("open.waiting")
    worker = place.worker_of(process)
    second = place.type("run", "agents.py:slow", "--run-id", "r1", "--json")
    assert second.code == 70
    assert second.json["error"]["code"] == "run.busy"
    assert str(worker) in second.json["error"]["message"]
    place.open("open")
    assert place.end(process).code == 0


def test_ctrl_c_lets_the_attempt_in_flight_settle_and_says_how_to_go_on(place):
    process = place.start("run", "agents.py:slow", "--run-id", "r1")
    place.wait_for("open.waiting")
    process.send_signal(signal.SIGINT)
    place.wait_for("told")
    place.open("open")
    said = place.end(process)
    assert said.code == 130, said.err
    assert said.last.endswith("Go on: yaoki run agents.py:slow --run-id r1")
    assert "look after" not in place.effects
    again = place.type("run", "agents.py:slow", "--run-id", "r1", "--json")
    assert again.code == 0, again.err
    assert place.effects.count("gate open") == 1


def test_a_second_ctrl_c_does_not_wait_for_the_attempt(place):
    process = place.start("run", "agents.py:slow", "--run-id", "r1", "--json")
    place.wait_for("open.waiting")
    worker = place.worker_of(process)
    process.send_signal(signal.SIGINT)
    until(lambda: "again kills it now" in place.err(process), "the first one to be taken")
    assert alive(worker)
    process.send_signal(signal.SIGINT)
    said = place.end(process)
    assert said.code == 130, said.err
    assert said.json["error"]["code"] == "interrupted"
    assert not alive(worker)


def test_sigterm_is_passed_on_too(place):
    process = place.start("run", "agents.py:slow", "--run-id", "r1")
    place.wait_for("open.waiting")
    process.send_signal(signal.SIGTERM)
    place.wait_for("told")
    place.open("open")
    assert place.end(process).code == 143


@pytest.mark.parametrize("loop", ["hangs", "ahangs"])
def test_a_call_that_blocks_past_twice_its_timeout_costs_the_worker_and_is_tried_again(place, loop):
    said = place.type("run", f"agents.py:{loop}", "--run-id", "r1", "--json")
    assert said.code == 0, said.err
    assert said.json["value"] == "woke"
    assert "twice its timeout" in said.err
    assert place.effects == ["hang", "hang"]


def test_a_worker_killed_while_the_run_sleeps_wakes_up_as_if_nothing_had_been(place):
    process = place.start("run", "agents.py:dozes", "--run-id", "r1", "--json")
    until(lambda: place.effects, "the first step")
    os.kill(place.worker_of(process), signal.SIGKILL)
    said = place.end(process)
    assert said.json["value"] == "napped"
    assert place.effects == ["look before"]


def test_a_file_that_kills_its_importer_is_given_up_after_eight_workers(place):
    place.write("bad.py", "import os\nopen('deaths', 'a').write('x')\nos._exit(3)\n")
    said = place.type("run", "bad.py:x", "--run-id", "r1")
    assert said.code == 70
    assert "the worker died 8 times in a row before it got to work (last: exit status 3)" in said.last
    assert len((place.folder / "deaths").read_text()) == 8


def test_changed_code_waits_with_a_difference_and_goes_on_when_it_is_put_back(place, capfd):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    place.call(capfd, "answer", "r1", "not-happened")
    source = (place.folder / "agents.py").read_text()
    place.write("agents.py", source.replace("charge(order, 4200)", "charge(order, 4300)"))
    said = place.type("run", "agents.py:doubt", "--run-id", "r1")
    assert said.code == 3, said.err
    assert "WAITING for code" in said.out
    assert "4200" in said.out
    assert "4300" in said.out
    assert place.effects == ["charge A-1 4200"]
    place.write("agents.py", source)
    assert place.type("run", "agents.py:doubt", "--run-id", "r1").code == 0


def test_an_async_run_drains_as_well(place):
    process = place.start("run", "agents.py:aslow", "--run-id", "r1")
    place.wait_for("open.waiting")
    process.send_signal(signal.SIGTERM)
    place.wait_for("told")
    place.open("open")
    said = place.end(process)
    assert said.code == 143, said.err
    assert "look after" not in place.effects
    again = place.type("run", "agents.py:aslow", "--run-id", "r1", "--json")
    assert again.json["value"] == "slept"
    assert place.effects == ["look before", "gate open", "look after"]


@pytest.mark.parametrize("loop", ["naps", "anaps"])
def test_a_sleeping_run_is_stopped_at_once_and_stays_asleep(place, capfd, loop):
    process = place.start("run", f"agents.py:{loop}", "--run-id", "r1")
    until(lambda: place.effects, "the first step")
    until(lambda: "SLEEPING" in place.call(capfd, "show", "r1").out, "the run to fall asleep")
    process.send_signal(signal.SIGINT)
    assert place.end(process).code == 130
    assert "SLEEPING until" in place.call(capfd, "show", "r1").out
    assert place.effects == ["look before"]


def test_a_loop_that_ends_its_process_is_not_started_again_and_again(place):
    said = place.type("run", "agents.py:leaves", "--run-id", "r1")
    assert said.code == 70, said.err
    assert "the loop ended its own process (SystemExit: 3)" in said.last
    assert place.effects == ["look before"]


def test_a_folder_full_of_misleading_names_does_not_mislead_the_worker(place):
    for name in ("signal", "select", "json", "typing", "yaoki"):
        place.write(f"{name}.py", "raise RuntimeError('not me')")
    place.write("plain.py", PLAIN)
    process = subprocess.run(
        [sys.executable, "-P", "-m", "yaoki", "run", "plain.py:loaded", "--json"],
        cwd=place.folder,
        env=place.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "not me" not in process.stderr


def test_what_was_told_to_ignore_a_hangup_ignores_it(place):
    line = f"trap '' HUP; exec '{sys.executable}' -m yaoki run agents.py:slow --run-id r1"
    process = subprocess.Popen(
        ["bash", "-c", line], cwd=place.folder, env=place.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    place.wait_for("open.waiting")
    process.send_signal(signal.SIGHUP)
    place.open("open")
    assert process.wait(20) == 0


def test_a_large_input_reaches_the_loop(place):
    place.write("large.json", '"' + "x" * 2_000_000 + '"')
    said = place.type("run", "agents.py:size", "--input", "@large.json", "--json")
    assert said.json["value"] == 2_000_000


def test_a_worker_told_to_stop_by_somebody_else_is_replaced(place):
    process = place.start("run", "agents.py:slow", "--run-id", "r1", "--json")
    place.wait_for("open.waiting")
    first = place.worker_of(process)
    os.kill(first, signal.SIGTERM)
    place.wait_for("told")
    place.open("open")
    said = place.end(process)
    assert said.code == 0, said.err
    assert said.json["failures"] == []
    assert place.effects == ["look before", "gate open", "look after"]


def test_a_refused_command_leaves_no_store_behind(place):
    assert place.type("run", "agents.py:doubt").code == 2
    assert place.type("run", "agents.py:nosuch", "--input", "1").code == 2
    assert not list(place.folder.glob("yaoki.db*"))


def test_a_worker_loads_nothing_of_the_command_it_does_not_need(place):
    place.write("plain.py", PLAIN)
    said = place.type("run", "plain.py:loaded", "--json")
    assert said.json["value"] == []


def test_in_a_pipe_a_long_wait_says_for_what_and_until_when(place):
    process = place.start("run", "agents.py:comes_back", "--run-id", "r1")
    until(lambda: "later() waits" in place.err(process), "a line about the wait")
    (said,) = [line for line in place.err(process).splitlines() if "waits" in line]
    assert ": attempt 2 of 3 at " in said
    assert said.endswith("come back later")
    process.send_signal(signal.SIGINT)
    assert place.end(process).code == 130


def test_a_file_that_was_moved_is_named_where_it_is_now(place):
    place.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "r1")
    (place.folder / "agents.py").rename(place.folder / "moved.py")
    said = place.type("run", "moved.py:doubt", "--run-id", "r1")
    assert said.code == 3, said.err
    assert "· moved.py" in said.out
    assert "agents.py" not in said.out
