"""Cancels from every side: what was begun is settled, nothing is repeated unknowingly (SEMANTICS 2 and 8)."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import refused
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, DeclarationError, Effect, Retry, StepFailed
from yaoki.records import Begin, Cause, Executed, Fired, Settle, State

READ = Effect.READ_ONLY


def slow_of(house: House, effect: Effect | None = READ, seconds: float = 60):
    """An async tool that starts, takes its time, and says when it is done."""

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


# --- Ctrl-C and friends


@pytest.mark.parametrize("effect", [READ, None])
def test_ctrl_c_in_a_sync_tool_settles_and_leaves_the_run_pending(sync_house, effect):
    house = sync_house

    @house.tool(effect=effect)
    def send(n: int) -> int:
        if house.note("send") == 1:
            raise KeyboardInterrupt
        return n

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.RUNNER)]
    assert house.get().status is State.PENDING
    receipt = house.run(work.bind())
    if effect is READ:
        assert receipt.unwrap() == 1
    else:
        assert receipt.status is State.WAITING
        assert house.done == ["send"]


def test_ctrl_c_in_a_branch_of_a_map_stops_them_all_and_loses_nothing(sync_house):
    house = sync_house

    @house.tool(effect=READ)
    def look(n: int) -> int:
        if house.note(f"look {n}") == 1 and n == 2:
            raise KeyboardInterrupt
        return n

    async def one(n):
        return await got(look(n))

    @house.loop
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(5), limit=2)))

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert house.get().status is State.PENDING
    assert house.run(work.bind()).unwrap() == 10
    assert house.done.count("look 2") == 2
    assert len(house.done) == 6


def test_ctrl_c_in_an_async_tool_settles_and_leaves_the_run_pending(async_house):
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        house.note("send")
        raise KeyboardInterrupt

    @house.loop
    async def work(run) -> int:
        return await send(1)

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.RUNNER)]
    assert house.get().status is State.PENDING
    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["send"]


def test_a_system_exit_out_of_the_loop_leaves_the_run_pending(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> int:
        found = await got(step(1))
        if house.note("exit") == 1:
            raise SystemExit(3)
        return found

    with pytest.raises(SystemExit):
        house.run(work.bind())
    assert house.get().status is State.PENDING
    assert house.run(work.bind()).unwrap() == 1
    assert house.done.count("step 1") == 1


def test_a_tool_that_raises_cancelled_error_by_itself_is_a_failure_of_its_own(async_house):
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        house.note("send")
        raise asyncio.CancelledError("mine")

    @house.loop
    async def work(run) -> str:
        try:
            await send(1)
        except StepFailed as error:
            return error.failure.reason
        return ""

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.MAYBE
    assert house.done == ["send"]


def test_a_sync_tool_that_raises_cancelled_error_loses_nothing(sync_house):
    house = sync_house

    @house.tool
    def send(n: int) -> int:
        house.note("send")
        raise asyncio.CancelledError("mine")

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    with pytest.raises(asyncio.CancelledError):
        house.run(work.bind())
    assert settles(house)[0][:2] == ("cancelled", Executed.MAYBE)
    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["send"]


# --- the verb


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
            try:
                await got(step(n))
            except BaseException:  # noqa: S110 - the crime under test
                pass
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
