"""Observers see each record once it is written, and never decide about a run."""

from __future__ import annotations

import asyncio

import pytest

from yaoki import AsyncRun, AsyncRunner, Effect, Run, Runner, loop, tool
from yaoki.records import Begin, Claimed, Ended, Settle, State


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
