"""What calls use: reserved before they are made, settled with what was used (docs/guarantees.md, "Bounds")."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, got
from yaoki import INJECTED, Budget, DeclarationError, Effect, Feedback, ForModel, Retry, StepFailed
from yaoki.records import Begin, Claimed, Settle, State
from yaoki.runtime import Usage

READ = Effect.READ_ONLY
ONCE = Retry(attempts_max=1)


def asking(house: House, used=50, *, reserve=None, usage=None, fails=None, **policy):
    """Return a model that says in its answer what it used."""

    def spend(answer) -> dict:
        return {"tokens": answer["used"], "cost_usd": answer["used"] / 1000}

    agent = ForModel(usage=usage or spend, reserve=reserve)

    @house.tool(effect=READ, agent=agent, **policy)
    def ask(n: int) -> dict:
        house.note(f"ask {n}")
        if fails is not None:
            raise fails()
        return {"used": used}

    return ask


def counted(house: House, ask, times: int, budget: Budget):
    @house.loop(budget=budget)
    async def work(run) -> int:
        for n in range(times):
            await got(ask(n))
        return times

    return work


def records(house: House, kind):
    return [record for _, _, record in house.journal() if isinstance(record, kind)]


def test_what_calls_report_is_counted_and_an_empty_budget_waits_and_goes_on_where_it_was(house):
    work = counted(house, asking(house), 4, Budget(tokens=100, cost_usd=10))
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for, receipt.text) == (State.WAITING, "budget", "tokens: 100 of 100")
    assert receipt.next_action == "yaoki top-up r --tokens 100"
    assert (receipt.spent.tokens, receipt.spent.cost_usd) == (100, pytest.approx(0.1))
    house.top_up(tokens=100)
    assert house.run(work.bind()).unwrap() == 4
    assert house.done == [f"ask {n}" for n in range(4)]


def test_dollars_used_up_name_themselves_and_what_to_type(house):
    receipt = house.run(counted(house, asking(house), 4, Budget(cost_usd=0.1)).bind())
    assert receipt.text == "budget: $0.10 of $0.10"
    assert receipt.next_action == "yaoki top-up r --cost-usd 0.1"


def test_dollars_used_up_cap_the_run_with_its_saved_state(house):
    ask = asking(house)

    @house.loop(budget=Budget(cost_usd=0.1, on_empty="cap"))
    async def work(run) -> list:
        async for items in house.turns(run, []):
            items.append((await got(ask(len(items))))["used"])
        return items

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by, receipt.partial) == (State.CAPPED, "budget.cost_usd", [50, 50])


def test_an_attempt_whose_reservation_is_not_left_does_not_begin(house):
    work = counted(house, asking(house, reserve={"tokens": 60}), 4, Budget(tokens=100))
    receipt = house.run(work.bind())
    assert receipt.text == "tokens: 50 of 100 (this call reserves 60)"
    assert receipt.next_action == "yaoki top-up r --tokens 100"
    assert (house.done, receipt.spent.tokens) == (["ask 0"], 50)


def test_a_reservation_may_be_a_function_of_the_arguments(house):
    work = counted(house, asking(house, reserve=lambda n: {"tokens": 10 + n}), 2, Budget(tokens=1000))
    house.run(work.bind())
    assert [one.reserved for one in records(house, Begin)] == [{"tokens": 10}, {"tokens": 11}]
    assert [one.used for one in records(house, Settle)] == [{"tokens": 50, "cost_usd": 0.05}] * 2


def test_what_did_not_happen_gives_its_reservation_back(house):
    ask = asking(house, reserve={"tokens": 60, "cost_usd": 1}, fails=refused, retry=ONCE)

    @house.loop(budget=Budget(tokens=100))
    async def work(run) -> int:
        try:
            await got(ask(1))
        except StepFailed:
            return 1
        return 0

    receipt = house.run(work.bind())
    assert (receipt.unwrap(), receipt.spent.tokens, receipt.spent.cost_usd) == (1, 0, 0)


def test_what_may_have_happened_keeps_its_reservation(house):
    ask = asking(house, reserve={"tokens": 60, "cost_usd": 1}, fails=reset, retry=Retry(attempts_max=2))

    @house.loop(budget=Budget(tokens=1000))
    async def work(run) -> int:
        try:
            await got(ask(1))
        except StepFailed:
            return 1
        return 0

    receipt = house.run(work.bind())
    assert (receipt.unwrap(), receipt.spent.tokens, receipt.spent.cost_usd) == (1, 120, 2)


def test_what_a_dead_process_had_reserved_stays_spent_and_its_use_is_counted_once(house):
    def spend(answer) -> dict:
        return {"tokens": answer}

    @house.tool(effect=READ, agent=ForModel(usage=spend, reserve={"tokens": 100}))
    def ask() -> int:
        if house.note("ask") <= 2:
            house.kill()
        return 7

    @house.loop(budget=Budget(tokens=1000))
    async def work(run) -> int:
        return await got(ask())

    assert [house.die(work.bind()), house.die(work.bind())] == [-9, -9]
    receipt = house.run(work.bind())
    assert (receipt.unwrap(), receipt.spent.tokens) == (7, 207)


def test_an_output_that_is_rejected_was_used_all_the_same_and_once(house):
    agent = ForModel(
        validate=lambda answer: answer["good"],
        usage=lambda answer: {"tokens": 10},
        reserve={"tokens": 500},
        repairs_max=1,
    )

    @house.tool(effect=READ, agent=agent)
    def ask(n: int, *, feedback: Feedback | None = INJECTED) -> dict:
        house.note("ask")
        return {"good": False, "n": len(house.done)}

    @house.loop(budget=Budget(tokens=1000))
    async def work(run) -> int:
        try:
            await got(ask(1))
        except StepFailed:
            return 1
        return 0

    receipt = house.run(work.bind())
    assert (receipt.unwrap(), len(house.done), receipt.spent.tokens) == (1, 2, 20)


def test_a_settle_decided_anew_counts_its_use_once(house):
    agent = ForModel(validate=lambda _: False, usage=lambda _: {"tokens": 10}, repairs_max=5)

    @house.tool(effect=READ, agent=agent)
    def ask(n: int, *, feedback: Feedback | None = INJECTED) -> int:
        house.note("ask")
        return len(house.done)

    @house.loop(budget=Budget(tokens=1000, retries=1))
    async def work(run) -> int:
        try:
            await got(ask(1))
        except StepFailed:
            return 1
        return 0

    receipt = house.run(work.bind())
    assert receipt.unwrap() == 1
    assert receipt.spent.tokens == 10 * len(house.done) == 20
    assert receipt.to_json() == house.run(work.bind()).to_json()


def test_siblings_reserve_before_any_of_them_begins(house):
    ask = asking(house, used=10, reserve={"tokens": 30})

    async def one(n):
        return await got(ask(n))

    @house.loop(budget=Budget(tokens=100, on_empty="cap"))
    async def work(run) -> int:
        return len(await got(run.map(house.fn(one), range(10), limit=10)))

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    # 10 tokens each; the last whose 30 fit into what the others had left of 100 began at 70
    assert (receipt.spent.tokens, len(house.done)) == (80, 8)


async def _parallel(house, sizes, budget, used=10):
    at_once: list[int] = []
    now = 0

    @house.tool(effect=READ, agent=ForModel(usage=lambda _: {"tokens": used}, reserve={"tokens": 30}))
    async def ask(n: int) -> int:
        nonlocal now
        now += 1
        at_once.append(now)
        await asyncio.sleep(1)
        now -= 1
        return n

    async def one(n):
        return await ask(n)

    @house.loop(budget=budget)
    async def work(run) -> int:
        return sum(one.value for one in await run.map(one, range(sizes), limit=sizes))

    return work, at_once


def test_a_call_that_does_not_fit_beside_those_in_flight_waits_for_what_they_give_back(async_house):
    work, at_once = asyncio.run(_parallel(async_house, 7, Budget(tokens=100)))
    receipt = async_house.run(work.bind())
    assert receipt.unwrap() == 21
    assert receipt.spent.tokens == 70
    assert max(at_once) == 3  # 3 x 30 of 100
    assert len(async_house.records(Claimed)) == 1, "it need not leave memory for that"


def test_threads_that_do_not_fit_beside_those_in_flight_go_on_when_these_have_settled(tmp_path):
    house = House("sync", tmp_path)
    together, first = threading.Barrier(3), iter([True] * 3)

    @house.tool(effect=READ, agent=ForModel(usage=lambda _: {"tokens": 10}, reserve={"tokens": 30}))
    def ask(n: int) -> int:
        house.note(f"ask {n}")
        if next(first, False):
            together.wait(10)
        return n

    def one(n):
        return ask(n)

    @house.loop(budget=Budget(tokens=100))
    async def work(run) -> int:
        return sum(one.value for one in run.map(one, range(7), limit=7))

    receipt = house.run(work.bind())
    assert (receipt.unwrap(), receipt.spent.tokens, len(house.done)) == (21, 70, 7)


def test_a_usage_that_cannot_be_read_keeps_the_value_and_the_reservation_and_says_so(house):
    def broken(answer):
        raise KeyError("usage")

    receipt = house.run(
        counted(house, asking(house, usage=broken, reserve={"tokens": 60}), 2, Budget(tokens=200)).bind()
    )
    assert (receipt.unwrap(), receipt.spent.tokens) == (2, 120)
    assert receipt.gaps == ["ask: usage= raised KeyError: 'usage'; what it reserved stays counted"]


@pytest.mark.parametrize("said", [{"tokens": -1}, {"cost_usd": float("nan")}, "12", {"many": 1}, {"tokens": True}])
def test_a_usage_that_is_none_is_not_counted_and_is_named(house, said):
    receipt = house.run(counted(house, asking(house, usage=lambda _: said), 1, Budget(tokens=200)).bind())
    assert receipt.unwrap() == 1
    assert (receipt.spent.tokens, receipt.spent.cost_usd) == (0, 0)
    assert receipt.gaps == [f"ask: usage= returned {said!r}, which is no usage; what it used is not counted"]


@pytest.mark.parametrize(
    ("reserve", "wrong"),
    [
        ({"turns": 1}, "'turns'"),
        ({"tokens": 1.5}, "tokens=1.5"),
        ({"cost_usd": -1}, "cost_usd=-1"),
        (5, "reserve is 5"),
    ],
)
def test_a_reservation_that_cannot_work_is_refused_where_it_is_written(reserve, wrong):
    with pytest.raises(DeclarationError, match=wrong):
        ForModel(reserve=reserve)


def test_a_tool_without_usage_costs_what_it_reserves(house):
    @house.tool(effect=READ, agent=ForModel(reserve={"cost_usd": 0.25}))
    def fetch(n: int) -> int:
        return n

    receipt = house.run(counted(house, fetch, 3, Budget(cost_usd=1)).bind())
    assert (receipt.unwrap(), receipt.spent.cost_usd, receipt.gaps) == (3, 0.75, [])


def test_ten_calls_of_ten_cents_fit_into_a_dollar(house):
    @house.tool(effect=READ, agent=ForModel(reserve={"cost_usd": 0.1}))
    def fetch(n: int) -> int:
        return n

    assert house.run(counted(house, fetch, 10, Budget(cost_usd=1)).bind()).unwrap() == 10


def test_a_price_that_is_not_known_is_said_once_and_its_tokens_count(house):
    ask = asking(house, usage=lambda _: Usage(input_tokens=10, output_tokens=5, model="no-such-model-9"))
    receipt = house.run(counted(house, ask, 3, Budget(cost_usd=1)).bind())
    assert (receipt.unwrap(), receipt.spent.tokens, receipt.spent.cost_usd) == (3, 45, 0)
    assert receipt.gaps == ["ask: what it costs is not counted: no price is known for model 'no-such-model-9'"]


def test_what_is_left_is_what_the_loop_is_told(house):
    ask = asking(house)

    @house.loop(budget=Budget(tokens=500, cost_usd=2))
    async def work(run) -> list:
        await got(ask(1))
        run.spend(tokens=100, cost_usd=0.5)
        return [run.remaining["tokens"], run.remaining["cost_usd"]]

    assert house.run(work.bind()).unwrap() == [350, pytest.approx(1.45)]
