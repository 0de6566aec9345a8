"""
An AT_MOST_ONCE effect in doubt: the question, its four answers, and what is no answer.

The rules: docs/guarantees.md, "The gate" and "Keys and slots".
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, got
from yaoki import AnswerRefused, Retry, StepFailed
from yaoki.records import Begin, State


@dataclass
class Charge:
    id: str
    cents: int


def charging(house: House, errors: list[BaseException | str], **policy):
    """Make a loop that charges once; the attempts meet these errors (or die), then succeed."""

    @house.tool(**policy)
    def charge(order: str) -> Charge:
        house.note("charge")
        number = len(house.done)
        if number <= len(errors):
            error = errors[number - 1]
            if error == "die":
                house.kill()
            raise error
        return Charge(f"ch_{number}", 100)

    @house.loop
    async def work(run) -> str:
        try:
            found = await got(charge("A"))
        except StepFailed as error:
            return f"failed: {error.failure.reason} {error.failure.executed}"
        return f"{type(found).__name__} {found.id}" if found is not None else "nothing"

    return work


def in_doubt(house: House, **policy):
    body = charging(house, [reset()], **policy)
    assert house.run(body.bind()).status is State.WAITING
    return body


# --- the four answers


def test_happened_gives_the_loop_the_value_as_its_type(house):
    body = in_doubt(house)
    house.answer("happened", {"id": "ch_9", "cents": 7})
    receipt = house.run(body.bind())
    assert receipt.unwrap() == "Charge ch_9"
    assert house.done == ["charge"]
    assert receipt.asks[0].verdict == "happened"


def test_not_happened_sends_it_again_with_the_same_key(house):
    body = in_doubt(house)
    house.answer("not-happened")
    assert house.run(body.bind()).unwrap() == "Charge ch_2"
    first, second = house.records(Begin)
    assert first.key == second.key
    assert (first.attempt, second.attempt) == (1, 2)


def test_not_happened_adds_an_attempt_when_none_is_left(house):
    body = in_doubt(house, retry=Retry.never)
    house.answer("not-happened")
    assert house.run(body.bind()).unwrap() == "Charge ch_2"
    assert [begin.attempts_max for begin in house.records(Begin)] == [1, 2]


def test_not_happened_adds_one_attempt_and_no_more(house):
    body = charging(house, [reset(), refused(), refused()], retry=Retry.never)
    house.run(body.bind())
    house.answer("not-happened")
    assert house.run(body.bind()).unwrap() == "failed: os.ECONNREFUSED no"
    assert len(house.done) == 2


def test_each_new_doubt_is_a_new_question(house):
    body = charging(house, [reset(), reset()], retry=Retry.never)
    house.run(body.bind())
    house.answer("not-happened")
    receipt = house.run(body.bind())
    assert receipt.status is State.WAITING
    assert [(ask.id, ask.verdict) for ask in receipt.asks] == [("q1", "not-happened"), ("q2", "")]
    house.answer("happened", {"id": "ch_2", "cents": 1})
    assert house.run(body.bind()).unwrap() == "Charge ch_2"
    assert len(house.done) == 2


def test_skip_lets_plain_code_go_on_with_none_and_notes_a_gap(house):
    body = in_doubt(house)
    house.answer("skip")
    receipt = house.run(body.bind())
    assert receipt.unwrap() == "nothing"
    assert receipt.gaps == ['charge(order="A"): skipped; whether it happened is unknown']
    assert house.done == ["charge"]


def test_a_skip_is_replayed_as_a_skip(house):
    """The gap is noted once, and a second replay sees what the first saw."""

    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.tool
    def mail(text: str) -> str:
        if house.note("mail") == 1:
            house.kill()
        return "mailed"

    @house.loop
    async def work(run) -> list:
        return [await got(charge("A")), await got(mail("x"))]

    house.run(work.bind())
    house.answer("skip")
    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).status is State.WAITING
    house.answer("happened", "by hand")
    receipt = house.run(work.bind())
    assert receipt.unwrap() == [None, "by hand"]
    assert len(receipt.gaps) == 1
    assert house.done == ["charge", "mail"]


def test_abort_is_step_failed_in_the_loop(house):
    body = in_doubt(house)
    house.answer("abort")
    assert house.run(body.bind()).unwrap() == "failed: os.ECONNRESET maybe"
    assert house.done == ["charge"]


def test_a_death_in_mid_call_is_a_doubt_like_any_other(house):
    body = charging(house, ["die"])
    assert house.die(body.bind()) == -9
    receipt = house.run(body.bind())
    assert receipt.status is State.WAITING
    assert receipt.failures[0].failure.reason == "process.died"
    assert receipt.asks[0].text == 'did charge(order="A") happen?'
    house.answer("not-happened")
    assert house.run(body.bind()).unwrap() == "Charge ch_2"


def test_a_waiting_run_is_not_executed_again_by_running_it(house):
    body = in_doubt(house)
    for _ in range(3):
        assert house.run(body.bind()).status is State.WAITING
    assert house.done == ["charge"]
    assert len(house.get().asks) == 1


# --- what is no answer


@pytest.mark.parametrize("value", ["ch_1", {"id": 5, "cents": 1}, {"id": "x"}, None, [1]])
def test_an_answer_of_another_type_is_refused_and_says_which_is_wanted(house, value):
    in_doubt(house)
    with pytest.raises(AnswerRefused, match="q1 wants Charge"):
        house.answer("happened", value)
    assert house.get().asks[0].verdict == ""


def test_happened_without_its_value_is_refused(house):
    in_doubt(house)
    with pytest.raises(AnswerRefused, match="q1 needs a value of type Charge: happened VALUE"):
        house.answer("happened")


def test_an_effect_that_returns_nothing_is_answered_with_null(house):
    @house.tool
    def mail(to: str) -> None:
        house.note("mail")
        raise reset()

    @house.loop
    async def work(run) -> None:
        return await got(mail("x"))

    house.run(work.bind())
    with pytest.raises(AnswerRefused, match="happened null"):
        house.answer("happened")
    house.answer("happened", None)
    receipt = house.run(work.bind())
    assert receipt.status is State.COMPLETED
    assert receipt.gaps == []


def test_a_second_answer_is_refused_and_the_first_stands(house):
    body = in_doubt(house)
    house.answer("skip")
    with pytest.raises(AnswerRefused, match=r"answered already \(skip\)"):
        house.answer("not-happened", ask="q1")
    assert house.run(body.bind()).unwrap() == "nothing"


def test_an_answer_to_nothing_is_refused(house):
    body = charging(house, [])
    house.run(body.bind())
    with pytest.raises(AnswerRefused, match="run r asks nothing"):
        house.answer("skip")
    with pytest.raises(AnswerRefused, match="run r has no question 'q7'; it has: none"):
        house.answer("skip", ask="q7")


def test_an_unknown_verdict_is_refused_and_lists_the_others(house):
    in_doubt(house)
    with pytest.raises(AnswerRefused, match="happened, not-happened, skip, abort"):
        house.answer("maybe")


@pytest.mark.parametrize("verdict", ["skip", "abort", "not-happened"])
def test_a_verdict_without_a_value_refuses_one(house, verdict):
    in_doubt(house)
    with pytest.raises(AnswerRefused, match="takes no value"):
        house.answer(verdict, "x")


def test_an_ambiguous_answer_lists_the_questions(house):
    @house.tool
    def charge(order: str) -> str:
        house.note(order)
        raise reset()

    async def one(order):
        return await got(charge(order))

    @house.loop
    async def work(run) -> list:
        return [settled.value for settled in await got(run.map(house.fn(one), ["A", "B"]))]

    receipt = house.run(work.bind())
    assert {ask.text for ask in receipt.asks} == {'did charge(order="A") happen?', 'did charge(order="B") happen?'}
    with pytest.raises(AnswerRefused, match=r"r asks 2 questions; say which: q1: did charge.*; q2: did charge"):
        house.answer("skip")
    for order, ask in {ask.text.split('"')[1]: ask.id for ask in receipt.asks}.items():
        house.answer("happened", f"paid {order}", ask=ask)
    assert house.run(work.bind()).unwrap() == ["paid A", "paid B"]
    assert sorted(house.done) == ["A", "B"]


# --- expiry


def test_an_unanswered_question_is_a_dead_letter_after_seven_days(house):
    body = in_doubt(house)
    house.later(7 * 86_400 - 60)
    assert house.run(body.bind()).status is State.WAITING
    house.later(61)
    receipt = house.run(body.bind())
    assert receipt.status is State.DEAD
    assert receipt.stopped_by == "question.expired"
    assert receipt.text.startswith("nobody answered q1 in time")
    assert house.done == ["charge"]


def test_an_answer_after_the_expiry_is_refused(house):
    in_doubt(house)
    house.later(7 * 86_400 + 1)
    with pytest.raises(AnswerRefused, match="q1 expired unanswered"):
        house.answer("skip")


# --- a redrive orders no second start of an effect in doubt


@pytest.mark.parametrize("end", ["abort", "expired"])
def test_a_redrive_of_an_effect_in_doubt_asks_again_before_anything_is_sent(house, end):
    """G2: a second start is ordered only by an answer."""

    @house.tool
    def charge(order: str) -> str:
        if house.note("charge") == 1:
            raise reset()
        return "twice"

    @house.loop
    async def work(run) -> str:
        return await got(charge("A"))

    house.run(work.bind())
    if end == "abort":
        house.answer("abort")
    else:
        house.later(8 * 86_400)
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    receipt = house.run(work.bind())
    assert house.done == ["charge"]
    assert receipt.status is State.WAITING
    house.answer("happened", "ch_1")
    assert house.run(work.bind()).unwrap() == "ch_1"
