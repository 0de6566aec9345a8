"""
Who shares a doubt, whom it is told, and that none ends silently.

The rules: docs/guarantees.md, "The gate" and "Keys and slots".
"""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import refused, reset, status
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, Effect, ForModel, Retry, StepFailed
from yaoki.records import Begin, Executed, Gap, State


def model_loop(house: House, *tools):
    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(*tools), calls((tools[0].name, {"order": "A"}))))
        return [results[0].is_error, results[0].text, str(results[0].failure and results[0].failure.reason)]

    return work


# --- through a model's call


def test_a_skip_is_told_to_a_model_as_unknown(house):
    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    work = model_loop(house, charge)
    assert house.run(work.bind()).status is State.WAITING
    house.answer("skip")
    is_error, text, reason = house.run(work.bind()).unwrap()
    assert is_error
    assert reason == "outcome.unknown"
    assert "unknown" in text
    assert "must not be repeated" in text


@pytest.mark.parametrize("end", ["error", "death"])
def test_unsure_tell_tells_the_model_and_asks_nobody(house, end):
    @house.tool(agent=ForModel(unsure="tell"))
    def charge(order: str) -> str:
        house.note("charge")
        if end == "death":
            house.kill()
        raise reset()

    work = model_loop(house, charge)
    if end == "death":
        assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.asks == []
    assert receipt.unwrap()[::2] == [True, "outcome.unknown"]
    assert house.done == ["charge"]


# --- equal calls share the doubt


def test_an_equal_call_later_waits_on_the_same_question_and_gets_its_answer(house):
    """The first call's doubt is caught by the loop as told; the second is not a second charge."""

    @house.tool(agent=ForModel(unsure="tell"))
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> list:
        found = []
        for _ in range(2):
            try:
                found.append(await got(charge("A")))
            except StepFailed as error:
                found.append(error.failure.reason)
        return found

    receipt = house.run(work.bind())
    assert house.done == ["charge"]
    assert receipt.unwrap()[0] == "outcome.unknown"


def test_equal_parallel_calls_are_two_actions_and_two_questions(house):
    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> list:
        return [r.value for r in await got(run.call_tools(box(charge), calls(*[("charge", {"order": "A"})] * 2)))]

    receipt = house.run(work.bind())
    if house.is_async:
        assert len(house.done) == 2
        assert len(receipt.asks) == 2
    else:
        # Two threads: the second may find the first one's question, and then waits on it.
        assert len(house.done) == len(receipt.asks) in (1, 2)


def test_an_equal_call_joins_an_open_question(async_house):
    """The same call is made again while the first waits: one action, one question, one answer for both."""
    house = async_house

    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.tool(effect=Effect.READ_ONLY)
    async def look() -> None:
        await asyncio.sleep(0.01)

    @house.loop
    async def work(run) -> list:
        first = asyncio.ensure_future(charge("A"))
        await look()
        return [await charge("A"), await first]

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert house.done == ["charge"]
    assert len(receipt.asks) == 1
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap() == ["ch_1", "ch_1"]
    assert house.done == ["charge"]


def test_a_call_that_joined_a_doubt_is_not_a_third_action(async_house):
    """It did not happen: the first is sent again, and whoever waited on the same question shares what comes of it."""
    house = async_house

    @house.tool(effect=Effect.KEYED, retry=Retry.never)
    def charge(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(idempotency_key)
        if len(house.done) == 1:
            raise reset()
        return f"sent {len(house.done)}"

    @house.tool(effect=Effect.READ_ONLY)
    async def look() -> None:
        await asyncio.sleep(0.01)

    @house.loop
    async def work(run) -> list:
        first = asyncio.ensure_future(charge("A"))
        await look()
        return [await charge("A"), await first]

    assert house.run(work.bind()).status is State.WAITING
    house.answer("not-happened", ask="q1")
    assert house.run(work.bind()).unwrap() == ["sent 2", "sent 2"]
    assert len(house.done) == 2
    assert len(set(house.done)) == 1


def test_an_equal_call_in_a_branch_beside_is_its_own_action(house):
    """Two orders of a map may be equal and both meant: one in doubt does not stand for the other."""

    @house.tool(effect=Effect.KEYED, retry=Retry.never)
    def charge(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(idempotency_key)
        if len(house.done) == 1:
            raise reset()
        return f"sent {len(house.done)}"

    async def one(n):
        return await got(charge("A"))

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), [0, 1], limit=1))]

    assert house.run(work.bind()).status is State.WAITING
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap() == ["ch_1", "sent 2"]
    assert len(set(house.done)) == 2


def test_an_equal_call_after_a_skip_gets_the_recorded_answer(house):
    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> list:
        return [await got(charge("A")), await got(charge("A"))]

    house.run(work.bind())
    house.answer("skip")
    receipt = house.run(work.bind())
    assert receipt.unwrap() == [None, None]
    assert house.done == ["charge"]
    assert receipt.status is State.COMPLETED


def test_an_equal_call_after_an_abort_is_not_sent_either(house):
    """Aborted, the action is still in doubt."""

    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> str:
        for _ in range(2):
            try:
                return await got(charge("A"))
            except StepFailed:
                pass
        return "gave up"

    house.run(work.bind())
    house.answer("abort")
    house.run(work.bind())
    assert house.done == ["charge"]


def test_an_action_that_ended_as_no_leaves_its_slot_and_key_to_the_next_equal_call(house):
    @house.tool(effect=Effect.KEYED, retry=Retry.never)
    def charge(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(idempotency_key)
        if len(house.done) == 1:
            raise refused()
        return "ok"

    @house.loop
    async def work(run) -> list:
        found = []
        for _ in range(3):
            try:
                found.append(await got(charge("A")))
            except StepFailed:
                found.append("failed")
        return found

    assert house.run(work.bind()).unwrap() == ["failed", "ok", "ok"]
    assert house.done[0] == house.done[1] != house.done[2]
    assert [begin.slot for begin in house.records(Begin)] == [0, 0, 1]


# --- no doubt ends silently


@pytest.mark.parametrize("bound", ["attempts", "deadline"])
def test_a_keyed_ladder_that_runs_out_in_doubt_asks_whatever_ran_out(house, bound):
    policy = Retry(attempts_max=2) if bound == "attempts" else Retry(deadline_s=5)

    @house.tool(effect=Effect.KEYED, retry=policy)
    def charge(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note("charge")
        raise status(500)

    @house.loop
    async def work(run) -> str:
        return await got(charge("A"))

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.MAYBE


def test_a_doubt_is_strongest_over_all_attempts(house):
    """A later refusal does not undo that an earlier attempt may have happened."""

    @house.tool(effect=Effect.KEYED, retry=Retry(attempts_max=2))
    def charge(order: str, *, idempotency_key: str = INJECTED) -> str:
        if house.note("charge") == 1:
            raise reset()
        raise refused()

    @house.loop
    async def work(run) -> str:
        return await got(charge("A"))

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.MAYBE
    assert len(house.records(Gap)) == 0


def test_a_run_capped_by_its_time_does_not_swallow_a_doubt(house):
    """G6: no doubt ends without a question; the cap waits until somebody says what happened."""
    from yaoki import Budget

    @house.tool(effect=Effect.KEYED)
    def charge(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note("charge")
        raise status(500, retry_after="20")

    @house.loop(budget=Budget(wall_s=10))
    async def work(run) -> str:
        return await got(charge("A"))

    receipt = house.run(work.bind())
    assert [ask.executed for ask in receipt.asks] == [Executed.MAYBE]
    assert receipt.status is State.WAITING


def test_a_question_of_an_earlier_turn_that_expired_is_asked_anew_after_a_redrive(async_house):
    house = async_house

    @house.tool
    async def charge() -> str:
        house.note("charge")
        await asyncio.sleep(50)
        return "ok"

    @house.loop
    async def work(run) -> str:
        async for state in run.turns({"turn": 0}):
            state["turn"] += 1
            if state["turn"] == 2:
                return await charge()
            try:
                async with run.timeout(5):
                    await charge()
            except TimeoutError:
                pass
        return ""

    assert house.run(work.bind()).waits_for == "person"
    house.later(8 * 86_400)
    assert house.run(work.bind()).stopped_by == "question.expired"
    house.redrive()
    receipt = house.run(work.bind())
    assert (receipt.status, [ask.id for ask in receipt.asks]) == (State.WAITING, ["q2"])
    house.answer("happened", "charged")
    assert house.run(work.bind()).unwrap() == "charged"
    assert house.done == ["charge"]


def test_a_call_that_shares_an_answer_goes_on_when_a_timeout_cuts_whom_it_waits_for(async_house):
    house = async_house

    @house.tool(retry=Retry(base_s=80_000, cap_s=80_000, deadline_s=9_000_000))
    async def charge() -> str:
        if (count := house.note("charge")) == 1:
            raise reset()
        if count == 2:
            raise refused()
        return "ok"

    @house.loop
    async def work(run) -> list[str]:
        async def one() -> str:
            with run.scope("one"):
                try:
                    async with run.timeout(2 * 86_400):
                        return await charge()
                except TimeoutError:
                    return "cut"

        async def two() -> str:
            with run.scope("two"):
                await run.sleep(1)
                return await charge()

        tasks = [asyncio.create_task(one()), asyncio.create_task(two())]
        return [await task for task in tasks]

    assert house.run(work.bind()).waits_for == "person"
    house.later(2 * 86_400 - 2_000)
    house.answer("not-happened")
    assert house.run(work.bind()).unwrap() == ["cut", "ok"]
    assert house.done == ["charge"] * 3
