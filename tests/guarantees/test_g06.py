"""G6: Every ladder ends in exactly one designed outcome; no failure is lost; no doubt ends without a question."""

from __future__ import annotations

import pytest

from tests.guarantees.colours import RUN, begins, both, records_of, settles, url_of
from yaoki import (
    INJECTED,
    Effect,
    Feedback,
    ForModel,
    NotHappened,
    Retry,
    RetryableError,
    Runner,
    StepFailed,
    TerminalError,
    Toolbox,
    ToolCall,
)
from yaoki.escalate import ask, dead_letter
from yaoki.records import Ended, Question, State
from yaoki.testing import no_waits

TWICE = Retry(attempts_max=2)

REFUSED = ConnectionRefusedError(111, "refused")  # transient, did not happen
RESET = ConnectionResetError(104, "reset")  # transient, may have happened
MISSING = FileNotFoundError(2, "no such file", "x")  # permanent, did not happen
BUG = AttributeError("'NoneType' object has no attribute 'id'")  # programming, may have happened
STRANGE = type("NobodyKnowsError", (Exception,), {})("?")  # unknown, may have happened

FREE = (Effect.READ_ONLY, Effect.IDEMPOTENT)
KINDS = [*Effect]


def made(colour, kind: Effect, error: BaseException, calls: list, retry: Retry = TWICE, **policy):
    def act(what: str, *, idempotency_key: str = INJECTED) -> str:
        calls.append(idempotency_key)
        raise error

    if kind is Effect.CHECKED:
        return colour.tool(act, check=colour.check(never_happened), check_after_s=0, retry=retry, **policy)
    return colour.tool(act, effect=kind, retry=retry, **policy)


def never_happened(what: str) -> NotHappened:
    return NotHappened()


def one_step(acting):
    def body(run):
        return (yield acting("a"))

    return body


@both
@no_waits
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("error", [REFUSED, RESET, MISSING, BUG, STRANGE], ids=lambda error: type(error).__name__)
def test_every_kind_of_effect_and_failure_ends_in_one_outcome(tmp_path, colour, kind, error):
    """
    Dead with its step named, or a question: a question exactly where the effect may have happened, it may not
    simply be repeated, and no check has said that it did not.
    """
    calls: list[str] = []
    acting = made(colour, kind, error, calls)
    store = tmp_path / "s.db"
    receipt = colour.run(store, colour.loop(one_step(acting), name="body").bind())
    settled = settles(store)
    may_have_happened = settled[0].failure.executed != "no"
    in_doubt = may_have_happened and kind not in FREE and kind is not Effect.CHECKED
    questions = records_of(store, Question)
    if in_doubt:
        assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
        assert [(q.why, q.call) for q in questions] == [("doubt", 'act(what="a")')]
    else:
        assert receipt.status is State.DEAD
        assert "act" in receipt.step
        assert not questions
    assert len(records_of(store, Ended)) == (receipt.status is State.DEAD)
    assert len(receipt.failures) >= len(calls), "every failure is on the receipt"
    assert len(calls) == len(begins(store)) - sum(1 for begin in begins(store) if begin.call.startswith("act.check"))
    assert len(calls) <= 2


@both
@no_waits
def test_a_keyed_ladder_that_ends_in_doubt_asks_and_each_answer_ends_it(tmp_path, colour):
    for verdict, value, state in (
        ("happened", ("by hand",), State.COMPLETED),
        ("skip", (), State.COMPLETED),
        ("abort", (), State.DEAD),
        ("not-happened", (), State.WAITING),
    ):
        calls: list[str] = []
        acting = made(colour, Effect.KEYED, RESET, calls)
        store = tmp_path / f"{verdict}.db"
        bound = colour.loop(one_step(acting), name="body").bind()
        assert colour.run(store, bound).status is State.WAITING
        with Runner.verbs(url_of(store)) as runner:
            runner.answer(RUN, None, verdict, *value)
        receipt = colour.run(store, bound)
        assert receipt.status is state, (verdict, receipt.text, receipt.diff)
        assert len(calls) == 2 + (verdict == "not-happened")


@both
@no_waits
def test_a_result_that_cannot_be_kept_happened_and_is_asked_about(tmp_path, colour):
    def act(what: str) -> float:
        return float("nan")

    acting = colour.tool(act)
    store, bound = tmp_path / "s.db", colour.loop(one_step(acting), name="body").bind()
    assert colour.run(store, bound).status is State.WAITING
    assert [question.executed for question in records_of(store, Question)] == ["yes"]
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "happened", 1.5)
    assert colour.run(store, bound).value == 1.5


@both
@no_waits
def test_the_check_that_fails_for_good_leaves_a_question(tmp_path, colour):
    def broken(what: str) -> NotHappened:
        raise PermissionError(13, "denied")

    def act(what: str) -> str:
        raise RESET

    acting = colour.tool(act, check=colour.check(broken), check_after_s=0)
    receipt = colour.run(tmp_path / "s.db", colour.loop(one_step(acting), name="body").bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert "check" in receipt.asks[0].note
    assert {met.failure.reason for met in receipt.failures} == {"os.ECONNRESET", "os.EACCES"}


@both
@no_waits
def test_ask_asks_and_dead_letter_ends_the_run_without_the_loop_seeing_it(tmp_path, colour):
    calls: list[str] = []
    acting = made(colour, Effect.READ_ONLY, MISSING, calls, escalate=[ask("where is it?"), dead_letter()])

    def body(run):
        try:
            yield acting("a")
        except StepFailed:
            return "the loop went on"

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    receipt = colour.run(store, bound)
    assert [(one.why, one.text) for one in receipt.asks] == [("ask", "where is it?")]
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "not-happened")
    receipt = colour.run(store, bound)
    assert (receipt.status, receipt.stopped_by) == (State.DEAD, "dead_letter")


@both
@no_waits
def test_a_model_may_be_told_that_an_outcome_is_unknown_and_nothing_is_repeated(tmp_path, colour):
    calls: list[str] = []
    acting = made(colour, Effect.AT_MOST_ONCE, RESET, calls, agent=ForModel(unsure="tell"), name="act")

    def body(run):
        results = yield run.call_tools(Toolbox(acting), [ToolCall("c1", "act", {"what": "a"})])
        return [results[0].is_error, results[0].failure.reason]

    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind())
    assert receipt.value == [True, "outcome.unknown"]
    assert len(calls) == 1
    assert not receipt.asks


@both
@no_waits
def test_no_failure_is_lost_also_one_that_healed(tmp_path, colour):
    errors = [RESET, REFUSED, RetryableError("later")]
    left = list(errors)

    def look() -> str:
        if left:
            raise left.pop(0)
        return "seen"

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        return [(yield looking()), len(run.failures)]

    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind())
    assert receipt.value == ["seen", 3]
    assert [(met.attempt, met.then, met.healed) for met in receipt.failures] == [
        (1, "retry", True),
        (2, "retry", True),
        (3, "retry", True),
    ]


@both
@no_waits
def test_repairs_end_and_the_rejected_output_stays(tmp_path, colour):
    told: list[Feedback | None] = []

    def draft(*, feedback: Feedback | None = INJECTED) -> str:
        told.append(feedback)
        return f"draft {len(told)}"

    def reject(text: str) -> None:
        raise ValueError(f"{text} will not do")

    drafting = colour.tool(draft, effect=Effect.READ_ONLY, agent=ForModel(validate=reject, repairs_max=2))

    def body(run):
        return (yield drafting())

    store = tmp_path / "s.db"
    receipt = colour.run(store, colour.loop(body, name="body").bind())
    assert receipt.status is State.DEAD
    assert [one.error if one else None for one in told] == [
        None,
        "ValueError: draft 1 will not do",
        "ValueError: draft 2 will not do",
    ]
    assert [bytes(settle.output) for settle in settles(store)] == [b'"draft 1"', b'"draft 2"', b'"draft 3"']


@both
@no_waits
def test_a_terminal_error_is_not_retried(tmp_path, colour):
    calls: list[str] = []
    acting = made(colour, Effect.READ_ONLY, TerminalError("no"), calls)
    assert colour.run(tmp_path / "s.db", colour.loop(one_step(acting), name="body").bind()).status is State.DEAD
    assert len(calls) == 1


@both
@no_waits
def test_an_unanswered_question_is_a_dead_letter_when_it_expires(tmp_path, colour):
    from tests.guarantees.colours import Hand

    clock, calls = Hand(), []
    acting = made(colour, Effect.AT_MOST_ONCE, RESET, calls)
    store, bound = tmp_path / "s.db", colour.loop(one_step(acting), name="body").bind()
    assert colour.run(store, bound, clock=clock).status is State.WAITING
    clock.ms += 7 * 86_400_000 - 1000
    assert colour.run(store, bound, clock=clock).status is State.WAITING
    clock.ms += 2000
    receipt = colour.run(store, bound, clock=clock)
    assert (receipt.status, receipt.stopped_by) == (State.DEAD, "question.expired")
    assert len(calls) == 1
