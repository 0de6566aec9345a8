"""What an equal call of a later turn, or of a later pass, is given (docs/guarantees.md, "Keys")."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import not_found
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, Effect, ForModel, Retry, StepFailed
from yaoki.records import Begin, Executed, State

READ = Effect.READ_ONLY
KEYED = Effect.KEYED
UNKNOWN = "the outcome is unknown"


def two_turns(house: House, *tools, first: list, second: list):
    """Make a loop of a model's calls in turn 1, then in turn 2, whose texts are the value."""
    known = box(*tools)

    @house.loop
    async def work(run):
        async for state in house.turns(run, [0]):
            state[0] += 1
            wanted = first if state[0] == 1 else second
            texts = [one.text for one in await got(run.call_tools(known, calls(*wanted)))]
            if state[0] == 2:
                break
        return texts

    return work


# --- a later turn


@pytest.mark.parametrize("verdict", ["skip", "abort"])
@pytest.mark.parametrize("effect", [Effect.AT_MOST_ONCE, KEYED])
def test_what_an_earlier_turn_left_in_doubt_is_not_sent_again_from_another_place_among_the_calls(
    house, effect, verdict
):
    """The earlier turn's call stood second, the later one's stands first: it is the later call all the same."""

    def charge(x: int, *, idempotency_key: str = INJECTED) -> str:
        house.note("charge")
        raise TimeoutError("read timeout")

    charging = house.tool(charge, effect=effect, retry=Retry.never)

    @house.tool(effect=READ)
    def look(x: int) -> str:
        return "seen"

    work = two_turns(
        house, charging, look, first=[("look", {"x": 1}), ("charge", {"x": 1})], second=[("charge", {"x": 1})]
    )
    assert house.run(work.bind()).waits_for == "person"
    house.answer(verdict)
    receipt = house.run(work.bind())
    assert receipt.status is State.COMPLETED
    assert UNKNOWN in receipt.value[0]
    assert house.done == ["charge"]


def test_equal_calls_beside_one_another_are_still_their_own_actions(house):
    """Those of one turn: neither comes before the other."""

    @house.tool
    def charge(x: int) -> str:
        if house.note("charge") == 1:
            raise TimeoutError("read timeout")
        return "ok"

    known = box(charge)

    @house.loop
    async def work(run):
        made = await got(run.call_tools(known, calls(("charge", {"x": 1}), ("charge", {"x": 1}))))
        return [one.text for one in made]

    house.run(work.bind())
    house.answer("abort")
    assert house.run(work.bind()).status is State.COMPLETED
    assert house.done == ["charge", "charge"]


# --- after a timeout


def cut_once(house: House, **policy):
    """Make a loop of a call that a `run.timeout` cuts, then an equal one; what became of that is the value."""
    keys: list[str] = []

    async def charge(x: int, *, idempotency_key: str = INJECTED) -> str:
        house.note("charge")
        keys.append(idempotency_key)
        if len(keys) == 1:
            await asyncio.sleep(100)
        return "ok"

    charging = house.tool(charge, **policy)

    @house.loop
    async def work(run):
        try:
            async with run.timeout(5):
                await charging(1)
        except TimeoutError:
            pass
        try:
            return await charging(1)
        except StepFailed as failed:
            return failed.failure.reason

    return work, keys


def test_a_slot_is_free_once_a_person_says_that_what_a_timeout_cut_did_not_happen(async_house):
    work, keys = cut_once(async_house, effect=KEYED)
    assert async_house.run(work.bind()).waits_for == "person"
    async_house.answer("not-happened")
    assert async_house.run(work.bind()).unwrap() == "ok"
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert {begin.slot for begin in async_house.records(Begin)} == {0}


def test_after_a_timeout_an_equal_call_of_a_tool_that_tells_waits_for_nobody(async_house):
    work, keys = cut_once(async_house, agent=ForModel(unsure="tell"))
    receipt = async_house.run(work.bind())
    assert (receipt.unwrap(), receipt.asks) == ("outcome.unknown", [])
    assert len(keys) == 1


def test_a_timeout_that_cut_a_tool_that_tells_is_replayed_as_that_timeout(async_house):
    """What became of the doubt is in the record of the cut; the loop still goes on with its TimeoutError."""

    async def charge(x: int) -> str:
        async_house.note("charge")
        await asyncio.sleep(100)
        return "ok"

    charging = async_house.tool(charge, agent=ForModel(unsure="tell"))

    @async_house.tool(effect=READ)
    def die() -> str:
        if async_house.note("die") == 1:
            async_house.kill()
        return "went on"

    @async_house.loop
    async def work(run):
        try:
            async with run.timeout(5):
                return await charging(1)
        except TimeoutError:
            return await die()

    assert async_house.die(work.bind()) == -9
    assert async_house.run(work.bind()).unwrap() == "went on"
    assert async_house.done.count("charge") == 1


# --- a later pass


@pytest.mark.parametrize("source", ["checkpoint", "start"])
def test_a_keyed_call_that_a_person_aborted_is_not_sent_again_by_a_later_pass(house, source):
    """Its key would allow it; the person's word on this very action does not."""

    def refund(x: int, *, idempotency_key: str = INJECTED) -> str:
        house.note("refund")
        raise TimeoutError("read timeout")

    refunding = house.tool(refund, effect=KEYED, retry=Retry.never)

    @house.tool(effect=READ)
    def look() -> str:
        if house.note("look") == 1:
            raise not_found()
        return "seen"

    @house.loop
    async def work(run):
        try:
            said = await got(refunding(1))
        except StepFailed as failed:
            said = failed.failure.reason
        return [said, await got(look())]

    house.run(work.bind())
    house.answer("abort")
    assert house.run(work.bind()).status is State.DEAD
    house.outside(lambda verbs: verbs.redrive("r", source))
    assert house.run(work.bind()).unwrap() == ["outcome.unknown", "seen"]
    assert house.done.count("refund") == 1


def test_not_happened_holds_for_what_an_earlier_pass_did_too(house):
    """Sent in doubt by two passes; a person says it did not happen; it is refused then: nobody is asked again."""
    errors = [TimeoutError("read timeout"), TimeoutError("read timeout"), not_found()]

    def refund(x: int, *, idempotency_key: str = INJECTED) -> str:
        house.note("refund")
        raise errors.pop(0)

    refunding = house.tool(refund, effect=KEYED, retry=Retry.never)

    @house.loop
    async def work(run):
        return await got(refunding(1))

    house.run(work.bind())
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    house.run(work.bind())
    house.answer("not-happened")
    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.failure.executed is Executed.NO
    assert len(house.done) == 3


@pytest.mark.parametrize("asked", [False, True])
def test_a_later_pass_is_told_of_a_doubt_whose_tool_tells(house, asked):
    """Its process died in the call; nobody is waited for, also where somebody was asked as the run ended."""

    @house.tool(agent=ForModel(unsure="tell"))
    def charge(x: int) -> str:
        if house.note("charge") == 1:
            house.kill()
        return "ok"

    @house.tool(effect=READ)
    def look() -> str:
        return "seen"

    changed = [False]

    @house.loop
    async def work(run):
        if changed[0]:
            return await got(look())
        return (await got(run.try_call(charge, 1))).failure.reason

    assert house.die(work.bind()) == -9
    changed[0] = True
    assert house.run(work.bind()).waits_for == "code"
    if asked:
        house.cancel()
        assert len(house.run(work.bind()).asks) == 1
    changed[0] = False
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    assert house.run(work.bind()).unwrap() == "outcome.unknown"
    assert house.done == ["charge"]


def test_an_orphan_that_a_call_waits_on_is_said_to_be_asked_for(house):
    @house.tool
    def charge(x: int) -> str:
        raise TimeoutError("read timeout")

    @house.loop
    async def work(run):
        return await got(charge(1))

    house.run(work.bind())
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    assert house.get().orphans == ["charge(x=1): may be done in an earlier pass, not asked for in this one"]
    receipt = house.run(work.bind())
    assert receipt.waits_for == "person"
    waits = "charge(x=1): may be done in an earlier pass, an equal call of this one waits for its answer"
    assert receipt.orphans == [waits]
    house.answer("happened", "ok")
    assert house.run(work.bind()).orphans == []
