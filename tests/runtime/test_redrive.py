"""`redrive` from the step: a new ladder, the same key, and the gate first (docs/guarantees.md, "The gate")."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import not_found, refused, reset
from tests.runtime.house import House, box, calls, got
from yaoki import (
    INJECTED,
    Budget,
    Effect,
    Retry,
    Runner,
    StepFailed,
)
from yaoki.errors import AnswerRefused, InputMismatch, RunBusy
from yaoki.records import Begin, Ended, Redrive, State

READ = Effect.READ_ONLY


def tools(house: House):
    """`step(n)` is done once; `die(n)` kills the process the first time, if told to."""

    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n * 10

    @house.tool(effect=READ)
    def die(n: int) -> int:
        if house.note(f"die {n}") == 1:
            house.kill()
        return n

    return step, die


# --- redrive


def test_a_redrive_starts_a_new_ladder_at_the_step_with_the_same_key(house):
    step, _ = tools(house)

    @house.tool(retry=Retry(attempts_max=2))
    def post(x: int) -> str:
        house.note("post")
        if house.done.count("post") <= 2:
            raise refused()
        return "posted"

    @house.loop
    async def work(run) -> str:
        await got(step(1))
        return await got(post(1))

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.step == "1.0//post#0"
    assert house.redrive().status is State.PENDING
    assert house.run(work.bind()).unwrap() == "posted"
    assert house.done == ["step 1", "post", "post", "post"]
    begins = [begin for begin in house.records(Begin) if begin.call.startswith("post")]
    assert len({begin.key for begin in begins}) == 1
    assert [begin.attempt for begin in begins] == [1, 2, 1]


def test_what_was_spent_stays_spent_over_a_redrive(house):
    @house.tool(effect=READ, retry=Retry(attempts_max=2))
    def look() -> str:
        house.note("look")
        raise refused()

    @house.loop
    async def work(run) -> str:
        return await got(look())

    house.run(work.bind())
    house.redrive()
    receipt = house.run(work.bind())
    assert receipt.spent.calls == 4
    assert receipt.spent.retries == 2


def test_a_completed_run_is_not_redriven(house):
    from yaoki import AnswerRefused

    @house.loop
    async def work(run) -> int:
        return 1

    house.run(work.bind())
    with pytest.raises(AnswerRefused, match="run r is completed: there is nothing to redrive"):
        house.redrive()


def test_a_settled_sibling_is_not_executed_again_after_a_redrive(house):
    step, _ = tools(house)

    @house.tool(retry=Retry.never, name="post")
    def post(n: int) -> str:
        if house.note("post") == 1:
            raise refused()
        return "posted"

    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(step), calls(*[("step", {"n": n}) for n in range(5)])))
        return [*[r.value for r in results], await got(post(1))]

    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == [0, 10, 20, 30, 40, "posted"]
    assert len(house.done) == 7


def test_an_effect_that_had_failed_in_a_doubt_of_an_earlier_process_is_decided_from_its_begin(house):
    """The begin holds what is needed: the code's new, milder declaration does not excuse the old attempt."""

    def made(effect):
        @house.tool(effect=effect, name="post")
        def post(x: int) -> str:
            if house.note("post") == 1:
                house.kill()
            return "posted"

        @house.loop(name="work")
        async def work(run) -> str:
            return await got(post(1))

        return work

    assert house.die(made(None).bind()) == -9
    assert house.run(made(READ).bind()).status is State.WAITING
    assert house.done == ["post"]


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    return step


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


def test_a_run_that_is_driven_is_not_redriven_and_one_left_by_a_death_not_yet(house):
    deadly = [False]

    @house.tool(effect=READ)
    def look() -> str:
        if deadly[0]:
            house.kill()
        with pytest.raises(RunBusy, match=r"run r is running, in pid \d+. First: yaoki cancel r"):
            house.redrive()
        return "looked"

    @house.loop
    async def work(run) -> str:
        return await got(look())

    assert house.run(work.bind()).unwrap() == "looked"
    deadly[0] = True
    assert house.die(work.bind(), "left") == -9
    with pytest.raises(AnswerRefused, match=r"run left: its process died; what it had begun is to be decided"):
        house.redrive("left")


def test_an_answer_to_a_question_that_was_asked_anew_is_refused_and_changes_nothing(house):
    @house.tool
    def send() -> str:
        if house.note("send") == 1:
            raise reset()
        return "sent"

    @house.loop
    async def work(run) -> list[object]:
        return [await got(send()), await got(run.wait_signal("go"))]

    assert house.run(work.bind()).status is State.WAITING
    house.redrive()
    assert [ask.id for ask in house.run(work.bind()).asks] == ["q2"]
    house.answer("not-happened", ask="q2")
    assert house.run(work.bind()).waits_for == "signal"
    with pytest.raises(AnswerRefused, match="q1 is not asked any more"):
        house.answer("happened", "something else", ask="q1")
    house.outside(lambda verbs: verbs.signal("r", "go", 7))
    assert house.run(work.bind()).value == ["sent", 7]
    assert house.done == ["send", "send"]


# --- with other arguments


def test_a_dead_run_goes_on_with_an_edited_argument_and_adopts_what_it_did(house):
    @house.tool(effect=Effect.KEYED)
    def reserve(what: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(f"reserve {what}")
        return what

    @house.tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=1))
    def find(order: str) -> str:
        if order == "A-l":
            raise not_found()
        return order

    @house.loop
    async def work(run, what: str, order: str) -> str:
        return f"{await got(reserve(what))} {await got(find(order))}"

    assert house.run(work.bind("room", "A-l")).status is State.DEAD
    house.outside(lambda verbs: verbs.redrive("r", "start", edits={"order": "A-1"}))
    assert house.run(work.bind("room", "A-1")).value == "room A-1"
    assert house.done == ["reserve room"]
    assert bytes(house.records(Redrive)[0].input) == b'{"order":"A-1","what":"room"}'
    with pytest.raises(InputMismatch):
        house.run(work.bind("room", "A-l"))


@pytest.mark.parametrize(
    ("source", "edits", "said"),
    [
        ("step", {"n": 2}, "--from start"),
        ("checkpoint", {"n": 2}, "--from start"),
        ("start", {"m": 2}, "no 'm'; it was"),
    ],
)
def test_edits_that_cannot_be_are_refused_and_nothing_is_changed(house, source, edits, said):
    @house.loop
    async def work(run, n: int) -> None:
        raise not_found()

    house.run(work.bind(1))
    with pytest.raises(AnswerRefused, match=said):
        house.outside(lambda verbs: verbs.redrive("r", source, edits=edits))
    assert house.get().status is State.DEAD


def test_an_edit_of_another_type_lets_the_run_wait_for_code(house):
    @house.loop
    async def work(run, n: int) -> None:
        raise not_found()

    house.run(work.bind(1))
    house.outside(lambda verbs: verbs.redrive("r", "start", edits={"n": "many"}))
    if house.is_async:
        house.drive(lambda runner: runner.work(work, until="idle"))
    else:
        with Runner(house.url, clock=house.clock) as runner:
            runner.work(work, until="idle")
    assert (house.get().status, house.get().waits_for) == (State.WAITING, "code")


def test_turns_that_were_spent_stay_spent_in_a_pass_from_the_start(house):
    """Each pass begins its turns anew; a budget of turns counts those of every pass."""

    @house.tool(effect=READ)
    def look(x: int) -> int:
        house.note("look")
        return x

    @house.loop(budget=Budget(turns=2))
    async def work(run):
        seen = 0
        async for state in house.turns(run, [0]):
            state[0] += 1
            seen = await got(look(state[0]))
        return seen

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.partial, receipt.spent.turns) == (State.CAPPED, 2, 2)
    with pytest.raises(AnswerRefused, match=r"has used its 2 turns.*yaoki top-up r --turns N"):
        house.outside(lambda verbs: verbs.redrive("r", "start"))
    house.top_up(turns=1)
    house.outside(lambda verbs: verbs.redrive("r", "start"))
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.partial, receipt.spent.turns) == (State.CAPPED, 1, 3)
    assert house.get().spent.turns == 3
    assert len(house.done) == 3


def test_a_run_that_died_of_used_up_retries_takes_a_top_up_and_is_redriven_with_it(house):
    @house.tool(effect=READ)
    def look() -> str:
        if house.note("look") < 5:
            raise refused()
        return "seen"

    @house.loop(budget=Budget(retries=1))
    async def work(run):
        return await got(look())

    assert house.run(work.bind()).status is State.DEAD
    assert house.outside(lambda verbs: verbs.top_up("r", retries=10)).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == "seen"
    with pytest.raises(AnswerRefused, match="completed: a top-up changes nothing"):
        house.outside(lambda verbs: verbs.top_up("r", retries=10))


# --- what the loop has had stays


def flaky_of(house: House):
    @house.tool(effect=READ)
    def flaky() -> str:
        if house.note("flaky") == 1:
            raise not_found()
        return "ok"

    return flaky


def test_a_failure_the_loop_caught_stays_caught_over_a_redrive_of_a_later_step(house):
    flaky = flaky_of(house)

    @house.tool(effect=READ)
    def first() -> str:
        if house.note("first") == 1:
            raise not_found()
        return "healed"

    @house.tool(effect=READ)
    def instead() -> str:
        house.note("instead")
        return "instead"

    @house.loop
    async def work(run) -> list[str]:
        try:
            found = await got(first())
        except StepFailed:
            found = await got(instead())
        return [found, await got(flaky())]

    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == ["instead", "ok"]
    assert house.done == ["first", "instead", "flaky", "flaky"]


@pytest.mark.parametrize(("verdict", "told"), [("abort", "caught"), ("skip", "None")])
def test_what_a_person_decided_about_a_step_stays_over_a_redrive_of_a_later_one(house, verdict, told):
    flaky = flaky_of(house)

    @house.tool
    def charge() -> str | None:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> list[str]:
        try:
            found = str(await got(charge()))
        except StepFailed:
            found = "caught"
        return [found, await got(flaky())]

    house.run(work.bind())
    house.answer(verdict)
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    receipt = house.run(work.bind())
    assert (receipt.unwrap(), len(receipt.asks)) == ([told, "ok"], 1)
    assert house.done == ["charge", "flaky", "flaky"]


def test_a_question_of_the_loop_that_was_aborted_and_caught_is_not_asked_again(house):
    flaky = flaky_of(house)

    @house.loop
    async def work(run) -> list[str]:
        try:
            found = await got(run.ask("go on?"))
        except StepFailed:
            found = "aborted"
        return [found, await got(flaky())]

    house.run(work.bind())
    house.answer("abort")
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == ["aborted", "ok"]


@pytest.mark.parametrize("effect", [Effect.KEYED, Effect.READ_ONLY, Effect.AT_MOST_ONCE])
def test_a_step_that_a_timeout_cut_is_not_sent_again_by_a_redrive_of_a_later_one(async_house, effect):
    house = async_house
    flaky = flaky_of(house)

    @house.tool(effect=effect)
    async def pay(*, idempotency_key: str = INJECTED) -> str:
        if house.note("pay") == 1:
            await asyncio.sleep(50)
        return "paid"

    @house.loop
    async def work(run) -> list[str]:
        try:
            async with run.timeout(5):
                found = await pay()
        except TimeoutError:
            found = "late"
        return [found, await flaky()]

    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == ["late", "ok"]
    assert house.done == ["pay", "flaky", "flaky"]


@pytest.mark.parametrize("source", ["step", "checkpoint", "start"])
def test_a_refusal_is_forgotten_by_a_redrive(house, source):
    flaky = flaky_of(house)

    @house.tool(approve=True)
    def pay() -> str:
        house.note("pay")
        return "paid"

    @house.loop
    async def work(run) -> list[str]:
        async for state in house.turns(run, {"told": []}):
            if len(state["told"]) == 1:
                await got(flaky())
            outcome = await got(run.try_call(pay))
            state["told"].append(outcome.value or outcome.failure.reason)
            if len(state["told"]) == 2:
                break
        return state["told"]

    house.run(work.bind())
    house.answer("refuse")
    assert house.run(work.bind()).status is State.DEAD
    house.outside(lambda verbs: verbs.redrive("r", source))
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for, receipt.text) == (State.WAITING, "person", "may pay() be done?")
    while receipt.waits_for == "person":
        house.answer("approve")
        receipt = house.run(work.bind())
    assert receipt.unwrap() == ["paid" if source == "start" else "approval.refused", "paid"]


def test_a_run_that_a_refusal_ended_in_a_later_turn_is_asked_anew_after_a_redrive(house):
    @house.tool(approve=True)
    def pay() -> str:
        house.note("pay")
        return "paid"

    @house.loop
    async def work(run) -> list[str]:
        async for state in house.turns(run, {"told": []}):
            if state["told"]:
                state["told"].append(await got(pay()))
                return state["told"]
            state["told"].append((await got(run.try_call(pay))).failure.reason)
        return []

    house.run(work.bind())
    house.answer("refuse")
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).waits_for == "person"
    house.answer("approve")
    assert house.run(work.bind()).unwrap() == ["approval.refused", "paid"]


def test_a_redrive_starts_anew_at_the_step_whose_failure_the_loops_own_error_was_raised_from(house):
    flaky = flaky_of(house)

    @house.loop
    async def work(run) -> str:
        try:
            return await got(flaky())
        except StepFailed as error:
            raise ValueError("no answer") from error

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by) == (State.DEAD, "loop")
    house.redrive()
    assert house.run(work.bind()).unwrap() == "ok"


def test_a_sibling_under_way_where_the_run_ended_has_a_new_ladder_too(house):
    @house.tool
    def charge(n: int) -> str:
        if house.note(f"charge {n}") == 1:
            raise reset()
        return "ok"

    @house.loop
    async def work(run) -> list[object]:
        async def one(n: int) -> str:
            return await got(charge(n))

        return [one.value for one in await got(run.map(house.fn(one), [1, 2]))]

    house.run(work.bind())
    house.later(8 * 86_400)
    assert house.run(work.bind()).stopped_by == "question.expired"
    house.redrive()
    receipt = house.run(work.bind())
    assert (receipt.waits_for, len(receipt.asks)) == ("person", 2)
    for ask in receipt.asks:
        house.answer("happened", "done", ask=ask.id)
    assert house.run(work.bind()).unwrap() == ["done", "done"]
