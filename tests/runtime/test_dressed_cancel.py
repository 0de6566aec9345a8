"""A cancel from outside stays one, also where a tool or a library answers it with an error of its own."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from yaoki import Effect
from yaoki.records import Cause, Executed, Settle, State

READ = Effect.READ_ONLY


def dressing_of(house, effect=READ):
    """Make a tool that turns its cancel into a TimeoutError, as some libraries do."""

    @house.tool(effect=effect, name="slow")
    async def slow(n: int) -> int:
        house.note(f"start {n}")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as cut:
            raise TimeoutError("the library's own word") from cut
        return n

    return slow


def settles(house) -> list[tuple]:
    return [(s.outcome, s.executed, s.cause) for s in house.records(Settle)]


@pytest.mark.parametrize("effect", [READ, None])
def test_a_cancelled_runner_is_no_timeout_of_the_tool(async_house, effect):
    house = async_house
    slow = dressing_of(house, effect)

    @house.loop
    async def work(run) -> int:
        return await slow(1)

    async def cancelled(runner):
        running = asyncio.ensure_future(runner.run(work.bind(), run_id="r"))
        await asyncio.sleep(5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    house.drive(cancelled)
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.RUNNER)]
    assert house.get().status is State.PENDING
    assert house.done == ["start 1"]


def test_a_timeout_of_the_run_is_its_own_and_is_not_tried_again(async_house):
    house = async_house
    slow = dressing_of(house)

    @house.loop
    async def work(run) -> str:
        try:
            async with run.timeout(5):
                await slow(1)
        except TimeoutError as late:
            return str(late)
        return "no"

    receipt = house.run(work.bind())
    assert "the library's own word" not in receipt.unwrap()
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.TIMEOUT)]
    assert house.done == ["start 1"]


def test_a_timeout_inside_the_tool_is_a_failure_and_is_tried_again(async_house):
    house = async_house

    @house.tool(effect=READ, name="slow")
    async def slow() -> int:
        house.note("start")
        if len(house.done) > 1:
            return 7
        async with asyncio.timeout(1):
            await asyncio.sleep(60)
        return 0

    @house.loop
    async def work(run) -> int:
        return await slow()

    assert house.run(work.bind()).unwrap() == 7
    assert [s.outcome for s in house.records(Settle)] == ["failed", "ok"]
    assert house.done == ["start", "start"]


def test_outside_a_run_too_a_cancelled_call_is_not_tried_again(async_house):
    house = async_house
    slow = dressing_of(house)

    async def main() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await slow(1)

    asyncio.run(main())
    assert house.done == ["start 1"]
