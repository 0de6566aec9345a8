"""Which tool in which loop, methods, and what a decorator refuses."""

from __future__ import annotations

import pytest

from tests.runtime.house import House, box, calls, got, plainly
from yaoki import (
    AsyncRunner,
    DeclarationError,
    Effect,
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


class Desk:
    def __init__(self, house: House) -> None:
        self.house = house

    def plain(self, n: int) -> int:
        self.house.note(f"plain {n}")
        return n


# --- methods


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
        (
            tool(effect=Effect.KEYED),
            r"tool one is KEYED but takes no key. Add `\*, idempotency_key: str",
        ),
        (tool(effect=Effect.CHECKED), "tool one is CHECKED but has no check="),
        (tool(key="m"), "tool one: key= names 'm', which is none of its parameters"),
        (tool(check=lambda m: None), "must take the tool's parameters except injected ones"),
        (tool(check=tool(lambda n: None)), "is itself a tool; give the plain function"),
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
    assert "test_declarations.py" in receipt.failure.message or "house.py" in receipt.failure.message


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
