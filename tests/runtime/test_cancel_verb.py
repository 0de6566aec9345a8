"""The verb `cancel`, and signals that a loop swallows (docs/guarantees.md, "Two questions about a failure")."""

from __future__ import annotations

import asyncio
import contextlib

from tests.runtime.errors import refused
from tests.runtime.house import House, got
from yaoki import Effect, Retry
from yaoki.records import Settle, State

READ = Effect.READ_ONLY


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


def test_a_cancel_from_outside_lets_the_attempt_settle_and_begins_nothing_more(house):
    @house.tool(effect=READ)
    def ask(n: int) -> int:
        house.note(f"ask {n}")
        if n == 1:
            house.cancel()
        house.clock.advance(1)
        return n

    @house.loop
    async def work(run) -> int:
        total = 0
        for n in range(5):
            total += await got(ask(n))
            await got(run.sleep(1))
        return total

    receipt = house.run(work.bind())
    assert receipt.status is State.CANCELLED
    assert receipt.stopped_by == "cancel"
    assert house.done == ["ask 0", "ask 1"]
    assert [s.outcome for s in house.records(Settle)] == ["ok", "ok"]


def test_a_cancel_wakes_a_run_that_waits_for_its_retry(async_house):
    house = async_house

    @house.tool(effect=READ, retry=Retry(base_s=1000, cap_s=1000, deadline_s=5000))
    async def look() -> int:
        house.note("look")
        raise refused()

    @house.tool(effect=READ)
    async def person() -> int:
        await asyncio.sleep(10)
        house.cancel()
        return 1

    async def one(n):
        return await (person() if n else look())

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await run.map(one, [0, 1])]

    receipt = house.run(work.bind(), park_after_s=9999)
    assert receipt.status is State.CANCELLED
    assert house.clock.passed_s < 12
    assert house.done == ["look"]


def test_a_waiting_run_that_is_cancelled_ends_cancelled(house):
    from tests.runtime.errors import reset

    @house.tool
    def charge() -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> str:
        return await got(charge())

    assert house.run(work.bind()).status is State.WAITING
    house.cancel()
    receipt = house.run(work.bind())
    assert receipt.status is State.CANCELLED
    assert house.done == ["charge"]


def test_cancelling_a_final_run_changes_nothing(house):
    @house.loop
    async def work(run) -> int:
        return 1

    house.run(work.bind())
    assert house.cancel().status is State.COMPLETED


def test_a_cancelled_run_can_be_redriven(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def ask() -> int:
        if house.note("ask") == 1:
            house.cancel()
        house.clock.advance(1)
        return 1

    @house.loop
    async def work(run) -> int:
        await got(ask())
        await got(run.sleep(1))
        return await got(step(2))

    assert house.run(work.bind()).status is State.CANCELLED
    house.redrive()
    assert house.run(work.bind()).unwrap() == 2
    assert house.done == ["ask", "step 2"]


def test_a_loop_that_swallows_the_stop_is_stopped_at_its_next_step(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def ask() -> int:
        house.cancel()
        house.clock.advance(1)
        return 1

    @house.loop
    async def work(run) -> int:
        await got(ask())
        await got(run.sleep(1))
        for n in range(3):
            with contextlib.suppress(BaseException):  # the crime under test
                await got(step(n))
        return 5

    assert house.run(work.bind()).status is State.CANCELLED
    assert house.done == []


def test_a_swallowed_park_is_raised_again_in_a_branch_too(house):
    from tests.runtime.errors import reset

    step = step_of(house)

    @house.tool
    def charge() -> str:
        house.note("charge")
        raise reset()

    async def one(n):
        try:
            return await got(charge())
        except BaseException:
            return await got(step(1))

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), [1]))]

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert house.done == ["charge"]
    house.answer("happened", "x")
    assert house.run(work.bind()).unwrap() == ["x"]
