"""Tools called from where their run cannot follow (docs/guarantees.md, "Identity and replay")."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.errors import refused
from tests.runtime.house import House, got
from yaoki import (
    INJECTED,
    DeclarationError,
    Effect,
    Happened,
    NotHappened,
    OutsideBranch,
    OutsideRun,
    Runner,
    loop,
    tool,
)

READ = Effect.READ_ONLY


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def plain_tools(house: House):
    """Sync tools in both worlds: what a thread pool would call."""

    @tool
    def send(n: int) -> int:
        house.note(f"send {n}")
        return n

    @tool(effect=READ)
    def look(n: int) -> int:
        house.note(f"look {n}")
        return n

    return send, look


def in_pool(fn, *args):
    """Call in a thread that knows nothing of the run."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fn, *args).result()


def test_an_effect_in_a_thread_pool_is_refused_and_a_read_is_not(house):
    send, look = plain_tools(house)

    @house.loop
    async def work(run) -> list:
        found = [in_pool(look, 1)]
        try:
            in_pool(send, 2)
        except OutsideRun as error:
            found.append(said(error))
        return found

    read, refusal = house.run(work.bind()).unwrap()
    assert read == 1
    assert refusal == (
        "OutsideRun: send was called without a run while this process drives one; nothing was executed. "
        "A thread or pool loses the run's context: call it from the loop, or say that it is meant with send.outside(…)."
    )
    assert house.done == ["look 1"]


def test_outside_says_that_it_is_meant(house):
    send, _ = plain_tools(house)

    @house.loop
    async def work(run) -> int:
        return in_pool(send.outside, 2)

    receipt = house.run(work.bind())
    assert receipt.unwrap() == 2
    assert receipt.attempts == 0
    assert house.done == ["send 2"]


def test_once_no_run_is_driven_a_tool_is_its_policy_alone(house):
    send, _ = plain_tools(house)

    @house.loop
    async def work(run) -> int:
        return 1

    house.run(work.bind())
    assert send(3) == 3


def test_an_effect_function_decides_whether_a_call_may_be_made_outside(house):
    @tool(effect=lambda command: READ if command == "ls" else Effect.AT_MOST_ONCE)
    def bash(command: str) -> str:
        house.note(command)
        return command

    @house.loop
    async def work(run) -> list:
        found = [in_pool(bash, "ls")]
        try:
            in_pool(bash, "git push")
        except OutsideRun:
            found.append("refused")
        return found

    assert house.run(work.bind()).unwrap() == ["ls", "refused"]
    assert house.done == ["ls"]


@pytest.mark.parametrize("kind", [Effect.IDEMPOTENT, Effect.KEYED, Effect.AT_MOST_ONCE, "checked"])
def test_every_kind_but_read_only_is_refused(house, kind):
    def sent(n: int) -> Happened[int] | NotHappened:
        return NotHappened()

    policy = {"check": sent} if kind == "checked" else {"effect": kind}

    @tool(**policy)
    def send(n: int, *, idempotency_key: str = INJECTED) -> int:
        house.note("sent")
        return n

    @house.loop
    async def work(run) -> str:
        try:
            in_pool(send, 1)
        except OutsideRun as error:
            return error.code
        return "accepted"

    assert house.run(work.bind()).unwrap() == "outside.run"
    assert house.done == []


def test_a_method_is_refused_too_and_has_its_own_outside(house):
    class Desk:
        @tool(key="n")
        def send(self, n: int) -> int:
            return house.note(f"send {n}")

    desk = Desk()

    @house.loop
    async def work(run) -> list[object]:
        try:
            in_pool(desk.send, 1)
        except OutsideRun as error:
            return [error.code, in_pool(desk.send.outside, 2)]
        return []

    assert house.run(work.bind()).unwrap() == ["outside.run", 1]
    assert house.done == ["send 2"]


def test_an_async_effect_in_another_event_loop_is_refused(async_house):
    house = async_house

    @tool
    async def send(n: int) -> int:
        return house.note(f"send {n}")

    @house.loop
    async def work(run) -> list[object]:
        try:
            in_pool(lambda: asyncio.run(send(1)))
        except OutsideRun as error:
            return [error.code, in_pool(lambda: asyncio.run(send.outside(2)))]
        return []

    assert house.run(work.bind()).unwrap() == ["outside.run", 1]
    assert house.done == ["send 2"]


def driven_together(house: House, body) -> None:
    """Drive two runs at once: of a worker with two slots."""

    @house.loop(name="together")
    async def together(run, n: int) -> None:
        await body(n)

    for n in range(2):
        with Runner(house.url, submits_only=True) as runner:
            runner.store.create(f"r{n}", loop="together", input=together.bind(n).data)
    if house.is_async:
        house.drive(lambda runner: runner.work(together, until="idle", concurrency=2))
    else:
        with Runner(house.url) as runner:
            runner.work(together, until="idle", concurrency=2)
    assert [house.get(f"r{n}").status.value for n in range(2)] == ["completed"] * 2


def test_of_several_runs_at_once_the_last_one_lifts_it(real_house):
    house = real_house
    send, _ = plain_tools(house)
    both, first_ended = threading.Barrier(2), threading.Event()
    refusals = []

    async def body(n: int) -> None:
        if house.is_async:
            await asyncio.to_thread(both.wait, 30)
        else:
            both.wait(30)
        if n == 0:
            return
        # The first one has ended once its row says so; this one is still driven.
        until_s = time.monotonic() + 30
        while house.get("r0").status.value != "completed" and time.monotonic() < until_s:
            await asyncio.sleep(0.01) if house.is_async else house.clock.sleep(0.01)
        first_ended.set()
        try:
            in_pool(send, 1)
        except OutsideRun:
            refusals.append(n)

    driven_together(house, body)
    assert first_ended.is_set()
    assert refusals == [1]
    assert send(2) == 2
    assert house.done == ["send 2"]


def test_to_thread_takes_the_context_along_and_is_refused_as_another_branch(async_house):
    house = async_house
    send, _ = plain_tools(house)

    @loop
    async def work(run) -> str:
        try:
            await asyncio.to_thread(send, 1)
        except OutsideBranch as error:
            return said(error)
        return "accepted"

    house.real_time = True
    assert "another task or thread than the loop's own; nothing was executed" in house.run(work.bind()).unwrap()
    assert house.done == []


def test_a_step_in_a_task_of_your_own_is_refused_and_says_how(async_house):
    house = async_house

    @house.tool(effect=READ)
    async def look() -> int:
        house.note("look")
        return 1

    @house.loop
    async def work(run) -> str:
        async def mine():
            return await look()

        try:
            await asyncio.create_task(mine())
        except OutsideBranch as error:
            return said(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == (
        "OutsideBranch: run r: look was called from another task or thread than the loop's own; nothing was executed. "
        "Use run.map or run.call_tools for parallel steps, or `with run.scope(name):` in a task you started."
    )
    assert house.done == []


def test_an_operation_of_the_run_in_a_task_of_your_own_is_refused(async_house):
    house = async_house

    @house.loop
    async def work(run) -> list:
        async def mine(operation):
            try:
                found = operation()
                if asyncio.iscoroutine(found):
                    await found
            except OutsideBranch:
                return "refused"
            return "accepted"

        operations = [
            run.now,
            run.random,
            run.uuid,
            lambda: run.gap("x"),
            lambda: run.sleep(1),
            lambda: run.spend(calls=1),
        ]
        return [await asyncio.create_task(mine(one)) for one in operations]

    assert house.run(work.bind()).unwrap() == ["refused"] * 6


def test_inside_an_attempt_an_effect_is_refused_and_a_read_is_no_step(house):
    send, look = plain_tools(house)

    def outer(n: int) -> list:
        found: list = [look(n)]
        try:
            send(n)
        except OutsideBranch as error:
            found.append(said(error))
        return found

    outer_tool = house.tool(effect=READ)(outer)

    @house.loop
    async def work(run) -> list:
        return await got(outer_tool(1))

    receipt = house.run(work.bind())
    read, refusal = receipt.unwrap()
    assert read == 1
    assert refusal == (
        "OutsideBranch: send was called inside an attempt of outer, where nothing could be journaled; nothing "
        "was executed. Call it from the loop, or call the plain function send.fn."
    )
    assert receipt.attempts == 1
    assert house.done == ["look 1"]


def test_inside_an_attempt_a_tool_is_not_retried(house):
    @tool(effect=READ)
    def look() -> int:
        house.note("look")
        raise refused()

    def outer() -> str:
        try:
            look()
        except ConnectionRefusedError as error:
            return said(error)
        return ""

    outer_tool = house.tool(effect=READ)(outer)

    @house.loop
    async def work(run) -> str:
        return await got(outer_tool())

    assert house.run(work.bind()).unwrap().startswith("ConnectionRefusedError")
    assert house.done == ["look"]


def test_a_loop_in_a_loop_is_refused(house):
    @house.loop
    async def inner(run) -> int:
        return 1

    @house.loop
    async def outer(run) -> str:
        try:
            await got(inner(run))
        except OutsideBranch as error:
            return said(error)
        return "accepted"

    assert house.run(outer.bind()).unwrap() == (
        "OutsideBranch: loop inner was called inside a run; call the undecorated function: inner.fn(run, …)"
    )


def test_the_undecorated_function_of_a_loop_is_part_of_the_run_that_calls_it(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        return n

    @house.loop
    async def inner(run, n: int) -> int:
        return await got(look(n))

    @house.loop
    async def outer(run) -> int:
        return await got(inner.fn(run, 1)) + await got(inner.fn(run, 2))

    assert house.run(outer.bind()).unwrap() == 3


def test_a_loop_is_not_called_but_run(house):
    @house.loop
    async def work(run) -> int:
        return 1

    with pytest.raises(DeclarationError, match=r"loop work is run by a runner: runner.run\(work.bind\(…\)\)"):
        work()


def test_a_runner_inside_a_run_is_refused(house):
    @loop
    def inner(run) -> int:
        return 1

    @house.loop
    async def outer(run) -> str:
        with Runner(house.url, clock=house.clock) as runner:
            try:
                runner.run(inner.bind(), run_id="inner")
            except OutsideBranch as error:
                return said(error)
        return "accepted"

    assert house.run(outer.bind()).unwrap() == (
        "OutsideBranch: runner.run was called inside a run; call the undecorated function, or submit a run of its own"
    )


def test_a_runner_inside_an_attempt_is_refused_too(house):
    @loop
    def inner(run) -> int:
        return 1

    def start() -> str:
        with Runner(house.url, clock=house.clock) as runner:
            try:
                runner.run(inner.bind(), run_id="inner")
            except OutsideBranch as error:
                return said(error)
        return "accepted"

    start_tool = house.tool(effect=READ)(start)

    @house.loop
    async def outer(run) -> str:
        return await got(start_tool())

    assert "OutsideBranch" in house.run(outer.bind()).unwrap()


def test_a_run_object_used_in_another_run_is_refused(house):
    kept: list = []

    @house.loop
    async def first(run) -> int:
        kept.append(run)
        return 1

    @house.loop
    async def second(run) -> str:
        try:
            kept[0].now()
        except OutsideBranch as error:
            return said(error)
        return "accepted"

    house.run(first.bind(), "one")
    assert (
        "run one: run.now was used outside its loop; nothing was executed" in house.run(second.bind(), "two").unwrap()
    )
