"""`always_replay`: a run is re-entered from its journal at every step, and what it kept elsewhere is lost."""

from __future__ import annotations

import asyncio

import pytest

from yaoki import AsyncRunner, Effect, Runner, loop, tool
from yaoki.records import Claimed, State
from yaoki.testing import World, always_replay


def made(*, is_async: bool):
    """Return a loop of four steps in two branches and a list of how often its body was entered."""
    world, entered = World(), []

    def noted(name: str) -> str:
        return str(world.act("note", name, name))

    if not is_async:
        note = tool(noted, name="note")

        @loop
        def body(run) -> list[str]:
            entered.append(1)
            return [note("a"), *(one.value for one in run.map(note, ["b", "c"])), note("d")]

        return body, world, entered

    async def noted_async(name: str) -> str:
        return noted(name)

    note_async = tool(noted_async, name="note")

    @loop
    async def body_async(run) -> list[str]:
        entered.append(1)
        both = [one.value for one in await run.map(note_async, ["b", "c"])]
        return [await note_async("a"), *both, await note_async("d")]

    return body_async, world, entered


def driven(body, tmp_path):
    """Return the receipt of a run and how often it was claimed."""
    url = f"sqlite:///{tmp_path / 's.db'}"

    async def drive():
        async with AsyncRunner(url) as runner:
            return await runner.run(body.bind(), run_id="r")

    if body.is_async:
        receipt = asyncio.run(drive())
    else:
        with Runner(url) as runner:
            receipt = runner.run(body.bind(), run_id="r")
    with Runner.verbs(url) as runner:
        claims = sum(isinstance(record, Claimed) for _, _, record in runner.journal("r"))
    return receipt, claims


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_every_step_is_met_by_a_body_entered_anew_and_each_effect_happens_once(is_async, tmp_path):
    body, world, entered = made(is_async=is_async)
    with always_replay():
        receipt, claims = driven(body, tmp_path)
    assert receipt.value == ["a", "b", "c", "d"]
    assert set(world.effects().values()) == {1}
    assert claims == len(entered) == 4
    assert (receipt.spent.calls, receipt.restarts) == (4, 0)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_outside_of_the_block_a_run_is_entered_once(is_async, tmp_path):
    body, _, entered = made(is_async=is_async)
    with always_replay():
        pass
    _, claims = driven(body, tmp_path)
    assert claims == len(entered) == 1


def test_a_loop_that_counts_on_what_it_keeps_itself_is_found_out(tmp_path):
    seen: list[str] = []

    @tool(effect=Effect.READ_ONLY)
    def look(name: str) -> str:
        return name

    @loop
    def body(run) -> str:
        seen.append("x")
        look("a")
        return look(f"b{len(seen)}") + look("c")

    with always_replay():
        receipt, _ = driven(body, tmp_path)
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
    assert "b2" in receipt.diff
