"""Observers see each record once it is written, and never decide about a run."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.house import House, got
from yaoki import AsyncRun, AsyncRunner, Effect, Run, Runner, loop, tool
from yaoki.records import Begin, Claimed, Ended, Hold, Parked, Settle, Signal, State, Value


@tool(effect=Effect.READ_ONLY)
def look(i: int) -> int:
    return i


@tool(effect=Effect.READ_ONLY)
async def look_async(i: int) -> int:
    return i


@tool
def charge() -> str:
    raise ConnectionResetError


@loop
def work(run: Run) -> int:
    return look(1)


@loop
async def work_async(run: AsyncRun) -> int:
    return await look_async(1)


@loop
def doubtful(run: Run) -> str:
    return charge()


def drive(kind: str, store: str, observers: list) -> State:
    if kind == "sync":
        with Runner(store, observers=observers) as runner:
            return runner.run(work.bind(), run_id="r").status

    async def go() -> State:
        async with AsyncRunner(store, observers=observers) as runner:
            return (await runner.run(work_async.bind(), run_id="r")).status

    return asyncio.run(go())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_observer_sees_every_record_in_order(kind, tmp_path):
    seen = []
    assert drive(kind, f"sqlite:///{tmp_path}/y.db", [seen.append]) is State.COMPLETED
    assert [type(event.record) for event in seen] == [Claimed, Begin, Settle, Ended]
    assert {event.run_id for event in seen} == {"r"}
    with Runner.verbs(f"sqlite:///{tmp_path}/y.db") as verbs:
        assert [entry.record for entry in verbs.journal("r")] == [event.record for event in seen]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_observer_that_raises_changes_nothing_and_the_others_still_see(kind, tmp_path, caplog):
    seen = []

    def broken(event) -> None:
        raise ZeroDivisionError

    assert drive(kind, f"sqlite:///{tmp_path}/y.db", [broken, seen.append]) is State.COMPLETED
    assert len(seen) == 4
    assert "an observer raised" in caplog.text


def test_on_wait_is_told_once_when_a_run_is_left_waiting(tmp_path):
    told = []
    with Runner(f"sqlite:///{tmp_path}/y.db", on_wait=told.append) as runner:
        runner.run(doubtful.bind(), run_id="r")
        runner.run(doubtful.bind(), run_id="r")
    assert [receipt.run_id for receipt in told] == ["r"]
    assert told[0].asks[0].text == "did charge() happen?"


# --- a worker's runs, and those that wait for signals


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path):
    return House(request.param, tmp_path)


def signalled(house: House):
    step = house.tool(lambda what: what, effect=Effect.READ_ONLY, name="step")

    @house.loop(name="signalled")
    async def signalled(run, n: int) -> object:
        await got(step(n))
        return await got(run.wait_signal("go", timeout_s=3600 if n else None))

    return signalled


def served(house: House, loop, **options) -> None:
    if house.is_async:
        house.drive(lambda runner: runner.work(loop, until="idle", concurrency=2), **options)
        return
    with Runner(house.url, clock=house.clock, **options) as runner:
        runner.work(loop, until="idle", concurrency=2)


def test_of_a_worker_they_see_what_it_writes_of_each_run_and_nothing_twice(house):
    loop, seen, told = signalled(house), [], []
    options = {"observers": [seen.append], "on_wait": told.append}
    with Runner(house.url, clock=house.clock, submits_only=True) as runner:
        for n in range(2):
            runner.store.create(f"r{n}", loop="signalled", input=loop.bind(n).data)
    served(house, loop, **options)
    assert sorted((receipt.run_id, receipt.waits_for) for receipt in told) == [("r0", "signal"), ("r1", "signal")]
    assert {receipt.next_action for receipt in told} == {"yaoki signal r0 go VALUE", "yaoki signal r1 go VALUE"}
    told.clear()
    served(house, loop, **options)
    assert told == [], "nothing has changed since"
    house.outside(lambda verbs: verbs.signal("r0", "go", "sent"))
    house.later(3601)
    served(house, loop, **options)
    assert told == []
    assert {run_id: house.get(run_id).status for run_id in ("r0", "r1")} == {"r0": "completed", "r1": "dead"}
    for run_id in ("r0", "r1"):
        written = [entry.record for entry in house.journal(run_id) if not isinstance(entry.record, Signal)]
        assert [event.record for event in seen if event.run_id == run_id] == written
    kinds = [type(event.record) for event in seen if event.run_id == "r0"]
    assert kinds == [Claimed, Begin, Settle, Hold, Parked, Claimed, Value, Ended]
