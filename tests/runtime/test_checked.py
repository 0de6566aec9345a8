"""CHECKED effects: the receiver is asked before anything is sent again (docs/guarantees.md, "The gate")."""

from __future__ import annotations

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, got
from yaoki import ForModel, NotHappened, Retry
from yaoki.records import Begin, Executed, State


def checked(house: House, verdicts: list[object], errors: list[BaseException], **policy):
    """Make a mail that meets these errors, and a check that says these things in turn."""

    def sent(to: str) -> object:
        house.note(f"check {house.clock.passed_s:.2f}")
        verdict = verdicts.pop(0)
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict

    def send(to: str) -> str:
        house.note("send")
        if errors:
            raise errors.pop(0)
        return "sent"

    mail = house.tool(check=house.check(sent), name="mail", **policy)(send)

    @house.loop
    async def one_mail(run) -> str:
        return await got(mail("a@b"))

    return one_mail


def happened(value: object) -> object:
    from yaoki import Happened

    return Happened(value)


def sent_and_checked(house: House) -> list[str]:
    return [line.split()[0] for line in house.done]


def test_a_check_that_says_happened_gives_the_value_and_nothing_is_sent_again(house):
    assert house.run(checked(house, [happened("found")], [reset()]).bind()).unwrap() == "found"
    assert sent_and_checked(house) == ["send", "check"]


def test_a_check_that_says_it_did_not_happen_lets_it_be_sent_again(house):
    assert house.run(checked(house, [NotHappened()], [reset()]).bind()).unwrap() == "sent"
    assert sent_and_checked(house) == ["send", "check", "send"]


def test_each_doubt_is_checked_anew(house):
    body = checked(house, [NotHappened(), happened("second")], [reset(), reset()])
    assert house.run(body.bind()).unwrap() == "second"
    assert sent_and_checked(house) == ["send", "check", "send", "check"]


def test_what_was_refused_is_sent_again_without_a_check(house):
    assert house.run(checked(house, [], [refused()]).bind()).unwrap() == "sent"
    assert sent_and_checked(house) == ["send", "send"]


def test_a_transient_failure_of_a_check_is_retried(house):
    assert house.run(checked(house, [refused(), reset(), happened("yes")], [reset()]).bind()).unwrap() == "yes"
    assert sent_and_checked(house) == ["send", "check", "check", "check"]


def test_any_other_exception_of_a_check_asks(house):
    receipt = house.run(checked(house, [KeyError("no such box")], [reset()]).bind())
    assert receipt.status is State.WAITING
    assert "check failed" in receipt.asks[0].note
    assert sent_and_checked(house) == ["send", "check"]


def test_a_check_that_returns_something_else_asks(house):
    receipt = house.run(checked(house, [True], [reset()]).bind())
    assert receipt.status is State.WAITING
    assert "must return Happened(value) or NotHappened()" in receipt.asks[0].note


def test_a_check_whose_value_does_not_fit_asks(house):
    receipt = house.run(checked(house, [happened(object())], [reset()]).bind())
    assert receipt.status is State.WAITING
    assert sent_and_checked(house) == ["send", "check"]


def test_the_check_is_not_asked_before_check_after_s(house):
    house.run(checked(house, [happened("x")], [reset()], check_after_s=12).bind())
    (when,) = [float(line.split()[1]) for line in house.done if line.startswith("check")]
    assert 12 <= when < 13


def test_after_a_death_too_the_check_is_not_asked_before_check_after_s(house):
    """The request of a process that died a moment ago may still be queued at the receiver."""

    def sent(to: str) -> object:
        house.note(f"check {house.clock.passed_s:.2f}")
        return NotHappened()

    def send(to: str) -> str:
        if house.note("send") == 1:
            house.kill()
        return "sent"

    mail = house.tool(check=house.check(sent), name="mail", check_after_s=12)(send)

    @house.loop
    async def work(run) -> str:
        return await got(mail("a@b"))

    assert house.die(work.bind()) == -9
    house.later(1)
    assert house.run(work.bind()).unwrap() == "sent"
    (when,) = [float(line.split()[1]) for line in house.done if line.startswith("check")]
    assert when >= 12


def test_a_check_is_a_sub_step_and_shifts_no_counter(house):
    house.run(checked(house, [happened("x")], [reset()]).bind())
    keys = [entry.key for entry in house.journal() if isinstance(entry.record, Begin)]
    assert keys == ["1.0//mail#0", "1.0//mail#0!check.1"]


def test_an_attempt_in_doubt_is_only_ended_by_a_check_or_a_person(house):
    """At the last attempt too: the check still spares a person the question."""
    body = checked(house, [happened("it did")], [reset()], retry=Retry.never)
    assert house.run(body.bind()).unwrap() == "it did"


def test_not_happened_at_the_last_attempt_ends_the_ladder_as_a_failure(house):
    body = checked(house, [NotHappened()], [reset()], retry=Retry.never)
    receipt = house.run(body.bind())
    assert receipt.status is State.DEAD
    assert receipt.asks == []
    assert receipt.failure.executed is Executed.NO


# --- a check that fails


def failing(house: House, first: BaseException | object, times: int = 1, **policy):
    """Make a mail in doubt whose check says this the first times, and `found` after that."""

    def sent(to: str) -> object:
        if house.note("check") > times:
            return happened("found")
        if isinstance(first, BaseException):
            raise first
        return first

    def send(to: str) -> str:
        house.note("send")
        raise reset()

    mail = house.tool(check=house.check(sent), name="mail", retry=Retry.never, **policy)(send)

    @house.loop
    async def work(run) -> str:
        return await got(mail("a@b"))

    return work


def test_a_check_whose_value_is_of_another_type_asks_and_no_doubt_ends_silently(house):
    receipt = house.run(failing(house, happened(7)).bind())
    assert receipt.waits_for == "person"
    assert "The check failed: " in receipt.asks[0].note
    assert "Expected `str`, got `int`" in receipt.asks[0].note


def test_a_redriven_step_in_doubt_asks_its_check_anew(house):
    body = failing(house, KeyError("the receiver is down"))
    assert house.run(body.bind()).waits_for == "person"
    house.redrive()
    receipt = house.run(body.bind())
    assert receipt.unwrap() == "found"
    assert house.done == ["send", "check", "check"]
    assert receipt.asks == [], "what was asked is moot: the check has said it"


def test_a_check_that_failed_about_an_earlier_passs_doubt_is_asked_anew_once_the_run_is_redriven(house):
    body = failing(house, KeyError("the receiver is down"), times=2)
    house.run(body.bind())
    house.later(8 * 86_400)
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    assert house.run(body.bind()).waits_for == "person"
    house.later(8 * 86_400)
    assert house.run(body.bind()).stopped_by == "question.expired"
    house.redrive()
    assert house.run(body.bind()).unwrap() == "found"
    assert house.done == ["send", "check", "check", "check"]


def test_a_failed_check_of_a_tool_that_tells_asks_nobody(house):
    body = failing(house, KeyError("down"), agent=ForModel(unsure="tell"))
    receipt = house.run(body.bind())
    assert (receipt.status, receipt.failure.reason) == (State.DEAD, "outcome.unknown")
    assert receipt.asks == []


def test_who_redrives_a_step_in_doubt_is_asked_also_of_a_tool_that_tells(house):
    """Its check failed again: else the redrive would end in what nobody knows, without a word to whom ordered it."""
    body = failing(house, KeyError("down"), times=2, agent=ForModel(unsure="tell"))
    assert house.run(body.bind()).status is State.DEAD
    house.redrive()
    assert house.run(body.bind()).waits_for == "person"
    assert house.done == ["send", "check", "check"]
