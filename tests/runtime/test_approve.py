"""Approvals: nothing is sent before a person has allowed it, a refusal holds, and nobody is asked twice."""

from __future__ import annotations

import pytest

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, box, calls, got
from yaoki import AnswerRefused, DeclarationError, Effect, OutsideBranch, OutsideRun, Retry, StepFailed
from yaoki.records import Begin, Question, State


def paying(house: House, approve=True, **policy):
    @house.tool(approve=approve, **policy)
    def pay(cents: int) -> str:
        house.note(f"pay {cents}")
        return f"paid {cents}"

    return pay


def once(house: House, tool):
    @house.loop
    async def work(run, cents: int) -> str:
        try:
            return await got(tool(cents))
        except StepFailed as error:
            return f"{error.failure.reason} {error.failure.executed}: {error.failure.message}"

    return work


def test_nothing_is_sent_before_somebody_allows_it_and_then_it_is(house):
    body = once(house, paying(house))
    receipt = house.run(body.bind(900))
    assert (receipt.status, receipt.waits_for, receipt.text) == (State.WAITING, "person", "may pay(cents=900) be done?")
    assert (house.done, house.records(Begin)) == ([], [])
    (ask,) = receipt.asks
    assert (ask.why, ask.call, ask.step) == ("approve", "pay(cents=900)", "1.0//pay#0")
    house.answer("approve")
    assert house.run(body.bind(900)).unwrap() == "paid 900"
    assert house.done == ["pay 900"]
    assert house.get().asks[0].verdict == "approved"


def test_a_refusal_is_step_failed_with_its_reason(house):
    body = once(house, paying(house))
    house.run(body.bind(900))
    house.answer("refuse", "too much")
    assert house.run(body.bind(900)).unwrap() == (
        "approval.refused no: pay(cents=900) was refused by a person: too much. "
        "It was not done, and must not be asked for again."
    )
    assert house.done == []


def test_a_refusal_without_a_reason_and_an_abort_hold_too(house):
    body = once(house, paying(house))
    for run_id, verdict in (("a", "refuse"), ("b", "abort")):
        house.run(body.bind(900), run_id)
        house.answer(verdict, run_id=run_id)
        assert house.run(body.bind(900), run_id).unwrap().startswith("approval.refused no: ")
    assert house.done == []


@pytest.mark.parametrize("verdict", ["happened", "not-happened", "skip", "send", "value"])
def test_what_is_no_answer_to_an_approval_is_refused(house, verdict):
    house.run(once(house, paying(house)).bind(900))
    with pytest.raises(AnswerRefused, match="say approve, refuse"):
        house.answer(verdict, *(["x"] if verdict in ("happened", "value") else []))


def test_an_approval_takes_no_value_and_a_refusal_only_text(house):
    house.run(once(house, paying(house)).bind(900))
    with pytest.raises(AnswerRefused, match="takes no value"):
        house.answer("approve", "yes")
    with pytest.raises(AnswerRefused, match="a text that says why"):
        house.answer("refuse", 5)


def test_a_predicate_says_which_calls_need_it(house):
    body = once(house, paying(house, approve=lambda cents: cents > 500))
    assert house.run(body.bind(500), "small").unwrap() == "paid 500"
    assert house.run(body.bind(501), "large").status is State.WAITING
    assert house.done == ["pay 500"]


def test_a_predicate_that_says_neither_yes_nor_no_stops_the_call(house):
    @house.loop
    async def work(run) -> str:
        try:
            return await got(tool(1))
        except DeclarationError as error:
            return str(error)

    tool = paying(house, approve=lambda cents: None)
    assert "approve= returned None" in house.run(work.bind()).unwrap()
    assert house.done == []


def test_an_equal_call_is_refused_with_it_and_nobody_is_asked_again(house):
    pay = paying(house)

    @house.loop
    async def work(run) -> list:
        found = []
        for cents in (900, 900, 100):
            try:
                found.append(await got(pay(cents)))
            except StepFailed as error:
                found.append(error.failure.reason)
        return found

    house.run(work.bind())
    house.answer("refuse", "no")
    receipt = house.run(work.bind())
    assert [ask.call for ask in receipt.asks] == ["pay(cents=900)", "pay(cents=100)"]
    house.answer("approve")
    assert house.run(work.bind()).unwrap() == ["approval.refused", "approval.refused", "paid 100"]
    assert house.done == ["pay 100"]


def test_each_of_two_equal_actions_is_allowed_by_itself(house):
    pay = paying(house)

    @house.loop
    async def work(run) -> list:
        return [await got(pay(1)), await got(pay(1))]

    for _ in range(2):
        assert house.run(work.bind()).status is State.WAITING
        house.answer("approve")
    assert house.run(work.bind()).unwrap() == ["paid 1", "paid 1"]
    assert len({begin.key for begin in house.records(Begin)}) == 2


def test_a_retry_needs_no_second_approval(house):
    @house.tool(approve=True, effect=Effect.IDEMPOTENT)
    def put(what: str) -> str:
        if house.note("put") == 1:
            raise refused()
        return what

    @house.loop
    async def work(run) -> str:
        return await got(put("a"))

    house.run(work.bind())
    house.answer("approve")
    assert house.run(work.bind()).unwrap() == "a"
    assert (len(house.records(Question)), house.done) == (1, ["put", "put"])


def test_the_deadline_does_not_run_while_it_waits(house):
    body = once(house, paying(house, retry=Retry(deadline_s=10)))
    house.run(body.bind(1))
    house.later(3_600)
    house.answer("approve")
    assert house.run(body.bind(1)).unwrap() == "paid 1"
    (begin,) = house.records(Begin)
    assert begin.deadline_at == begin.at + 10_000


def test_a_model_is_told_of_the_refusal_and_its_other_calls_go_on(house):
    pay = paying(house)

    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(pay), calls(("pay", {"cents": 900}), ("pay", {"cents": 1}))))
        return [[result.is_error, result.text] for result in results]

    receipt = house.run(work.bind())
    by_call = {ask.call: ask.id for ask in receipt.asks}
    house.answer("approve", ask=by_call["pay(cents=1)"])
    house.answer("refuse", "over the limit", ask=by_call["pay(cents=900)"])
    (large, small) = house.run(work.bind()).unwrap()
    assert small == [False, "paid 1"]
    assert large[0] is True
    assert "refused by a person: over the limit" in large[1]
    assert house.done == ["pay 1"]


def test_a_refused_call_that_ended_the_run_is_asked_about_once_more_after_a_redrive(house):
    pay = paying(house)

    @house.loop
    async def work(run) -> str:
        return await got(pay(900))

    house.run(work.bind())
    house.answer("refuse")
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    receipt = house.run(work.bind())
    assert (receipt.status, [ask.id for ask in receipt.asks if not ask.verdict]) == (State.WAITING, ["q2"])
    house.answer("approve")
    assert house.run(work.bind()).unwrap() == "paid 900"


def test_unanswered_it_is_a_dead_letter_and_nothing_was_sent(house):
    body = once(house, paying(house))
    house.run(body.bind(1))
    house.later(8 * 86_400)
    receipt = house.run(body.bind(1))
    assert (receipt.status, receipt.stopped_by, house.done) == (State.DEAD, "question.expired", [])


def test_what_was_approved_and_is_in_doubt_is_a_doubt_like_any_other(house):
    @house.tool(approve=True)
    def pay(cents: int) -> str:
        house.note("pay")
        raise reset()

    @house.loop
    async def work(run) -> str:
        return await got(pay(1))

    house.run(work.bind())
    house.answer("approve")
    receipt = house.run(work.bind())
    assert [ask.why for ask in receipt.asks] == ["approve", "doubt"]
    house.answer("happened", "by hand")
    assert house.run(work.bind()).unwrap() == "by hand"
    assert house.done == ["pay"]


def test_a_new_pass_asks_for_what_was_not_done_and_adopts_what_was(house):
    pay = paying(house)

    @house.loop
    async def work(run) -> list:
        return [await got(pay(1)), await got(pay(2))]

    house.run(work.bind())
    house.answer("approve")
    assert house.run(work.bind()).status is State.WAITING
    house.outside(lambda verbs: verbs.redrive("r", "start"))
    receipt = house.run(work.bind())
    assert [ask.call for ask in receipt.asks if not ask.verdict] == ["pay(cents=2)"]
    with pytest.raises(AnswerRefused, match="q2 is not asked any more"):
        house.answer("approve", ask="q2")
    house.answer("approve")
    assert house.run(work.bind()).unwrap() == ["paid 1", "paid 2"]
    assert house.done == ["pay 1", "pay 2"]


def test_inside_an_attempt_nobody_can_allow_it(house):
    pay = paying(house, effect=Effect.READ_ONLY)

    @house.tool(effect=Effect.READ_ONLY)
    def outer() -> str:
        with pytest.raises(OutsideBranch, match="nothing was executed"):
            pay(1)
        return "held back"

    @house.loop
    async def work(run) -> str:
        return await got(outer())

    assert house.run(work.bind()).unwrap() == "held back"
    assert house.done == []


def test_without_a_run_nobody_can_allow_it(house):
    pay = paying(house, effect=Effect.READ_ONLY)
    with pytest.raises(OutsideRun, match="nobody can allow it"):
        pay(1)
    assert house.done == []
