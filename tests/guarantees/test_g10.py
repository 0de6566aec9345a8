"""G10: Stopping is killing: no correctness depends on shutdown."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.crash.matrix import Case, check_ending, run_to_its_end
from tests.crash.processes import Life
from tests.guarantees.colours import RUN, Colour, both, records_of, url_of
from tests.guarantees.lives import Lives
from tests.guarantees.test_g08 import started
from yaoki import AsyncRunner, Effect, Runner
from yaoki.records import Claimed, Settle, State
from yaoki.testing import no_waits

STOPS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@both
@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.name)
def test_whichever_signal_stops_a_process_the_next_one_ends_the_run(tmp_path, colour, stop):
    gate, lives = tmp_path / "gate", Lives(tmp_path, "hangs", colour)
    life = started(lives, gate)
    life.send(stop)
    gate.touch()  # a tool that blocks its event loop notices the signal when it returns
    assert life.end() != 0
    receipt = lives.live(str(gate))
    assert (receipt.status, receipt.value) == (State.COMPLETED, "over")
    assert lives.world.asked("hang") <= 2


@both
@pytest.mark.parametrize("last", ["before leave", "after leave", "before sync"])
def test_dying_in_the_middle_of_leaving_a_run_changes_nothing(tmp_path, colour, last):
    """The points around a run's last record, as an undisturbed life passes them."""
    case = Case("straight", colour.is_async)
    expected = run_to_its_end(case, tmp_path / "undisturbed", iter(()))
    point = len(expected.trail) - expected.trail[::-1].index(last)
    ending = run_to_its_end(case, tmp_path / "killed", iter([point]))
    assert ending.where == [last]
    check_ending(case, ending, expected)


@both
def test_a_runner_that_is_never_closed_leaves_a_run_that_goes_on(tmp_path, colour):
    """`os._exit` in a tool: no context manager is left, no journal is closed, no lock let go of by us."""
    store, marks = tmp_path / "s.db", tmp_path / "marks"
    name = "async" if colour.is_async else "sync"
    life = Life("tests.guarantees.test_g10", str(store), str(marks), name)
    assert life.end() == 7
    receipt = colour.run(store, leaving(colour, marks).bind())
    assert receipt.value == ["a", "b"]
    assert marks.read_text() == "a b b "
    claims = records_of(store, Claimed)
    assert [claim.deaths for claim in claims] == [0, 1]


def leaving(colour: Colour, marks):
    def look(what: str) -> str:
        with marks.open("a") as file:
            file.write(f"{what} ")
        if marks.read_text() == "a b ":
            os._exit(7)
        return what

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        return [(yield looking("a")), (yield looking("b"))]

    return colour.loop(body, name="leaving")


def main(store: str, marks: str, name: str) -> None:
    """Do what the process of that test does."""
    from pathlib import Path

    colour = Colour(is_async=name == "async")
    with no_waits():
        colour.run(Path(store), leaving(colour, Path(marks)).bind())


@both
@no_waits
def test_a_run_interrupted_by_ctrl_c_is_pending_and_goes_on_where_it_was(tmp_path, colour):
    calls: list[str] = []

    def look(what: str) -> str:
        calls.append(what)
        if calls == ["a", "b"]:
            raise KeyboardInterrupt
        return what

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        return [(yield looking("a")), (yield looking("b"))]

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    with pytest.raises(KeyboardInterrupt):
        colour.run(store, bound)
    with Runner.verbs(url_of(store)) as runner:
        assert runner.get(RUN).status in (State.PENDING, State.RUNNING)
    assert colour.run(store, bound).value == ["a", "b"]
    assert calls == ["a", "b", "b"]


def test_a_cancelled_runner_settles_what_was_begun_and_lets_go(tmp_path):
    """The attempt in flight is cut and recorded as cancelled by the runner; resumed, it is made again."""
    store = f"sqlite:///{tmp_path / 's.db'}"
    calls: list[str] = []

    async def drive(hang: bool):
        from yaoki import loop, tool

        entered = asyncio.Event()

        @tool(effect=Effect.READ_ONLY)
        async def look(what: str) -> str:
            calls.append(what)
            entered.set()
            if hang:
                await asyncio.Event().wait()
            return what

        @loop
        async def body(run) -> str:
            return await look("a")

        async with AsyncRunner(store) as runner:
            task = asyncio.create_task(runner.run(body.bind(), run_id=RUN))
            if hang:
                await entered.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return await runner.get(RUN)
            return await task

    with no_waits():
        assert asyncio.run(drive(hang=True)).status is State.PENDING
        settled = records_of(tmp_path / "s.db", Settle)
        assert [(one.outcome, one.cause) for one in settled] == [("cancelled", "runner")]
        assert asyncio.run(drive(hang=False)).value == "a"
    assert calls == ["a", "a"]
