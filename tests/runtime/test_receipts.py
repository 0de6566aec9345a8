"""The receipt of every end: its fields, what unwrap says, and that nothing that failed is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pydantic
import pytest

from tests.runtime.errors import not_found, refused, reset, status
from tests.runtime.house import House, got
from yaoki import Budget, Effect, Retry, RunFailed, RunNotFound, RunWaiting, StepFailed
from yaoki.escalate import abort, ask, dead_letter
from yaoki.records import Executed, State

READ = Effect.READ_ONLY


@dataclass
class Plan:
    steps: list[str]


class Order(pydantic.BaseModel):
    id: str


def made(house: House, *errors: BaseException, effect: Effect | None = READ, **policy):
    @house.tool(effect=effect, name="look", retry=policy.pop("retry", None), escalate=policy.pop("escalate", None))
    def look(order: str) -> str:
        house.note("look")
        if len(house.done) <= len(errors):
            raise errors[len(house.done) - 1]
        return "found"

    @house.loop(name="work", **policy)
    async def work(run) -> str:
        return await got(look("A"))

    return work


# --- each end


def test_completed(house):
    receipt = house.run(made(house).bind())
    assert receipt.status is State.COMPLETED
    assert (receipt.run_id, receipt.loop, receipt.value, receipt.partial) == ("r", "work", "found", None)
    assert (receipt.attempts, receipt.first_attempt_failures, receipt.restarts) == (1, 0, 0)
    assert receipt.started_at >= receipt.created_at > 0
    assert receipt.ended_at >= receipt.started_at
    assert (receipt.failure, receipt.failures, receipt.gaps, receipt.asks, receipt.orphans) == (None, [], [], [], [])
    assert (receipt.text, receipt.stopped_by, receipt.next_action, receipt.waits_for) == ("", "", "", "")
    assert receipt.spent.calls == 1
    assert receipt.unwrap() == "found"


def test_dead(house):
    receipt = house.run(made(house, not_found()).bind())
    assert receipt.status is State.DEAD
    assert (receipt.value, receipt.step, receipt.stopped_by) == (None, "1.0//look#0", "step")
    assert receipt.failure.reason.startswith("http.404")
    assert receipt.ended_at > 0
    assert receipt.next_action == "yaoki show r"
    with pytest.raises(RunFailed, match=r"run r: dead: look: http\.404.* See: yaoki show r") as caught:
        receipt.unwrap()
    assert caught.value.run_id == "r"
    assert caught.value.code == "run.failed"


def test_waiting(house):
    receipt = house.run(made(house, reset(), effect=None).bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert receipt.text == 'did look(order="A") happen?'
    assert receipt.waiting_since > 0
    assert receipt.ended_at == 0
    assert receipt.next_action == "yaoki show r"
    with pytest.raises(RunWaiting, match=r'run r: waiting: did look\(order="A"\) happen\?') as caught:
        receipt.unwrap()
    assert caught.value.code == "run.waiting"


def test_capped(house):
    receipt = house.run(made(house, budget=Budget(calls=0, on_empty="cap")).bind())
    assert (receipt.status, receipt.stopped_by) == (State.CAPPED, "budget.calls")
    assert receipt.unwrap() is None
    assert receipt.ended_at > 0


def test_cancelled(house):
    house.run(made(house, reset(), effect=None).bind())
    house.cancel()
    receipt = house.run(made(house).bind())
    assert (receipt.status, receipt.stopped_by) == (State.CANCELLED, "cancel")
    with pytest.raises(RunFailed, match="run r: cancelled: cancelled by a person"):
        receipt.unwrap()


def test_pending(house):
    work = made(house)

    @house.loop(name="work")
    async def stops(run) -> str:
        raise SystemExit

    with pytest.raises(SystemExit):
        house.run(stops.bind())
    receipt = house.get()
    assert receipt.status is State.PENDING
    assert receipt.next_action.startswith("yaoki run ")
    assert receipt.next_action.endswith(":work --run-id r")
    with pytest.raises(RunWaiting):
        receipt.unwrap()
    assert house.run(work.bind()).unwrap() == "found"


def test_a_run_that_does_not_exist_says_so(house):
    house.run(made(house).bind())
    with pytest.raises(RunNotFound, match=r"no run 'nope' in sqlite:.* See: yaoki runs"):
        house.get("nope")


# --- rungs


def test_a_dead_letter_ends_the_run_without_the_loop_seeing_it(house):
    @house.tool(effect=READ, escalate=dead_letter())
    def look() -> str:
        raise not_found()

    @house.loop
    async def work(run) -> str:
        try:
            return await got(look())
        except StepFailed:
            return "caught"

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by, receipt.step) == (State.DEAD, "dead_letter", "1.0//look#0")


@pytest.mark.parametrize(
    ("verdict", "value", "ends"),
    [("value", ["by hand"], "by hand"), ("abort", [], None), ("not-happened", [], "found")],
)
def test_an_ask_rung_asks_and_each_answer_works(house, verdict, value, ends):
    work = made(house, not_found(), escalate=[ask("The CRM refuses. What now?")])
    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert (receipt.asks[0].why, receipt.asks[0].text) == ("ask", "The CRM refuses. What now?")
    house.answer(verdict, *value)
    receipt = house.run(work.bind())
    if ends is None:
        assert receipt.status is State.DEAD
    else:
        assert receipt.unwrap() == ends


def test_an_ask_rung_is_followed_by_the_next(house):
    work = made(house, not_found(), not_found(), escalate=[ask(), dead_letter()])
    house.run(work.bind())
    house.answer("not-happened")
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by) == (State.DEAD, "dead_letter")
    assert len(house.done) == 2


def test_the_loops_rungs_are_for_tools_that_declare_none(house):
    work = made_with_loop_rung(house)
    receipt = house.run(work.bind())
    assert receipt.asks[0].why == "ask"
    assert receipt.asks[0].text.startswith("look() failed (http.404")


def made_with_loop_rung(house: House):
    @house.tool(effect=READ)
    def look() -> str:
        raise not_found()

    @house.loop(escalate=[ask(), abort()])
    async def work(run) -> str:
        return await got(look())

    return work


# --- what failed


def test_failures_list_those_that_healed_too_with_what_was_decided(house):
    receipt = house.run(made(house, refused(), status(503), refused()).bind())
    assert receipt.unwrap() == "found"
    assert [(m.failure.reason.split(".")[0], m.attempt, m.then, m.healed) for m in receipt.failures] == [
        ("os", 1, "retry", True),
        ("http", 2, "retry", True),
        ("os", 3, "retry", True),
    ]
    assert {m.call for m in receipt.failures} == {'look(order="A")'}
    assert (receipt.attempts, receipt.first_attempt_failures, receipt.spent.retries) == (4, 1, 3)


def test_first_attempt_failures_count_steps_not_attempts(house):
    @house.tool(effect=READ)
    def look(n: int) -> int:
        house.note(f"look {n}")
        if n % 2 and house.done.count(f"look {n}") <= 2:
            raise refused()
        return n

    @house.loop
    async def work(run) -> int:
        return sum([await got(look(n)) for n in range(6)])

    receipt = house.run(work.bind())
    assert receipt.first_attempt_failures == 3
    assert len(receipt.failures) == 6
    assert receipt.attempts == 12


def test_failures_are_the_same_from_the_journal_alone(house):
    receipt = house.run(made(house, refused(), reset()).bind())
    assert house.get().failures == receipt.failures
    assert house.get().attempts == receipt.attempts
    assert house.get().spent.retries == receipt.spent.retries


def test_restarts_count_the_processes_that_died(house):
    @house.tool(effect=READ)
    def die(n: int) -> int:
        if house.note(f"die {n}") == 1:
            house.kill()
        return n

    @house.loop
    async def work(run) -> int:
        return await got(die(1)) + await got(die(2)) + await got(die(3))

    for _ in range(3):
        assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.restarts == 3
    assert [m.failure.reason for m in receipt.failures] == ["process.died"] * 3
    assert all(m.healed for m in receipt.failures)


def test_secrets_are_redacted_before_the_journal_and_the_loop_see_them(house):
    secret = "sk-ant-api03-" + "a1B2" * 20

    @house.tool(effect=READ)
    def look() -> str:
        raise ValueError(f"bad key {secret}")

    @house.loop
    async def work(run) -> str:
        try:
            return await got(look())
        except StepFailed as error:
            return str(error)

    receipt = house.run(work.bind())
    assert secret not in receipt.unwrap()
    assert secret not in receipt.to_json().decode()
    assert secret not in str(house.journal())


# --- asks


def test_an_answered_ask_stays_on_the_receipt_with_its_answer(house):
    work = made(house, reset(), effect=None)
    receipt = house.run(work.bind())
    [one] = receipt.asks
    assert (one.id, one.why, one.step, one.call, one.type) == ("q1", "doubt", "1.0//look#0", 'look(order="A")', "str")
    assert (one.executed, one.attempt, one.attempts_max, one.verdict, one.answered_at) == (Executed.MAYBE, 1, 8, "", 0)
    assert one.expires_at - one.asked_at == 7 * 86_400_000
    assert one.schema == {"type": "string"}
    house.later(60)
    house.answer("happened", "by hand")
    [one] = house.run(work.bind()).asks
    assert (one.verdict, one.answer) == ("happened", "by hand")
    assert one.answered_at - one.asked_at >= 60_000


# --- to_json


@pytest.mark.parametrize(
    "value", [None, "x", Plan(["a"]), Order(id="A"), [1, {"a": None}]], ids=lambda v: type(v).__name__
)
def test_to_json_is_one_json_document_with_every_field(house, value):
    @house.loop(name="work")
    async def work(run):
        return value

    work.fn.__annotations__["return"] = type(value) if value is not None else None
    receipt = house.run(work.bind())
    document = json.loads(receipt.to_json())
    assert document["status"] == "completed"
    assert set(document) >= {
        "run_id", "loop", "status", "value", "partial", "failure", "failures", "gaps", "orphans", "asks", "spent",
        "attempts", "first_attempt_failures", "restarts", "started_at", "ended_at", "stopped_by", "next_action",
    }  # fmt: skip
    expected = {"Plan": {"steps": ["a"]}, "Order": {"id": "A"}}.get(type(value).__name__, value)
    assert document["value"] == expected


def test_to_json_of_a_capped_runs_model_is_json_too(house):
    @house.loop(budget=Budget(turns=1))
    async def work(run) -> Order:
        async for state in house.turns(run, [1]):
            state.append(2)
        return Order(id="B")

    receipt = house.run(work.bind())
    assert json.loads(receipt.to_json())["partial"] == {"id": "B"}


def test_a_receipt_from_the_list_says_where_each_run_is(house):
    house.run(made(house).bind(), "good")
    (house.path / "effects.log").unlink()
    house.run(made(house, reset(), effect=None).bind(), "asks")
    found = house.outside(lambda verbs: {r.run_id: r.status for r in verbs.list()})
    assert found == {"good": State.COMPLETED, "asks": State.WAITING}
    assert [r.run_id for r in house.outside(lambda verbs: verbs.list("waiting"))] == ["asks"]


# --- attempts' time


def test_an_attempt_is_cut_at_its_timeout_and_is_in_doubt(async_house):
    import asyncio

    house = async_house

    @house.tool(timeout_s=10)
    async def send() -> str:
        house.note("send")
        await asyncio.sleep(60)
        return "sent"

    @house.loop
    async def work(run) -> str:
        return await send()

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert 9.9 <= house.clock.passed_s < 11
    assert receipt.failures[0].failure.executed is Executed.MAYBE


def test_a_read_that_runs_into_its_timeout_is_tried_again(async_house):
    import asyncio

    house = async_house

    @house.tool(effect=READ, timeout_s=10, retry=Retry(base_s=0))
    async def look() -> str:
        if house.note("look") < 3:
            await asyncio.sleep(60)
        return "found"

    @house.loop
    async def work(run) -> str:
        return await look()

    assert house.run(work.bind()).unwrap() == "found"
    assert len(house.done) == 3
    assert 19.9 <= house.clock.passed_s < 21


@pytest.mark.parametrize("effect", [READ, None])
def test_a_sync_attempt_with_a_helper_thread_is_left_at_its_timeout(tmp_path, effect):
    """Not retried while its thread lives, unless it only reads."""
    import threading

    house = House("sync", tmp_path, real_time=True)
    release = threading.Event()

    @house.tool(effect=effect, timeout_s=0.05, interrupt="thread", retry=Retry(base_s=0))
    def send() -> str:
        if house.note("send") == 1:
            release.wait(20)
        return "sent"

    @house.loop
    async def work(run) -> str:
        return await got(send())

    try:
        receipt = house.run(work.bind())
    finally:
        release.set()
    if effect is READ:
        assert receipt.unwrap() == "sent"
        assert len(house.done) == 2
    else:
        assert receipt.status is State.WAITING
        assert len(house.done) == 1
