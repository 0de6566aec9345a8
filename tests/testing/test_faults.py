"""`faults`: calls fail by plan, before their effect or after it, and the run meets them as it meets real ones."""

from __future__ import annotations

import asyncio

import pytest

from yaoki import INJECTED, AsyncRunner, Effect, Retry, Runner, TerminalError, loop, tool
from yaoki.classify import Executed
from yaoki.errors import DeclarationError
from yaoki.records import State
from yaoki.testing import World, crash_matrix, faults, lost, no_waits, ok, refused, reset, timeout

FIVE = Retry(attempts_max=5)


class Shop:
    """A world, and tools that act on it."""

    def __init__(self) -> None:
        self.world = World()

        @tool(effect=Effect.KEYED, retry=FIVE)
        def charge(cents: int, *, idempotency_key: str = INJECTED) -> str:
            return str(self.world.act("charge", idempotency_key, f"charged {cents}", once=True))

        @tool
        def note(line: str) -> str:
            return str(self.world.act("note", line, f"noted {line}"))

        @loop
        def body(run) -> list[str]:
            return [charge(1), charge(2), note("a")]

        self.charge, self.note, self.body = charge, note, body


def run(body, tmp_path):
    with no_waits(), Runner(f"sqlite:///{tmp_path / 's.db'}") as runner:
        return runner.run(body.bind(), run_id="r")


def test_each_call_meets_the_next_entry_of_its_tools_plan_and_those_after_it_are_made(tmp_path):
    shop = Shop()
    with faults({"charge": [timeout, refused, ok, reset]}) as plan:
        receipt = run(shop.body, tmp_path)
    assert receipt.value == ["charged 1", "charged 2", "noted a"]
    assert [met.failure.reason for met in receipt.failures] == ["timeout", "os.ECONNREFUSED", "os.ECONNRESET"]
    assert [met.failure.executed for met in receipt.failures] == [Executed.MAYBE, Executed.NO, Executed.MAYBE]
    assert sum(shop.world.effects().values()) == 3
    assert plan.left == {}


def test_a_lost_answer_leaves_the_effect_done_and_the_caller_in_doubt(tmp_path):
    shop = Shop()
    with faults({"charge": [lost(reset)], "note": [lost(timeout)]}):
        receipt = run(shop.body, tmp_path)
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert [deed.value for deed in shop.world.deeds()] == ["charged 1", "charged 2", "noted a"]
    assert receipt.spent.calls == 4, "the KEYED one is sent again, with its key; the AT_MOST_ONCE one is not"


def test_an_exception_of_ones_own_is_raised_as_it_is_and_decided_like_any_other(tmp_path):
    shop = Shop()
    with faults({"charge": [TerminalError("key revoked")]}) as plan:
        receipt = run(shop.body, tmp_path)
    assert (receipt.status, receipt.waits_for, receipt.spent.calls) == (State.WAITING, "person", 1)
    assert "key revoked" in receipt.failures[0].failure.message
    assert not shop.world.deeds()
    assert plan.left == {}


def test_what_no_call_has_met_is_left_over(tmp_path):
    with faults({"charge": [ok] * 5, "never": [reset]}) as plan:
        run(Shop().body, tmp_path)
    assert plan.left == {"charge": 3, "never": 1}


def test_a_replayed_step_meets_nothing_and_outside_of_the_block_nothing_fails(tmp_path):
    shop = Shop()
    with faults({"note": [timeout]}):
        assert run(shop.body, tmp_path).status is State.WAITING
    with faults({"charge": [TerminalError("again")]}) as plan:
        assert run(shop.body, tmp_path).status is State.WAITING
    assert plan.left == {"charge": 1}
    (tmp_path / "other").mkdir()
    assert run(shop.body, tmp_path / "other").status is State.COMPLETED


def test_async_tools_fail_by_plan_too(tmp_path):
    world = World()

    @tool(effect=Effect.KEYED, retry=FIVE)
    async def charge(cents: int, *, idempotency_key: str = INJECTED) -> str:
        return str(world.act("charge", idempotency_key, f"charged {cents}", once=True))

    @loop
    async def body(run) -> list[str]:
        return [settled.value for settled in await run.map(charge, [1, 2, 3], limit=2)]

    async def drive():
        async with AsyncRunner(f"sqlite:///{tmp_path / 's.db'}") as runner:
            return await runner.run(body.bind(), run_id="r")

    with no_waits(), faults({"charge": [lost(reset), timeout]}):
        receipt = asyncio.run(drive())
    assert receipt.value == ["charged 1", "charged 2", "charged 3"]
    assert (sum(world.effects().values()), receipt.spent.retries) == (3, 2)


@pytest.mark.timeout(120)
def test_in_a_crash_matrix_a_plan_counts_the_calls_of_all_processes_of_a_case():
    shop = Shop()

    @loop
    def body(run) -> list[str]:
        return [shop.charge(1), shop.charge(2)]

    with faults({"charge": [reset, lost(timeout)]}):
        matrix = crash_matrix(body, world=shop.world)
    assert matrix.kinds["between call and settle"] == 4


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"charge": ["timeout"]}, r"faults: 'timeout' is no fault; give ok, timeout, reset, refused, lost\(…\) or an"),
        ({"charge": [ok] * 10_001}, "faults: the plan for charge has 10,001 calls; 10,000 is the most"),
    ],
)
def test_a_plan_that_is_none_is_refused(plan, said):
    with pytest.raises(DeclarationError, match=said):
        faults(plan)
