"""Budgets: counted when begun, never refunded, topped up or capped (docs/guarantees.md, "Bounds")."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import refused, reset, status
from tests.runtime.house import House, got
from yaoki import INJECTED, Budget, DeclarationError, Effect, Retry, StepFailed
from yaoki.records import Parked, State

READ = Effect.READ_ONLY


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


def charge_of(house: House):
    @house.tool(key="order")
    def charge(order: str) -> str:
        house.note(f"charge {order}")
        raise reset()

    return charge


def counted(house: House, budget: Budget):
    step = step_of(house)

    @house.loop(budget=budget)
    async def work(run) -> int:
        return sum([await got(step(n)) for n in range(5)])

    return work


def test_calls_used_up_make_the_run_wait_for_a_top_up_and_go_on(house):
    work = counted(house, Budget(calls=2))
    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.waits_for == "budget"
    assert receipt.text == "calls: 2 of 2"
    assert receipt.next_action == "yaoki top-up r --calls 2"
    assert len(house.done) == 2
    house.top_up(calls=2)
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.text) == (State.WAITING, "calls: 4 of 4")
    house.top_up(calls=1)
    receipt = house.run(work.bind())
    assert receipt.unwrap() == 10
    assert receipt.spent.calls == 5
    assert receipt.budget["calls"] == 5
    assert len(house.done) == 5


def test_calls_used_up_cap_the_run_with_on_empty_cap(house):
    receipt = house.run(counted(house, Budget(calls=2, on_empty="cap")).bind())
    assert receipt.status is State.CAPPED
    assert receipt.stopped_by == "budget.calls"
    assert receipt.partial is None
    assert len(house.done) == 2


def test_a_capped_runs_partial_value_is_its_last_saved_state(house):
    step = step_of(house)

    @house.loop(budget=Budget(calls=2, on_empty="cap"))
    async def work(run) -> list:
        async for items in house.turns(run, []):
            items.append(await got(step(len(items))))
        return items

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.partial == [0, 1]


def test_no_restart_refunds_a_call(house):
    @house.tool(effect=READ)
    def die(n: int) -> int:
        if house.note("die") <= 2:
            house.kill()
        return n

    @house.loop(budget=Budget(calls=3, on_empty="cap"))
    async def work(run) -> int:
        return await got(die(1)) + await got(die(2))

    assert house.die(work.bind()) == -9
    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.spent.calls == 3
    assert len(house.done) == 3


def test_a_budget_wait_takes_nothing_from_the_deadline_of_the_step(house):
    """Topped up a week later, the attempt has all of its time."""
    given: list[float] = []

    @house.tool(effect=READ, retry=Retry(deadline_s=60), timeout_s=40)
    def look(n: int, *, timeout_s: float = INJECTED) -> int:
        given.append(timeout_s)
        return n

    @house.loop(budget=Budget(calls=1))
    async def work(run) -> int:
        return await got(look(1)) + await got(look(2))

    assert house.run(work.bind()).waits_for == "budget"
    house.later(7 * 86_400)
    house.top_up(calls=1)
    assert house.run(work.bind()).unwrap() == 3
    assert given == [40, 40]


def test_equal_calls_that_wait_for_a_budget_take_two_slots(async_house):
    """Topped up while they wait in memory, they are still two actions with two keys."""
    house = async_house

    @house.tool(effect=Effect.KEYED)
    async def pay(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(idempotency_key)
        return idempotency_key

    @house.tool(effect=READ)
    async def person() -> int:
        await asyncio.sleep(5)
        house.top_up(calls=5)
        await asyncio.sleep(5)
        return 1

    async def one(n):
        return await (pay("A") if n else person())

    @house.loop(budget=Budget(calls=1))
    async def work(run) -> list:
        return [s.value for s in await run.map(one, [0, 1, 2])]

    found = house.run(work.bind()).unwrap()
    assert found[1] != found[2]
    assert len(set(house.done)) == 2


def test_retries_used_up_end_the_ladder(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note("look")
        raise refused()

    @house.loop(budget=Budget(retries=3))
    async def work(run) -> str:
        try:
            await got(look(1))
        except StepFailed as error:
            return f"{error.attempts} attempts"
        return ""

    receipt = house.run(work.bind())
    assert receipt.unwrap() == "4 attempts"
    assert receipt.spent.retries == 3


def test_retry_wait_used_up_ends_the_ladder(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note("look")
        raise status(429, retry_after="10")

    @house.loop(budget=Budget(retry_wait_s=25))
    async def work(run) -> int:
        return await got(look(1))

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert len(house.done) == 3
    assert 20 <= receipt.spent.retry_wait_s <= 25


def test_wall_s_caps_the_run_at_its_next_step_with_the_last_saved_state(house):
    step = step_of(house)

    @house.loop(budget=Budget(wall_s=50))
    async def work(run) -> list:
        async for items in house.turns(run, []):
            await got(run.sleep(20))
            items.append(await got(step(len(items))))
        return items

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.stopped_by == "budget.wall_s"
    assert receipt.partial == [0, 1]
    assert house.done == ["step 0", "step 1"]


def test_wall_s_counts_sleep_and_downtime_but_not_waiting_for_somebody(house):
    step, charge = step_of(house), charge_of(house)

    @house.loop(budget=Budget(wall_s=100))
    async def work(run) -> str:
        await got(run.sleep(50))
        await got(charge("A"))
        await got(step(1))
        await got(run.sleep(60))
        await got(step(2))
        return "in time"

    assert house.run(work.bind()).status is State.WAITING
    house.later(86_400)
    house.answer("happened", "x")
    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert house.done == ["charge A", "step 1"]


def test_siblings_stop_before_their_begin_when_a_budget_is_empty(house):
    step = step_of(house)

    async def one(n):
        return await got(step(n))

    @house.loop(budget=Budget(calls=3))
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(10), limit=4)))

    receipt = house.run(work.bind())
    assert receipt.waits_for == "budget"
    assert len(house.done) == 3
    house.top_up(calls=7)
    assert house.run(work.bind()).unwrap() == 45


def test_what_the_loop_reports_itself_counts_once_over_replays(house):
    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> float:
        run.spend(tokens=100, cost_usd=0.5, calls=2)
        await got(die())
        return run.remaining["retries"]

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.spent.tokens == 100
    assert receipt.spent.cost_usd == 0.5
    assert receipt.spent.calls == 4
    assert receipt.unwrap() == 49


def test_a_gap_is_noted_once_over_replays(house):
    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        run.gap("no weather for Kyoto")
        return await got(die())

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).gaps == ["no weather for Kyoto"]


def test_a_wait_for_a_vendors_budget_costs_no_deadline_although_the_run_sleeps_beside_it(house):
    @house.tool(effect=READ)
    def ask() -> str:
        if house.note("ask") == 1:
            raise status(429, text='{"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}')
        return "ok"

    @house.loop
    async def work(run) -> list[object]:
        async def one(n: int) -> str:
            if n:
                return await got(ask())
            for _ in range(2):
                await got(run.sleep(3600))
            return "slept"

        return [one.value for one in await got(run.map(house.fn(one), [0, 1]))]

    receipt = house.run(work.bind(), observers=[topped_up_at_the_second_sleep(house)])
    assert (receipt.unwrap(), house.done) == (["slept", "ok"], ["ask", "ask"])


def test_a_wait_for_the_runs_budget_before_a_first_attempt_leaves_it_its_whole_time(house):
    given = []

    @house.tool(timeout_s=10)
    def charge(n: int, *, timeout_s: float = INJECTED) -> str:
        given.append(timeout_s)
        return "ok"

    @house.loop(budget=Budget(calls=1))
    async def work(run) -> list[object]:
        async def one(n: int) -> str:
            if n:
                await got(run.sleep(n - 1))
                return await got(charge(n))
            for _ in range(2):
                await got(run.sleep(7200))
            return "slept"

        return [one.value for one in await got(run.map(house.fn(one), [0, 1, 2]))]

    receipt = house.run(work.bind(), observers=[topped_up_at_the_second_sleep(house)])
    assert (receipt.unwrap(), given) == (["slept", "ok", "ok"], [10, 10])


def test_a_wait_for_the_runs_budget_between_attempts_costs_no_deadline(house):
    @house.tool(effect=READ, retry=Retry(base_s=1, cap_s=1))
    def ask() -> str:
        if house.note("ask") == 1:
            raise refused()
        return "ok"

    @house.loop(budget=Budget(calls=1))
    async def work(run) -> list[object]:
        async def one(n: int) -> str:
            if n:
                return await got(ask())
            for _ in range(2):
                await got(run.sleep(3600))
            return "slept"

        return [one.value for one in await got(run.map(house.fn(one), [0, 1]))]

    receipt = house.run(work.bind(), observers=[topped_up_at_the_second_sleep(house)])
    assert (receipt.unwrap(), house.done) == (["slept", "ok"], ["ask", "ask"])


def topped_up_at_the_second_sleep(house: House):
    """Top the run up, as a person does, while it sleeps for the second time."""
    asleep = []

    def seen(event) -> None:
        if isinstance(event.record, Parked) and event.record.state == "sleeping":
            asleep.append(event.record.at)
            if len(asleep) == 2:
                house.top_up(calls=5)

    return seen


@pytest.mark.parametrize(
    "amounts", [{"tokens": float("nan")}, {"tokens": 1.5}, {"calls": True}, {"cost_usd": float("inf")}, {"calls": -1}]
)
def test_an_amount_that_is_none_is_refused_and_the_run_can_be_read(house, amounts):
    @house.loop
    async def work(run) -> str:
        with pytest.raises(DeclarationError, match=r"run\.spend: (calls|tokens|cost_usd)="):
            run.spend(**amounts)
        run.spend(calls=1, tokens=2, cost_usd=10**9)
        return "ok"

    assert house.run(work.bind()).unwrap() == "ok"
    assert house.get().spent.tokens == 2
