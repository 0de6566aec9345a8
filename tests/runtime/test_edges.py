"""Corners where two promises meet: each once went wrong somewhere, here or elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pydantic
import pytest

from tests.runtime.errors import not_found, refused, reset
from tests.runtime.house import House, box, calls, got
from yaoki import (
    INJECTED,
    AsyncRunner,
    Budget,
    DeclarationError,
    Effect,
    Happened,
    Local,
    NotHappened,
    Retry,
    RunBusy,
    Runner,
    loop,
)
from yaoki.records import Ended, Executed, Settle, State

READ = Effect.READ_ONLY


class Client:
    """A client that cannot be journaled."""

    name = "client"


@dataclass
class Order:
    id: str
    cents: int = 0


class Model(pydantic.BaseModel):
    id: str


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


def slow_of(house: House, effect: Effect | None = None):
    @house.tool(effect=effect)
    async def slow(n: int) -> int:
        house.note(f"start {n}")
        await asyncio.sleep(60)
        house.note(f"end {n}")
        return n

    return slow


# --- Local meets everything


def test_a_check_is_given_the_local_parameters_too(house):
    def sent(client: Local[Client], to: str) -> Happened[str] | NotHappened:
        house.note(f"check {client.name} {to}")
        return Happened("found")

    def send(client: Local[Client], to: str) -> str:
        house.note("send")
        raise reset()

    mail = house.tool(check=house.check(sent), name="mail")(send)

    @house.loop
    async def work(run) -> str:
        return await got(mail(Client(), "a@b"))

    assert house.run(work.bind()).unwrap() == "found"
    assert house.done == ["send", "check client a@b"]


def test_effect_scope_and_key_functions_are_given_the_local_parameters_too(house):
    def kind(client: Client, n: int) -> Effect:
        return READ if client.name == "client" else Effect.AT_MOST_ONCE

    @house.tool(effect=kind, scope=lambda client, n: client.name, key=lambda client, n: n)
    def look(client: Local[Client], n: int) -> int:
        return n

    @house.loop
    async def work(run) -> int:
        return await got(look(Client(), 2))

    assert house.run(work.bind()).unwrap() == 2


def test_a_loop_takes_local_parameters(house):
    @house.loop
    async def work(run, client: Local[Client], n: int) -> str:
        return f"{client.name} {n}"

    assert house.run(work.bind(Client(), 3)).unwrap() == "client 3"
    bound = work.with_locals(client=Client()).bind_data(work.bind(Client(), 3).data)
    assert house.run(bound).unwrap() == "client 3"
    with pytest.raises(DeclarationError, match=r"loop work needs client: serve it as work.with_locals"):
        work.bind_data(b'{"n":3}')
    with pytest.raises(DeclarationError, match="'n' is no Local parameter"):
        work.with_locals(n=1)


def test_a_model_cannot_send_a_local_parameter(house):
    @house.tool(effect=READ)
    def look(n: int, client: Local[Client] = None) -> int:
        return n

    @house.loop
    async def work(run) -> str:
        [result] = await got(run.call_tools(box(look), calls(("look", {"n": 1, "client": "x"}))))
        return result.text

    assert "takes no argument 'client'; it takes: n" in house.run(work.bind()).unwrap()


def test_a_models_arguments_come_as_the_tools_types(house):
    @house.tool(effect=READ)
    def look(order: Order, model: Model, ids: set[int]) -> list[str]:
        return [type(order).__name__, type(model).__name__, type(ids).__name__]

    @house.loop
    async def work(run) -> list[str]:
        args = {"order": {"id": "A"}, "model": {"id": "B"}, "ids": [1, 1]}
        [result] = await got(run.call_tools(box(look), calls(("look", args))))
        return result.value

    assert house.run(work.bind()).unwrap() == ["Order", "Model", "set"]


def test_keyword_only_and_variadic_parameters_work(house):
    @house.tool(effect=READ)
    def look(first: int, /, *rest: int, size: int = 1, **more: int) -> list:
        return [first, list(rest), size, more]

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = await got(look(1, 2, 3, size=4, extra=5))
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [1, [2, 3], 4, {"extra": 5}]


# --- doubts that nobody would ask about


def test_a_doubt_left_behind_by_a_cancelled_sibling_is_asked_about(async_house):
    """G6: map cancels the siblings of a branch that raised; an effect among them may have happened."""
    house = async_house
    slow = slow_of(house)

    @house.loop
    async def work(run) -> str:
        async def one(n):
            if n == 0:
                return await slow(0)
            await run.sleep(5)
            raise ValueError("in a branch")

        try:
            await run.map(one, [0, 1])
        except ValueError:
            return "went on"
        return ""

    receipt = house.run(work.bind())
    assert house.done == ["start 0"]
    assert [ask.executed for ask in receipt.asks] == [Executed.MAYBE]


def test_an_effect_that_the_loop_did_not_wait_for_is_settled_before_the_run_ends(async_house):
    house = async_house

    @house.tool
    async def send(n: int) -> int:
        await asyncio.sleep(1)
        house.note("sent")
        return n

    left: list = []

    @house.loop
    async def work(run) -> str:
        left.append(asyncio.ensure_future(send(1)))
        await asyncio.sleep(0.5)
        return "out"

    receipt = house.run(work.bind())
    assert receipt.status is State.COMPLETED
    assert house.done == ["sent"]
    assert [s.outcome for s in house.records(Settle)] == ["ok"]
    assert left


def test_wait_for_around_a_step_parks_the_run_like_any_bare_cancel(async_house):
    house = async_house
    slow, step = slow_of(house, READ), step_of(house)

    @house.loop
    async def work(run) -> int:
        try:
            await asyncio.wait_for(slow(1), 5)
        except TimeoutError:
            pass
        return await step(2)

    receipt = house.run(work.bind())
    assert receipt.waits_for == "code"
    assert "Use run.timeout(seconds)" in receipt.text
    assert house.done == ["start 1"]


def test_a_bare_cancel_after_which_nothing_follows_is_not_forgotten(async_house):
    """The effect may have happened, and the loop returns without another step."""
    house = async_house
    slow = slow_of(house)

    @house.loop
    async def work(run) -> str:
        try:
            async with asyncio.timeout(5):
                await slow(1)
        except TimeoutError:
            pass
        return "out"

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING


# --- redrive meets every end


def test_a_run_capped_by_its_turns_goes_on_after_a_redrive_with_more(house):
    def made(turns: int):
        step = step_of(house)

        @house.loop(name="work", budget=Budget(turns=turns))
        async def work(run) -> list[int]:
            async for items in house.turns(run, []):
                items.append(await got(step(len(items))))
                if len(items) == 4:
                    break
            return items

        return work

    receipt = house.run(made(2).bind())
    assert (receipt.status, receipt.partial) == (State.CAPPED, [0, 1])
    house.redrive()
    receipt = house.run(made(9).bind())
    assert (receipt.status, receipt.value) == (State.COMPLETED, [0, 1, 2, 3])
    assert house.done == ["step 0", "step 1", "step 2", "step 3"]


def test_a_run_capped_by_its_calls_goes_on_after_a_redrive_with_more(house):
    def made(count: int):
        step = step_of(house)

        @house.loop(name="work", budget=Budget(calls=count, on_empty="cap"))
        async def work(run) -> int:
            return sum([await got(step(n)) for n in range(4)])

        return work

    assert house.run(made(2).bind()).status is State.CAPPED
    house.redrive()
    assert house.run(made(4).bind()).unwrap() == 6
    assert house.done == ["step 0", "step 1", "step 2", "step 3"]


def test_a_run_that_its_own_code_ended_goes_on_after_a_redrive_with_better_code(house):
    def made(good: bool):
        step = step_of(house)

        @house.loop(name="work")
        async def work(run) -> int:
            found = await got(step(1))
            if not good:
                raise ValueError("a bug")
            return found

        return work

    assert house.run(made(good=False).bind()).status is State.DEAD
    house.redrive()
    assert house.run(made(good=True).bind()).unwrap() == 1
    assert house.done == ["step 1"]


def test_a_run_dead_by_crashes_has_a_new_ladder_after_a_redrive(house):
    @house.tool(effect=READ)
    def bad() -> int:
        if house.note("bad") <= 3:
            house.kill()
        return 1

    @house.loop(crashes_max=3)
    async def work(run) -> int:
        return await got(bad())

    for _ in range(3):
        assert house.die(work.bind()) == -9
    assert house.run(work.bind()).stopped_by == "crashes"
    house.redrive()
    assert house.run(work.bind()).unwrap() == 1
    assert len(house.done) == 4


def test_an_effect_whose_value_was_lost_is_not_sent_again_by_a_redrive(house):
    @house.tool
    def send() -> int:
        house.note("send")
        return "no int"  # type: ignore[return-value]

    @house.loop
    async def work(run) -> int:
        return await got(send())

    house.run(work.bind())
    house.answer("abort")
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["send"]


def test_a_redrive_after_a_failed_last_attempt_in_doubt_keeps_a_keyed_calls_key(house):
    @house.tool(effect=Effect.KEYED, retry=Retry(attempts_max=2))
    def pay(*, idempotency_key: str = INJECTED) -> str:
        house.note(idempotency_key)
        if len(house.done) <= 2:
            raise reset()
        return "paid"

    @house.loop
    async def work(run) -> str:
        return await got(pay())

    house.run(work.bind())
    house.answer("abort")
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    receipt = house.run(work.bind())
    if receipt.status is State.WAITING:
        house.answer("not-happened")
        receipt = house.run(work.bind())
    assert receipt.unwrap() == "paid"
    assert len(set(house.done)) == 1


def test_what_is_journaled_of_an_earlier_end_stays(house):
    @house.tool(effect=READ, retry=Retry.never)
    def look() -> int:
        if house.note("look") == 1:
            raise not_found()
        return 1

    @house.loop
    async def work(run) -> int:
        return await got(look())

    house.run(work.bind())
    house.redrive()
    receipt = house.run(work.bind())
    assert receipt.unwrap() == 1
    assert [ended.state for ended in house.records(Ended)] == ["dead", "completed"]
    assert [m.healed for m in receipt.failures] == [True]
    assert receipt.failure is None
    assert receipt.step == ""


# --- several runs in one process


def test_many_runs_share_an_async_runner(async_house):
    house = async_house
    slow = slow_of(house, READ)

    @house.loop
    async def work(run, n: int) -> int:
        return await slow(n)

    async def together(runner: AsyncRunner):
        return await asyncio.gather(*[runner.run(work.bind(n), run_id=f"r{n}") for n in range(20)])

    receipts = house.drive(together)
    assert [receipt.unwrap() for receipt in receipts] == list(range(20))
    assert 60 <= house.clock.passed_s < 62


def test_a_run_is_driven_once_at_a_time_in_one_runner(async_house):
    house = async_house
    slow = slow_of(house, READ)

    @house.loop
    async def work(run) -> int:
        return await slow(1)

    async def twice(runner: AsyncRunner):
        return await asyncio.gather(*[runner.run(work.bind(), run_id="r") for _ in range(2)], return_exceptions=True)

    first, second = house.drive(twice)
    assert first.unwrap() == 1
    assert isinstance(second, RunBusy)
    assert house.done == ["start 1", "end 1"]


def test_one_run_that_waits_does_not_hold_up_another(async_house):
    house = async_house
    step = step_of(house)

    @house.tool
    async def charge(n: int) -> int:
        raise reset()

    @house.loop
    async def asks(run) -> int:
        return await charge(1)

    @house.loop
    async def works(run) -> int:
        await run.sleep(5)
        return await step(1)

    async def together(runner: AsyncRunner):
        return await asyncio.gather(runner.run(asks.bind(), run_id="a"), runner.run(works.bind(), run_id="b"))

    first, second = house.drive(together)
    assert (first.status, second.status) == (State.WAITING, State.COMPLETED)


def test_a_run_that_breaks_does_not_break_its_neighbour(async_house):
    house = async_house
    step = step_of(house)

    @house.loop
    async def breaks(run) -> int:
        raise ValueError("no")

    @house.loop
    async def works(run) -> int:
        await run.sleep(1)
        return await step(1)

    async def together(runner: AsyncRunner):
        return await asyncio.gather(runner.run(breaks.bind(), run_id="a"), runner.run(works.bind(), run_id="b"))

    first, second = house.drive(together)
    assert (first.status, second.status) == (State.DEAD, State.COMPLETED)


# --- options that cannot work


@pytest.mark.parametrize("options", [{"park_after_s": -1}, {"drain_s": float("nan")}])
@pytest.mark.parametrize("kind", [Runner, AsyncRunner])
def test_a_runner_that_cannot_work_is_refused(tmp_path, kind, options):
    with pytest.raises(DeclarationError, match="it is not negative"):
        kind(f"sqlite:///{tmp_path}/s.db", **options)


@pytest.mark.parametrize("run_id", ["x" * 201, "a\nb"])
def test_a_run_id_that_cannot_work_is_refused(house, run_id):
    @house.loop
    async def work(run) -> int:
        return 1

    with pytest.raises(DeclarationError):
        house.run(work.bind(), run_id)


def test_a_loop_that_does_not_take_its_arguments_says_so_at_bind():
    @loop
    def work(run, n: int) -> int:
        return n

    with pytest.raises(TypeError, match=r"work\(\) missing a required argument: 'n'"):
        work.bind()
    with pytest.raises(TypeError, match="too many positional arguments"):
        work.bind(1, 2)


# --- branches meet exceptions and questions


def test_a_branch_that_raises_while_another_waits_for_a_person_ends_the_map(house):
    @house.tool
    def charge() -> int:
        house.note("charge")
        raise reset()

    step = step_of(house)

    async def one(n):
        if n == 0:
            return await got(charge())
        await got(step(n))
        raise ZeroDivisionError("in a branch")

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(one), [0, 1], limit=1))
        except ZeroDivisionError:
            return "went on"
        return ""

    receipt = house.run(work.bind())
    assert len(receipt.asks) == 1
    assert house.done == ["charge", "step 1"]


def test_a_scope_in_a_branch_is_a_branch_of_it(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        async def one(n):
            with run.scope("inner"):
                found = await got(step(n))
            return found + await got(step(n))

        found = sum(s.value for s in await got(run.map(house.fn(one), [1, 2])))
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == 6
    assert len(house.done) == 6


def test_a_failed_step_in_a_scope_leaves_the_scope_like_any_exception(house):
    @house.tool(effect=READ, retry=Retry.never)
    def look() -> int:
        raise refused()

    step = step_of(house)

    @house.loop
    async def work(run) -> int:
        try:
            with run.scope("a"):
                await got(look())
        except Exception:
            return await got(step(1))
        return 0

    assert house.run(work.bind()).unwrap() == 1


def test_the_answers_a_tool_gives_a_model_survive_a_death_in_the_middle_of_its_calls(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note(f"look {n}")
        if n == 2 and house.done.count("look 2") == 1:
            house.kill()
        return n

    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(look), calls(*[("look", {"n": n}) for n in range(4)]), limit=1))
        return [r.value for r in results]

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [0, 1, 2, 3]
    assert house.done.count("look 0") == house.done.count("look 1") == 1
