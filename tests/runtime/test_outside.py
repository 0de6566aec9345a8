"""Tools called from where their run cannot follow (SEMANTICS section 5)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.errors import refused
from tests.runtime.house import House, box, calls, got, plainly
from yaoki import (
    AsyncRunner,
    DeclarationError,
    Effect,
    OutsideBranch,
    OutsideRun,
    Runner,
    StepFailed,
    loop,
    tool,
)
from yaoki.records import State

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

        operations = [run.now, run.random, run.uuid, lambda: run.gap("x"), lambda: run.sleep(1), lambda: run.spend(calls=1)]
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
        "OutsideBranch: send was called inside an attempt of outer, where its effect could not be journaled; nothing was "
        "executed. Call it from the loop, or call the plain function send.fn."
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
    assert "run one: run.now was used outside its loop; nothing was executed" in house.run(second.bind(), "two").unwrap()


# --- which tool in which loop


def test_a_sync_tool_in_an_async_loop_is_a_step_like_any_other(async_house):
    house = async_house
    send, look = plain_tools(house)

    @loop
    async def work(run) -> list:
        mixed = await run.call_tools(box(send, look), calls(("send", {"n": 2}), ("look", {"n": 3})))
        return [look(1), send(1), *[r.value for r in mixed]]

    receipt = house.run(work.bind())
    assert receipt.unwrap() == [1, 1, 2, 3]
    assert receipt.attempts == 4
    assert house.run(work.bind()).unwrap() == [1, 1, 2, 3]
    assert len(house.done) == 4


def test_an_async_tool_in_a_sync_loop_is_an_error_that_says_what_to_change(sync_house):
    house = sync_house

    @tool(effect=READ)
    async def look() -> int:
        house.note("look")
        return 1

    @loop
    def work(run) -> str:
        try:
            look()
        except DeclarationError as error:
            return said(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == (
        "DeclarationError: look is async, but its loop is plain `def`; make the loop `async def` or the tool plain"
    )


def test_a_loop_goes_to_the_runner_of_its_kind(tmp_path):
    @loop
    def plain(run) -> int:
        return 1

    @loop
    async def waits(run) -> int:
        return 1

    house = House("sync", tmp_path)
    with (
        Runner(house.url) as runner,
        pytest.raises(DeclarationError, match=r"loop waits is async; run it with AsyncRunner: await runner.run\(…\)"),
    ):
        runner.run(waits.bind())

    async def wrong(runner: AsyncRunner):
        with pytest.raises(DeclarationError, match="loop plain is plain `def`; run it with Runner"):
            await runner.run(plain.bind())

    House("async", tmp_path).drive(wrong)


def test_a_runner_that_is_not_open_says_so(tmp_path):
    @loop
    def plain(run) -> int:
        return 1

    with pytest.raises(DeclarationError, match=r"Runner is not open; use it as a context manager"):
        Runner(f"sqlite:///{tmp_path}/s.db").run(plain.bind())


# --- methods


class Desk:
    def __init__(self, house: House) -> None:
        self.house = house

    def plain(self, n: int) -> int:
        self.house.note(f"plain {n}")
        return n


def test_a_method_tool_is_a_step_with_its_self_passed(house):
    class MyDesk(Desk):
        look = house.tool(effect=READ)(Desk.plain)

    desk = MyDesk(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        found = await got(desk.look(4))
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == 4
    assert house.done == ["plain 4", "die", "die"]


def test_a_method_tool_fails_like_any_other(house):
    class MyDesk(Desk):
        look = house.tool(effect=READ)(Desk.plain)

    @house.loop
    async def work(run) -> str:
        try:
            await got(MyDesk(house).look("x", 2, 3))
        except TypeError as error:
            return str(error)
        return ""

    assert "too many positional arguments" in house.run(work.bind()).unwrap()


def test_a_method_tool_outside_a_run_is_its_policy_alone(house):
    class MyDesk(Desk):
        look = tool(effect=READ)(Desk.plain)

    assert MyDesk(house).look(4) == 4


def test_a_tool_called_on_its_class_is_refused_or_bound_by_hand(house):
    class MyDesk(Desk):
        look = tool(effect=READ)(Desk.plain)

    assert MyDesk.look.fn(MyDesk(house), 3) == 3


# --- declarations


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda fn: tool(effect=Effect.KEYED)(fn), r"tool one is KEYED but takes no key. Add `\*, idempotency_key: str"),
        (lambda fn: tool(effect=Effect.CHECKED)(fn), "tool one is CHECKED but has no check="),
        (lambda fn: tool(key="m")(fn), "tool one: key= names 'm', which is none of its parameters"),
        (lambda fn: tool(check=lambda m: None)(fn), "must take the tool's parameters except injected ones"),
        (lambda fn: tool(check=tool(lambda n: None))(fn), "is itself a tool; give the plain function"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_at_decoration(make, text):
    def one(n: int) -> int:
        return n

    with pytest.raises(DeclarationError, match=text):
        make(one)


def test_a_generator_is_no_tool_and_no_loop():
    def stream(n: int):
        yield n

    async def astream(n: int):
        yield n

    for fn in (stream, astream):
        with pytest.raises(DeclarationError, match="is a generator"):
            tool(fn)
        with pytest.raises(DeclarationError, match="is a generator"):
            loop(fn)


def test_an_unknown_injected_parameter_is_refused():
    from yaoki import INJECTED

    def one(n: int, *, key: str = INJECTED) -> int:
        return n

    with pytest.raises(DeclarationError, match="nothing is injected as 'key'"):
        tool(one)


def test_a_decorated_function_shows_its_signature_without_what_is_injected():
    import inspect

    from yaoki import INJECTED

    @tool(effect=Effect.KEYED)
    def pay(order: str, cents: int = 5, *, idempotency_key: str = INJECTED) -> str:
        """Pay."""
        return order

    assert str(inspect.signature(pay)) == "(order: 'str', cents: 'int' = 5) -> 'str'"
    assert pay.__doc__ == "Pay."
    assert pay.__name__ == "pay"


def test_undeclared_effects_are_named_before_the_run_starts():
    @tool
    def charge(n: int) -> int:
        return n

    @tool(effect=READ)
    def look(n: int) -> int:
        return n

    @loop
    def work(run) -> int:
        return charge(1) + look(1)

    [note] = work.preflight()
    assert note.startswith("charge: undeclared, so AT_MOST_ONCE")
    assert "look" not in note


def test_loops_that_cannot_work_are_refused():
    def bare() -> None: ...

    with pytest.raises(DeclarationError, match="loop bare takes no run"):
        loop(bare)
    with pytest.raises(DeclarationError, match="crashes_max is 0"):
        loop(crashes_max=0)(plainly(got))


def test_a_loops_uncaught_exception_is_its_end_with_the_place_named(house):
    @house.loop
    async def work(run) -> int:
        return {}["missing"]

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.stopped_by == "loop"
    assert "KeyError" in receipt.failure.message
    assert "test_outside.py" in receipt.failure.message or "house.py" in receipt.failure.message


def test_a_step_that_gave_up_uncaught_names_its_step(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        raise FileNotFoundError(2, "No such file", "a.txt")

    @house.loop
    async def work(run) -> int:
        return await got(look(1))

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by, receipt.step) == (State.DEAD, "step", "1.0//look#0")
    assert receipt.text.startswith("look: os.ENOENT")
    assert StepFailed.code == "step.failed"
