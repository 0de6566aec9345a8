"""
`run.timeout`: the same TimeoutError at the same point, live and on replay.

The rules: docs/guarantees.md, "Two questions about a failure".
"""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import refused
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, DeclarationError, Effect, Retry
from yaoki.records import Cause, Executed, Fired, Settle, State

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


# --- run.timeout


def test_a_timeout_is_a_timeout_error_live_and_on_replay(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.tool(effect=READ)
    async def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with run.timeout(10):
                found.append(await step(1))
                found.append(await slow(2))
                found.append("not reached")
        except TimeoutError as error:
            found.append(str(error))
        found.append(await step(3))
        await die()
        return found

    assert house.die(work.bind()) == -9
    house.later(100)
    assert house.run(work.bind()).unwrap() == [1, "run r: run.timeout(10) ran out", 3]
    assert house.done == ["step 1", "start 2", "step 3", "die", "die"]
    assert ("cancelled", Executed.MAYBE, Cause.TIMEOUT) in settles(house)
    assert len(house.records(Fired)) == 1


def test_a_timeout_around_a_bare_sleep_fires_on_replay_too(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with house.timeout(run, 10):
                await got(run.sleep(20))
                await got(step(1))
                found.append("not reached")
        except TimeoutError:
            found.append("timeout")
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    house.later(100)
    receipt = house.run(work.bind())
    assert receipt.unwrap() == ["timeout"]
    assert house.done == ["die", "die"]


def test_a_sleep_cut_by_a_timeout_is_cut_on_replay_although_an_equal_step_follows(house):
    """The step after the block has the name that the one inside it would have had."""
    step = step_of(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with house.timeout(run, 2):
                await got(run.sleep(3))
                found.append(await got(step(1)))
        except TimeoutError:
            found.append("timeout")
        found.append(await got(step(2)))
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    house.later(30)
    assert house.run(work.bind()).unwrap() == ["timeout", 2]


@pytest.mark.parametrize("downtime_s", [0, 30])
def test_a_block_that_was_left_in_time_is_left_in_time_on_replay_however_late(house, downtime_s):
    """Nothing was recorded after it: the journal's last word is what was done inside."""
    step = step_of(house)

    async def one(n):
        return n

    @house.loop
    async def work(run) -> list:
        try:
            async with house.timeout(run, 8):
                found = [await got(step(1)), *[s.value for s in await got(run.map(house.fn(one), [2, 3]))]]
        except TimeoutError:
            found = ["timeout"]
        if house.note("end") == 1:
            house.kill()
        return found

    assert house.die(work.bind()) == -9
    house.later(downtime_s)
    assert house.run(work.bind()).unwrap() == [1, 2, 3]


def test_a_timeout_that_fired_fires_on_replay_although_all_inside_could_end(async_house):
    """The sleep and the bound end in the same moment: live the bound came first, and the journal says so."""
    house = async_house

    @house.loop
    async def work(run) -> list:
        async def side():
            with run.scope("side"):
                await run.sleep(2)

        try:
            async with run.timeout(2):
                await asyncio.gather(side())
                found = ["in time"]
        except TimeoutError:
            found = ["timeout"]
        if house.note("end") == 1:
            house.note(str(found))
            house.kill()
        return found

    assert house.die(work.bind()) == -9
    house.later(30)
    assert str(house.run(work.bind()).unwrap()) == house.done[1]


def test_a_timeout_over_tasks_of_your_own_and_a_long_sleep_fires_and_replays(async_house):
    house = async_house
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        async def side(n):
            with run.scope(f"side-{n}"):
                await run.sleep(1)
                return await step(n)

        found = []
        try:
            async with run.timeout(8):
                found += await asyncio.gather(side(1), side(2))
                await run.sleep(40)
                found.append("not reached")
        except TimeoutError:
            found.append("timeout")
        if house.note("end") == 1:
            house.kill()
        return found

    assert house.die(work.bind(), park_after_s=2) == -9
    house.later(30)
    assert house.run(work.bind(), park_after_s=2).unwrap() == [1, 2, "timeout"]


def test_a_timeout_around_a_long_sleep_fires_although_the_run_leaves_memory(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with house.timeout(run, 50):
                await got(run.sleep(200))
                await got(step(1))
                found.append("not reached")
        except TimeoutError:
            found.append("timeout")
        found.append(await got(step(2)))
        return found

    assert house.run(work.bind(), park_after_s=30).unwrap() == ["timeout", 2]
    assert house.done == ["step 2"]


def test_a_timeout_that_does_not_run_out_is_nothing(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        async with house.timeout(run, 10):
            found = await got(step(1))
        await got(die())
        async with house.timeout(run, 10):
            return found + await got(step(2))

    assert house.die(work.bind()) == -9
    house.later(500)
    assert house.run(work.bind()).unwrap() == 3


def test_a_sync_timeout_is_raised_at_the_first_new_step_after_it_live_and_on_replay(sync_house):
    house = sync_house
    step = step_of(house)

    @house.tool(effect=READ)
    def long() -> int:
        house.note("long")
        house.clock.advance(15)
        return 1

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with house.timeout(run, 10):
                found.append(await got(long()))
                found.append(await got(step(2)))
        except TimeoutError:
            found.append("timeout")
        await got(die())
        found.append(await got(step(3)))
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [1, "timeout", 3]
    assert house.done == ["long", "die", "die", "step 3"]


def test_a_sync_attempt_in_a_timeout_is_told_what_is_left(sync_house):
    house = sync_house
    given: list[float] = []

    @house.tool(effect=READ, timeout_s=120)
    def look(*, timeout_s: float = INJECTED) -> int:
        given.append(timeout_s)
        house.clock.advance(3)
        return 1

    @house.loop
    async def work(run) -> int:
        async with house.timeout(run, 10):
            await got(look())
            return await got(look())

    assert house.run(work.bind()).unwrap() == 1
    assert given == [10, 7]


def test_a_wait_for_a_retry_is_cut_by_the_timeout(house):
    @house.tool(effect=READ, retry=Retry(base_s=25, attempts_max=50))
    def look() -> int:
        house.note("look")
        raise refused()

    @house.loop
    async def work(run) -> str:
        try:
            async with house.timeout(run, 10):
                await got(look())
        except TimeoutError:
            return "timeout"
        return "not reached"

    assert house.run(work.bind()).unwrap() == "timeout"
    assert 10 <= house.clock.passed_s < 11


@pytest.mark.parametrize(("outer", "inner", "caught"), [(50, 10, "inner"), (10, 50, "outer")])
def test_timeouts_nest_live_and_on_replay(async_house, outer, inner, caught):
    house = async_house
    slow = slow_of(house)

    @house.tool(effect=READ)
    async def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = []
        try:
            async with run.timeout(outer):
                try:
                    async with run.timeout(inner):
                        await slow(1)
                except TimeoutError:
                    found.append("inner")
        except TimeoutError:
            found.append("outer")
        await die()
        return found

    assert house.die(work.bind()) == -9
    house.later(500)
    assert house.run(work.bind()).unwrap() == [caught]
    assert house.done == ["start 1", "die", "die"]


def test_a_timeout_around_gathered_steps_keeps_what_was_done_live_and_on_replay(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.tool(effect=READ)
    async def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = []

        async def keep(coroutine):
            found.append(await coroutine)

        try:
            async with run.timeout(10):
                await asyncio.gather(keep(step(1)), keep(slow(2)), keep(step(3)))
        except TimeoutError:
            found.append("timeout")
        await die()
        return found

    assert house.die(work.bind()) == -9
    house.later(500)
    assert house.run(work.bind()).unwrap() == [1, 3, "timeout"]
    assert house.done == ["step 1", "start 2", "step 3", "die", "die"]


def test_a_timeout_around_a_map_cancels_its_branches(async_house):
    house = async_house
    slow, step = slow_of(house), step_of(house)

    @house.tool(effect=READ)
    async def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    async def one(n):
        await step(n)
        return await slow(n)

    @house.loop
    async def work(run) -> str:
        found = "not reached"
        try:
            async with run.timeout(10):
                await run.map(one, [1, 2, 3], limit=2)
        except TimeoutError:
            found = "timeout"
        await die()
        return found

    assert house.die(work.bind()) == -9
    house.later(500)
    assert house.run(work.bind()).unwrap() == "timeout"
    assert sorted(house.done) == ["die", "die", "start 1", "start 2", "step 1", "step 2"]


def test_an_effect_cut_by_a_timeout_is_asked_about(async_house):
    house = async_house
    slow, step = slow_of(house, None), step_of(house)

    @house.loop
    async def work(run) -> str:
        try:
            async with run.timeout(10):
                await slow(1)
        except TimeoutError:
            return f"timeout {await step(2)}"
        return "not reached"

    receipt = house.run(work.bind())
    assert [ask.executed for ask in receipt.asks] == [Executed.MAYBE]
    assert house.done == ["start 1", "step 2"]


def test_an_equal_call_after_a_timeout_waits_on_the_doubt(async_house):
    house = async_house
    slow = slow_of(house, None)

    @house.loop
    async def work(run) -> int:
        try:
            async with run.timeout(10):
                await slow(1)
        except TimeoutError:
            return await slow(1)
        return 0

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert house.done == ["start 1"]
    house.answer("happened", 5)
    assert house.run(work.bind()).unwrap() == 5
    assert house.done == ["start 1"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_that_cannot_work_is_refused(house, seconds):
    @house.loop
    async def work(run) -> str:
        try:
            async with house.timeout(run, seconds):
                pass
        except DeclarationError as error:
            return str(error)
        return "accepted"

    assert "seconds are above zero" in house.run(work.bind()).unwrap()


# --- the verb


def test_call_tools_in_a_timeout_is_cut_like_any_step(async_house):
    house = async_house
    slow = slow_of(house)

    @house.loop
    async def work(run) -> str:
        try:
            async with run.timeout(5):
                await run.call_tools(box(slow), calls(("slow", {"n": 1}), ("slow", {"n": 2})))
        except TimeoutError:
            return "timeout"
        return ""

    assert house.run(work.bind()).unwrap() == "timeout"
    assert sorted(house.done) == ["start 1", "start 2"]
