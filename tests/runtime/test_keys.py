"""Which calls are one action, and the key each action carries (docs/guarantees.md, "Keys and slots")."""

from __future__ import annotations

import pytest

from tests.runtime.errors import refused
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, Effect, Local, StepFailed
from yaoki.records import Begin


def keyed(house: House, **policy):
    @house.tool(effect=Effect.KEYED, **policy)
    def refund(order: str, cents: int = 5, *, idempotency_key: str = INJECTED) -> str:
        house.note(f"{order} {cents} {idempotency_key}")
        return idempotency_key

    return refund


def test_equal_calls_are_two_actions_with_two_keys(house):
    refund = keyed(house)

    @house.loop
    async def work(run) -> list[str]:
        return [await got(refund("A")), await got(refund("A")), await got(refund("B"))]

    found = house.run(work.bind()).unwrap()
    assert len(set(found)) == 3


def test_equal_calls_in_parallel_are_two_actions_with_two_keys(house):
    refund = keyed(house)

    @house.loop
    async def work(run) -> list[str]:
        results = await got(run.call_tools(box(refund), calls(*[("refund", {"order": "A"})] * 5)))
        return [result.value for result in results]

    assert len(set(house.run(work.bind()).unwrap())) == 5
    assert len(house.done) == 5


def test_another_run_has_other_keys(house):
    refund = keyed(house)

    @house.loop
    async def work(run) -> str:
        return await got(refund("A"))

    assert house.run(work.bind(), "r1").unwrap() != house.run(work.bind(), "r2").unwrap()


def test_defaults_and_the_order_of_arguments_do_not_make_another_action(house):
    refund = keyed(house)

    @house.loop
    async def work(run) -> None:
        await got(refund("A"))
        await got(refund(cents=5, order="A"))
        await got(refund("A", 6))

    house.run(work.bind())
    actions = [begin.action for begin in house.records(Begin)]
    assert actions[0] == actions[1] != actions[2]
    assert [begin.slot for begin in house.records(Begin)] == [0, 1, 0]


@pytest.mark.parametrize("key", ["order", ["order"], lambda order, cents: order])
def test_key_says_which_arguments_identify_the_action(house, key):
    refund = keyed(house, key=key)

    @house.loop
    async def work(run) -> None:
        await got(refund("A", 1))
        await got(refund("A", 2))

    house.run(work.bind())
    first, second = house.records(Begin)
    assert first.action == second.action
    assert (first.slot, second.slot) == (0, 1)
    assert first.args != second.args or first.args == "" != second.args


class Client:
    """A client that cannot be journaled."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_local_parameters_are_no_part_of_the_key_and_never_journaled(house):
    @house.tool(effect=Effect.KEYED)
    def refund(client: Local[Client], order: str, *, idempotency_key: str = INJECTED) -> str:
        return house.note(f"{client.name} {order} {idempotency_key}") and client.name

    @house.loop
    async def work(run) -> list[str]:
        return [await got(refund(Client("one"), "A")), await got(refund(Client("two"), "A"))]

    assert house.run(work.bind()).unwrap() == ["one", "two"]
    first, second = house.records(Begin)
    assert first.action == second.action
    assert first.call == 'refund(order="A")'


def test_a_methods_self_is_no_part_of_the_key(house):
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        def refund(self, order: str) -> str:
            return f"{self.name} {order}"

    Shop.refund = house.tool(Shop.refund)
    left, right = Shop("left"), Shop("right")

    @house.loop
    async def work(run) -> list[str]:
        return [await got(left.refund("A")), await got(right.refund("A"))]

    assert house.run(work.bind()).unwrap() == ["left A", "right A"]
    assert len({begin.action for begin in house.records(Begin)}) == 1


def test_a_key_sent_by_the_caller_is_refused(house):
    refund = keyed(house)

    @house.loop
    async def work(run) -> str:
        try:
            return await got(refund("A", idempotency_key="mine"))
        except TypeError as error:
            return str(error)

    assert house.run(work.bind()).unwrap() == "refund() fills in 'idempotency_key' itself; leave it out of the call"
    assert house.done == []


def test_arguments_that_were_changed_before_the_call_was_awaited_are_not_sent(async_house):
    house = async_house

    @house.tool
    async def pay(order: dict) -> str:
        house.note(str(order))
        return "paid"

    @house.loop
    async def work(run) -> str:
        order = {"cents": 1}
        call = pay(order)
        order["cents"] = 999
        try:
            return await call
        except StepFailed as error:
            return error.failure.reason

    receipt = house.run(work.bind())
    assert (receipt.unwrap(), house.done, receipt.asks) == ("arguments.changed", [], [])


def test_what_a_tool_made_of_its_arguments_does_not_reach_the_next_attempt(house):
    @house.tool(effect=Effect.KEYED)
    def pay(lines: list[str], *, idempotency_key: str = INJECTED) -> str:
        lines.append("more")
        house.note(str(len(lines)))
        raise refused()

    @house.loop
    async def work(run) -> str:
        try:
            return await got(pay(["one"]))
        except StepFailed as error:
            return error.failure.reason

    assert house.run(work.bind()).unwrap() == "arguments.changed"
    assert house.done == ["2"]
