"""`@retry`, and `@tool` outside a run: policy alone (API, "Policy alone, without a run")."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import inspect
import weakref

import httpx
import pytest

from tests.runtime.errors import not_found, read_timeout, refused, reset, status
from yaoki import (
    INJECTED,
    DeclarationError,
    Effect,
    Happened,
    NotHappened,
    Retry,
    RetryableError,
    TerminalError,
    retry,
    tool,
)
from yaoki.policy import Ladder, decide
from yaoki.runtime import _waits
from yaoki.runtime._resumed import resumed

READ = Effect.READ_ONLY


@pytest.fixture(autouse=True)
def _no_waits():
    """Nothing here sleeps: the decisions are the same, their waits take no time."""
    before = _waits.set_skipping(True)
    yield
    _waits.set_skipping(before)


class Flaky:
    """Fails with these errors, then answers 42; counts."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return 42


@pytest.fixture(params=["sync", "async"])
def kind(request) -> str:
    return request.param


def call(kind: str, decorate, flaky: Flaky):
    """Decorate a function of this kind around it, and call it."""
    if kind == "sync":

        @decorate
        def fetch(url: str = "u") -> int:
            """Fetch."""
            return flaky()

        return fetch()

    @decorate
    async def afetch(url: str = "u") -> int:
        return flaky()

    return asyncio.run(afetch())


# --- @retry


def test_what_works_is_called_once(kind):
    flaky = Flaky()
    assert call(kind, retry, flaky) == 42
    assert flaky.calls == 1


@pytest.mark.parametrize("error", [refused, reset, read_timeout, lambda: status(503), lambda: status(429)])
def test_what_can_heal_is_repeated_whether_or_not_it_was_executed(kind, error):
    flaky = Flaky(error(), error())
    assert call(kind, retry, flaky) == 42
    assert flaky.calls == 3


@pytest.mark.parametrize(
    "error", [TypeError("no"), not_found(), ValueError("no"), KeyError("k"), FileNotFoundError(2, "")]
)
def test_what_cannot_heal_is_raised_at_once_as_it_was(kind, error):
    flaky = Flaky(error)
    with pytest.raises(type(error)) as caught:
        call(kind, retry, flaky)
    assert caught.value is error
    assert flaky.calls == 1


def test_the_original_exception_is_raised_with_a_note_of_what_was_tried(kind):
    errors = [reset() for _ in range(9)]
    flaky = Flaky(*errors)
    with pytest.raises(ConnectionResetError) as caught:
        call(kind, retry(Retry(attempts_max=3)), flaky)
    assert caught.value is errors[2]
    [note] = caught.value.__notes__
    assert note.startswith(f"yaoki: {'afetch' if kind == 'async' else 'fetch'} gave up after 3 attempts in 0.")
    assert note.endswith("(os.ECONNRESET; attempts 3 of 3)")


def test_the_last_exception_does_not_drag_the_earlier_ones_along_as_its_cause(kind):
    flaky = Flaky(reset(), refused(), not_found())
    with pytest.raises(Exception, match="404") as caught:
        call(kind, retry, flaky)
    assert caught.value.__cause__ is None


def test_retry_never_is_one_attempt(kind):
    flaky = Flaky(reset())
    with pytest.raises(ConnectionResetError):
        call(kind, retry(Retry.never), flaky)
    assert flaky.calls == 1


def test_on_names_what_can_heal_and_any_other_is_raised_at_once(kind):
    flaky = Flaky(ValueError("parse"), ValueError("parse"))
    assert call(kind, retry(on=ValueError), flaky) == 42
    flaky = Flaky(reset())
    with pytest.raises(ConnectionResetError) as caught:
        call(kind, retry(on=ValueError), flaky)
    assert flaky.calls == 1
    assert not getattr(caught.value, "__notes__", [])


def test_on_takes_a_tuple_and_a_policy_beside_it(kind):
    flaky = Flaky(ValueError("a"), KeyError("b"), ValueError("c"))
    with pytest.raises(ValueError, match="c"):
        call(kind, retry(Retry(attempts_max=3), on=(ValueError, KeyError)), flaky)
    assert flaky.calls == 3


def test_a_terminal_error_says_do_not_and_a_retryable_error_says_do(kind):
    flaky = Flaky(TerminalError("stop"))
    with pytest.raises(TerminalError):
        call(kind, retry, flaky)
    assert flaky.calls == 1
    flaky = Flaky(RetryableError("again"), RetryableError("again", delay_s=3))
    assert call(kind, retry, flaky) == 42


def test_control_flow_passes_through(kind):
    for error in (KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()):
        flaky = Flaky(error)
        with pytest.raises(type(error)):
            call(kind, retry, flaky)
        assert flaky.calls == 1


def test_a_decorated_function_keeps_its_name_its_doc_and_its_signature():
    @retry
    def fetch(url: str, *, size: int = 3) -> bytes:
        """Fetch it."""
        return url.encode() * size

    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch it.")
    assert str(inspect.signature(fetch)) == "(url: 'str', *, size: 'int' = 3) -> 'bytes'"
    assert fetch("a", size=2) == b"aa"


def test_a_method_can_be_decorated():
    class Client:
        calls = 0

        @retry
        def fetch(self) -> int:
            self.calls += 1
            if self.calls < 3:
                raise reset()
            return self.calls

    assert Client().fetch() == 3


def test_the_wait_is_bounded_by_the_deadline():
    """429 with a hint beyond the deadline: raised at once."""
    flaky = Flaky(status(429, retry_after="100"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        call("sync", retry(Retry(deadline_s=50)), flaky)
    assert flaky.calls == 1
    assert "deadline" in caught.value.__notes__[0]


def test_real_waits_are_slept():
    _waits.set_skipping(False)
    flaky = Flaky(RetryableError("soon", delay_s=0.02))
    before = _waits.SYSTEM_CLOCK.monotonic_s()
    assert call("sync", retry(Retry(base_s=0)), flaky) == 42
    assert 0.02 <= _waits.SYSTEM_CLOCK.monotonic_s() - before < 1


# --- generators


def test_a_generator_is_repeated_before_its_first_item_and_not_after():
    calls: list[int] = []

    @retry
    def stream(fail_first: int, fail_later: bool):
        calls.append(1)
        if len(calls) <= fail_first:
            raise reset()
        yield 1
        if fail_later:
            raise reset()
        yield 2

    assert list(stream(2, False)) == [1, 2]
    assert len(calls) == 3
    calls.clear()
    items = stream(1, True)
    assert next(items) == 1
    with pytest.raises(ConnectionResetError):
        next(items)
    assert len(calls) == 2


def test_an_empty_generator_and_a_returned_value_pass():
    @retry
    def stream():
        return 7
        yield

    def outer():
        found = yield from stream()
        assert found == 7

    assert list(outer()) == []


def test_a_generators_send_and_close_reach_it():
    seen: list[object] = []

    @retry
    def stream():
        try:
            seen.append((yield 1))
            yield 2
        finally:
            seen.append("closed")

    items = stream()
    assert next(items) == 1
    assert items.send("hello") == 2
    items.close()
    assert seen == ["hello", "closed"]


def test_an_async_generator_is_repeated_before_its_first_item_and_not_after():
    calls: list[int] = []

    @retry
    async def stream(fail_later: bool):
        calls.append(1)
        if len(calls) <= 2:
            raise reset()
        yield 1
        if fail_later:
            raise reset()
        yield 2

    async def collect(fail_later: bool) -> list[int]:
        return [item async for item in stream(fail_later)]

    assert asyncio.run(collect(False)) == [1, 2]
    assert len(calls) == 3
    with pytest.raises(ConnectionResetError):
        asyncio.run(collect(True))
    assert len(calls) == 4


def test_what_is_sent_to_thrown_into_and_closed_in_a_generator_reaches_it_at_every_item():
    seen: list[object] = []

    @retry
    def stream(fail: list[BaseException]):
        if fail:
            raise fail.pop()
        try:
            for i in range(9):
                try:
                    seen.append((yield i))
                except KeyError as error:
                    seen.append(type(error))
        finally:
            seen.append("closed")
        return "all"

    items = stream([reset()])
    assert next(items) == 0
    assert items.throw(KeyError()) == 1
    assert items.send("a") == 2
    assert next(items) == 3
    assert items.throw(KeyError()) == 4
    assert items.send("b") == 5
    with pytest.raises(ValueError, match="not caught in there"):
        items.throw(ValueError("not caught in there"))
    assert seen == [KeyError, "a", None, KeyError, "b", "closed"]


def test_closing_a_generator_closes_the_one_inside_even_if_somebody_else_holds_it():
    def stream():
        yield 1
        yield 2

    inner = stream()
    outer = resumed(inner, next(inner))
    assert next(outer) == 1
    outer.close()
    assert inspect.getgeneratorstate(inner) == "GEN_CLOSED"


@pytest.mark.parametrize("how", ["send", "throw"])
def test_a_generator_that_ends_at_what_was_sent_or_thrown_returns_its_value(how):
    @retry
    def stream():
        with contextlib.suppress(KeyError):
            yield 1
        return 7

    items = stream()
    next(items)
    with pytest.raises(StopIteration) as caught:
        items.send("x") if how == "send" else items.throw(KeyError())
    assert caught.value.value == 7


def test_a_decorated_async_generator_is_still_one():
    @retry
    async def stream():
        yield 1

    assert inspect.isasyncgenfunction(stream)


def test_an_empty_async_generator_passes():
    @retry
    async def stream():
        if False:
            yield

    async def collect() -> list[object]:
        return [item async for item in stream()]

    assert asyncio.run(collect()) == []


def test_an_async_generators_asend_athrow_and_aclose_reach_it_at_every_item():
    seen: list[object] = []

    @retry
    async def stream(fail: list[BaseException]):
        if fail:
            raise fail.pop()
        try:
            for i in range(9):
                try:
                    seen.append((yield i))
                except KeyError as error:
                    seen.append(type(error))
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    async def main() -> None:
        items = stream([reset()])
        assert await anext(items) == 0
        assert await items.athrow(KeyError()) == 1
        assert await items.asend("a") == 2
        assert await anext(items) == 3
        await items.aclose()
        assert seen == [KeyError, "a", None, "closed"]

    asyncio.run(main())


# --- attempts


def test_attempts_repeat_a_block_until_it_works():
    flaky = Flaky(reset(), reset())
    found = []
    for attempt in retry.attempts():
        with attempt:
            found.append(attempt.number)
            flaky()
    assert found == [1, 2, 3]


def test_attempts_raise_the_original_exception_when_they_give_up():
    flaky = Flaky(*[httpx.ConnectError("no") for _ in range(9)])
    with pytest.raises(httpx.ConnectError) as caught:
        for attempt in retry.attempts(Retry(attempts_max=2), on=httpx.HTTPError, name="poll"):
            with attempt:
                flaky()
    assert flaky.calls == 2
    assert caught.value.__notes__[0].startswith("yaoki: poll gave up after 2 attempts")


def test_attempts_let_other_exceptions_and_control_flow_through():
    for error in (ValueError("other"), KeyboardInterrupt()):
        flaky = Flaky(error)
        with pytest.raises(type(error)):
            for attempt in retry.attempts(on=httpx.HTTPError):
                with attempt:
                    flaky()
        assert flaky.calls == 1


def test_a_break_out_of_attempts_is_a_break():
    numbers = []
    for attempt in retry.attempts():
        with attempt:
            numbers.append(attempt.number)
            break
    assert numbers == [1]


# --- @tool outside a run


def alone(kind: str, flaky: Flaky, **policy):
    """Call a tool of this kind outside any run."""
    keys: list[str] = []
    if policy.get("effect") is Effect.KEYED:
        if kind == "sync":

            @tool(**policy)
            def send(x: int, *, idempotency_key: str = INJECTED) -> int:
                keys.append(idempotency_key)
                return flaky()

            return send(1), keys

        @tool(**policy)
        async def asend(x: int, *, idempotency_key: str = INJECTED) -> int:
            keys.append(idempotency_key)
            return flaky()

        return asyncio.run(asend(1)), keys
    if kind == "sync":

        @tool(**policy)
        def plain(x: int) -> int:
            return flaky()

        return plain(1), keys

    @tool(**policy)
    async def aplain(x: int) -> int:
        return flaky()

    return asyncio.run(aplain(1)), keys


def test_a_tool_alone_works_like_its_function(kind):
    assert alone(kind, Flaky(), effect=READ)[0] == 42


def test_a_read_alone_is_repeated(kind):
    flaky = Flaky(reset(), status(500), refused())
    assert alone(kind, flaky, effect=READ)[0] == 42
    assert flaky.calls == 4


def test_an_effect_alone_is_repeated_after_a_refusal_and_not_in_doubt(kind):
    flaky = Flaky(refused(), refused(), reset())
    with pytest.raises(ConnectionResetError) as caught:
        alone(kind, flaky)
    assert flaky.calls == 3
    assert "it may have happened" in caught.value.__notes__[0]


def test_a_keyed_tool_alone_keeps_one_key_through_its_retries(kind):
    flaky = Flaky(reset(), status(500))
    found, keys = alone(kind, flaky, effect=Effect.KEYED)
    assert found == 42
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    assert alone(kind, Flaky(), effect=Effect.KEYED)[1][0] != keys[0]


def test_a_doubt_that_was_once_there_is_not_lowered_by_a_later_refusal(kind):
    flaky = Flaky(reset())
    with pytest.raises(ConnectionResetError):
        alone(kind, flaky)
    assert flaky.calls == 1


@pytest.mark.parametrize(("verdict", "found", "sends"), [(Happened(7), 7, 1), (NotHappened(), 42, 2)])
def test_a_checked_tool_alone_asks_its_check(kind, verdict, found, sends):
    flaky, asked = Flaky(reset()), []

    def sent(x: int) -> Happened[int] | NotHappened:
        asked.append(x)
        return verdict

    async def asent(x: int) -> Happened[int] | NotHappened:
        return sent(x)

    assert alone(kind, flaky, check=sent if kind == "sync" else asent)[0] == found
    assert flaky.calls == sends
    assert asked == [1]


def test_a_checked_tool_alone_whose_check_fails_raises_the_doubt(kind):
    """Nothing is sent again while nobody can say what happened."""
    flaky = Flaky(reset(), reset())

    def sent(x: int) -> Happened[int] | NotHappened:
        raise KeyError("no such box")

    async def asent(x: int) -> Happened[int] | NotHappened:
        return sent(x)

    with pytest.raises((ConnectionResetError, KeyError)):
        alone(kind, flaky, check=sent if kind == "sync" else asent)
    assert flaky.calls == 1


def test_an_attempt_alone_is_cut_at_its_timeout_and_retried_if_it_may_be():
    calls: list[int] = []

    @tool(effect=READ, timeout_s=0.02)
    async def slow() -> int:
        calls.append(1)
        if len(calls) < 3:
            await asyncio.sleep(30)
        return 42

    assert asyncio.run(slow()) == 42
    assert len(calls) == 3


def test_a_timeout_of_the_callers_own_is_not_the_attempts():
    calls: list[int] = []

    @tool(effect=READ, timeout_s=30)
    async def slow() -> int:
        calls.append(1)
        await asyncio.sleep(30)
        return 1

    async def bounded() -> int:
        async with asyncio.timeout(0.02):
            return await slow()

    with pytest.raises(TimeoutError):
        asyncio.run(bounded())
    assert len(calls) == 1


def test_injected_parameters_are_filled_in_alone_too():
    @tool(effect=READ, timeout_s=9)
    def look(*, timeout_s: float = INJECTED, feedback: object = INJECTED) -> list:
        return [timeout_s, feedback]

    assert look() == [9, None]


def test_an_injected_parameter_sent_by_the_caller_is_refused_alone_too():
    """As inside a run: the key is Yaoki's to fill in."""

    @tool(effect=Effect.KEYED)
    def send(x: int, *, idempotency_key: str = INJECTED) -> str:
        return idempotency_key

    with pytest.raises(TypeError, match="fills in 'idempotency_key' itself"):
        send(1, idempotency_key="mine")


def test_an_async_tool_refuses_a_sent_injected_parameter_at_the_call():
    @tool(effect=READ)
    async def look(*, timeout_s: float = INJECTED, **more: object) -> float:
        return timeout_s

    with pytest.raises(TypeError, match="fills in 'timeout_s' itself"):
        look(timeout_s=3)


def test_a_doubt_whose_check_says_not_happened_counts_once_as_the_same_error(kind, monkeypatch):
    """A check's answer is no second failure."""
    decided: list[tuple[int, int, str]] = []

    def noting(failure: object, ladder: Ladder, **more: object) -> object:
        decision = decide(failure, ladder, **more)
        decided.append((ladder.attempts, ladder.same_error, decision.do))
        return decision

    monkeypatch.setattr("yaoki.runtime._alone.decide", noting)

    def absent(x: int) -> Happened[int] | NotHappened:
        return NotHappened()

    async def aabsent(x: int) -> Happened[int] | NotHappened:
        return NotHappened()

    assert alone(kind, Flaky(reset(), reset()), check=absent if kind == "sync" else aabsent)[0] == 42
    assert decided == [(1, 1, "check"), (1, 1, "retry"), (2, 2, "check"), (2, 2, "retry")]


def test_a_method_tool_alone_asks_its_check_with_the_arguments_it_was_called_with():
    asked: list[object] = []

    class Client:
        def sent(self, x: int) -> Happened[int] | NotHappened:
            asked.append((self, x))
            return Happened(42)

        @tool(check=sent)
        def send(self, x: int) -> int:
            raise reset()

    client = Client()
    assert client.send(7) == 42
    assert asked == [(client, 7)]


class Held(ConnectionResetError):
    """An error that holds something, as an HTTP error holds its socket."""


@pytest.mark.parametrize("decorate", [retry, tool(effect=READ)], ids=["retry", "tool"])
def test_an_error_that_healed_is_let_go_at_once_with_what_it_holds(kind, decorate):
    """Without waiting for the collector: urllib's errors hold open sockets."""
    held: list[weakref.ref[BaseException]] = []

    def fails() -> int:
        if len(held) < 3:
            error = Held(errno.ECONNRESET, "reset")
            held.append(weakref.ref(error))
            try:
                raise error
            finally:
                del error
        return 42

    gc.disable()
    try:
        assert call(kind, decorate, fails) == 42
        assert [one() for one in held] == [None] * 3
    finally:
        gc.enable()


# --- Retry itself


@pytest.mark.parametrize(
    "bounds",
    [{"attempts_max": 0}, {"attempts_max": 10_001}, {"deadline_s": 0}, {"base_s": -1}, {"cap_s": float("nan")}],
)
def test_bounds_that_cannot_work_are_refused(bounds):
    with pytest.raises(DeclarationError):
        Retry(**bounds)
