"""
Ctrl-C and other control flow out of a tool: settled, passed through, and nothing lost.

The rules: docs/guarantees.md, "Two questions about a failure".
"""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.house import House, got
from yaoki import Effect, Retry, StepFailed
from yaoki.journal import Journal
from yaoki.records import Begin, Cause, Executed, Settle, State

READ = Effect.READ_ONLY


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


def settles(house: House) -> list[tuple]:
    return [(s.outcome, s.executed, s.cause) for s in house.records(Settle)]


@pytest.mark.parametrize("effect", [READ, None])
def test_ctrl_c_in_a_sync_tool_settles_and_leaves_the_run_pending(sync_house, effect):
    house = sync_house

    @house.tool(effect=effect)
    def send(n: int) -> int:
        if house.note("send") == 1:
            raise KeyboardInterrupt
        return n

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.RUNNER)]
    assert house.get().status is State.PENDING
    receipt = house.run(work.bind())
    if effect is READ:
        assert receipt.unwrap() == 1
    else:
        assert receipt.status is State.WAITING
        assert house.done == ["send"]


def test_ctrl_c_in_a_branch_of_a_map_stops_them_all_and_loses_nothing(sync_house):
    house = sync_house

    @house.tool(effect=READ)
    def look(n: int) -> int:
        if house.note(f"look {n}") == 1 and n == 2:
            raise KeyboardInterrupt
        return n

    async def one(n):
        return await got(look(n))

    @house.loop
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(5), limit=2)))

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert house.get().status is State.PENDING
    assert house.run(work.bind()).unwrap() == 10
    assert house.done.count("look 2") == 2
    assert len(house.done) == 6


def test_ctrl_c_in_an_async_tool_settles_and_leaves_the_run_pending(async_house):
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        house.note("send")
        raise KeyboardInterrupt

    @house.loop
    async def work(run) -> int:
        return await send(1)

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert settles(house) == [("cancelled", Executed.MAYBE, Cause.RUNNER)]
    assert house.get().status is State.PENDING
    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["send"]


def test_a_system_exit_out_of_the_loop_leaves_the_run_pending(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> int:
        found = await got(step(1))
        if house.note("exit") == 1:
            raise SystemExit(3)
        return found

    with pytest.raises(SystemExit):
        house.run(work.bind())
    assert house.get().status is State.PENDING
    assert house.run(work.bind()).unwrap() == 1
    assert house.done.count("step 1") == 1


def test_a_tool_that_raises_cancelled_error_by_itself_is_a_failure_of_its_own(async_house):
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        house.note("send")
        raise asyncio.CancelledError("mine")

    @house.loop
    async def work(run) -> str:
        try:
            await send(1)
        except StepFailed as error:
            return error.failure.reason
        return ""

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.MAYBE
    assert house.done == ["send"]


def test_a_sync_tool_that_raises_cancelled_error_loses_nothing(sync_house):
    house = sync_house

    @house.tool
    def send(n: int) -> int:
        house.note("send")
        raise asyncio.CancelledError("mine")

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    with pytest.raises(asyncio.CancelledError):
        house.run(work.bind())
    assert settles(house)[0][:2] == ("cancelled", Executed.MAYBE)
    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["send"]


@pytest.mark.parametrize("effect", [READ, None])
def test_ctrl_c_between_a_begin_and_its_call_is_known_to_have_sent_nothing(sync_house, effect):
    """Whoever watches is told of the begin, and stops everything there: the call was never made."""
    house = sync_house

    @house.tool(effect=effect)
    def send(n: int) -> int:
        house.note("send")
        return n

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    def stop(event) -> None:
        if isinstance(event.record, Begin):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind(), observers=[stop])
    assert settles(house) == [("cancelled", Executed.NO, Cause.RUNNER)]
    assert house.done == []
    assert house.run(work.bind()).unwrap() == 1
    assert house.done == ["send"]


def test_ctrl_c_between_the_begin_of_a_retry_and_its_call_has_sent_nothing(sync_house):
    house = sync_house
    begun = []

    @house.tool(retry=Retry(base_s=0.1, cap_s=0.1))
    def send(n: int) -> int:
        if house.note("send") == 1:
            raise ConnectionRefusedError(111, "refused")
        return n

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    def stop(event) -> None:
        if isinstance(event.record, Begin):
            begun.append(event.record.attempt)
            if begun == [1, 2]:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind(), observers=[stop])
    assert settles(house)[1:] == [("cancelled", Executed.NO, Cause.RUNNER)]
    assert house.run(work.bind()).unwrap() == 1
    assert house.done == ["send", "send"]


def test_ctrl_c_while_a_begin_is_synced_has_sent_nothing(sync_house, monkeypatch):
    house = sync_house

    @house.tool
    def send(n: int) -> int:
        house.note("send")
        return n

    @house.loop
    async def work(run) -> int:
        return await got(send(1))

    synced = Journal.sync
    stops = [True]

    def interrupted(journal: Journal) -> None:
        if stops:
            stops.clear()
            raise KeyboardInterrupt
        synced(journal)

    monkeypatch.setattr(Journal, "sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert settles(house) == [("cancelled", Executed.NO, Cause.RUNNER)]
    assert house.run(work.bind()).unwrap() == 1
    assert house.done == ["send"]
