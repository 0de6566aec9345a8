"""Questions of a loop and approvals, as a person meets them: listed, shown, answered by what is shown."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from yaoki import Runner
from yaoki.records import State

AGENTS = """
from yaoki import Effect, RetryableError, Run, StepFailed, loop, tool

@tool(approve=lambda cents: cents > 500)
def pay(cents: int) -> str:
    open("paid", "a").write(f"{cents}\\n")
    return f"paid {cents}"

@loop
def shop(run: Run, cents: int) -> str:
    try:
        return pay(cents)
    except StepFailed as error:
        return error.failure.message

@tool(effect=Effect.READ_ONLY)
def look() -> str:
    open("looked", "a").write("x")
    if len(open("looked").read()) == 1:
        raise RetryableError("busy", delay_s=600)
    return "seen"

@loop
def watch(run: Run) -> list:
    return [look(), pay(900)]

@loop
def trip(run: Run) -> list:
    city = run.ask("Which city?", options=["Rome", "Oslo"])
    return [city, run.ask("How many days?", int, default=3)]
"""


@pytest.fixture
def yaoki(tmp_path):
    (tmp_path / "agents.py").write_text(AGENTS)

    def call(*words: str, check: int | None = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "yaoki", *words],
            cwd=tmp_path,
            env={**os.environ, "YAOKI_STORE": f"sqlite:///{tmp_path / 's.db'}"},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert check is None or done.returncode == check, done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


def paid(path: Path) -> list[str]:
    return (path / "paid").read_text().split() if (path / "paid").exists() else []


def shown(yaoki, run: str, verb: str) -> list[str]:
    """Return the words of a command as `show` prints it."""
    found = re.search(rf"yaoki (answer {run} q\d+ {verb}.*?)(?:  |$)", yaoki("show", run), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


def test_an_approval_is_listed_shown_and_given_by_what_is_shown(yaoki, tmp_path):
    yaoki("run", "agents.py:shop", "--input", "900", "--run-id", "r", check=3)
    assert "may pay(cents=900) be done?" in yaoki("runs")
    assert "May this be done?   pay(cents=900)" in yaoki("show", "r")
    assert paid(tmp_path) == []
    assert "q1 is answered: approve" in yaoki(*shown(yaoki, "r", "approve"))
    assert "paid 900" in yaoki("run", "agents.py:shop", "--run-id", "r")
    assert paid(tmp_path) == ["900"]


def test_a_refusal_with_its_reason_reaches_the_loop(yaoki, tmp_path):
    yaoki("run", "agents.py:shop", "--input", "900", "--run-id", "r", check=3)
    yaoki(*shown(yaoki, "r", "refuse")[:4], "over the limit")
    assert "refused by a person: over the limit" in yaoki("run", "agents.py:shop", "--run-id", "r")
    assert paid(tmp_path) == []


@pytest.mark.parametrize("words", [["yes"], ["happened", '"x"'], ["skip"], ["not-happened"]])
def test_what_is_no_answer_to_an_approval_is_refused_with_the_answers_there_are(yaoki, words):
    yaoki("run", "agents.py:shop", "--input", "900", "--run-id", "r", check=3)
    assert "approve, refuse [TEXT] or abort" in yaoki("answer", "r", *words, check=2)


def test_a_loop_is_answered_with_one_of_its_options_and_a_value_of_its_type(yaoki):
    yaoki("run", "agents.py:trip", "--run-id", "r", check=3)
    assert "Which city?" in yaoki("runs")
    assert "expected one of 'Rome', 'Oslo'" in yaoki("answer", "r", "Paris", check=2)
    yaoki(*shown(yaoki, "r", "'\"Oslo\"'"))
    yaoki("run", "agents.py:trip", "--run-id", "r", check=3)
    assert "Unanswered, 3 stands on " in yaoki("show", "r")
    assert "q2 wants int" in yaoki("answer", "r", '"two"', check=2)
    yaoki("answer", "r", "q2", "5")
    assert json.loads(yaoki("run", "agents.py:trip", "--run-id", "r", "--json"))["value"] == ["Oslo", 5]


def test_whoever_watches_is_asked_at_once_and_the_run_goes_on_with_the_answers(yaoki, tmp_path):
    """On a terminal of its own: a ten-minute wait is tried again now, a payment allowed after a slip of the tongue."""
    store = f"sqlite:///{tmp_path / 's.db'}"
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "yaoki",
        "run",
        "agents.py:watch",
        "--run-id",
        "r",
        "--interactive",
        "--store",
        store,
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = Screen(ours)
        seen.wait_for("q1 ")
        assert "answer r q1 retry" in seen.text
        os.write(ours, b"retry\n")
        seen.wait_for("q2 ")
        os.write(ours, b"yes please\n")
        seen.wait_for("not: ")
        os.write(ours, b"approve\n")
        seen.wait_for("COMPLETED")
        assert process.wait(30) == 0
    os.close(ours)
    with Runner.verbs(store) as runner:
        receipt = runner.get("r")
        assert (receipt.status, receipt.value) == (State.COMPLETED, ["seen", "paid 900"])
    assert paid(tmp_path) == ["900"]


def test_interactive_without_a_terminal_is_refused(yaoki):
    assert "--interactive asks on a terminal" in yaoki("run", "agents.py:watch", "--interactive", check=2)


class Screen:
    """What a terminal was shown."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.text = ""

    def wait_for(self, words: str) -> None:
        """Read until the words were shown, after all that was waited for before."""
        fresh = ""
        while words not in fresh:
            ready, _, _ = select.select([self._fd], [], [], 30)
            assert ready, f"{words!r} was not shown; this was: {self.text + fresh}"
            fresh += os.read(self._fd, 65_536).decode(errors="replace")
        self.text += fresh
