"""A second call beside a slow one: the first success counts, both are recorded, counted and bounded; in both worlds."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.runtime.errors import reset, status
from tests.runtime.house import House, got
from yaoki import INJECTED, Budget, DeclarationError, Effect, ForModel, Happened, Hedge, Retry, tool
from yaoki.escalate import fallback
from yaoki.records import Begin, Executed, Settle, State
from yaoki.runtime import _hedging, _hedging_async

READ, KEYED = Effect.READ_ONLY, Effect.KEYED
QUICK = Retry(attempts_max=3, base_s=0, cap_s=0)
HANG = object()
KILL = object()


class Pair:
    """
    Makes one hedged tool whose n-th call does as told: a value, an exception, HANG or KILL.

    The first acts once the second has come, or was not to be; the second, where the first raises, once it has.
    """

    def __init__(self, house: House, *does: object) -> None:
        self.house = house
        self.does = does
        self.here = threading.Event()
        self.tried = threading.Event()
        self.released = threading.Event()
        self.first: threading.Thread | asyncio.Task | None = None

    def tool(self, **policy):
        policy = {"effect": READ, "retry": QUICK, "hedge": Hedge(), "name": "ask", **policy}
        if self.house.is_async:
            return tool(**policy)(self.awaited())
        return tool(interrupt="thread", **policy)(self.plain())

    @property
    def keys(self) -> list[str]:
        """What each call sent, in the order they came."""
        return [line.split()[1] for line in self.house.done]

    def plain(self):
        def ask(n: int, *, idempotency_key: str = INJECTED) -> str:
            if not self.here.is_set():
                self.first = threading.current_thread()
            number, does = self.came(idempotency_key)
            if number == 1:
                assert self.tried.wait(20)
            elif number == 2 and isinstance(self.does[0], BaseException):
                self.first.join(20)
            if does is HANG:
                self.released.wait(20)
            return self.act(does)

        return ask

    def awaited(self):
        async def ask(n: int, *, idempotency_key: str = INJECTED) -> str:
            number, does = self.came(idempotency_key)
            if number == 1:
                self.first = asyncio.current_task()
                while not self.tried.is_set():  # noqa: ASYNC110 - set by no task
                    await asyncio.sleep(0)
            elif number == 2 and isinstance(self.does[0], BaseException):
                await asyncio.wait({self.first})
            if does is HANG:
                await asyncio.Event().wait()
            return self.act(does)

        return ask

    def came(self, key: str) -> tuple[int, object]:
        self.house.note(f"call {key}")
        number = len(self.house.done)
        self.here.set()
        if number == 2:
            self.tried.set()
        return number, self.does[number - 1]

    def act(self, does: object) -> str:
        if does is KILL:
            self.house.kill()
        if isinstance(does, BaseException):
            raise does
        return "too late" if does is HANG else str(does)


def at_pace(one) -> None:
    """Let a tool have made twenty calls in no time: the next is slow at once."""
    for _ in range(20):
        one.pace.begun()
        one.pace.took(0.0)


@pytest.fixture
def pair(monkeypatch) -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []
    begin_second = _hedging.begin_second

    def watched(*args):
        assert all(one.here.wait(20) for one in made)
        second = begin_second(*args)
        if second is None:
            for one in made:
                one.tried.set()
        return second

    for module in (_hedging, _hedging_async):
        monkeypatch.setattr(module, "begin_second", watched)

    def make(house: House, *does: object) -> Pair:
        made.append(Pair(house, *does))
        return made[-1]

    yield make
    for one in made:
        one.released.set()


def working(house: House, ask, **policy):
    @house.loop(**policy)
    async def work(run) -> str:
        if not house.done:
            at_pace(ask)
        return await got(ask(1))

    return work


def told(house: House) -> list[tuple[str, str, Executed]]:
    return [
        ("second" if "!" in entry.key else "step", entry.record.outcome, entry.record.executed)
        for entry in house.journal()
        if isinstance(entry.record, Settle)
    ]


@pytest.mark.parametrize("effect", [READ, KEYED])
def test_the_second_call_s_success_counts_and_the_first_is_left(house, pair, effect):
    one = pair(house, HANG, "second")
    receipt = house.run(working(house, one.tool(effect=effect)).bind())
    assert receipt.unwrap() == "second"
    assert told(house) == [("step", "ok", Executed.YES), ("second", "cancelled", Executed.MAYBE)]
    first, second = house.records(Begin)
    assert first.key == second.key
    assert set(one.keys) == {first.key}, "to the receiver it is one action"
    assert (receipt.attempts, receipt.spent.calls, receipt.spent.retries) == (2, 2, 0)
    assert not receipt.asks


def test_the_first_call_s_success_counts_where_it_comes_first(house, pair):
    one = pair(house, "first", HANG)
    assert house.run(working(house, one.tool()).bind()).unwrap() == "first"
    assert told(house) == [("step", "ok", Executed.YES), ("second", "cancelled", Executed.MAYBE)]


def test_one_that_fails_waits_for_the_other_and_its_failure_is_not_lost(house, pair):
    one = pair(house, HANG, reset(), "again")
    ask = one.tool(timeout_s=0.2)
    receipt = house.run(working(house, ask).bind())
    assert receipt.unwrap() == "again", "the attempt timed out, the second call had failed: another attempt"
    assert [met.failure.reason for met in receipt.failures] == ["attempt.timeout", "os.ECONNRESET"]
    assert told(house)[1] == ("second", "failed", Executed.MAYBE)
    assert receipt.first_attempt_failures == 1


def test_a_first_call_that_fails_while_the_second_is_under_way_does_not_fail_the_step(house, pair):
    one = pair(house, reset(), "second")
    receipt = house.run(working(house, one.tool()).bind())
    assert receipt.unwrap() == "second"
    assert [met.failure.reason for met in receipt.failures] == ["os.ECONNRESET"]
    assert told(house) == [("step", "ok", Executed.YES), ("second", "failed", Executed.MAYBE)]


def test_where_both_fail_the_stronger_doubt_is_the_action_s(house, pair):
    """The first was refused; but the second may have acted: no other vendor is asked."""
    one = pair(house, status(401), HANG)
    elsewhere = []

    @house.tool(effect=KEYED)
    def other(n: int, *, idempotency_key: str = INJECTED) -> str:
        elsewhere.append(n)
        return "elsewhere"

    ask = one.tool(effect=KEYED, timeout_s=0.2, escalate=fallback(other), retry=Retry.never)
    receipt = house.run(working(house, ask).bind())
    assert elsewhere == []
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    (question,) = receipt.asks
    assert question.step.endswith("#0"), "asked once, about the step"


def test_no_second_call_before_twenty_were_measured_nor_twice_within_twenty(house, pair):
    one = pair(house, *[f"{n}" for n in range(19)], HANG, "second", *[f"{n}" for n in range(21, 40)], HANG)
    ask = one.tool()

    @house.loop
    async def work(run) -> str:
        one.tried.set()
        for _ in range(19):
            await got(ask(1))
        assert ask.pace.begun() is None, "it is the 20th; but 19 were measured"
        ask.pace.took(0.0)
        last = [await got(ask(1)) for _ in range(20)]
        return last[0]

    assert house.run(work.bind()).unwrap() == "second"
    assert [entry.key for entry in house.journal() if "!" in entry.key and isinstance(entry.record, Begin)] == [
        "1.0//ask#19!hedge.1"
    ]


@pytest.mark.parametrize("budget", [{"calls": 1}, {"tokens": 15}, {"cost_usd": 0.015}])
def test_a_second_call_that_the_budget_has_no_room_for_is_not_made_and_nobody_waits_for_it(house, pair, budget):
    one = pair(house, "first")
    ask = one.tool(agent=ForModel(reserve={"tokens": 10, "cost_usd": 0.01}))
    receipt = house.run(working(house, ask, budget=Budget(**budget)).bind())
    assert receipt.unwrap() == "first"
    assert len(house.records(Begin)) == 1


def test_what_both_calls_reserved_is_counted_and_what_one_reports_takes_the_place_of_its_own(house, pair):
    one = pair(house, HANG, "second")
    ask = one.tool(agent=ForModel(reserve={"tokens": 10, "cost_usd": 0.01}, usage=lambda _: {"tokens": 3}))
    receipt = house.run(working(house, ask, budget=Budget(tokens=100)).bind())
    assert receipt.spent.tokens == 13, "3 were used by the one; the other may have used what it reserved"


def test_beside_a_scope_that_is_paused_meanwhile_no_second_call_is_made(house, pair, monkeypatch):
    one = pair(house, "first")
    ask = one.tool(scope="vendor/model")
    second = _hedging.begin_second

    def paused(live, *args):
        live.journal.pause("me", scope="vendor")
        return second(live, *args)

    for module in (_hedging, _hedging_async):
        monkeypatch.setattr(module, "begin_second", paused)
    assert house.run(working(house, ask).bind()).unwrap() == "first"
    assert len(house.records(Begin)) == 1


def test_what_is_begun_beside_an_attempt_whose_process_dies_is_settled_and_nobody_is_asked(house, pair):
    one = pair(house, HANG, KILL, "again")
    work = working(house, one.tool(effect=KEYED))
    assert house.die(work.bind()) == -signal.SIGKILL
    one.does = (None, None, "again")
    receipt = house.run(work.bind())
    assert receipt.unwrap() == "again"
    assert len(one.keys) == 3
    assert len(set(one.keys)) == 1
    assert not receipt.asks
    assert [met.then for met in receipt.failures] == ["retry", "pass"]
    assert receipt.spent.calls == 3


def test_it_lies_within_the_tool_s_own_declaration():
    def asked(n: int) -> Happened[int]:
        return Happened(n)

    for wrong in ({}, {"effect": Effect.IDEMPOTENT}, {"effect": Effect.AT_MOST_ONCE}, {"check": asked}):
        with pytest.raises(DeclarationError, match="Only READ_ONLY and KEYED tools can be hedged"):

            @tool(hedge=Hedge(), interrupt="thread", **wrong)
            def ask(n: int) -> int:
                return n


def test_a_plain_tool_is_hedged_in_threads_alone():
    with pytest.raises(DeclarationError, match='Add interrupt="thread"'):

        @tool(hedge=Hedge(), effect=READ)
        def ask(n: int) -> int:
            return n


def test_of_an_effect_by_its_arguments_only_those_calls_are_hedged_that_may_be(house, pair):
    one = pair(house, "first")
    one.tried.set()
    ask = one.tool(effect=lambda n: Effect.AT_MOST_ONCE)
    assert house.run(working(house, ask).bind()).unwrap() == "first"
    assert len(house.records(Begin)) == 1


def test_a_run_timeout_cuts_both_calls_and_leaves_no_question(async_house, pair):
    house = async_house
    one = pair(house, HANG, HANG)
    ask = one.tool()

    @house.loop
    async def work(run) -> str:
        at_pace(ask)
        try:
            async with run.timeout(5):
                return await ask(1)
        except TimeoutError:
            return "cut"

    receipt = house.run(work.bind())
    assert receipt.unwrap() == "cut"
    assert told(house) == [("step", "cancelled", Executed.MAYBE), ("second", "cancelled", Executed.MAYBE)]
    assert not receipt.asks


@pytest.mark.parametrize("does", [(KeyboardInterrupt(), HANG), (HANG, KeyboardInterrupt())], ids=["first", "second"])
def test_control_flow_out_of_either_passes_at_once(house, pair, does):
    one = pair(house, *does)
    work = working(house, one.tool())
    with pytest.raises(KeyboardInterrupt):
        house.run(work.bind())
    assert told(house) == [("step", "cancelled", Executed.MAYBE), ("second", "cancelled", Executed.MAYBE)]
    assert house.get().status is State.PENDING


def test_outside_a_run_there_is_one_call(pair):
    calls = []

    @tool(hedge=Hedge(), effect=READ, interrupt="thread")
    def ask(n: int) -> int:
        calls.append(n)
        return n

    at_pace(ask)
    assert ask(1) == 1
    assert calls == [1]
