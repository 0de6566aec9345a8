"""run.notes: what failed and has not succeeded since, as one bounded message, the same on replay."""

from __future__ import annotations

import contextlib
import signal

import pytest

from tests.runtime.errors import not_found
from tests.runtime.house import House, got
from yaoki import Effect, StepFailed
from yaoki.records import State


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path) -> House:
    return House(request.param, tmp_path)


def test_nothing_failed_nothing_is_noted(house):
    @house.loop
    async def work(run):
        return run.notes()

    assert house.run(work.bind()).value == ""


def test_a_call_is_noted_until_an_equal_one_succeeds(house):
    @house.tool(effect=Effect.READ_ONLY)
    def charge(x: int) -> str:
        if house.note(f"charge {x}") == 1:
            raise not_found()
        return "ok"

    @house.loop
    async def work(run):
        notes: list[str] = []
        for x in (1, 2, 1, 2):
            with contextlib.suppress(StepFailed):
                await got(charge(x))
            notes.append(run.notes())
        return notes

    first, both, second, none = house.run(work.bind()).value
    assert "charge(x=1)" in first
    assert "It did not happen." in first
    assert both.count("\n- ") == 2
    assert "charge(x=1)" not in second
    assert "charge(x=2)" in second
    assert none == ""


def test_it_is_bounded(house):
    @house.tool(effect=Effect.READ_ONLY)
    def charge(x: str) -> str:
        raise not_found()

    @house.loop
    async def work(run):
        for n in range(25):
            with contextlib.suppress(StepFailed):
                await got(charge(f"{n} " + "y" * 5_000))
        return run.notes()

    notes = house.run(work.bind()).value
    assert "(15 more, earlier)" in notes
    assert notes.count("\n- ") == 11
    assert len(notes) < 7_000


def test_a_replay_reads_the_same(house):
    @house.tool(effect=Effect.READ_ONLY)
    def charge(x: int) -> str:
        if house.note("charge") == 1:
            raise not_found()
        return "ok"

    @house.loop
    async def work(run):
        with contextlib.suppress(StepFailed):
            await got(charge(1))
        before = run.notes()
        await got(charge(1))
        if house.note("here") == 1:
            house.kill()
        return [before, run.notes()]

    assert house.die(work.bind()) == -signal.SIGKILL
    receipt = house.run(work.bind())
    assert receipt.status is State.COMPLETED
    before, after = receipt.value
    assert "charge(x=1)" in before
    assert after == ""
