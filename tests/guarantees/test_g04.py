"""G4: A settled step is never executed again; parallel siblings settle independently."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.guarantees.colours import RUN, both, records_of, settles, url_of
from tests.guarantees.lives import Lives
from yaoki import Effect, Retry, Runner
from yaoki.records import Parked, State
from yaoki.testing import no_waits


@both
@pytest.mark.parametrize("tool", ["look", "charge", "mail", "note"])
def test_what_was_settled_before_a_sigkill_is_not_executed_again(tmp_path, colour, tool):
    lives = Lives(tmp_path, tool, colour)
    assert lives.live() is None
    receipt = lives.live()
    if receipt.status is State.WAITING:
        lives.answer("happened", "by hand")
        receipt = lives.live()
    assert receipt.status is State.COMPLETED
    calls = [(name, key) for what, name, key, _ in lives.world.events if what == "asked"]
    assert Counter(calls)["quick_look", "before"] == 1
    assert Counter(calls)["quick_look", "after"] == 1
    assert lives.live().value == receipt.value, "a final run is reported, not run"
    assert len([event for event in lives.world.events if event[0] == "asked"]) == len(calls)


@both
@no_waits
def test_read_only_steps_too_are_replayed_from_their_record(tmp_path, colour):
    asked: list[str] = []

    def look(what: str) -> str:
        asked.append(what)
        if what == "stop" and asked.count("stop") == 1:
            raise KeyboardInterrupt
        return f"saw {what}"

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        return [(yield looking("a")), (yield looking("a")), (yield looking("stop"))]

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    with pytest.raises(KeyboardInterrupt):
        colour.run(store, bound)
    assert colour.run(store, bound).value == ["saw a", "saw a", "saw stop"]
    assert asked == ["a", "a", "stop", "stop"]


@both
@no_waits
def test_a_sibling_in_doubt_holds_nobody_up_and_nobody_is_executed_again_for_it(tmp_path, colour):
    asked: list[str] = []

    def note(what: str) -> str:
        asked.append(what)
        if what == "b":
            raise ConnectionResetError(104, "reset")
        return what

    noting = colour.tool(note)

    def branch(what):
        first = yield noting(what)
        return [first, (yield noting(f"{what} again"))]

    def body(run):
        settled = yield run.map(colour.body(branch), ["a", "b", "c"], limit=1)
        return [one.value for one in settled]

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    for _ in range(2):
        receipt = colour.run(store, bound)
        assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert sorted(asked) == ["a", "a again", "b", "c", "c again"]
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "happened", "b")
    receipt = colour.run(store, bound)
    assert receipt.value == [["a", "a again"], ["b", "b again"], ["c", "c again"]]
    assert sorted(asked) == ["a", "a again", "b", "b again", "c", "c again"]


@both
@no_waits
def test_a_sibling_that_fails_becomes_its_own_failure_and_the_others_keep_their_values(tmp_path, colour):
    def look(what: str) -> str:
        if what == "b":
            raise FileNotFoundError(2, "no such file", "b")
        return what

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def branch(what):
        return (yield looking(what))

    def body(run):
        settled = yield run.map(colour.body(branch), ["a", "b", "c"])
        return [one.value if one.ok else one.failure.reason for one in settled]

    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind())
    assert receipt.value == ["a", "os.ENOENT", "c"]


@both
@no_waits
def test_a_failed_step_too_is_replayed_as_it_failed(tmp_path, colour):
    asked: list[str] = []

    def look(what: str) -> str:
        asked.append(what)
        if what == "missing":
            raise FileNotFoundError(2, "no such file", what)
        if asked.count("stop") == 1:
            raise KeyboardInterrupt
        return what

    looking = colour.tool(look, effect=Effect.READ_ONLY, retry=Retry(attempts_max=3))

    def branch(what):
        return (yield looking(what))

    def body(run):
        settled = yield run.map(colour.body(branch), ["missing"])
        return [settled[0].failure.reason, (yield looking("stop"))]

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    with pytest.raises(KeyboardInterrupt):
        colour.run(store, bound)
    assert colour.run(store, bound).value == ["os.ENOENT", "stop"]
    assert asked == ["missing", "stop", "stop"]


@both
@no_waits
def test_the_loop_receives_the_decoded_record_the_first_time_too(tmp_path, colour):
    """So a replay sees nothing else: a tuple is a list from the start."""
    seen: list[object] = []

    def look() -> list[int]:
        return (1, 2)  # type: ignore[return-value]

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        seen.append((yield looking()))
        return len(seen)

    store = tmp_path / "s.db"
    assert colour.run(store, colour.loop(body, name="body").bind()).value == 1
    assert seen == [[1, 2]]
    assert len(settles(store)) == 1
    assert not records_of(store, Parked)
