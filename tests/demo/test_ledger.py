"""Kills around a ledger line strike where they are meant to, however the processes are scheduled."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Event as Flag
from threading import Thread

import pytest

from yaoki.demo._ledger import append_is_open, hold_after_append, hold_before_append
from yaoki.records import Adopt, Begin, Claimed, Entry, Settle

# What the example's tool does, between a begin and a settle: two files stand for the two records.
AGENT = """
import fcntl, pathlib, sys
ledger, log, begun, settled = map(pathlib.Path, sys.argv[1:])
begun.touch()
with ledger.open("a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write("a line\\n")
with log.open("a") as file:
    file.write("booked\\n")
settled.touch()
"""
KEY = "1.4/call_tools#0[1]/append_ledger#0"


class Stage:
    def __init__(self, folder) -> None:
        self.ledger, self.log, self.begun, self.settled = (folder / n for n in ("ledger", "log", "begun", "settled"))
        self.ended = Flag()
        self.agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        files = map(str, (self.ledger, self.log, self.begun, self.settled))
        self.agent = subprocess.Popen([sys.executable, "-c", AGENT, *files])

    def strike(self) -> None:
        self.agent.kill()

    def appended(self) -> bool:
        return self.ledger.exists() and self.ledger.read_text() == "a line\n"


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.ended.set()
    if stage.agent:
        stage.agent.kill()
        stage.agent.wait()


def test_killed_after_the_append_the_line_is_there_and_nothing_is_settled(stage):
    os.mkfifo(stage.log)
    arguments = (stage.log, stage.appended, stage.strike, stage.ended)
    gate = Thread(target=hold_after_append, args=arguments)
    stage.start()
    gate.start()
    assert stage.agent.wait(5) == -9
    assert stage.appended()
    assert not stage.settled.exists()
    stage.start()  # held there no more: the pipe is read from now on
    assert stage.agent.wait(5) == 0
    assert stage.settled.exists()
    stage.ended.set()
    gate.join(5)
    assert not gate.is_alive()


def test_killed_before_the_append_it_is_begun_and_the_ledger_is_empty(stage):
    gone = []
    hold_before_append(
        stage.ledger,
        go=lambda: (gone.append("go"), stage.start()),
        is_open=stage.begun.exists,
        strike=stage.strike,
        ended=stage.ended,
    )
    assert gone == ["go"]
    assert stage.agent.wait(5) == -9
    assert stage.ledger.read_text() == ""
    stage.start()  # and the lock is free again
    assert stage.agent.wait(5) == 0


def test_a_gate_gives_up_when_the_run_has_ended(stage):
    stage.ended.set()
    hold_before_append(stage.ledger, lambda: None, lambda: False, stage.strike, stage.ended)
    os.mkfifo(stage.log)
    hold_after_append(stage.log, lambda: False, stage.strike, stage.ended)


@pytest.mark.parametrize(
    ("records", "is_open"),
    [
        ([], False),
        ([(KEY, Begin(at=1))], True),
        ([(KEY, Begin(at=1)), ("", Claimed(at=2, epoch=2, worker=1))], True),
        ([(KEY, Begin(at=1)), (KEY, Settle(at=2))], False),
        ([(KEY, Begin(at=1)), (KEY, Settle(at=2)), (KEY, Begin(at=3, attempt=2))], True),
        ([(KEY, Adopt(at=1, source="q1"))], False),
        ([("1.2//refund#0", Begin(at=1))], False),
    ],
)
def test_the_journal_says_whether_an_append_is_open(records, is_open):
    assert append_is_open(Entry(n, key, record) for n, (key, record) in enumerate(records)) is is_open
