"""
G1: No ladder makes more than `attempts_max` attempts, whatever kills the process, however often, unless a
person orders one.
"""

from __future__ import annotations

import pytest

from tests.guarantees.colours import RUN, begins, both, records_of, url_of
from tests.guarantees.lives import Lives
from yaoki import Effect, Retry, Runner
from yaoki.records import Ended, State
from yaoki.testing import no_waits

THREE = Retry(attempts_max=3)


@both
def test_an_attempt_that_kills_its_process_is_made_four_times_then_the_run_is_dead_with_the_step_named(
    tmp_path, colour
):
    lives = Lives(tmp_path, "suicide", colour)
    ends = [lives.live() for _ in range(7)]
    assert ends[:4] == [None] * 4
    assert {end.status for end in ends[4:]} == {State.DEAD}
    assert lives.world.asked("look") == 4
    assert "die_looking" in ends[-1].step
    assert [begin.attempt for begin in begins(lives.store)] == [1, 2, 3, 4]


@both
def test_a_keyed_attempt_that_kills_its_process_is_made_four_times_then_asked_about_and_once_more_if_ordered(
    tmp_path, colour
):
    lives = Lives(tmp_path, "suicide_keyed", colour)
    ends = [lives.live() for _ in range(5)]
    assert ends[:4] == [None] * 4
    assert (ends[4].status, ends[4].waits_for) == (State.WAITING, "person")
    assert lives.world.asked("charge") == 4
    lives.answer("not-happened")
    assert lives.live() is None
    assert lives.live().status is State.WAITING
    assert lives.world.asked("charge") == 5


@both
@no_waits
def test_a_failing_step_is_tried_attempts_max_times_in_every_branch(tmp_path, colour):
    asked = []

    def fail(name: str) -> None:
        asked.append(name)
        raise ConnectionResetError(104, "reset")

    failing = colour.tool(fail, effect=Effect.READ_ONLY, retry=THREE)

    def branch(name):
        yield failing(name)

    def body(run):
        settled = yield run.map(colour.body(branch), ["a", "b"])
        return [one.failure.reason for one in settled]

    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind())
    assert receipt.value == ["os.ECONNRESET"] * 2
    assert sorted(asked) == ["a"] * 3 + ["b"] * 3


@both
@no_waits
def test_a_restart_between_attempts_gives_none_back(tmp_path, colour):
    """Ctrl-C in every attempt: each life makes one, and the last of them is the third."""
    asked = []

    def stop() -> None:
        asked.append(1)
        raise KeyboardInterrupt

    stopping = colour.tool(stop, effect=Effect.READ_ONLY, retry=THREE)

    def body(run):
        yield stopping()

    bound = colour.loop(body, name="body").bind()
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            colour.run(tmp_path / "s.db", bound)
    receipt = colour.run(tmp_path / "s.db", bound)
    assert receipt.status is State.DEAD
    assert len(asked) == 3


@both
@no_waits
def test_a_redrive_starts_a_new_ladder_and_no_restart_does(tmp_path, colour):
    asked = []

    def fail() -> None:
        asked.append(1)
        raise ConnectionResetError(104, "reset")

    failing = colour.tool(fail, effect=Effect.READ_ONLY, retry=THREE)

    def body(run):
        yield failing()

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    for _ in range(2):
        assert colour.run(store, bound).status is State.DEAD
        assert len(asked) == 3
    with Runner.verbs(url_of(store)) as runner:
        runner.redrive(RUN)
    assert colour.run(store, bound).status is State.DEAD
    assert len(asked) == 6
    assert len(records_of(store, Ended)) == 2


@both
def test_a_run_whose_processes_die_crashes_max_times_in_a_row_is_dead(tmp_path, colour):
    lives = Lives(tmp_path, "crashing", colour)
    ends = [lives.live() for _ in range(3)]
    assert ends[:2] == [None, None]
    assert (ends[2].status, ends[2].stopped_by) == (State.DEAD, "crashes")
    assert "die_looking" in ends[2].step
    assert lives.world.asked("look") == 2
