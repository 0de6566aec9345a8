"""
`run.timeout` around a wait for somebody: it ends the wait, in memory or out of it, and a replay ends it again.

The rules: docs/guarantees.md, "Bounds".
"""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.house import House, got
from yaoki import AsyncRunner, Budget, Effect, Retry, Runner
from yaoki.records import Fired, State

READ = Effect.READ_ONLY
WAITS = ["signal", "person", "budget", "ask"]


def waiting_loop(house: House, how: str, *, after: str = ""):
    """Make a loop that waits in one of four ways, for at most so long, and then says what it got."""

    @house.tool
    def charge(n: int) -> str:
        house.note("charge")
        raise TimeoutError("read timeout")

    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note(f"look {n}")
        return n

    wait = {
        "signal": lambda run: run.wait_signal("go"),
        "person": lambda _: charge(1),
        "budget": lambda _: look(2),
        "ask": lambda run: run.ask("go?"),
    }[how]

    @house.loop(budget=Budget(calls=1) if how == "budget" else Budget())
    async def work(run) -> str:
        said = "nothing"
        if how == "budget":
            await got(look(1))
        try:
            async with house.timeout(run, 60):
                said = await got(wait(run))
        except TimeoutError:
            said += ", in time"
            if after:
                run.now()
                await got(run.wait_signal("on"))
        return said

    return work


def work_until_idle(house: House, loop) -> None:
    """Do what a worker does that finds the store as it is."""
    if house.is_async:

        async def serve(runner: AsyncRunner):
            return await runner.work(loop, until="idle")

        house.drive(serve)
    else:
        with Runner(house.url, clock=house.clock) as runner:
            runner.work(loop, until="idle")


@pytest.mark.parametrize("how", WAITS)
def test_a_timeout_ends_a_wait_that_has_left_memory(house, how):
    """The run is woken when the block's time is over, by whoever serves the store."""
    work = waiting_loop(house, how)
    receipt = house.run(work.bind())
    if receipt.status is State.WAITING:  # a loop in memory sees its time run out there
        assert receipt.wake_at == house.clock.now_ms() + 60_000
        house.later(59)
        work_until_idle(house, work)
        assert house.get().status is State.WAITING
        house.later(1)
        work_until_idle(house, work)
    receipt = house.get()
    assert (receipt.status, receipt.value) == (State.COMPLETED, "nothing, in time")
    assert len(house.records(Fired)) >= 1


@pytest.mark.parametrize("how", WAITS)
def test_what_comes_after_a_timeout_ended_the_wait_changes_nothing(house, how):
    """The loop went on without it; a replay goes on without it too, whatever was answered meanwhile."""
    work = waiting_loop(house, how, after="on")
    house.run(work.bind())
    house.later(60)
    receipt = house.run(work.bind())
    assert (receipt.waits_for, receipt.text) == ("signal", "signal on")
    if how == "signal":
        house.outside(lambda verbs: verbs.signal("r", "go", "late"))
    elif how == "person":
        house.answer("happened", "late")
    elif how == "budget":
        house.top_up(calls=5)
    house.later(2_000)
    house.outside(lambda verbs: verbs.signal("r", "on"))
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.value) == (State.COMPLETED, "nothing, in time"), receipt.diff
    assert "look 2" not in house.done


def test_a_signal_that_a_timed_out_wait_left_is_there_for_the_next(house):
    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with house.timeout(run, 60):
                found.append(await got(run.wait_signal("go")))
        except TimeoutError:
            found.append("too late")
        found.append(await got(run.wait_signal("go")))
        await got(run.wait_signal("on"))
        return found

    house.run(work.bind())
    house.later(60)
    assert house.run(work.bind()).waits_for == "signal"
    house.outside(lambda verbs: verbs.signal("r", "go", "late"))
    assert house.run(work.bind()).text == "signal on"
    house.outside(lambda verbs: verbs.signal("r", "on"))
    assert house.run(work.bind()).unwrap() == ["too late", "late"]


def test_a_wait_that_ends_in_time_is_not_cut(house):
    work = waiting_loop(house, "person", after="on")
    assert house.run(work.bind()).status is State.WAITING
    house.answer("happened", "ch_1")
    house.later(10)
    assert house.run(work.bind()).unwrap() == "ch_1"


def test_a_retry_that_a_timeout_ended_is_not_made_on_replay(house):
    """The wait for the second attempt was cut: a replay, long after, begins none."""

    @house.tool(effect=READ, retry=Retry(attempts_max=3, base_s=20, cap_s=20))
    def look() -> int:
        house.note("look")
        raise ConnectionResetError(104, "reset")

    @house.loop
    async def work(run) -> str:
        try:
            async with house.timeout(run, 0.001):
                await got(look())
        except TimeoutError:
            await got(run.wait_signal("on"))
            return "in time"
        return "not cut"

    assert house.run(work.bind()).text == "signal on"
    house.later(2_000)
    house.outside(lambda verbs: verbs.signal("r", "on"))
    assert house.run(work.bind()).unwrap() == "in time"
    assert house.done == ["look"]


def test_a_tool_that_answers_the_timeout_with_a_value_does_not_undo_it(async_house):
    """Live as on replay the block ends with TimeoutError; the value stands in the journal."""
    house = async_house

    @house.tool(effect=READ)
    async def stream() -> str:
        house.note("stream")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "a part"
        return "whole"

    @house.tool(effect=READ)
    async def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> str:
        said = "nothing"
        try:
            async with run.timeout(5):
                said = await stream()
        except TimeoutError:
            said += ", in time"
        house.note(said)
        await die()
        return said

    assert house.die(work.bind()) == -9
    house.later(60)
    assert house.run(work.bind()).unwrap() == "nothing, in time"
    assert house.done == ["stream", "nothing, in time", "die", "nothing, in time", "die"]
