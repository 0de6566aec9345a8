"""G5: No budget is overspent by more than calls in flight could not know; no restart refunds one."""

from __future__ import annotations

import threading

import pytest

from tests.guarantees.colours import Hand, begins, both, settles
from tests.guarantees.lives import Lives
from yaoki import AsyncRunner, Budget, Effect, ForModel, Retry, Runner, loop, tool
from yaoki.records import State
from yaoki.testing import no_waits


def failing_tool(colour, asked, **policy):
    def fail(name: str) -> None:
        asked.append(name)
        raise ConnectionResetError(104, "reset")

    return colour.tool(fail, effect=Effect.READ_ONLY, **policy)


def fan(colour, tool_, names):
    def branch(name):
        return (yield tool_(name))

    def body(run):
        settled = yield run.map(colour.body(branch), names, limit=len(names))
        return [one.ok for one in settled]

    return body


@both
def test_calls_of_processes_that_died_stay_spent(tmp_path, colour):
    lives = Lives(tmp_path, "three_calls", colour)
    assert [lives.live() for _ in range(3)] == [None] * 3
    for _ in range(2):
        receipt = lives.live()
        assert (receipt.status, receipt.waits_for, receipt.spent.calls) == (State.WAITING, "budget", 3)
    assert lives.world.asked("look") == 3


@both
def test_retries_of_processes_that_died_stay_spent(tmp_path, colour):
    lives = Lives(tmp_path, "two_retries", colour)
    assert [lives.live() for _ in range(3)] == [None] * 3
    receipt = lives.live()
    assert (receipt.status, receipt.spent.retries) == (State.DEAD, 2)
    assert lives.world.asked("look") == 3


@both
@no_waits
def test_parallel_branches_do_not_overspend_calls(tmp_path, colour):
    asked: list[str] = []
    barrier = threading.Event()

    def look(name: str) -> str:
        asked.append(name)
        barrier.wait(0.01)
        return name

    looking = colour.tool(look, effect=Effect.READ_ONLY)
    body = fan(colour, looking, [str(n) for n in range(10)])
    bound = colour.loop(body, name="body", budget=Budget(calls=4, on_empty="cap")).bind()
    receipt = colour.run(tmp_path / "s.db", bound)
    assert (receipt.status, receipt.stopped_by, receipt.spent.calls) == (State.CAPPED, "budget.calls", 4)
    assert len(asked) == len(begins(tmp_path / "s.db")) == 4


@both
@no_waits
def test_fifty_parallel_steps_on_a_budget_of_ten_calls_make_ten(tmp_path, colour):
    asked: list[str] = []

    def look(name: str) -> None:
        asked.append(name)

    looking = colour.tool(look, effect=Effect.READ_ONLY)
    body = fan(colour, looking, [str(n) for n in range(50)])
    bound = colour.loop(body, name="body", budget=Budget(calls=10)).bind()
    receipt = colour.run(tmp_path / "s.db", bound)
    assert (receipt.status, receipt.waits_for, receipt.spent.calls) == (State.WAITING, "budget", 10)
    assert len(asked) == 10


@both
@no_waits
def test_parallel_calls_that_reserve_what_they_use_spend_no_token_more_than_there_are(tmp_path, colour):
    asked: list[str] = []

    def ask(name: str) -> int:
        asked.append(name)
        return 30

    metered = ForModel(usage=lambda used: {"tokens": used}, reserve={"tokens": 30})
    asking = colour.tool(ask, effect=Effect.READ_ONLY, agent=metered)
    body = fan(colour, asking, [str(n) for n in range(20)])
    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body", budget=Budget(tokens=100)).bind())
    assert (receipt.status, receipt.waits_for, receipt.spent.tokens) == (State.WAITING, "budget", 90)
    assert len(asked) == 3


@both
@no_waits
def test_parallel_calls_that_reserve_nothing_overspend_by_those_in_flight_alone(tmp_path, colour):
    """Four at once, each 60 of 100: when the second settles, the budget is empty; those begun by then may end."""
    asked: list[str] = []

    def ask(name: str) -> int:
        asked.append(name)
        return 60

    asking = colour.tool(ask, effect=Effect.READ_ONLY, agent=ForModel(usage=lambda used: {"tokens": used}))

    def branch(name):
        return (yield asking(name))

    def body(run):
        settled = yield run.map(colour.body(branch), [str(n) for n in range(20)], limit=4)
        return len(settled)

    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body", budget=Budget(tokens=100)).bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "budget")
    assert receipt.spent.tokens == 60 * len(asked) <= 60 * (2 + 3)


@both
@no_waits
def test_parallel_branches_do_not_overspend_retries(tmp_path, colour):
    asked: list[str] = []
    failing = failing_tool(colour, asked)
    bound = colour.loop(fan(colour, failing, ["a", "b", "c", "d"]), name="body", budget=Budget(retries=5)).bind()
    receipt = colour.run(tmp_path / "s.db", bound)
    assert receipt.value == [False] * 4
    assert receipt.spent.retries == 5
    assert len(asked) == 4 + 5


@both
@no_waits
def test_parallel_branches_do_not_overspend_the_time_to_wait_for_retries(tmp_path, colour):
    asked: list[str] = []
    failing = failing_tool(colour, asked, retry=Retry(base_s=1, cap_s=1))
    budget = Budget(retry_wait_s=2.0)
    receipt = colour.run(
        tmp_path / "s.db", colour.loop(fan(colour, failing, ["a", "b", "c", "d"]), name="body", budget=budget).bind()
    )
    waited_ms = sum(one.decision.wait_ms for one in settles(tmp_path / "s.db") if one.decision)
    assert receipt.spent.retry_wait_s == pytest.approx(waited_ms / 1000)
    assert 0 < waited_ms <= 2_000


@both
@no_waits
def test_no_restart_refunds_retries_or_their_waits(tmp_path, colour):
    asked: list[int] = []

    def fail() -> None:
        asked.append(1)
        if len(asked) % 2:
            raise ConnectionResetError(104, "reset")
        raise KeyboardInterrupt

    failing = colour.tool(fail, effect=Effect.READ_ONLY, retry=Retry(attempts_max=50, base_s=1))

    def body(run):
        yield failing()

    store = tmp_path / "s.db"
    bound = colour.loop(body, name="body", budget=Budget(retries=4)).bind()
    before = 0
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            colour.run(store, bound)
    receipt = colour.run(store, bound)
    assert receipt.status is State.DEAD
    assert receipt.spent.retries == 4
    assert len(asked) == 5
    assert receipt.spent.retry_wait_s >= before


def test_turns_used_up_end_a_run_capped_with_what_it_returned_and_no_restart_gives_one_back(tmp_path):
    asked: list[int] = []

    @tool(effect=Effect.READ_ONLY)
    def look(turn: int) -> int:
        asked.append(turn)
        if asked.count(turn) == 1:
            raise KeyboardInterrupt
        return turn

    @loop(budget=Budget(turns=3))
    def body(run) -> str:
        for seen in run.turns([0]):
            seen.append(look(len(seen)))
        return "not yet"

    for _ in range(3):
        with Runner(f"sqlite:///{tmp_path / 's.db'}") as runner, pytest.raises(KeyboardInterrupt), no_waits():
            runner.run(body.bind(), run_id="r")
    with Runner(f"sqlite:///{tmp_path / 's.db'}") as runner, no_waits():
        receipt = runner.run(body.bind(), run_id="r")
    assert (receipt.status, receipt.stopped_by, receipt.partial) == (State.CAPPED, "budget.turns", "not yet")
    assert receipt.spent.turns == 3
    assert asked == [1, 1, 2, 2, 3, 3]


@no_waits
async def capped_by_turns(store: str):
    @tool(effect=Effect.READ_ONLY)
    async def look(turn: int) -> int:
        return turn

    @loop(budget=Budget(turns=3))
    async def body(run) -> list[int]:
        last: list[int] = []
        async for seen in run.turns([0]):
            seen.append(await look(len(seen)))
            last = list(seen)
        return last

    async with AsyncRunner(store) as runner:
        return await runner.run(body.bind(), run_id="r")


def test_turns_used_up_end_an_async_run_too(tmp_path):
    import asyncio

    receipt = asyncio.run(capped_by_turns(f"sqlite:///{tmp_path / 's.db'}"))
    assert (receipt.status, receipt.partial) == (State.CAPPED, [0, 1, 2, 3])


@both
@no_waits
def test_time_counts_sleep_and_downtime_but_not_waiting_for_a_person(tmp_path, colour):
    clock = Hand()
    asked: list[str] = []

    def note(what: str) -> str:
        asked.append(what)
        clock.ms += 10_000
        raise ConnectionResetError(104, "reset")

    noting = colour.tool(note)

    def body(run):
        yield noting("a")
        yield noting("b")

    from tests.guarantees.colours import RUN, url_of

    store = tmp_path / "s.db"
    bound = colour.loop(body, name="body", budget=Budget(wall_s=60)).bind()
    assert colour.run(store, bound, clock=clock).status is State.WAITING
    clock.ms += 3_600_000  # an hour until somebody answers
    with Runner.verbs(url_of(store)) as runner:
        runner._clock = clock
        runner.store._clock = clock
        runner.answer(RUN, "q1", "skip")
    assert colour.run(store, bound, clock=clock).status is State.WAITING
    assert asked == ["a", "b"]
    receipt = colour.run(store, bound, clock=clock)
    assert receipt.spent.wall_s == pytest.approx(20, abs=1)


@both
@no_waits
def test_time_used_up_by_processes_that_are_gone_caps_the_run_at_its_next_step(tmp_path, colour):
    clock = Hand()
    asked: list[str] = []

    def look(what: str) -> str:
        asked.append(what)
        clock.ms += 40_000
        if what == "b":
            raise KeyboardInterrupt
        return what

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        return [(yield looking("a")), (yield looking("b")), (yield looking("c"))]

    store = tmp_path / "s.db"
    bound = colour.loop(body, name="body", budget=Budget(wall_s=60)).bind()
    with pytest.raises(KeyboardInterrupt):
        colour.run(store, bound, clock=clock)
    receipt = colour.run(store, bound, clock=clock)
    assert (receipt.status, receipt.stopped_by) == (State.CAPPED, "budget.wall_s")
    assert asked == ["a", "b"]
