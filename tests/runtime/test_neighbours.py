"""Several runs in one process, and runners that cannot work."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House
from yaoki import (
    AsyncRunner,
    DeclarationError,
    Effect,
    RunBusy,
    Runner,
    loop,
)
from yaoki.records import State

READ = Effect.READ_ONLY


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


def slow_of(house: House, effect: Effect | None = None):
    @house.tool(effect=effect)
    async def slow(n: int) -> int:
        house.note(f"start {n}")
        await asyncio.sleep(60)
        house.note(f"end {n}")
        return n

    return slow


# --- several runs in one process


def test_many_runs_share_an_async_runner(async_house):
    house = async_house
    slow = slow_of(house, READ)

    @house.loop
    async def work(run, n: int) -> int:
        return await slow(n)

    async def together(runner: AsyncRunner):
        return await asyncio.gather(*[runner.run(work.bind(n), run_id=f"r{n}") for n in range(20)])

    receipts = house.drive(together)
    assert [receipt.unwrap() for receipt in receipts] == list(range(20))
    assert 60 <= house.clock.passed_s < 62


def test_a_run_is_driven_once_at_a_time_in_one_runner(async_house):
    house = async_house
    slow = slow_of(house, READ)

    @house.loop
    async def work(run) -> int:
        return await slow(1)

    async def twice(runner: AsyncRunner):
        return await asyncio.gather(*[runner.run(work.bind(), run_id="r") for _ in range(2)], return_exceptions=True)

    first, second = house.drive(twice)
    assert first.unwrap() == 1
    assert isinstance(second, RunBusy)
    assert house.done == ["start 1", "end 1"]


def test_one_run_that_waits_does_not_hold_up_another(async_house):
    house = async_house
    step = step_of(house)

    @house.tool
    async def charge(n: int) -> int:
        raise reset()

    @house.loop
    async def asks(run) -> int:
        return await charge(1)

    @house.loop
    async def works(run) -> int:
        await run.sleep(5)
        return await step(1)

    async def together(runner: AsyncRunner):
        return await asyncio.gather(runner.run(asks.bind(), run_id="a"), runner.run(works.bind(), run_id="b"))

    first, second = house.drive(together)
    assert (first.status, second.status) == (State.WAITING, State.COMPLETED)


def test_a_run_that_breaks_does_not_break_its_neighbour(async_house):
    house = async_house
    step = step_of(house)

    @house.loop
    async def breaks(run) -> int:
        raise ValueError("no")

    @house.loop
    async def works(run) -> int:
        await run.sleep(1)
        return await step(1)

    async def together(runner: AsyncRunner):
        return await asyncio.gather(runner.run(breaks.bind(), run_id="a"), runner.run(works.bind(), run_id="b"))

    first, second = house.drive(together)
    assert (first.status, second.status) == (State.DEAD, State.COMPLETED)


# --- options that cannot work


@pytest.mark.parametrize("options", [{"park_after_s": -1}, {"drain_s": float("nan")}])
@pytest.mark.parametrize("kind", [Runner, AsyncRunner])
def test_a_runner_that_cannot_work_is_refused(tmp_path, kind, options):
    with pytest.raises(DeclarationError, match="it is not negative"):
        kind(f"sqlite:///{tmp_path}/s.db", **options)


@pytest.mark.parametrize("run_id", ["x" * 201, "a\nb"])
def test_a_run_id_that_cannot_work_is_refused(house, run_id):
    @house.loop
    async def work(run) -> int:
        return 1

    with pytest.raises(DeclarationError):
        house.run(work.bind(), run_id)


def test_a_loop_that_does_not_take_its_arguments_says_so_at_bind():
    @loop
    def work(run, n: int) -> int:
        return n

    with pytest.raises(TypeError, match=r"work\(\) missing a required argument: 'n'"):
        work.bind()
    with pytest.raises(TypeError, match="too many positional arguments"):
        work.bind(1, 2)


def test_where_a_shared_sync_cannot_even_be_asked_for_nobody_waits_for_it(async_house):
    """No memory for it, say. The run ends as by a death, and the next process goes on from the journal."""
    house = async_house
    step = house.tool(lambda n: house.note(f"did {n}"), effect=Effect.IDEMPOTENT, name="step")

    @house.loop
    async def work(run) -> list[int]:
        return [one.value for one in await run.map(step, [1, 2, 3])]

    async def short_of_memory(runner: AsyncRunner):
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is said in the log
        asks = runner.store.sync_async
        runner.store.sync_async = lambda waiters: fails() if len(waiters) > 1 else asks(waiters)
        with pytest.raises(RunBusy):
            await asyncio.wait_for(runner.run(work.bind(), run_id="r1"), 30)

    def fails() -> None:
        raise MemoryError

    house.drive(short_of_memory)
    assert not {"did 2", "did 3"} & set(house.done)
    assert house.run(work.bind(), "r1").status is State.COMPLETED
