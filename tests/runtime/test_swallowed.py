"""
Yaoki's own control flow that a branch swallows: it is no result, and nothing is done on the strength of it.

The rules: docs/guarantees.md, "Two questions about a failure".
"""

from __future__ import annotations

import pytest

from tests.runtime.house import House, got
from yaoki.errors import Park
from yaoki.records import State


def tools(house: House):
    """Make a charge that leaves a doubt, and a mail that must not go out on the strength of it."""

    @house.tool
    def charge(n: int) -> str:
        house.note(f"charge {n}")
        raise TimeoutError("read timeout")

    @house.tool
    def mail(text: str) -> str:
        house.note(f"mail {text}")
        return "sent"

    return charge, mail


async def swallowing(work) -> str:
    """Return what a bare `except:` makes of whatever comes."""
    try:
        return await got(work())
    except BaseException as error:
        return type(error).__name__


def goes_on(house: House, work) -> None:
    """Show that the run waits for the person; told, it goes on with what they said."""
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert house.done == ["charge 1"]
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap() == "sent"
    assert house.done == ["charge 1", "mail ch_1"]


@pytest.mark.parametrize("items", [1, 2])
def test_a_park_swallowed_in_a_branch_of_a_map_is_no_result(house, items):
    charge, mail = tools(house)

    @house.loop
    async def work(run) -> str:
        async def one(n):
            return n if n > 1 else await swallowing(lambda: charge(n))

        found = await got(run.map(house.fn(one), [1, 2][:items]))
        return await got(mail(found[0].value))

    goes_on(house, work)


def test_a_park_that_became_another_error_in_a_branch_is_not_that_error(house):
    charge, mail = tools(house)

    @house.loop
    async def work(run) -> str:
        async def one(n):
            try:
                return await got(charge(n))
            except Park:
                raise ValueError("no charge") from None

        try:
            found = await got(run.map(house.fn(one), [1]))
        except ValueError:
            return await got(mail("no charge"))
        return await got(mail(found[0].value))

    goes_on(house, work)


def test_a_park_swallowed_in_a_scope_is_no_result(house):
    charge, mail = tools(house)

    @house.loop
    async def work(run) -> str:
        with run.scope("a"):
            said = await swallowing(lambda: charge(1))
        return await got(mail(said))

    goes_on(house, work)


def test_a_park_swallowed_in_a_scope_of_a_branch_is_no_result(house):
    charge, mail = tools(house)

    @house.loop
    async def work(run) -> str:
        async def one(n):
            with run.scope("a"):
                return await swallowing(lambda: charge(n))

        found = await got(run.map(house.fn(one), [1]))
        return await got(mail(found[0].value))

    goes_on(house, work)


def test_a_park_swallowed_in_a_scope_ends_no_run(house):
    charge, _ = tools(house)

    @house.loop
    async def work(run) -> str:
        with run.scope("a"):
            return await swallowing(lambda: charge(1))

    assert house.run(work.bind()).status is State.WAITING
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap() == "ch_1"


def test_a_plain_tool_of_an_async_loop_is_held_to_the_same(async_house):
    house = async_house
    charge, mail = tools(House("sync", house.path))

    @house.loop
    async def work(run) -> str:
        async def one(n):
            return await swallowing(lambda: charge(n))

        found = await run.map(one, [1])
        return mail(found[0].value)

    goes_on(house, work)


def test_a_plain_tool_whose_park_the_async_loop_itself_swallows_ends_no_run(async_house):
    house = async_house
    charge, _ = tools(House("sync", house.path))

    @house.loop
    async def work(run) -> str:
        return await swallowing(lambda: charge(1))

    assert house.run(work.bind()).status is State.WAITING
