"""
Code or input that changed: parked with a diff, or refused, before anything executes.

The rules: docs/guarantees.md, "Identity and replay".
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.runtime.house import House, box, calls, got
from yaoki import Effect, InputMismatch, RunBusy
from yaoki.records import State

READ = Effect.READ_ONLY


def tools(house: House):
    """`step(n)` is done once; `die(n)` kills the process the first time, if told to."""

    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n * 10

    @house.tool(effect=READ)
    def die(n: int) -> int:
        if house.note(f"die {n}") == 1:
            house.kill()
        return n

    return step, die


def versions(house: House, *bodies):
    """Loops of one name, as a file that is edited between two runs."""
    return [house.loop(name="work")(body) for body in bodies]


def parked(house: House, first, second) -> str:
    """Kill the first version at `die`, run the second: it is parked for code; return the diff."""
    assert house.die(first.bind()) == -9
    done = house.done
    receipt = house.run(second.bind())
    assert receipt.status is State.WAITING
    assert receipt.waits_for == "code"
    assert house.done == done
    return receipt.diff


# --- code that changed


def test_other_arguments_are_parked_with_a_diff_before_anything_executes(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(die(2))

    async def after(run) -> int:
        return await got(step(9)) + await got(die(2))

    diff = parked(house, *versions(house, before, after))
    assert "- recorded: step(n=1)" in diff
    assert "+ called:   step(n=9)" in diff


def test_a_parked_run_goes_on_once_the_code_fits_again(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(die(2))

    async def after(run) -> int:
        return await got(step(9)) + await got(die(2))

    good, bad = versions(house, before, after)
    parked(house, good, bad)
    assert house.run(bad.bind()).status is State.WAITING
    receipt = house.run(good.bind())
    assert receipt.unwrap() == 12
    assert receipt.diff == ""
    assert house.done == ["step 1", "die 2", "die 2"]


def test_recorded_steps_that_the_code_leaves_out_are_parked_at_the_return(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(step(2)) + await got(die(2))

    async def after(run) -> int:
        return await got(step(1)) + await got(die(2))

    good, bad = versions(house, before, after)
    assert house.die(good.bind()) == -9
    receipt = house.run(bad.bind())
    assert receipt.waits_for == "code"
    assert "- recorded: step(n=2)" in receipt.diff
    assert "its return" in receipt.text
    assert house.run(good.bind()).unwrap() == 32


def test_readings_that_the_code_leaves_out_are_parked_too(house):
    _, die = tools(house)

    async def before(run) -> int:
        run.now()
        return await got(die(2))

    async def after(run) -> int:
        return await got(die(2))

    good, bad = versions(house, before, after)
    assert house.die(good.bind()) == -9
    assert house.run(bad.bind()).waits_for == "code"
    assert house.run(good.bind()).unwrap() == 2


def test_another_order_of_branches_is_no_drift(house):
    """Identity is the branch's name, not when it ran."""
    step, die = tools(house)

    def body(order):
        async def one(n):
            return await got(step(n)) + await got(die(n))

        async def work(run) -> int:
            settled = await got(run.map(house.fn(one), order, key=str, limit=1))
            return sum(s.value for s in settled)

        return work

    first, second = versions(house, body([1, 2]), body([2, 1]))
    assert house.die(first.bind()) == -9
    assert house.die(second.bind()) == -9
    assert house.run(first.bind()).unwrap() == 33
    assert sorted(house.done) == ["die 1", "die 1", "die 2", "die 2", "step 1", "step 2"]


def test_more_code_after_the_recorded_part_is_no_drift(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(die(2))

    async def after(run) -> int:
        return await got(die(2)) + await got(step(1))

    good, more = versions(house, before, after)
    assert house.die(good.bind()) == -9
    assert house.run(more.bind()).unwrap() == 12


def test_a_loop_that_swallows_the_park_signal_is_parked_all_the_same(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(die(2))

    async def after(run) -> int:
        for n in (8, 9):
            with contextlib.suppress(BaseException):  # the crime under test
                await got(step(n))
        return 5

    assert "step(n=8)" in parked(house, *versions(house, before, after))


# --- whose run it is


def test_the_same_id_with_other_input_is_refused(house):
    @house.loop
    async def work(run, n: int) -> int:
        return n

    house.run(work.bind(1))
    with pytest.raises(
        InputMismatch, match=r'started with other input \(\{"n":1\}, not \{"n":2\}\).*Nothing was changed'
    ):
        house.run(work.bind(2))
    assert house.get().status is State.COMPLETED


def test_the_same_id_with_another_loop_is_refused(house):
    @house.loop
    async def one(run) -> int:
        return 1

    @house.loop
    async def two(run) -> int:
        return 2

    house.run(one.bind())
    with pytest.raises(InputMismatch, match="run r belongs to loop one, not two"):
        house.run(two.bind())


def test_a_run_that_a_living_process_drives_is_busy(house):
    @house.tool(effect=READ)
    def meanwhile() -> str:
        from yaoki.journal import Journal

        other = Journal.open(house.url, clock=house.clock)
        try:
            row = other.get("r")
            assert row is not None
            other.claim(row.id)
        except RunBusy as error:
            return str(error)
        finally:
            other.close()
        return "claimed"

    @house.loop
    async def work(run) -> str:
        return await got(meanwhile())

    assert "r" in house.run(work.bind()).unwrap()
    assert "claimed" not in house.get().value


def test_a_run_may_be_given_no_id_and_gets_one(house):
    @house.loop
    async def work(run) -> str:
        return run.id

    receipt = house.run(work.bind(), None)
    assert receipt.unwrap() == receipt.run_id
    assert receipt.run_id.startswith("work-")


# --- a new call where the records are in another branch


@pytest.mark.parametrize("how", ["map", "call_tools", "nested"])
def test_a_new_call_before_branches_that_were_recorded_is_parked(house, how):
    """The process died inside the branches: the line of the new call itself has no record."""
    step, die = tools(house)

    async def one(n):
        await got(step(n))
        return await got(die(n))

    async def branches(run):
        if how == "call_tools":
            return await got(run.call_tools(box(step, die), calls(("step", {"n": 1}), ("die", {"n": 2})), limit=1))
        if how == "map":
            return await got(run.map(house.fn(one), [1, 2], limit=1))

        async def outer(_):
            await got(run.map(house.fn(one), [1, 2], limit=1))

        return await got(run.map(house.fn(outer), [1]))

    async def before(run) -> None:
        await branches(run)

    async def after(run) -> None:
        await got(step(7))
        await branches(run)

    diff = parked(house, *versions(house, before, after))
    assert "- recorded: step(n=1)" in diff
    assert "+ called:   step(n=7)" in diff


def test_a_new_call_in_new_branches_before_a_recorded_one_is_parked(house):
    step, die = tools(house)

    async def one(n):
        return await got(step(n))

    async def before(run) -> None:
        await got(step(1))
        await got(die(2))

    async def after(run) -> None:
        await got(run.map(house.fn(one), [7]))
        await got(step(1))
        await got(die(2))

    diff = parked(house, *versions(house, before, after))
    assert "+ called:   step(n=7)" in diff


def test_a_new_call_in_an_earlier_map_than_the_recorded_one_is_parked(house):
    step, die = tools(house)

    async def one(n):
        return await got(die(n))

    async def early(n):
        return await got(step(n))

    async def before(run) -> None:
        await got(run.map(house.fn(got), []))
        await got(run.map(house.fn(one), [2]))

    async def after(run) -> None:
        await got(run.map(house.fn(early), [7]))
        await got(run.map(house.fn(one), [2]))

    diff = parked(house, *versions(house, before, after))
    assert "+ called:   step(n=7)" in diff


@pytest.mark.parametrize("recorded_in", ["line", "branches"])
def test_a_new_call_in_a_scope_before_a_recorded_one_is_parked(house, recorded_in):
    step, die = tools(house)

    async def one(n):
        return await got(die(n))

    async def rest(run):
        return await got(run.map(house.fn(one), [2])) if recorded_in == "branches" else await got(die(2))

    async def before(run) -> None:
        await rest(run)

    async def after(run) -> None:
        with run.scope("new"):
            await got(step(7))
        await rest(run)

    diff = parked(house, *versions(house, before, after))
    assert "+ called:   step(n=7)" in diff


def test_time_asked_for_anew_before_recorded_branches_is_parked(house):
    step, die = tools(house)

    async def one(n):
        await got(step(n))
        return await got(die(n))

    async def before(run) -> None:
        await got(run.map(house.fn(one), [1]))

    async def after(run) -> None:
        run.now()
        await got(run.map(house.fn(one), [1]))

    assert "run.now" in parked(house, *versions(house, before, after))


def test_branches_beside_one_another_may_go_on_in_any_order(house):
    """What one branch calls anew says nothing about what another has recorded."""
    step, die = tools(house)

    @house.loop
    async def work(run) -> list:
        async def one(n):
            if n == 0:
                await got(run.sleep(50))
                return await got(step(n))
            await got(step(n))
            return await got(die(n))

        return [settled.value for settled in await got(run.map(house.fn(one), [0, 1], limit=2))]

    assert house.die(work.bind()) == -9
    house.later(60)
    assert house.run(work.bind()).unwrap() == [0, 1]


def test_tasks_of_ones_own_go_on_in_any_order(async_house):
    house = async_house
    step, die = tools(house)

    @house.loop
    async def work(run) -> list:
        async def aside(name, n):
            with run.scope(name):
                if n == 3:
                    await run.sleep(10)
                return await die(n) if n == 2 else await step(n)

        first = asyncio.create_task(aside("a", 2))
        second = asyncio.create_task(aside("b", 3))
        await run.sleep(5)
        return [await step(1), await second, await first]

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [10, 30, 2]
