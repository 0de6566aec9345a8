"""A person watches: asked in place of a ladder's longer waits, and nothing else changes."""

from __future__ import annotations

import pytest

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, got
from yaoki import INJECTED, AnswerRefused, Effect, Retry, RetryableError, StepFailed
from yaoki.records import Begin, State

LATER = Retry(attempts_max=3, deadline_s=900)


def failing(house: House, *errors: BaseException, **policy):
    """Make a loop whose one step meets these errors, then succeeds."""
    policy = {"effect": Effect.READ_ONLY, "retry": LATER, **policy}

    @house.tool(**policy)
    def look(what: str) -> str:
        number = house.note("look")
        if number <= len(errors):
            raise errors[number - 1]
        return f"saw {what}"

    @house.loop
    async def work(run) -> str:
        try:
            return str(await got(look("a")))
        except StepFailed as error:
            return f"failed: {error.failure.reason}"

    return work


def soon() -> RetryableError:
    return RetryableError("busy", delay_s=60)


def watched(house: House, body):
    return house.run(body.bind(), interactive=True)


def test_a_wait_is_a_question_that_goes_on_by_itself_when_the_wait_is_over(house):
    body = failing(house, soon())
    receipt = watched(house, body)
    assert (receipt.status, receipt.waits_for, house.done) == (State.WAITING, "person", ["look"])
    (ask,) = receipt.asks
    assert (ask.why, ask.retries) == ("ask", True)
    assert ask.expires_at - ask.asked_at >= 60_000
    house.later(30)
    assert watched(house, body).status is State.WAITING
    house.later((ask.expires_at - house.clock.now_ms()) / 1000)
    assert watched(house, body).unwrap() == "saw a"


def test_it_goes_on_by_itself_also_where_nobody_watches_any_more(house):
    body = failing(house, soon())
    watched(house, body)
    house.later(120)
    assert house.run(body.bind()).unwrap() == "saw a"


def test_retry_now_does_not_sit_out_the_wait(house):
    body = failing(house, soon())
    watched(house, body)
    before_ms = house.clock.now_ms()
    house.answer("retry")
    assert watched(house, body).unwrap() == "saw a"
    assert house.clock.now_ms() - before_ms < 1_000


def test_a_value_stands_for_the_step(house):
    body = failing(house, soon())
    watched(house, body)
    house.answer("value", "by hand")
    assert watched(house, body).unwrap() == "by hand"
    assert house.done == ["look"]


@pytest.mark.parametrize(("verdict", "end"), [("skip", "None"), ("abort", "failed: retryable")])
def test_skip_and_abort_end_the_step(house, verdict, end):
    body = failing(house, soon())
    watched(house, body)
    house.answer(verdict)
    assert watched(house, body).unwrap() == end
    assert house.done == ["look"]


def test_the_attempts_are_no_more_than_without_anybody_there(house):
    body = failing(house, *[soon()] * 5)
    for _ in range(2):
        assert watched(house, body).status is State.WAITING
        house.later(120)
    assert watched(house, body).unwrap() == "failed: retryable"
    assert len(house.done) == LATER.attempts_max


def test_the_deadline_goes_on_where_it_was(house):
    @house.tool(effect=Effect.READ_ONLY, retry=LATER)
    def look() -> str:
        house.later(100)
        if house.note("look") == 1:
            raise soon()
        return "seen"

    @house.loop
    async def work(run) -> str:
        return await got(look())

    watched(house, work)
    house.later(120)
    assert watched(house, work).unwrap() == "seen"
    first, second = house.records(Begin)
    assert first.ends_at - first.at == 900_000
    assert second.ends_at - second.at == 800_000


def test_a_short_wait_is_not_worth_a_question(house):
    body = failing(house, RetryableError("busy", delay_s=0.1), retry=Retry(attempts_max=2, base_s=0.001, cap_s=0.002))
    receipt = watched(house, body)
    assert (receipt.unwrap(), receipt.asks) == ("saw a", [])


def test_retry_is_no_word_about_what_happened(house):
    """A charge that may have happened stays in doubt when its ladder ends, whatever was ordered in between."""

    @house.tool(effect=Effect.KEYED, retry=Retry(attempts_max=2, base_s=60, cap_s=60))
    def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        raise reset() if house.note("charge") == 1 else refused()

    @house.loop
    async def work(run) -> str:
        return await got(charge("a"))

    house.run(work.bind(), interactive=True)
    house.answer("retry")
    receipt = house.run(work.bind(), interactive=True)
    assert (receipt.status, receipt.asks[-1].why) == (State.WAITING, "doubt")


def test_cancelled_while_it_asks_what_may_have_happened_is_still_a_doubt(house):
    @house.tool(effect=Effect.KEYED, retry=Retry(base_s=600, cap_s=600))
    def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> str:
        return await got(charge("a"))

    house.run(work.bind(), interactive=True)
    house.cancel()
    receipt = house.run(work.bind(), interactive=True)
    assert receipt.status is State.CANCELLED
    assert [ask.why for ask in receipt.asks if not ask.verdict][-1] == "doubt"


def test_retry_is_refused_where_nothing_waits_to_be_tried_again(house):
    @house.loop
    async def work(run) -> str:
        return await got(run.ask("Go?"))

    house.run(work.bind())
    with pytest.raises(AnswerRefused):
        house.answer("retry")
