"""`run.try_call`: a step whose failure is a value."""

from __future__ import annotations

import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House, got
from yaoki import Effect, Happened, Retry, tool
from yaoki.records import Begin, State

READ = Effect.READ_ONLY


def tools(house: House):
    def fail(why: str) -> str:
        house.note(why)
        raise ValueError(why)

    good = house.tool(lambda what: what, effect=READ, name="good")
    return good, house.tool(fail, effect=READ, retry=Retry.never, name="bad")


def test_it_gives_the_value_or_the_failure_and_a_replay_the_same(house):
    good, bad = tools(house)

    @house.loop(name="tries")
    async def tries(run) -> list[object]:
        one, two = await got(run.try_call(good, "x")), await got(run.try_call(bad, why="y"))
        await got(run.wait_signal("go"))
        return [one.value, one.ok, two.value, two.ok, two.failure.message.split(" (")[0]]

    house.run(tries.bind())
    house.outside(lambda verbs: verbs.signal("r", "go"))
    assert house.run(tries.bind()).value == ["x", True, None, False, "ValueError: y"]
    assert house.done == ["y"]


def test_it_is_a_step_like_any_other_call_of_the_tool(house):
    good, _ = tools(house)

    @house.loop(name="tries")
    async def tries(run) -> list[object]:
        return [await got(good("x")), (await got(run.try_call(good, "x"))).value, await got(good("x"))]

    house.run(tries.bind())
    assert [e.key for e in house.journal() if isinstance(e.record, Begin)] == [f"1.0//good#{n}" for n in range(3)]


def test_in_branches(house):
    good, bad = tools(house)

    @house.loop(name="tries")
    async def tries(run) -> list[object]:
        async def one(what: str) -> object:
            tried = await got(run.try_call(bad if what == "bad" else good, what))
            return tried.value if tried.ok else "failed"

        return [settled.value for settled in await got(run.map(house.fn(one), ["a", "bad", "c"]))]

    assert house.run(tries.bind()).value == ["a", "failed", "c"]


def test_of_a_method(house):
    class Desk:
        name = "desk"

        @tool(effect=READ)
        def find(self, what: str) -> str:
            return f"{self.name} {what}"

        @tool(effect=READ, retry=Retry.never)
        def lose(self, what: str) -> str:
            raise ValueError(what)

    desk = Desk()

    @house.loop(name="tries")
    async def tries(run) -> list[object]:
        one, two = await got(run.try_call(desk.find, "x")), await got(run.try_call(desk.lose, what="y"))
        return [one.value, two.ok]

    assert house.run(tries.bind()).value == ["desk x", False]


def test_of_a_checked_tool_and_a_doubt_still_asks_first(house):
    def sent(to: str) -> Happened[str]:
        if to == "unknown":
            raise KeyError(to)
        return Happened("found")

    def send(to: str) -> str:
        raise reset()

    mail = house.tool(check=house.check(sent), check_after_s=0, name="mail")(send)

    @house.loop(name="tries")
    async def tries(run) -> list[object]:
        one, two = await got(run.try_call(mail, "a")), await got(run.try_call(mail, "unknown"))
        return [one.value, two.ok]

    assert house.run(tries.bind()).status is State.WAITING
    house.answer("abort")
    assert house.run(tries.bind()).value == ["found", False]


@pytest.mark.parametrize("other", [print, 3])
def test_what_is_no_tool_is_refused(house, other):
    @house.loop(name="wrong")
    async def wrong(run) -> None:
        await got(run.try_call(other, "x"))

    assert "run.try_call takes a tool" in house.run(wrong.bind()).failure.message
