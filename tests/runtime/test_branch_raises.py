"""
A branch that raises ends those beside it, live and on replay; so does a cancel of the whole map.

The rules: docs/guarantees.md, "Identity and replay".
"""

from __future__ import annotations

import asyncio
import threading

from tests.runtime.house import House, box, calls, got
from yaoki import Effect
from yaoki.records import State

READ = Effect.READ_ONLY
_MANY = 3_000


def look_and_die(house: House):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        return n

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    return look, die


def test_once_a_branch_raised_those_beside_it_begin_nothing_more(sync_house):
    house = sync_house
    begun, raising = threading.Event(), threading.Event()
    sent: list[int] = []

    @house.tool(effect=READ)
    def send(n: int) -> int:
        sent.append(n)
        begun.set()
        assert raising.wait(30)
        return n

    @house.loop
    async def work(run) -> str:
        async def one(n):
            if n == 0:
                assert begun.wait(30)
                raising.set()
                raise ValueError(n)
            for i in range(_MANY):
                await got(send(i))

        try:
            await got(run.map(house.fn(one), [0, 1]))
        except ValueError:
            return "raised"
        return "not raised"

    assert house.run(work.bind()).unwrap() == "raised"
    assert 0 < len(sent) < _MANY


def test_what_a_raise_stops_is_stopped_in_branches_of_branches_too(sync_house):
    house = sync_house
    begun, raising = threading.Event(), threading.Event()
    sent: list[int] = []

    @house.tool(effect=READ)
    def send(n: int) -> int:
        sent.append(n)
        begun.set()
        assert raising.wait(30)
        return n

    @house.loop
    async def work(run) -> str:
        async def many(_):
            for i in range(_MANY):
                await got(send(i))

        async def one(n):
            if n == 0:
                assert begun.wait(30)
                raising.set()
                raise ValueError(n)
            await got(run.map(house.fn(many), [1, 2]))

        try:
            await got(run.map(house.fn(one), [0, 1]))
        except ValueError:
            return "raised"
        return "not raised"

    assert house.run(work.bind()).unwrap() == "raised"
    assert 0 < len(sent) < 2 * _MANY


def test_a_wait_beside_a_branch_that_raised_ends(sync_house):
    """It is neither sat out, nor does the run wait for it later."""
    house = sync_house
    waiting = threading.Event()

    @house.loop
    async def work(run) -> str:
        async def one(n):
            if n == 0:
                assert waiting.wait(30)
                raise ValueError(n)
            waiting.set()
            await got(run.sleep(100))

        try:
            await got(run.map(house.fn(one), [0, 1]))
        except ValueError:
            await got(run.wait_signal("go"))
            return "raised"
        return "not raised"

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "signal")


def test_a_map_that_raised_raises_again_after_a_crash(house):
    """What its other branches recorded need not be asked for again: they were stopped, and are on replay."""
    look, die = look_and_die(house)

    @house.loop
    async def work(run) -> str:
        async def one(n):
            await got(look(n))
            if n == 0:
                await got(run.sleep(1))
                raise ValueError(n)
            await got(look(n + 10))

        try:
            await got(run.map(house.fn(one), range(5), limit=2))
        except ValueError:
            await got(die())
            return "raised"
        return "not raised"

    assert house.die(work.bind()) == -9
    house.later(60)
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.value) == (State.COMPLETED, "raised"), receipt.diff


def test_turns_go_on_after_a_map_that_raised_was_replayed(house):
    look, die = look_and_die(house)

    @house.loop
    async def work(run) -> int:
        async def one(n):
            await got(look(n))
            if n == 0:
                await got(run.sleep(1))
                raise ValueError(n)

        async for state in house.turns(run, [0]):
            try:
                await got(run.map(house.fn(one), range(5), limit=2))
            except ValueError:
                state[0] += 1
            await got(die())
            if state[0] == 2:
                return state[0]
        return 0

    assert house.die(work.bind()) == -9
    house.later(60)
    assert house.run(work.bind()).unwrap() == 2


def test_on_replay_no_branch_begins_what_the_raise_had_kept_it_from(async_house):
    """Live the others had no time for a second effect; the replay, long after, gives them none either."""
    house = async_house

    @house.tool
    def send(n: int) -> int:
        house.note(f"send {n}")
        return n

    _, die = look_and_die(house)
    items = [1, 2, 0]

    @house.loop
    async def work(run) -> str:
        async def one(n):
            if n == 0:
                await got(run.sleep(1))
                raise ValueError(n)
            await got(send(n))
            await got(run.sleep(5))
            await got(send(n + 10))

        try:
            await got(run.map(house.fn(one), items, limit=len(items)))
        except ValueError:
            await got(die())
            return "raised"
        return "not raised"

    assert house.die(work.bind()) == -9
    done = house.done
    house.later(60)
    assert house.run(work.bind()).unwrap() == "raised"
    assert house.done == [*done, "die"]
    assert not any(line.startswith("send 1") and line != "send 1" for line in done)


def test_code_whose_map_raises_no_more_is_parked(house):
    look, die = look_and_die(house)

    def version(raises: bool):
        async def one(n):
            await got(look(n))
            if n == 0 and raises:
                raise ValueError(n)

        @house.loop(name="work")
        async def work(run) -> str:
            try:
                await got(run.map(house.fn(one), [0, 1], limit=1))
            except ValueError:
                await got(die())
                return "raised"
            return "not raised"

        return work

    assert house.die(version(raises=True).bind()) == -9
    receipt = house.run(version(raises=False).bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
    assert "a branch of map#0 raised" in receipt.text
    assert house.run(version(raises=True).bind()).unwrap() == "raised"


# --- a bare cancel around all of them


def test_a_bare_timeout_around_a_map_or_a_models_calls_parks_the_run(async_house):
    house = async_house

    @house.tool(effect=READ)
    async def slow(n: int) -> int:
        await asyncio.sleep(50)
        return n

    @house.tool
    async def mail() -> str:
        house.note("mail")
        return "sent"

    for how in ("map", "call_tools"):

        @house.loop(name=how)
        async def work(run, how: str) -> str:
            try:
                async with asyncio.timeout(5):
                    if how == "map":
                        await run.map(slow, [1, 2])
                    else:
                        await run.call_tools(box(slow), calls(("slow", {"n": 1})))
            except TimeoutError:
                return await mail()
            return "in time"

        receipt = house.run(work.bind(how), how)
        assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
        assert "run.timeout" in receipt.diff
    assert house.done == []


def test_run_timeout_around_a_map_parks_nothing(async_house):
    house = async_house

    @house.tool(effect=READ)
    async def slow(n: int) -> int:
        await asyncio.sleep(50)
        return n

    @house.tool
    async def mail() -> str:
        house.note("mail")
        return "sent"

    @house.loop
    async def work(run) -> str:
        try:
            async with run.timeout(5):
                await run.map(slow, [1, 2])
        except TimeoutError:
            return await mail()
        return "in time"

    assert house.run(work.bind()).unwrap() == "sent"


# --- who counts against a limit


def test_a_branch_whose_own_branches_all_wait_does_not_count_against_the_limit_around_it(house):
    @house.tool
    def charge(n: int) -> str:
        house.note(f"charge {n}")
        raise TimeoutError("read timeout")

    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note(f"look {n}")
        return n

    @house.loop
    async def work(run) -> list:
        async def inner(n):
            return await got(charge(n))

        async def outer(n):
            if n == 0:
                return [one.value for one in await got(run.map(house.fn(inner), [0, 1], limit=1))]
            return await got(look(n))

        return [one.value for one in await got(run.map(house.fn(outer), [0, 1], limit=1))]

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert sorted(house.done) == ["charge 0", "charge 1", "look 1"]
    house.answer("happened", "a", ask="q1")
    house.answer("happened", "b", ask="q2")
    assert house.run(work.bind()).unwrap() == [["a", "b"], 1]


def test_a_branch_that_goes_on_after_its_wait_counts_again(async_house):
    """Never more than the limit at work at once, however the waits fall."""
    house = async_house
    at_work = [0, 0]

    @house.tool(effect=READ)
    async def look(n: int) -> int:
        at_work[0] += 1
        at_work[1] = max(at_work)
        await asyncio.sleep(1)
        at_work[0] -= 1
        return n

    @house.loop
    async def work(run) -> int:
        async def inner(n):
            await run.sleep(40)
            return await look(n)

        async def outer(n):
            return await run.map(inner, [n * 10, n * 10 + 1], limit=1)

        await run.map(outer, range(6), limit=2)
        return at_work[1]

    async def through(runner):
        return await runner.run(work.bind(), run_id="r")

    receipt = house.drive(through, park_after_s=20)
    while receipt.status is State.SLEEPING:
        house.later(40)
        receipt = house.drive(through, park_after_s=20)
    assert receipt.unwrap() == 2
