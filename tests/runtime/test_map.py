"""
`map` and `scope`: branches with names of their own, and what each outcome becomes.

The rules: docs/guarantees.md, "Identity and replay".
"""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import not_found, refused, reset
from tests.runtime.house import House, box, calls, got
from yaoki import (
    DeclarationError,
    Effect,
    Retry,
)
from yaoki.records import Begin, State

READ = Effect.READ_ONLY


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        if n < 0:
            raise not_found()
        return n * 10

    return step


def keys(house: House) -> list[str]:
    return [entry.key for entry in house.journal() if isinstance(entry.record, Begin)]


# --- map


def test_map_returns_results_in_order_as_settled(house):
    step = step_of(house)

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> list:
        found = await got(run.map(house.fn(one), [3, -1, 1]))
        return [[s.ok, s.value, s.failure and s.failure.reason] for s in found]

    receipt = house.run(work.bind())
    ok, failed, last = receipt.unwrap()
    assert (ok, last) == ([True, 30, None], [True, 10, None])
    assert failed[:2] == [False, None]
    assert failed[2].startswith("http.404")
    assert receipt.status is State.COMPLETED


def test_map_over_nothing_is_nothing(house):
    @house.loop
    async def work(run) -> list:
        return await got(run.map(house.fn(got), []))

    assert house.run(work.bind()).unwrap() == []


def test_each_branch_has_its_own_names_and_each_map_its_own_number(house):
    step = step_of(house)

    async def one(n):
        return [await got(step(n)), await got(step(n))]

    @house.loop
    async def work(run) -> None:
        await got(run.map(house.fn(one), [5, 6], key=lambda n: f"doc-{n}", limit=1))
        await got(run.map(house.fn(one), [5]))

    house.run(work.bind())
    assert keys(house) == [
        "1.0/map#0[doc-5]/step#0",
        "1.0/map#0[doc-5]/step#1",
        "1.0/map#0[doc-6]/step#0",
        "1.0/map#0[doc-6]/step#1",
        "1.0/map#1[0]/step#0",
        "1.0/map#1[0]/step#1",
    ]


def test_two_items_of_one_key_are_refused_before_anything_runs(house):
    step = step_of(house)

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(one), [1, 2, 11], key=lambda n: n % 10))
        except DeclarationError as error:
            return str(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == "run.map: two items have the key '1'; keys name branches and must differ"
    assert house.done == []


def test_long_keys_that_differ_at_their_end_are_two_branches(house):
    step = step_of(house)

    async def one(n):
        return await got(step(len(n)))

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), ["x" * 150 + "a", "x" * 150 + "b"], key=str))]

    assert house.run(work.bind()).unwrap() == [1510, 1510]


@pytest.mark.parametrize("key", ["a/b", "a#0", "a!check.0", "a%2fb", "ü", "a]/step#0"])
def test_a_key_may_hold_any_text(house, key):
    step = step_of(house)

    async def one(n):
        return await got(step(1))

    @house.tool(effect=READ)
    def stop() -> int:
        if house.note("stop") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = [s.value for s in await got(run.map(house.fn(one), [key, "other"], key=str))]
        await got(stop())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [10, 10]
    assert house.done == ["step 1", "step 1", "stop", "stop"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_limit_that_cannot_work_is_refused(house, limit):
    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(got), [1], limit=limit))
        except DeclarationError as error:
            return str(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == f"limit is {limit}; it lies between 1 and 1000"


def test_no_more_than_limit_run_at_once(house):
    at_once: list[int] = [0, 0]

    if house.is_async:

        @house.tool(effect=READ)
        async def step(n: int) -> int:
            at_once[0] += 1
            at_once[1] = max(at_once)
            await asyncio.sleep(1)
            at_once[0] -= 1
            return n
    else:
        import threading
        import time

        lock = threading.Lock()

        @house.tool(effect=READ)
        def step(n: int) -> int:
            with lock:
                at_once[0] += 1
                at_once[1] = max(at_once)
            time.sleep(0.005)
            with lock:
                at_once[0] -= 1
            return n

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(12), limit=3)))

    assert house.run(work.bind()).unwrap() == 66
    assert at_once[1] == 3


def test_any_other_exception_stops_the_rest_and_propagates(house):
    step = step_of(house)

    async def one(n):
        found = await got(step(n))
        if n == 1:
            raise ZeroDivisionError("in a branch")
        return found

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(one), range(20), limit=1))
        except ZeroDivisionError as error:
            return str(error)
        return "finished"

    assert house.run(work.bind()).unwrap() == "in a branch"
    assert house.done == ["step 0", "step 1"]


def test_maps_nest(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        async def leaf(n):
            return await got(step(n))

        async def branch(n):
            inner = await got(run.map(house.fn(leaf), [n, n + 1]))
            return [await got(step(n)), *[s.value for s in inner]]

        return [s.value for s in await got(run.map(house.fn(branch), [1, 2]))]

    assert house.run(work.bind()).unwrap() == [[10, 10, 20], [20, 20, 30]]
    assert sorted(set(keys(house))) == sorted(keys(house))
    assert "1.0/map#0[1]/map#0[0]/step#0" in keys(house)


def test_a_branch_without_steps_is_fine(house):
    async def one(n):
        return n

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), [1, 2]))]

    assert house.run(work.bind()).unwrap() == [1, 2]


def test_a_hundred_branches_of_two_steps_survive_a_death_in_the_middle(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def second(n: int) -> int:
        house.note(f"second {n}")
        if n == 50 and house.done.count("second 50") == 1:
            house.kill()
        return n

    async def one(n):
        return await got(second(await got(step(n)) // 10))

    @house.loop
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(100), limit=16)))

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.unwrap() == 4950
    assert all(house.done.count(f"step {n}") <= 2 for n in range(100))
    assert receipt.restarts == 1


# --- scope


def test_scope_names_a_branch(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        with run.scope("research"):
            first = await got(step(1))
        with run.scope("research"):
            second = await got(step(1))
        return [first, second, await got(step(1))]

    assert house.run(work.bind()).unwrap() == [10, 10, 10]
    assert keys(house) == ["1.0/scope[research]#0/step#0", "1.0/scope[research]#1/step#0", "1.0//step#0"]


def test_scope_adopts_a_task_you_started(async_house):
    house = async_house
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        async def side(n):
            with run.scope(f"side-{n}"):
                return [await step(n), await step(n)]

        left, right = await asyncio.gather(*[asyncio.create_task(side(n)) for n in (1, 2)])
        return left + right

    assert house.run(work.bind()).unwrap() == [10, 10, 20, 20]
    assert house.run(work.bind()).status is State.COMPLETED


def test_gathered_calls_keep_the_order_in_which_they_were_written(async_house):
    house = async_house

    @house.tool(effect=READ)
    async def slow(n: int) -> int:
        await asyncio.sleep(10 - n)
        house.note(f"slow {n}")
        return n

    @house.tool(effect=READ)
    async def stop() -> int:
        if house.note("stop") == 1:
            house.kill()
        return 0

    @house.loop
    async def work(run) -> list:
        found = await asyncio.gather(*[slow(n) for n in range(5)])
        await stop()
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [0, 1, 2, 3, 4]
    assert len(house.done) == 7


# --- branches meet exceptions and questions


def test_a_branch_that_raises_while_another_waits_for_a_person_ends_the_map(house):
    @house.tool
    def charge() -> int:
        house.note("charge")
        raise reset()

    step = step_of(house)

    async def one(n):
        if n == 0:
            return await got(charge())
        await got(step(n))
        raise ZeroDivisionError("in a branch")

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(one), [0, 1], limit=1))
        except ZeroDivisionError:
            return "went on"
        return ""

    receipt = house.run(work.bind())
    assert len(receipt.asks) == 1
    assert house.done == ["charge", "step 1"]


def test_a_scope_in_a_branch_is_a_branch_of_it(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        async def one(n):
            with run.scope("inner"):
                found = await got(step(n))
            return found + await got(step(n))

        found = sum(s.value for s in await got(run.map(house.fn(one), [1, 2])))
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == 60
    assert len(house.done) == 6


def test_a_failed_step_in_a_scope_leaves_the_scope_like_any_exception(house):
    @house.tool(effect=READ, retry=Retry.never)
    def look() -> int:
        raise refused()

    step = step_of(house)

    @house.loop
    async def work(run) -> int:
        try:
            with run.scope("a"):
                await got(look())
        except Exception:
            return await got(step(1))
        return 0

    assert house.run(work.bind()).unwrap() == 10


def test_the_answers_a_tool_gives_a_model_survive_a_death_in_the_middle_of_its_calls(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note(f"look {n}")
        if n == 2 and house.done.count("look 2") == 1:
            house.kill()
        return n

    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(look), calls(*[("look", {"n": n}) for n in range(4)]), limit=1))
        return [r.value for r in results]

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [0, 1, 2, 3]
    assert house.done.count("look 0") == house.done.count("look 1") == 1
