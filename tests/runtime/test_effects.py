"""How often a call is made again, by its effect kind and what its failure says (docs/guarantees.md, "The gate")."""

from __future__ import annotations

import pytest

from tests.runtime.errors import not_found, read_timeout, refused, reset, status
from tests.runtime.house import House, got
from yaoki import INJECTED, DeclarationError, Effect, Retry, StepFailed
from yaoki.records import Begin, Executed, State

FREE = [Effect.READ_ONLY, Effect.IDEMPOTENT]


def failing(house: House, errors: list[BaseException], effect: Effect | None, **policy):
    """Make a tool that meets these errors, then answers "ok"; and the loop that calls it once."""
    keyed = effect is Effect.KEYED

    def plain(x: int) -> str:
        return attempt("-")

    def with_key(x: int, *, idempotency_key: str = INJECTED) -> str:
        return attempt(idempotency_key)

    def attempt(key: str) -> str:
        house.note(key)
        if len(house.done) <= len(errors):
            raise errors[len(house.done) - 1]
        return "ok"

    use = house.tool(effect=effect, name="use", **policy)(with_key if keyed else plain)

    @house.loop
    async def one_call(run) -> str:
        return await got(use(1))

    return one_call


# --- what each kind repeats


@pytest.mark.parametrize("effect", [*list(Effect)[:3], None])
def test_what_was_refused_is_sent_again_whatever_its_kind(house, effect):
    receipt = house.run(failing(house, [refused(), status(429), status(404 + 25)], effect).bind())
    assert receipt.unwrap() == "ok"
    assert len(house.done) == 4


@pytest.mark.parametrize("effect", FREE)
@pytest.mark.parametrize("error", [reset, read_timeout, lambda: status(500)])
def test_a_read_in_doubt_is_repeated(house, effect, error):
    assert house.run(failing(house, [error()], effect).bind()).unwrap() == "ok"
    assert len(house.done) == 2


@pytest.mark.parametrize("error", [reset, read_timeout, lambda: status(500), lambda: status(502)])
def test_an_effect_in_doubt_is_not_repeated_and_a_person_is_asked(house, error):
    receipt = house.run(failing(house, [error()], None).bind())
    assert receipt.status is State.WAITING
    assert receipt.waits_for == "person"
    assert len(house.done) == 1
    assert [ask.text for ask in receipt.asks] == ["did use(x=1) happen?"]


def test_a_keyed_call_in_doubt_is_sent_again_with_the_same_key(house):
    receipt = house.run(failing(house, [reset(), status(500), read_timeout()], Effect.KEYED).bind())
    assert receipt.unwrap() == "ok"
    assert len(house.done) == 4
    assert len(set(house.done)) == 1
    assert len(house.done[0]) == 32


def test_a_keyed_ladder_that_ends_in_doubt_asks(house):
    receipt = house.run(failing(house, [reset()] * 9, Effect.KEYED, retry=Retry(attempts_max=3)).bind())
    assert receipt.status is State.WAITING
    assert len(house.done) == 3
    assert receipt.asks[0].executed is Executed.MAYBE


def test_a_keyed_409_after_a_doubt_means_it_happened_and_its_value_is_asked_for(house):
    receipt = house.run(failing(house, [reset(), status(409, text="duplicate request")], Effect.KEYED).bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.YES
    assert "happened, but its result is lost" in receipt.asks[0].text
    house.answer("happened", "ch_1")
    assert house.run(failing(house, [], Effect.KEYED).bind()).unwrap() == "ch_1"


def test_a_keyed_409_in_progress_is_waited_for(house):
    answers = [reset(), status(409, text="the request is still in progress")]
    assert house.run(failing(house, answers, Effect.KEYED).bind()).unwrap() == "ok"
    assert len(house.done) == 3


def test_a_first_409_is_a_refusal_like_any_other(house):
    receipt = house.run(failing(house, [status(409)], Effect.KEYED).bind())
    assert receipt.status is State.DEAD
    assert receipt.asks == []


@pytest.mark.parametrize("effect", [*list(Effect)[:3], None])
def test_what_cannot_heal_is_not_retried(house, effect):
    receipt = house.run(failing(house, [not_found()], effect).bind())
    assert receipt.status is State.DEAD
    assert receipt.failure.reason.startswith("http.404")
    assert len(house.done) == 1


def test_no_ladder_makes_more_than_attempts_max_attempts(house):
    receipt = house.run(failing(house, [refused()] * 99, Effect.READ_ONLY, retry=Retry(attempts_max=4)).bind())
    assert receipt.status is State.DEAD
    assert len(house.done) == 4


def test_a_wait_that_would_end_past_the_deadline_is_not_slept(house):
    body = failing(house, [status(429, retry_after="50")] * 9, Effect.READ_ONLY, retry=Retry(deadline_s=40))
    assert house.run(body.bind()).status is State.DEAD
    assert len(house.done) == 1
    assert house.clock.passed_s < 2


def test_the_wait_is_what_the_server_says(house):
    house.run(failing(house, [status(429, retry_after="20")], Effect.READ_ONLY).bind())
    assert 20 <= house.clock.passed_s < 22


# --- effect as a function, and none at all


def test_effect_may_be_a_function_of_the_arguments(house):
    def kind(command: str) -> Effect:
        return Effect.READ_ONLY if command == "ls" else Effect.AT_MOST_ONCE

    @house.tool(effect=kind)
    def bash(command: str) -> str:
        if house.note(command) == 1:
            raise reset()
        return "done"

    @house.loop
    async def work(run) -> list[str]:
        return [await got(bash("ls")), await got(bash("git push"))]

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert house.done == ["ls", "ls", "git push"]
    assert [(b.effect, b.call) for b in house.records(Begin)] == [
        (Effect.READ_ONLY, 'bash(command="ls")'),
        (Effect.READ_ONLY, 'bash(command="ls")'),
        (Effect.AT_MOST_ONCE, 'bash(command="git push")'),
    ]


def test_a_function_that_resolves_to_keyed_needs_the_key_too(house):
    """Repeating "with the same key" a call that takes none would be a plain repetition."""

    def kind(x: int) -> Effect:
        return Effect.KEYED

    @house.tool(effect=kind)
    def send(x: int) -> str:
        house.note("sent")
        raise reset()

    @house.loop
    async def work(run) -> str:
        return await got(send(1))

    receipt = house.run(work.bind())
    assert len(house.done) <= 1
    assert receipt.status is not State.COMPLETED


def test_an_effect_function_that_returns_no_effect_is_a_declaration_error(house):
    @house.tool(effect=lambda x: "read_only")
    def use(x: int) -> str:
        house.note("x")
        return "no"

    @house.loop
    async def work(run) -> str:
        try:
            return await got(use(1))
        except DeclarationError as error:
            return str(error)

    assert "must return an Effect" in house.run(work.bind()).unwrap()
    assert house.done == []


def test_what_is_not_declared_is_at_most_once_and_recorded_as_undeclared(house):
    house.run(failing(house, [], None).bind())
    (begin,) = house.records(Begin)
    assert begin.effect is Effect.AT_MOST_ONCE
    assert begin.undeclared


def test_at_most_once_said_aloud_is_not_undeclared(house):
    house.run(failing(house, [], Effect.AT_MOST_ONCE).bind())
    assert not house.records(Begin)[0].undeclared


def keyed(house: House, **policy):
    @house.tool(effect=Effect.KEYED, **policy)
    def refund(order: str, cents: int = 5, *, idempotency_key: str = INJECTED) -> str:
        house.note(f"{order} {cents} {idempotency_key}")
        return idempotency_key

    return refund


def happened(value: object) -> object:
    from yaoki import Happened

    return Happened(value)


# --- an outcome that a validator rejects


def test_an_effect_whose_answer_cannot_be_kept_happened_and_is_asked_about(house):
    @house.tool
    def odd(x: int) -> int:
        house.note("done")
        return "no int"  # type: ignore[return-value]

    @house.loop
    async def work(run) -> int:
        return await got(odd(1))

    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.YES
    assert house.done == ["done"]
    house.answer("happened", 4)
    assert house.run(work.bind()).unwrap() == 4
    assert house.done == ["done"]


def test_a_step_that_fails_is_step_failed_in_the_loop(house):
    @house.tool(effect=Effect.READ_ONLY)
    def look() -> str:
        raise not_found()

    @house.loop
    async def work(run) -> str:
        try:
            return await got(look())
        except StepFailed as error:
            return f"{error.failure.kind} {error.attempts} {error.__cause__}"

    assert house.run(work.bind()).unwrap() == "permanent 1 None"
