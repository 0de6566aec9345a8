"""G2: An `AT_MOST_ONCE` effect is started once; a second start is ordered only by an answer."""

from __future__ import annotations

import pytest

from tests.guarantees.colours import RUN, begins, both, url_of
from tests.guarantees.lives import Lives
from yaoki import Retry, Runner
from yaoki.records import State
from yaoki.testing import no_waits


def killed(tmp_path, colour) -> Lives:
    """Killed by SIGKILL after the effect and before its record; then restarted three times."""
    lives = Lives(tmp_path, "note", colour)
    assert lives.live() is None
    for _ in range(3):
        receipt = lives.live()
        assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
        assert [(ask.why, ask.call) for ask in receipt.asks] == [("doubt", 'note(what="a")')]
    assert lives.world.asked("note") == 1
    return lives


@both
def test_answered_happened_it_is_not_started_again_and_its_value_is_used(tmp_path, colour):
    lives = killed(tmp_path, colour)
    lives.answer("happened", "noted by hand")
    assert lives.live().value == ["saw before", "noted by hand", "saw after"]
    assert lives.world.asked("note") == 1


@both
def test_answered_not_happened_it_is_started_a_second_time(tmp_path, colour):
    lives = killed(tmp_path, colour)
    lives.answer("not-happened")
    assert lives.live().value == ["saw before", "noted a", "saw after"]
    assert lives.world.asked("note") == 2


@both
def test_answered_skip_the_loop_goes_on_without_it_and_the_gap_is_named(tmp_path, colour):
    lives = killed(tmp_path, colour)
    lives.answer("skip")
    receipt = lives.live()
    assert receipt.value == ["saw before", None, "saw after"]
    assert len(receipt.gaps) == 1
    assert lives.world.asked("note") == 1


@both
def test_answered_abort_the_step_fails_in_the_loop(tmp_path, colour):
    lives = killed(tmp_path, colour)
    lives.answer("abort")
    receipt = lives.live()
    assert receipt.status is State.DEAD
    assert "note" in receipt.step
    assert lives.world.asked("note") == 1


ENDINGS = [ConnectionResetError(104, "reset"), TimeoutError("read timed out"), KeyboardInterrupt()]


@both
@no_waits
@pytest.mark.parametrize("error", ENDINGS, ids=lambda error: type(error).__name__)
def test_however_its_attempt_ends_without_an_answer_it_is_asked_about_and_not_started_again(tmp_path, colour, error):
    asked = []

    def note(text: str) -> str:
        asked.append(text)
        raise error

    noting = colour.tool(note, retry=Retry(attempts_max=5))

    def body(run):
        return (yield noting("a"))

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            colour.run(store, bound)
    for _ in range(2):
        receipt = colour.run(store, bound)
        assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert asked == ["a"]
    assert len(begins(store)) == 1


@both
@no_waits
def test_an_equal_call_after_a_doubt_shares_its_answer_instead_of_starting_it(tmp_path, colour):
    asked = []

    def note(text: str) -> str:
        asked.append(text)
        raise ConnectionResetError(104, "reset")

    noting = colour.tool(note)

    def branch(text):
        return (yield noting(text))

    def body(run):
        first = yield run.map(colour.body(branch), ["a"])
        return [first[0].value, (yield noting("a"))]

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    assert colour.run(store, bound).status is State.WAITING
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "skip")
    receipt = colour.run(store, bound)
    assert (receipt.status, receipt.value) == (State.COMPLETED, [None, None])
    assert asked == ["a"]
