"""`run.ask`: asked once, answered once, by a person or by its default; whatever dies meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.runtime.errors import refused
from tests.runtime.house import House, got
from yaoki import AnswerRefused, DeclarationError, Effect, Retry, StepFailed
from yaoki.records import Question, State, Value
from yaoki.runtime._ask import Asks


@dataclass
class Plan:
    city: str
    days: int


def asking(house: House, *args, **options):
    """Make a loop that asks between two effects."""

    @house.tool
    def act(what: str) -> str:
        house.note(what)
        return what

    @house.loop
    async def work(run) -> list:
        first = await got(act("before"))
        try:
            answer = await got(run.ask("What now?", *args, **options))
        except StepFailed as error:
            return [first, error.failure.reason]
        return [first, answer if isinstance(answer, str) else repr(answer), await got(act("after"))]

    return work


def test_the_run_waits_and_the_answer_is_the_loops(house):
    body = asking(house)
    receipt = house.run(body.bind())
    assert (receipt.status, receipt.waits_for, receipt.text) == (State.WAITING, "person", "What now?")
    (ask,) = receipt.asks
    assert (ask.id, ask.why, ask.type, ask.step) == ("q1", "ask", "str", "1.0//run.ask#0")
    house.answer("value", "go on")
    assert house.run(body.bind()).unwrap() == ["before", "go on", "after"]
    assert house.done == ["before", "after"]
    assert len(house.records(Question)) == 1


def test_an_answer_has_the_type_that_was_asked_for(house):
    body = asking(house, Plan)
    house.run(body.bind())
    for wrong in ("Rome", {"city": "Rome"}, {"city": "Rome", "days": "two"}):
        with pytest.raises(AnswerRefused, match="q1 wants Plan"):
            house.answer("value", wrong)
    house.answer("value", {"city": "Rome", "days": 2})
    assert house.run(body.bind()).unwrap()[1] == "Plan(city='Rome', days=2)"


def test_one_of_the_options_is_the_answer(house):
    body = asking(house, options=["left", "right"])
    assert house.run(body.bind()).asks[0].options == ["left", "right"]
    with pytest.raises(AnswerRefused, match="expected one of 'left', 'right'"):
        house.answer("value", "straight on")
    house.answer("value", "right")
    assert house.run(body.bind()).unwrap()[1] == "right"


def test_the_first_answer_wins(house):
    body = asking(house)
    house.run(body.bind())
    house.answer("value", "one")
    with pytest.raises(AnswerRefused, match="the first answer stands"):
        house.answer("value", "two", ask="q1")
    assert house.run(body.bind()).unwrap()[1] == "one"


@pytest.mark.parametrize("verdict", ["happened", "not-happened", "send", "approve", "refuse", "skip"])
def test_what_is_no_answer_to_a_question_is_refused(house, verdict):
    house.run(asking(house).bind())
    with pytest.raises(AnswerRefused):
        house.answer(verdict, *(["x"] if verdict == "happened" else []))


def test_abort_is_step_failed_in_the_loop(house):
    body = asking(house)
    house.run(body.bind())
    house.answer("abort")
    assert house.run(body.bind()).unwrap() == ["before", "ask.aborted"]


def test_an_aborted_question_that_ended_the_run_is_asked_once_more_after_a_redrive(house):
    @house.loop
    async def work(run) -> str:
        return await got(run.ask("Go?"))

    house.run(work.bind())
    house.answer("abort")
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.step) == (State.DEAD, "1.0//run.ask#0")
    house.redrive()
    assert house.run(work.bind()).status is State.WAITING
    house.answer("value", "yes")
    assert house.run(work.bind()).unwrap() == "yes"
    assert [question.id for question in house.records(Question)] == ["q1", "q2"]


def test_what_was_answered_is_not_asked_again_when_a_later_step_is_redriven(house):
    @house.tool(effect=Effect.READ_ONLY, retry=Retry.never)
    def look() -> str:
        if house.note("look") == 1:
            raise refused()
        return "seen"

    @house.loop
    async def work(run) -> list:
        return [await got(run.ask("Go?")), await got(look())]

    house.run(work.bind())
    house.answer("value", "yes")
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == ["yes", "seen"]
    assert len(house.records(Question)) == 1


# --- nobody answers


def test_unanswered_its_default_stands_and_is_replayed(house):
    body = asking(house, default="carry on", expires_s=60)
    assert house.run(body.bind()).asks[0].default == "carry on"
    house.later(61)
    assert house.run(body.bind()).unwrap() == ["before", "carry on", "after"]
    (ask,) = house.get().asks
    assert (ask.verdict, ask.answer) == ("default", "carry on")
    with pytest.raises(AnswerRefused):
        house.answer("value", "late", ask="q1")


def test_a_default_that_stands_outlives_the_clock_and_the_process(house):
    @house.tool
    def act(what: str) -> str:
        if house.note(what) == 1:
            house.kill()
        return what

    @house.loop
    async def work(run) -> list:
        answer = await got(run.ask("What now?", default="carry on", expires_s=60))
        return [answer, await got(act("after"))]

    house.run(work.bind())
    house.later(61)
    assert house.die(work.bind()) == -9
    house.run(work.bind())
    house.answer("happened", "by hand")
    assert house.run(work.bind()).unwrap() == ["carry on", "by hand"]
    assert len(house.records(Value)) == 1


def test_a_person_may_take_the_default(house):
    body = asking(house, default="carry on")
    house.run(body.bind())
    house.answer("skip")
    assert house.run(body.bind()).unwrap()[1] == "carry on"


def test_unanswered_without_a_default_it_is_a_dead_letter_that_asks_anew_when_redriven(house):
    body = asking(house, expires_s=60)
    house.run(body.bind())
    house.later(61)
    receipt = house.run(body.bind())
    assert (receipt.status, receipt.stopped_by) == (State.DEAD, "question.expired")
    with pytest.raises(AnswerRefused, match="q1 expired unanswered"):
        house.answer("value", "late", ask="q1")
    house.redrive()
    receipt = house.run(body.bind())
    assert (receipt.status, [ask.id for ask in receipt.asks]) == (State.WAITING, ["q2"])
    house.answer("value", "in time")
    assert house.run(body.bind()).unwrap() == ["before", "in time", "after"]
    assert house.done == ["before", "after"]


# --- what it is bound to


def test_a_question_whose_text_has_changed_parks_the_run_for_code(house):
    text = ["Which city?"]

    @house.loop
    async def work(run) -> str:
        return await got(run.ask(text[0]))

    house.run(work.bind())
    house.answer("value", "Rome")
    text[0] = "Which country?"
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
    assert "- recorded: run.ask('Which city?')" in receipt.diff
    text[0] = "Which city?"
    assert house.run(work.bind()).unwrap() == "Rome"


def test_a_new_pass_asks_anew(house):
    @house.loop
    async def work(run) -> str:
        return await got(run.ask("Go?"))

    house.run(work.bind())
    house.outside(lambda verbs: verbs.redrive("r", "start"))
    receipt = house.run(work.bind())
    assert [ask.id for ask in receipt.asks] == ["q2"]
    with pytest.raises(AnswerRefused, match="q1 is not asked any more"):
        house.answer("value", "x", ask="q1")
    house.answer("value", "yes")
    assert house.run(work.bind()).unwrap() == "yes"


def test_branches_ask_beside_one_another(house):
    @house.loop
    async def work(run) -> list:
        async def one(name: str) -> str:
            return await got(run.ask(f"What about {name}?"))

        return [settled.value for settled in await got(run.map(house.fn(one), ["a", "b"]))]

    receipt = house.run(work.bind())
    assert [ask.text for ask in receipt.asks] == ["What about a?", "What about b?"]
    house.answer("value", "B", ask="q2")
    assert house.run(work.bind()).status is State.WAITING
    house.answer("value", "A", ask="q1")
    assert house.run(work.bind()).unwrap() == ["A", "B"]


def test_a_wait_that_a_timeout_ended_stays_ended_whatever_is_answered_later(house):
    @house.tool
    def act(what: str) -> str:
        if house.note(what) == 1:
            house.kill()
        return what

    @house.loop
    async def work(run) -> list:
        try:
            async with house.timeout(run, 60):
                return [await got(run.ask("Quick?"))]
        except TimeoutError:
            return ["too late", await got(act("after"))]

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.asks[0].verdict) == (State.WAITING, "")
    house.later(61)
    assert house.die(work.bind()) == -9
    with pytest.raises(AnswerRefused, match="q1 is not asked any more"):
        house.answer("value", "yes", ask="q1")
    (ask,) = house.run(work.bind()).asks
    assert (ask.why, ask.call) == ("doubt", 'act(what="after")')
    house.answer("happened", "by hand")
    assert house.run(work.bind()).unwrap() == ["too late", "by hand"]


def test_an_answer_that_comes_between_a_timeout_and_its_cut_does_not_undo_the_timeout(house, monkeypatch):
    """The process dies once the firing is recorded, and before the question is said to be over."""

    @house.loop
    async def work(run) -> str:
        try:
            async with house.timeout(run, 60):
                return await got(run.ask("Quick?"))
        except TimeoutError:
            return "too late"

    house.run(work.bind())
    house.later(61)
    with monkeypatch.context() as patched:
        patched.setattr(Asks, "_ask_cut", lambda run, key: house.kill())
        assert house.die(work.bind()) == -9
    house.answer("value", "yes")
    assert house.run(work.bind()).unwrap() == "too late"


def test_an_answer_in_time_is_replayed_however_late(house):
    @house.tool
    def act(what: str) -> str:
        if house.note(what) == 1:
            house.kill()
        return what

    @house.loop
    async def work(run) -> list:
        async with house.timeout(run, 60):
            answer = await got(run.ask("Quick?"))
        return [answer, await got(act("after"))]

    house.run(work.bind())
    house.answer("value", "yes")
    assert house.die(work.bind()) == -9
    house.later(3_600)
    house.run(work.bind())
    house.answer("happened", "by hand")
    assert house.run(work.bind()).unwrap() == ["yes", "by hand"]


def test_in_turns_each_turn_asks_its_own(house):
    @house.loop
    async def work(run) -> list:
        async for said in house.turns(run, []):
            if len(said) == 2:
                return said
            said.append(await got(run.ask(f"Line {len(said)}?")))
        return []

    for text in ("a", "b"):
        assert house.run(work.bind()).status is State.WAITING
        house.answer("value", text)
    assert house.run(work.bind()).unwrap() == ["a", "b"]


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("",), {}),
        (("x" * 2_001,), {}),
        (("Go?",), {"expires_s": 0}),
        (("Go?",), {"expires_s": float("nan")}),
        (("Go?",), {"options": []}),
        (("Go?",), {"options": ["a", "a"]}),
        (("Go?",), {"options": ["a", 1]}),
        (("Go?",), {"options": ["a"], "default": "b"}),
        (("Go?", int), {"default": "b"}),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_and_nothing_recorded(house, args, options):
    @house.loop
    async def work(run) -> str:
        try:
            return await got(run.ask(*args, **options))
        except DeclarationError as error:
            return str(error)

    assert house.run(work.bind()).unwrap().startswith("run.ask: ")
    assert house.records(Question) == []
