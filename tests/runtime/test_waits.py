"""Who waits, for whom, for how long, and what the others do meanwhile (docs/guarantees.md, "Bounds")."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.runtime.errors import reset, status
from tests.runtime.house import House, got
from yaoki import INJECTED, Effect, Retry, Runner
from yaoki.records import Begin, Claimed, Executed, Parked, State

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


# --- one branch waits, the others go on


def test_one_branch_asks_and_the_others_go_on_to_the_end(house):
    step, charge = step_of(house), charge_of(house)

    async def one(n):
        if n == 1:
            return await got(charge("A"))
        return [await got(step(n)), await got(step(n * 10))]

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), range(6), limit=2))]

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert len(house.done) == 11
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap()[1] == "ch_1"
    assert len(house.done) == 11


@pytest.mark.parametrize("longer_s", [0, 5])
def test_a_question_in_a_task_of_your_own_lets_the_run_wait_too(async_house, longer_s):
    """The loop awaits its tasks by other means than map: it has no operation of its own under way."""
    house = async_house
    step, charge = step_of(house), charge_of(house)

    @house.loop
    async def work(run) -> list:
        async def side(n):
            with run.scope(f"side-{n}"):
                if n == 0:
                    return await charge("A")
                await run.sleep(longer_s)
                return await step(n)

        return list(await asyncio.gather(*[side(n) for n in range(3)]))

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert house.clock.passed_s < 60
    house.answer("happened", "x")
    assert house.run(work.bind()).unwrap() == ["x", 1, 2]
    assert sorted(house.done) == ["charge A", "step 1", "step 2"]


def test_a_question_beside_work_that_is_no_step_waits_for_that_work(async_house):
    """What the loop does between its steps is not cut off by a sibling's question."""
    house = async_house
    step, charge = step_of(house), charge_of(house)

    @house.loop
    async def work(run) -> list:
        async def one(n):
            if n == 0:
                return await charge("A")
            await asyncio.sleep(50)
            return await step(n)

        return [s.value for s in await run.map(one, [0, 1])]

    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["charge A", "step 1"]


def test_many_branches_can_ask_at_once(house):
    charge = charge_of(house)

    async def one(n):
        return await got(charge(str(n)))

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), range(4), limit=2))]

    receipt = house.run(work.bind())
    assert len(receipt.asks) == 4
    for ask in receipt.asks:
        house.answer("happened", ask.call, ask=ask.id)
    assert house.run(work.bind()).unwrap() == [f'charge(order="{n}")' for n in range(4)]


def test_answers_may_come_one_at_a_time_with_restarts_between(house):
    charge = charge_of(house)

    async def one(n):
        return await got(charge(str(n)))

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), range(3)))]

    receipt = house.run(work.bind())
    for ask in receipt.asks:
        assert receipt.status is State.WAITING
        house.answer("happened", "x", ask=ask.id)
        receipt = house.run(work.bind())
    assert receipt.unwrap() == ["x"] * 3
    assert len(house.done) == 3


def test_an_answer_is_taken_within_a_second_while_others_still_run(tmp_path):
    house = House("async", tmp_path, real_time=True)
    charge = charge_of(house)
    taken: list[float] = []

    @house.tool(effect=READ)
    async def long() -> int:
        deadline = time.monotonic() + 5
        while not taken and time.monotonic() < deadline:  # noqa: ASYNC110 - what it waits for is a step of the run
            await asyncio.sleep(0.01)
        return 1

    posted: list[float] = []

    async def one(n):
        if n == 0:
            return await long()
        value = await charge("A")
        taken.append(time.monotonic())
        return value

    def answer() -> None:
        for _ in range(500):
            with Runner(house.url, verbs_only=True) as verbs:
                if verbs.get("r").asks:
                    posted.append(time.monotonic())
                    verbs.answer("r", None, "happened", "live")
                    return
            time.sleep(0.01)

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await run.map(one, [0, 1])]

    started = threading.Event()

    async def run_both(runner):
        helper = threading.Thread(target=answer)
        running = asyncio.ensure_future(runner.run(work.bind(), run_id="r"))
        await asyncio.sleep(0.05)
        helper.start()
        started.set()
        receipt = await running
        helper.join()
        return receipt

    receipt = house.drive(run_both)
    assert receipt.unwrap() == [1, "live"]
    assert receipt.restarts == 0
    assert taken[0] - posted[0] < 1.0


def test_an_answer_that_comes_while_others_run_needs_no_second_command(house):
    """Posted by a tool of another branch, as if by somebody else; the same `run` call takes it."""
    charge = charge_of(house)

    async def one(n):
        if n == 0:
            return await got(charge("A"))
        for _ in range(3):
            await got(person_once(run_box[0]))
        return 1

    run_box: list = []

    @house.tool(effect=READ)
    def person_once(name: str) -> int:
        if house.get().asks and not house.get().asks[0].verdict:
            house.answer("happened", "soon")
        return 1

    @house.loop
    async def work(run) -> list:
        run_box.append(run.id)
        return [s.value for s in await got(run.map(house.fn(one), [0, 1], limit=1))]

    assert house.run(work.bind()).unwrap() == ["soon", 1]
    assert house.done == ["charge A"]


@pytest.mark.parametrize("limit", [1, 2])
def test_two_equal_calls_that_wait_on_one_question_do_not_both_start(async_house, limit):
    """Answered live "not happened": one starts with the slot; the other shares its outcome or takes the next slot."""
    house = async_house

    @house.tool(effect=Effect.KEYED, retry=Retry.never)
    async def pay(order: str, *, idempotency_key: str = INJECTED) -> str:
        number = house.note(f"pay {idempotency_key}") and len(house.done)
        if number == 1:
            raise reset()
        await asyncio.sleep(1)
        return f"paid {number}"

    @house.tool(effect=READ)
    async def person() -> int:
        while not house.get().asks:  # noqa: ASYNC110 - a person looks now and then
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        house.answer("not-happened")
        await asyncio.sleep(30)
        return 1

    @house.loop
    async def work(run) -> list:
        async def one(n):
            await run.sleep(n)
            return await pay("A")

        async def side(name):
            if name == "person":
                return await person()
            return [s.value for s in await run.map(one, [0, 1], limit=limit)]

        return [s.value for s in await run.map(side, ["person", "payers"])][1]

    found = house.run(work.bind()).unwrap()
    keys = [line for line in house.done if line.startswith("pay")]
    assert len(keys) in (2, 3)
    assert len(keys) == len(set(keys)) + 1
    assert (found[0] == found[1]) == (len(keys) == 2)


# --- long waits leave memory


def test_a_wait_over_park_after_s_puts_the_run_to_sleep_and_wakes_it_for_the_rest(house):
    @house.tool(effect=READ)
    def look() -> str:
        if house.note(f"look {house.clock.passed_s:.1f}") and len(house.done) == 1:
            raise status(429, retry_after="100")
        return "ok"

    @house.loop
    async def work(run) -> str:
        return await got(look())

    receipt = house.run(work.bind(), park_after_s=30)
    assert receipt.unwrap() == "ok"
    [parked] = house.records(Parked)
    assert (parked.state, parked.waits_for, parked.text) == ("sleeping", "time", "retry")
    assert 100 <= house.clock.passed_s < 102
    assert receipt.restarts == 0
    assert len(house.records(Claimed)) == 2


def test_a_shorter_wait_is_sat_out(house):
    @house.tool(effect=READ)
    def look() -> str:
        if house.note("look") == 1:
            raise status(429, retry_after="29")
        return "ok"

    @house.loop
    async def work(run) -> str:
        return await got(look())

    assert house.run(work.bind()).unwrap() == "ok"
    assert house.records(Parked) == []


def test_run_sleep_sleeps_once_over_any_number_of_restarts(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        await got(step(1))
        await got(run.sleep(20))
        await got(die())
        await got(run.sleep(100))
        return 1

    assert house.die(work.bind()) == -9
    house.later(25)  # the child's clock was its own
    before = house.clock.passed_s
    assert house.run(work.bind()).unwrap() == 1
    assert 100 <= house.clock.passed_s - before < 103
    assert house.done == ["step 1", "die", "die"]


def test_a_sleeping_run_is_woken_while_its_other_branch_waits_for_a_person(house):
    step, charge = step_of(house), charge_of(house)

    async def one(n):
        if n == 0:
            return await got(charge("A"))
        await got(runs[0].sleep(200))
        return await got(step(n))

    runs: list = []

    @house.loop
    async def work(run) -> list:
        runs[:] = [run]
        return [s.value for s in await got(run.map(house.fn(one), [0, 1]))]

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert house.done == ["charge A", "step 1"]
    assert [(p.state, p.waits_for) for p in house.records(Parked)] == [("sleeping", "time"), ("waiting", "person")]


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_sleep_that_cannot_be_slept_is_refused(house, seconds):
    @house.loop
    async def work(run) -> int:
        await got(run.sleep(seconds))
        return 1

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "seconds lie between" in receipt.text


# --- budgets


def test_a_sync_tool_of_an_async_loop_can_ask_wait_and_sleep_like_any_other(async_house):
    from yaoki import loop, tool

    house = async_house

    @tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @tool(effect=READ)
    def look() -> str:
        if house.note("look") == 1:
            raise status(429, retry_after="100")
        return "ok"

    @loop
    async def work(run) -> list:
        return [look(), charge("A")]

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.MAYBE
    house.answer("happened", "x")
    assert house.run(work.bind()).unwrap() == ["ok", "x"]
    assert house.done == ["look", "look", "charge"]
    assert len(house.records(Begin)) == 3


# --- what the loop itself does meanwhile


def _charged(house: House):
    @house.tool
    async def charge(n: int) -> str:
        house.note("charge")
        raise TimeoutError("read timeout")

    @house.tool
    async def mail() -> str:
        house.note("mail")
        return "sent"

    return charge, mail


def test_what_the_loop_awaits_beside_a_waiting_task_is_awaited(async_house):
    """The task waits for a person; that suspends it, not the loop."""
    house = async_house
    charge, mail = _charged(house)

    @house.loop
    async def work(run) -> list:
        async def aside():
            with run.scope("a"):
                return await charge(1)

        task = asyncio.create_task(aside())
        await asyncio.sleep(20)
        sent = await mail()
        return [sent, await task]

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert house.done == ["charge", "mail"]
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap() == ["sent", "ch_1"]
    assert house.done == ["charge", "mail"]


def test_a_loop_that_only_awaits_its_waiting_task_leaves_memory(async_house):
    house = async_house
    charge, _ = _charged(house)

    @house.loop
    async def work(run) -> str:
        async def aside():
            with run.scope("a"):
                return await charge(1)

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(aside())
        return task.result()

    started_s = house.clock.passed_s
    assert house.run(work.bind()).waits_for == "person"
    assert house.clock.passed_s - started_s <= 31


def test_a_scope_in_the_loops_own_task_leaves_memory_at_once(async_house):
    house = async_house
    charge, _ = _charged(house)

    @house.loop
    async def work(run) -> str:
        with run.scope("a"):
            return await charge(1)

    assert house.run(work.bind()).waits_for == "person"
    assert house.clock.passed_s == 0
