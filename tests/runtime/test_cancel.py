"""
The runner or the loop's own code cancels: what was begun is settled, nothing repeated unknowingly.

The rules: docs/guarantees.md, "Two questions about a failure".
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.runtime.house import House
from yaoki import (
    Effect,
)
from yaoki.records import Begin, Cause, Executed, Settle, State

READ = Effect.READ_ONLY


def slow_of(house: House, effect: Effect | None = READ, seconds: float = 60):
    """Make an async tool that starts, takes its time, and says when it is done."""

    @house.tool(effect=effect, name="slow")
    async def slow(n: int) -> int:
        house.note(f"start {n}")
        await asyncio.sleep(seconds)
        house.note(f"end {n}")
        return n

    return slow


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


def settles(house: House) -> list[tuple]:
    return [(s.outcome, s.executed, s.cause) for s in house.records(Settle)]


# --- the runner is cancelled


@pytest.mark.parametrize("effect", [READ, None])
def test_a_cancelled_runner_settles_what_was_begun_and_leaves_the_run_pending(async_house, effect):
    house = async_house
    slow = slow_of(house, effect)

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
    receipt = house.run(work.bind())
    if effect is READ:
        assert receipt.unwrap() == 1
        assert house.done == ["start 1", "start 1", "end 1"]
    else:
        assert receipt.status is State.WAITING
        assert house.done == ["start 1"]


def test_a_cancelled_runner_can_be_cancelled_at_every_moment(async_house):
    """At any point of three effects: run again with truthful answers, each effect is done once."""
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        await asyncio.sleep(1)
        house.note(f"send {n}")
        await asyncio.sleep(1)
        return n

    @house.loop
    async def work(run) -> int:
        return sum([await send(n) for n in (1, 2, 3)])

    for moment in range(1, 14):
        run_id = f"r{moment}"
        before = len(house.done)

        async def cancelled(runner, run_id=run_id, moment=moment):
            running = asyncio.ensure_future(runner.run(work.bind(), run_id=run_id))
            await asyncio.sleep(moment * 0.5)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        house.drive(cancelled)
        receipt = house.run(work.bind(), run_id)
        while receipt.status is State.WAITING:
            number = int(receipt.asks[-1].call[-2])
            if f"send {number}" in house.done[before:]:
                house.answer("happened", number, run_id=run_id)
            else:
                house.answer("not-happened", run_id=run_id)
            receipt = house.run(work.bind(), run_id)
        assert receipt.unwrap() == 6
        assert house.done[before:] == ["send 1", "send 2", "send 3"]


def test_after_the_detachment_an_operation_raises_and_records_nothing(async_house):
    """A loop that swallows its cancel cannot go on recording."""
    house = async_house
    slow, step = slow_of(house), step_of(house)
    raised: list[str] = []

    @house.loop
    async def work(run) -> int:
        try:
            await slow(1)
        except asyncio.CancelledError:
            try:
                await step(2)
            except BaseException as error:
                raised.append(type(error).__name__)
        return 7

    async def cancelled(runner):
        running = asyncio.ensure_future(runner.run(work.bind(), run_id="r"))
        await asyncio.sleep(5)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    house.drive(cancelled)
    assert raised == ["Fenced"]
    assert house.done == ["start 1"]
    assert house.get().status is State.PENDING


# --- cancels by the loop's own code


def test_a_bare_asyncio_timeout_around_a_step_parks_the_run_at_the_next_step(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.loop
    async def work(run) -> int:
        try:
            async with asyncio.timeout(10):
                await slow(1)
        except TimeoutError:
            pass
        return await step(2)

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.waits_for == "code"
    assert "Use run.timeout(seconds) instead of asyncio.timeout around steps." in receipt.text
    assert "before step" in receipt.text
    assert house.done == ["start 1"]
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.LOOP)]


@pytest.mark.parametrize("effect", [READ, None])
def test_on_resume_a_cancel_by_the_loop_is_decided_like_a_death(async_house, effect):
    house = async_house
    slow, quick, step = slow_of(house, effect), slow_of(house, effect, 1), step_of(house)

    def made(tool):
        @house.loop(name="work")
        async def work(run) -> int:
            try:
                async with asyncio.timeout(10):
                    await tool(1)
            except TimeoutError:
                pass
            return await step(2)

        return work

    assert house.run(made(slow).bind()).waits_for == "code"
    receipt = house.run(made(quick).bind())
    if effect is READ:
        assert receipt.unwrap() == 2
        assert house.done == ["start 1", "start 1", "end 1", "step 2"]
    else:
        assert receipt.status is State.WAITING
        assert receipt.waits_for == "person"
        assert house.done == ["start 1"]


def test_a_task_group_that_cancels_a_sibling_parks_the_run_at_that_branchs_next_step(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.loop
    async def work(run) -> int:
        async def bad():
            await asyncio.sleep(5)
            raise ValueError("bad")

        async def good():
            with run.scope("good"):
                await slow(1)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(good())
                group.create_task(bad())
        except* ValueError:
            pass
        return await step(2)

    receipt = house.run(work.bind())
    assert settles(house)[0] == ("cancelled", Executed.MAYBE, Cause.LOOP)
    assert house.done[0] == "start 1"
    assert receipt.status in (State.WAITING, State.COMPLETED)


def test_a_task_of_the_loop_cancelled_around_a_step_parks_at_the_next_step(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.loop
    async def work(run) -> int:
        task = asyncio.ensure_future(slow(1))
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await step(2)

    receipt = house.run(work.bind())
    assert receipt.waits_for == "code"
    assert house.done == ["start 1"]


def test_a_cancel_before_the_call_had_started_is_executed_no(async_house):
    """The begin is being synced when the cancel comes: the effect never left the process."""
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        house.note("sent")
        return n

    @house.loop
    async def work(run) -> int:
        task = asyncio.ensure_future(send(1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return 1

    house.run(work.bind())
    assert settles(house) in ([], [("cancelled", Executed.NO, Cause.LOOP)])
    assert house.done == []
    assert len(house.records(Begin)) <= 1


# --- doubts that nobody would ask about


def test_a_doubt_left_behind_by_a_cancelled_sibling_is_asked_about(async_house):
    """G6: map cancels the siblings of a branch that raised; an effect among them may have happened."""
    house = async_house
    slow = slow_of(house, None)

    @house.loop
    async def work(run) -> str:
        async def one(n):
            if n == 0:
                return await slow(0)
            await run.sleep(5)
            raise ValueError("in a branch")

        try:
            await run.map(one, [0, 1])
        except ValueError:
            return "went on"
        return ""

    receipt = house.run(work.bind())
    assert house.done == ["start 0"]
    assert [ask.executed for ask in receipt.asks] == [Executed.MAYBE]


def test_an_effect_that_the_loop_did_not_wait_for_is_settled_before_the_run_ends(async_house):
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        await asyncio.sleep(1)
        house.note("sent")
        return n

    left: list = []

    @house.loop
    async def work(run) -> str:
        left.append(asyncio.ensure_future(send(1)))
        await asyncio.sleep(0.5)
        return "out"

    receipt = house.run(work.bind())
    assert receipt.status is State.COMPLETED
    assert house.done == ["sent"]
    assert [s.outcome for s in house.records(Settle)] == ["ok"]
    assert left


def test_wait_for_around_a_step_parks_the_run_like_any_bare_cancel(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.loop
    async def work(run) -> int:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(slow(1), 5)
        return await step(2)

    receipt = house.run(work.bind())
    assert receipt.waits_for == "code"
    assert "Use run.timeout(seconds)" in receipt.text
    assert house.done == ["start 1"]


def test_a_bare_cancel_after_which_nothing_follows_is_not_forgotten(async_house):
    """The effect may have happened, and the loop returns without another step."""
    house = async_house
    slow = slow_of(house, None)

    @house.loop
    async def work(run) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await slow(1)
        return "out"

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
