"""
G8: Two processes never both write one run. (One that lost its claim may still be inside one external call:
keys, checks and AT_MOST_ONCE cover that, fencing does not.)
"""

from __future__ import annotations

import os
import signal
import threading
import time

import apsw
import pytest

from tests.crash.processes import Life
from tests.guarantees.colours import RUN, both, url_of
from tests.guarantees.lives import Lives
from tests.guarantees.program import loops
from yaoki import Effect, RunBusy, Runner
from yaoki.records import State


def started(lives: Lives, gate) -> Life:
    """Start a process and wait until it is inside a tool, where it stays until the gate is there."""
    life = lives.start(str(gate))
    until_s = time.monotonic() + 30
    while not (lives.outside.exists() and lives.world.asked("hang")):
        assert time.monotonic() < until_s
        time.sleep(0.002)
    return life


def records(lives: Lives) -> list:
    with Runner.verbs(url_of(lives.store)) as runner:
        return runner.journal(RUN)


@both
def test_a_run_driven_by_a_living_process_is_busy_also_while_that_process_is_stopped(tmp_path, colour):
    """SIGSTOP is not death: nobody steals from a living owner."""
    gate, lives = tmp_path / "gate", Lives(tmp_path, "hangs", colour)
    life = started(lives, gate)
    bound = loops(colour)["hangs"].bind(str(gate))
    before = records(lives)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        with pytest.raises(RunBusy, match=str(life.pid)):
            colour.run(lives.store, bound)
        life.send(number)
        with pytest.raises(RunBusy, match=str(life.pid)):
            colour.run(lives.store, bound)
    assert records(lives) == before, "nothing was changed"
    gate.touch()
    assert life.end() == 0
    receipt = colour.run(lives.store, bound)
    assert (receipt.status, receipt.value) == (State.COMPLETED, "over")
    assert lives.world.asked("hang") == 1


@both
def test_a_run_whose_owner_was_killed_is_taken_at_once_with_a_higher_epoch(tmp_path, colour):
    gate, lives = tmp_path / "gate", Lives(tmp_path, "hangs", colour)
    life = started(lives, gate)
    life.send(signal.SIGSTOP)
    life.send(signal.SIGKILL)
    assert life.end() == -signal.SIGKILL
    gate.touch()
    assert lives.live(str(gate)).value == "over"
    claims = [record.epoch for _, key, record in records(lives) if type(record).__name__ == "Claimed"]
    assert claims == [1, 2]
    assert lives.world.asked("hang") == 2


@both
def test_one_that_lost_its_claim_writes_nothing_more(tmp_path, colour):
    """The epoch raised under a living driver, as by a claim it did not notice: its next append is fenced."""
    store = tmp_path / "s.db"
    calls: list[str] = []

    def take_away(what: str) -> str:
        calls.append(what)
        connection = apsw.Connection(str(store))
        connection.execute("update run set epoch = epoch + 1")
        connection.close()
        return what

    taking = colour.tool(take_away, effect=Effect.READ_ONLY)

    def body(run):
        yield taking("a")
        yield taking("b")

    bound = colour.loop(body, name="body").bind()
    with pytest.raises(RunBusy):
        colour.run(store, bound)
    with Runner.verbs(url_of(store)) as runner:
        kinds = [type(record).__name__ for _, _, record in runner.journal(RUN)]
    assert kinds == ["Claimed", "Begin"]
    assert calls == ["a"]


@both
def test_of_several_that_want_one_run_at_once_one_drives_it(tmp_path, colour):
    lives = Lives(tmp_path, "hangs", colour)
    gate = tmp_path / "gate"
    several = [lives.start(str(gate)) for _ in range(4)]
    until_s = time.monotonic() + 30
    while not (lives.outside.exists() and lives.world.asked("hang")):
        assert time.monotonic() < until_s
        time.sleep(0.002)
    time.sleep(0.05)
    gate.touch()
    codes = [life.end() for life in several]
    assert lives.world.asked("hang") == 1
    assert 0 in codes
    for life in several:
        assert life.code == 0 or "RunBusy" in life.err, life.err
    claims = [record for _, _, record in records(lives) if type(record).__name__ == "Claimed"]
    assert len(claims) == 1


@both
def test_two_runners_in_one_process_do_not_both_drive_a_run(tmp_path, colour):
    store = tmp_path / "s.db"
    errors: list[BaseException] = []
    calls: list[int] = []

    def look() -> str:
        calls.append(1)

        def other() -> None:
            try:
                colour.run(store, bound)
            except RunBusy as error:
                errors.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
        return "seen"

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        return (yield looking())

    bound = colour.loop(body, name="body").bind()
    assert colour.run(store, bound).value == "seen"
    assert len(calls) == 1
    assert [str(os.getpid()) in str(error) for error in errors] == [True]
