from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from tests.runtime.house import House, got
from yaoki import AsyncRunner, Budget, Effect, Retry, Runner, loop
from yaoki.errors import DeclarationError, InputMismatch
from yaoki.records import Claimed, State


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path):
    return House(request.param, tmp_path)


def submit(house: House, bound, run_id: str, **options):
    if house.is_async:
        return house.drive(lambda runner: runner.submit(bound, run_id=run_id, **options))
    with Runner(house.url, clock=house.clock) as runner:
        return runner.submit(bound, run_id=run_id, **options)


def work(house: House, *loops, **options):
    settings = {key: options.pop(key) for key in ("on_wait", "observers", "park_after_s") if key in options}
    options.setdefault("until", "idle")
    if house.is_async:
        return house.drive(lambda runner: runner.work(*loops, **options), **settings)
    with Runner(house.url, clock=house.clock, **settings) as runner:
        return runner.work(*loops, **options)


def echo(house: House, **policy):
    say = house.tool(lambda text: house.note(text) and text, effect=Effect.READ_ONLY, name="say")

    @house.loop(name="echo", **policy)
    async def echo(run, text: str) -> str:
        return await got(say(text))

    return echo


def test_a_submitted_run_is_pending_until_a_worker_takes_it(house):
    one = echo(house)
    receipt = submit(house, one.bind("a"), "r1", group="night")
    assert (receipt.status, house.done) == (State.PENDING, [])
    assert work(house, one) == {"completed": 1}
    assert (house.get("r1").value, house.done) == ("a", ["a"])


def test_submitting_again_returns_the_run_and_other_input_is_refused(house):
    one = echo(house)
    submit(house, one.bind("a"), "r1")
    assert submit(house, one.bind("a"), "r1").status is State.PENDING
    with pytest.raises(InputMismatch):
        submit(house, one.bind("b"), "r1")
    work(house, one)
    assert submit(house, one.bind("a"), "r1").status is State.COMPLETED


@pytest.mark.parametrize("concurrency", [1, 3])
def test_all_submitted_runs_are_driven_once(house, concurrency):
    one = echo(house)
    for i in range(12):
        submit(house, one.bind(f"t{i}"), f"r{i}")
    assert work(house, one, concurrency=concurrency) == {"completed": 12}
    assert Counter(house.done) == Counter(f"t{i}" for i in range(12))


def test_a_worker_serves_its_own_loops_only(house):
    one = echo(house)

    @house.loop(name="other")
    async def other(run) -> str:
        return "other"

    submit(house, other.bind(), "theirs")
    submit(house, one.bind("a"), "mine")
    assert work(house, one) == {"completed": 1}
    assert house.get("theirs").status is State.PENDING
    assert work(house, one, other) == {"completed": 1}


def test_a_run_that_dies_or_waits_stops_no_other(house):
    def never(text: str) -> str:
        raise ValueError(text)

    fails = house.tool(never, effect=Effect.READ_ONLY, retry=Retry.never)
    breaks = house.tool(lambda: None, effect=Effect.READ_ONLY)

    @house.loop(name="mixed", budget=Budget(calls=1))
    async def mixed(run, how: str) -> str:
        if how == "dies":
            await got(fails(how))
        elif how == "waits":
            await got(breaks())
            await got(breaks())
        return how

    for how in ("dies", "waits", "works"):
        submit(house, mixed.bind(how), how)
    waited = []
    assert work(house, mixed, on_wait=waited.append) == {"dead": 1, "waiting": 1, "completed": 1}
    assert [receipt.run_id for receipt in waited] == ["waits"]


def test_a_loop_that_ends_the_process_is_put_aside_and_the_others_go_on(house):
    @house.loop(name="leaves")
    async def leaves(run, how: str) -> str:
        if how == "exit":
            raise SystemExit(3)
        return how

    submit(house, leaves.bind("exit"), "exit")
    submit(house, leaves.bind("stay"), "stay")
    assert work(house, leaves) == {"completed": 1}
    assert house.get("exit").status is State.PENDING
    assert house.get("stay").value == "stay"


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_run_that_cannot_be_driven_is_tried_once_by_a_worker_however_many_it_drives_at_once(house, concurrency):
    @house.loop(name="leaves")
    async def leaves(run) -> str:
        house.note("entered")
        raise SystemExit(3)

    submit(house, leaves.bind(), "r1")
    work(house, leaves, concurrency=concurrency)
    assert house.done == ["entered"]


def test_idle_leaves_what_sleeps_until_later(house):
    @house.loop(name="sleeper")
    async def sleeper(run) -> str:
        await got(run.sleep(3600))
        return "up"

    submit(house, sleeper.bind(), "r1")
    assert work(house, sleeper) == {"sleeping": 1}
    house.later(3601)
    assert work(house, sleeper) == {"completed": 1}


def test_a_run_that_waits_for_code_is_tried_once_by_each_worker(house):
    step = house.tool(lambda text: house.note(text) and text, effect=Effect.READ_ONLY, name="step")
    plan = ["a", "b"]

    @house.loop(name="drifts")
    async def drifts(run) -> str:
        for text in plan:
            await got(step(text))
        await got(run.sleep(3600))
        return "-".join(plan)

    submit(house, drifts.bind(), "r1")
    assert work(house, drifts) == {"sleeping": 1}
    plan[0] = "x"
    house.later(3601)
    assert work(house, drifts) == {"waiting": 1}
    assert work(house, drifts) == {"waiting": 1}
    assert "- recorded: step" in house.get("r1").diff
    plan[0] = "a"
    assert work(house, drifts) == {"completed": 1}
    assert house.done == ["a", "b"]


def test_a_run_under_the_brake_is_left_pending_and_taken_up_after_it(house):
    one = echo(house)

    @house.loop(name="braked")
    async def braked(run) -> str:
        await got(one_step("before"))
        house.outside(lambda verbs: verbs.store.pause("ana"))
        await got(run.sleep(5))
        await got(one_step("after"))
        return "done"

    one_step = house.tool(lambda text: house.note(text) and text, effect=Effect.READ_ONLY, name="one_step")
    submit(house, braked.bind(), "r1")
    submit(house, one.bind("x"), "r2")
    assert work(house, braked) == {"pending": 1}
    assert work(house, braked, one) == {}
    assert house.done == ["before"]
    house.outside(lambda verbs: verbs.store.unpause())

    assert work(house, one) == {"completed": 1}
    house.clock.advance(6)
    seen = []
    house.outside(lambda verbs: seen.append(verbs.store.paused()))
    assert seen == [None]


def test_what_cannot_be_served_is_refused_before_anything_is_taken(house, tmp_path):
    one = echo(house)
    other = loop(name="plain")(lambda run: None) if house.is_async else loop(name="coroutine")(_coroutine)
    for loops, options, words in [
        ((), {}, "no loop"),
        ((other,), {}, "serve it with"),
        ((one, echo(house)), {}, "two loops called echo"),
        ((one,), {"until": "noon"}, "until='noon'"),
        ((one,), {"concurrency": 0}, "concurrency=0"),
        ((house,), {}, "work takes loops"),
    ]:
        with pytest.raises(DeclarationError, match=words):
            work(house, *loops, **options)


async def _coroutine(run) -> None: ...


def test_a_drained_worker_lets_what_is_in_flight_settle_and_counts_no_crash(tmp_path):
    begun, go_on = threading.Event(), threading.Event()
    house = House("sync", tmp_path, real_time=True)

    def slow(text: str) -> str:
        begun.set()
        assert go_on.wait(30)
        return text

    step = house.tool(slow, name="step")

    @house.loop(name="slow")
    async def slow_loop(run) -> str:
        await got(step("one"))
        await got(step("two"))
        return "done"

    with Runner(house.url) as runner:
        runner.submit(slow_loop.bind(), run_id="r1")
        found = []
        worker = threading.Thread(target=lambda: found.append(runner.work(slow_loop, concurrency=2)))
        worker.start()
        assert begun.wait(30)
        runner.drain()
        go_on.set()
        worker.join(30)
        assert [list(left) for left in found] == [["pending"]], "also if another thread was just about to take it up"
        receipt = runner.get("r1")
        assert (receipt.status, receipt.attempts, receipt.failures) == (State.PENDING, 1, [])
    assert house.run(slow_loop.bind(), "r1").value == "done"
    assert {record.deaths for record in house.records(Claimed, "r1")} == {0}


def test_a_drained_async_worker_lets_what_is_in_flight_settle(tmp_path):
    house = House("async", tmp_path, real_time=True)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(text: str) -> str:
        begun.set()
        await go_on.wait()
        return text

    step = house.tool(slow, name="step")

    @house.loop(name="slow")
    async def slow_loop(run) -> str:
        await step("one")
        await step("two")
        return "done"

    async def main() -> None:
        async with AsyncRunner(house.url) as runner:
            await runner.submit(slow_loop.bind(), run_id="r1")
            working = asyncio.create_task(runner.work(slow_loop))
            await asyncio.wait_for(begun.wait(), 30)
            runner.drain()
            go_on.set()
            assert await asyncio.wait_for(working, 30) == {"pending": 1}
            receipt = await runner.get("r1")
            assert (receipt.status, receipt.attempts, receipt.failures) == (State.PENDING, 1, [])

    asyncio.run(main())
    assert house.run(slow_loop.bind(), "r1").value == "done"


def test_a_runner_told_to_stop_before_it_is_open_takes_nothing(tmp_path):
    house = House("async", tmp_path, real_time=True)

    @house.loop(name="quick")
    async def quick(run) -> str:
        return "done"

    async def main() -> None:
        runner = AsyncRunner(house.url)
        runner.drain()
        async with runner:
            await runner.submit(quick.bind(), run_id="r1")
            assert await runner.work(quick) == {}
        runner.drain()  # nor is it an error afterwards

    asyncio.run(main())
    assert house.get("r1").status is State.PENDING


def test_an_async_worker_told_to_stop_cancels_what_has_not_settled_in_time(tmp_path):
    house = House("async", tmp_path, real_time=True)
    begun = asyncio.Event()

    async def hangs() -> str:
        begun.set()
        await asyncio.sleep(3600)
        return "never"

    step = house.tool(hangs, effect=Effect.READ_ONLY, name="step")

    @house.loop(name="hangs")
    async def hanging(run) -> str:
        return await step()

    async def main() -> None:
        async with AsyncRunner(house.url, drain_s=0.05) as runner:
            await runner.submit(hanging.bind(), run_id="r1")
            working = asyncio.create_task(runner.work(hanging))
            await asyncio.wait_for(begun.wait(), 30)
            runner.drain()
            await asyncio.wait_for(working, 30)

    asyncio.run(main())
    assert (house.get("r1").status, house.get("r1").attempts) == (State.PENDING, 1)


def test_an_answer_is_taken_up_by_a_worker_that_serves_the_loop(tmp_path):
    house = House("sync", tmp_path, real_time=True)

    def charge(cents: int) -> str:
        raise TimeoutError("no answer")

    tool = house.tool(charge, name="charge")

    @house.loop(name="asks")
    async def asks(run) -> str:
        return await got(tool(5))

    with Runner(house.url) as runner:
        runner.submit(asks.bind(), run_id="r1")
        waiting = threading.Event()
        twin = Runner(house.url, on_wait=lambda receipt: waiting.set())
        found = []

        def serve() -> None:
            with twin:
                found.append(twin.work(asks))

        worker = threading.Thread(target=serve)
        worker.start()
        assert waiting.wait(30)
        runner.answer("r1", None, "happened", "ch_1")
        for _ in range(300):
            if runner.get("r1").status is State.COMPLETED:
                break
            threading.Event().wait(0.05)
        twin.drain()
        worker.join(30)
        assert (found, runner.get("r1").value) == ([{"waiting": 1, "completed": 1}], "ch_1")
