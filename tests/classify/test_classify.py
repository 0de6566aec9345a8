"""What decides, in which order, and that nothing a stranger's object does gets in the way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import gc
import json
import os
import pickle
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import httpx
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.classify.rebuilt import built
from yaoki.classify import (
    Evidence,
    Executed,
    Failure,
    FailureKind,
    Rule,
    Scope,
    attempt_timed_out,
    classify,
    is_control_flow,
    process_died,
    register,
)
from yaoki.classify._patterns import _Uncompiled
from yaoki.classify._rule import _registered
from yaoki.errors import Fenced, OutsideRun, Park, RetryableError, StepFailed, Stopped, StoreRefused, TerminalError

K, NO, MAYBE, YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES


def raised(call: Any) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("it did not fail")


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    def call() -> None:
        raise error from cause

    return raised(call)


def raised_while(error: BaseException, handled: BaseException) -> BaseException:
    def call() -> None:
        try:
            raise handled
        except BaseException:
            raise error  # noqa: B904 - the context is the subject

    return raised(call)


def answer(status: int, text: str = "", headers: dict[str, str] | None = None) -> object:
    return SimpleNamespace(status_code=status, headers=headers or {}, text=text)


class Odd(Exception):
    pass


# --- control flow -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
        Park(),
        Fenced(),
        Stopped(),
        built(("langgraph.errors.GraphInterrupt", "langgraph.errors.GraphBubbleUp", "builtins.Exception"))(""),
        built(("mine.Interrupt", "langgraph.errors.GraphBubbleUp", "builtins.Exception"))(""),
        built(("pydantic_ai.exceptions.ModelRetry", "builtins.Exception"))(""),
        built(("pydantic_ai.exceptions.CallDeferred", "builtins.Exception"))(""),
        built(("pydantic_ai.exceptions.ApprovalRequired", "builtins.Exception"))(""),
        BaseExceptionGroup("g", [asyncio.CancelledError(), Park()]),
        BaseExceptionGroup("g", [ValueError(), KeyboardInterrupt()]),
    ],
    ids=repr,
)
def test_control_flow_is_told_from_failures(error: BaseException) -> None:
    assert is_control_flow(error)
    assert classify(error).reason.startswith("control.")
    assert classify(error).executed is MAYBE


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ValueError(),
        Odd(),
        MemoryError(),
        built(("elsewhere.ModelRetry", "builtins.Exception"))(""),
        BaseExceptionGroup("g", [ValueError(), asyncio.CancelledError()][:1]),
    ],
    ids=repr,
)
def test_failures_are_no_control_flow(error: BaseException) -> None:
    assert not is_control_flow(error)


def test_a_timeout_made_of_a_cancellation_is_a_timeout() -> None:
    async def call() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(5)

    error = raised(lambda: asyncio.run(call()))
    assert not is_control_flow(error)
    assert (classify(error).kind, classify(error).executed) == (K.TRANSIENT, MAYBE)


# --- what the user says -------------------------------------------------------------------------------------


def test_a_terminal_error_is_permanent_and_executed_as_its_cause_says() -> None:
    assert (classify(TerminalError("no")).kind, classify(TerminalError("no")).executed) == (K.PERMANENT, MAYBE)
    refused = raised_from(TerminalError("no"), ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    assert (classify(refused).kind, classify(refused).executed) == (K.PERMANENT, NO)


def test_a_retryable_error_carries_its_delay_and_its_cause_s_executed() -> None:
    failure = classify(RetryableError("later", delay_s=3))
    assert (failure.kind, failure.executed, failure.retry_after_s) == (K.TRANSIENT, MAYBE, 3.0)
    failure = classify(raised_from(RetryableError("later"), OSError(errno.ENETUNREACH, "x")))
    assert (failure.kind, failure.executed, failure.retry_after_s) == (K.TRANSIENT, NO, None)
    assert classify(RetryableError("x", delay_s=float("nan"))).retry_after_s is None
    assert classify(RetryableError("x", delay_s=-1)).retry_after_s == 0.0


def test_a_user_s_own_delay_of_days_stays_a_delay() -> None:
    failure = classify(RetryableError("x", delay_s=200_000))
    assert (failure.kind, failure.retry_after_s) == (K.TRANSIENT, 200_000.0)


def test_a_step_s_failure_is_the_one_in_the_journal() -> None:
    failure = Failure(kind=K.BUDGET, reason="http.402", message="m", executed=NO, fingerprint="f")
    step = StepFailed("gave up", failure=failure)
    assert classify(step).kind is K.BUDGET
    assert classify(step).message == "m"
    assert classify(step).fingerprint == "f"


@pytest.fixture
def clean_rules() -> Iterator[None]:
    before = list(_registered)
    yield
    _registered[:] = before


@pytest.mark.usefixtures("clean_rules")
def test_a_registered_rule_is_asked_first_and_the_newest_before_all() -> None:
    def ours(evidence: Evidence) -> Failure | None:
        return Failure(kind=K.BUDGET, reason="ours", scope=Scope.KEY) if evidence.status == 429 else None

    register(Rule(name="team.first", judge=ours))
    assert classify(answer(429)).kind is K.BUDGET
    assert classify(answer(429)).evidence == "rule team.first"
    assert classify(answer(500)).kind is K.TRANSIENT
    register(Rule(name="team.second", judge=lambda evidence: Failure(kind=K.FATAL, reason="worse")))
    assert classify(answer(429)).kind is K.FATAL
    register(Rule(name="team.second", judge=lambda evidence: None))
    assert classify(answer(429)).kind is K.BUDGET


@pytest.mark.usefixtures("clean_rules")
def test_a_rule_that_raises_is_passed_over() -> None:
    register(Rule(name="team.broken", judge=lambda evidence: 1 / 0))  # type: ignore[arg-type,return-value]
    assert classify(answer(500)).kind is K.TRANSIENT


# --- Python, the system, processes --------------------------------------------------------------------------


class Named(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: None + 1, K.PROGRAMMING),
        (lambda: {}["x"], K.PROGRAMMING),
        (lambda: list[int]()[0], K.PROGRAMMING),
        (lambda: 1 / 0, K.PROGRAMMING),
        (lambda: int("x"), K.PROGRAMMING),
        (lambda: compile("(", "x", "exec"), K.PROGRAMMING),
        (lambda: str(b"\xff", "utf-8"), K.PROGRAMMING),
        (lambda: Path("/nonexistent/x").read_text(), K.PERMANENT),
        (lambda: next(Path(__file__).iterdir()), K.PERMANENT),
        (lambda: json.loads('{"a": '), K.SEMANTIC),
        (lambda: msgspec.json.decode(b"{"), K.SEMANTIC),
        (lambda: msgspec.json.decode(b"3", type=str), K.SEMANTIC),
        (lambda: Named.model_validate({"name": {"code": "rate_limit_exceeded"}}), K.SEMANTIC),
    ],
)
def test_an_error_inside_a_tool_may_come_after_its_deed(call: Any, kind: FailureKind) -> None:
    failure = classify(raised(call))
    assert (failure.kind, failure.executed) == (kind, MAYBE), failure


def test_out_of_memory_is_fatal_and_the_process_s() -> None:
    assert (classify(MemoryError()).kind, classify(MemoryError()).scope) == (K.FATAL, Scope.PROCESS)


def test_an_error_nobody_knows_is_unknown_and_maybe() -> None:
    failure = classify(Odd("hm"))
    assert (failure.kind, failure.executed, failure.reason) == (K.UNKNOWN, MAYBE, "unknown.Odd")


@pytest.mark.parametrize("name", sorted(errno.errorcode.values()))
def test_no_errno_is_said_not_to_have_run_but_those_of_connecting(name: str) -> None:
    failure = classify(OSError(getattr(errno, name), "x"))
    connecting = {"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN", "EADDRNOTAVAIL", "EADDRINUSE"}
    assert (failure.executed is NO) == (name in connecting)
    assert failure.kind is not K.BUDGET


def test_name_resolution_sends_nothing() -> None:
    for number, kind in ((socket.EAI_AGAIN, K.TRANSIENT), (socket.EAI_NONAME, K.PERMANENT)):
        failure = classify(socket.gaierror(number, "x"))
        assert (failure.kind, failure.executed, failure.scope) == (kind, NO, Scope.VENDOR)


def test_tls_that_breaks_in_the_middle_may_have_carried_the_request() -> None:
    assert classify(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")).executed is MAYBE
    assert classify(ssl.SSLCertVerificationError(1, "certificate verify failed")).executed is NO
    assert classify(ssl.SSLCertVerificationError(1, "certificate verify failed")).kind is K.PERMANENT


@pytest.mark.parametrize(
    ("script", "kind", "reason"),
    [
        ("exit 1", K.SEMANTIC, "exit.1"),
        ("exit 64", K.PROGRAMMING, "exit.64"),
        ("exit 69", K.TRANSIENT, "exit.69"),
        ("exit 75", K.TRANSIENT, "exit.75"),
        ("exit 77", K.PERMANENT, "exit.77"),
        ("exit 127", K.PERMANENT, "exit.127"),
        ("exit 137", K.OVERLOADED, "signal.SIGKILL"),
        ("exit 143", K.TRANSIENT, "signal.SIGTERM"),
        ("kill -KILL $$", K.OVERLOADED, "signal.SIGKILL"),
        ("kill -TERM $$", K.TRANSIENT, "signal.SIGTERM"),
        ("kill -INT $$", K.PERMANENT, "signal.SIGINT"),
        ("kill -SEGV $$", K.PERMANENT, "signal.SIGSEGV"),
    ],
)
def test_a_child_process_says_how_it_ended(script: str, kind: FailureKind, reason: str) -> None:
    error = raised(lambda: subprocess.run(["sh", "-c", f"ulimit -c 0; {script}"], check=True, capture_output=True))
    failure = classify(error)
    assert (failure.kind, failure.reason, failure.executed) == (kind, reason, MAYBE)


def test_a_child_process_past_its_time_may_have_acted() -> None:
    failure = classify(
        raised(lambda: subprocess.run([sys.executable, "-c", "import time; time.sleep(30)"], check=True, timeout=0.05))
    )
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE)


def test_yaoki_s_own_errors_say_what_they_are() -> None:
    assert classify(StoreRefused("x")).kind is K.FATAL
    assert (classify(OutsideRun("x")).kind, classify(OutsideRun("x")).executed) == (K.PROGRAMMING, NO)


# --- status and body ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", range(100, 600))
def test_every_status_has_an_answer_and_only_refusals_sent_nothing(status: int) -> None:
    failure = classify(answer(status))
    refused = (400 <= status < 500 and status != 499) or status in {501, 505, 506, 511, 521, 523, 525, 526, 529}
    assert failure.executed is (NO if refused else YES if 200 <= status < 300 else MAYBE)
    assert failure.reason == f"http.{status}"


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_server_error_may_have_acted_whatever_its_body_says(status: int) -> None:
    body = '{"error":{"type":"overloaded_error","message":"Overloaded"}}'
    assert classify(answer(status, body)).executed is MAYBE
    assert classify(answer(status, body, {"Retry-After": "3"})).executed is MAYBE


def test_a_503_refused_if_it_says_so() -> None:
    assert classify(answer(503)).executed is MAYBE
    assert classify(answer(503, headers={"Retry-After": "3"})).executed is NO
    assert classify(answer(503, headers={"Retry-After": "whenever"})).executed is NO
    assert classify(answer(503, '{"error":{"status":"UNAVAILABLE"}}')).executed is NO
    assert classify(answer(503, '{"error":{"type":"api_error","message":"x"}}')).executed is MAYBE


def test_an_idempotency_conflict_says_which_it_is() -> None:
    busy = classify(answer(409, '{"error":{"code":"idempotency_key_in_use"}}'))
    assert (busy.kind, busy.executed) == (K.TRANSIENT, NO)
    assert (
        classify(answer(409, '{"detail":"request already processed (duplicate key)"}')).reason == "http.409.duplicate"
    )
    assert classify(answer(409)).kind is K.PERMANENT


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "insufficient_quota", K.BUDGET),
        (429, "rate_limit_exceeded", K.RATE_LIMITED),
        (400, "context_length_exceeded", K.CAPABILITY),
        (529, "overloaded_error", K.OVERLOADED),
        (401, "invalid_api_key", K.PERMANENT),
        (400, "ThrottlingException", K.RATE_LIMITED),
        (503, "ServiceUnavailableException", K.OVERLOADED),
        (403, "PERMISSION_DENIED", K.PERMANENT),
        (404, "model_not_found", K.PERMANENT),
        (400, "invalid_request_error", K.PERMANENT),
        (400, "request_too_large", K.CAPABILITY),
        (402, "card_declined", K.PERMANENT),
        (400, "tool_use_failed", K.SEMANTIC),
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda error: {"error": error},
        lambda error: {"type": "error", "error": error},
        lambda error: [{"error": error}],
        lambda error: {"error": {"message": json.dumps({"error": error}), "code": 400}},
        lambda error: {
            "error": {"message": "Provider returned error", "metadata": {"raw": json.dumps({"error": error})}}
        },
        lambda error: {"error": {"message": "Gateway: " + json.dumps({"error": {"message": json.dumps(error)}})}},
    ],
)
def test_a_code_counts_however_a_gateway_wraps_it(status: int, code: str, kind: FailureKind, wrap: Any) -> None:
    assert classify(answer(status, json.dumps(wrap({"code": code, "message": "x"})))).kind is kind


def test_a_body_says_more_than_its_printed_form_hides() -> None:
    error = Odd("Error code: 429 - {'error': {'message': 'x', 'code': 'insufficient_quota', 'param': None}}")
    assert classify(error).kind is K.BUDGET


def test_a_number_in_prose_is_no_evidence() -> None:
    assert classify(Odd("order 429 of 500 failed, see 503")).kind is K.UNKNOWN
    assert classify(answer(400, "Input should be a valid list, input: [1, 429, 7]")).kind is K.PERMANENT


def test_a_400_that_quotes_words_about_rate_limits_stays_one() -> None:
    assert (
        classify(answer(400, '{"detail":"invalid input: \'rate limit reached, try again in 5s\'"}')).kind is K.PERMANENT
    )


def test_a_url_in_a_message_is_no_evidence() -> None:
    request = httpx.Request("GET", "http://x.test/insufficient-quota/rate limit reached")
    error = raised(lambda: httpx.Response(400, request=request).raise_for_status())
    assert classify(error).kind is K.PERMANENT


def test_an_error_s_own_numbering_is_no_status() -> None:
    error = Odd("x")
    error.code = 404  # type: ignore[attr-defined]
    assert (classify(error).kind, classify(error).executed) == (K.UNKNOWN, MAYBE)


def test_the_server_s_own_word_on_retrying_is_followed() -> None:
    assert classify(answer(500, headers={"x-should-retry": "false"})).kind is K.PERMANENT
    assert classify(answer(409, headers={"x-should-retry": "true"})).kind is K.TRANSIENT
    quota = '{"error":{"code":"insufficient_quota"}}'
    assert classify(answer(429, quota, {"x-should-retry": "true"})).kind is K.BUDGET


def test_a_status_outweighs_the_builtin_a_library_derives_its_error_from() -> None:
    class ApiError(ValueError):
        status_code = 503

    assert classify(ApiError("x")).kind is K.OVERLOADED


def test_text_and_parsed_bodies_can_be_classified_too() -> None:
    assert classify({"error": {"code": "insufficient_quota"}}).kind is K.BUDGET
    assert classify('{"error": {"type": "overloaded_error"}}').kind is K.OVERLOADED
    assert classify("Your credit balance is too low").kind is K.BUDGET


# --- chains and groups --------------------------------------------------------------------------------------


def test_an_unknown_error_is_judged_by_what_it_was_raised_from() -> None:
    failure = classify(raised_from(Odd("wrapped"), httpx.ReadTimeout("timed out")))
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE)
    failure = classify(raised_from(Odd("wrapped"), ConnectionRefusedError(errno.ECONNREFUSED, "x")))
    assert (failure.kind, failure.executed, failure.message) == (K.TRANSIENT, NO, "wrapped")


def test_what_was_being_handled_proves_no_innocence() -> None:
    """A second call may have failed after acting; that the first was refused says nothing about it."""
    failure = classify(raised_while(Odd("second call"), ConnectionRefusedError(errno.ECONNREFUSED, "first call")))
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE)


def test_a_suppressed_context_is_not_looked_at() -> None:
    error = raised_while(Odd("x"), ConnectionRefusedError(errno.ECONNREFUSED, "x"))
    error.__suppress_context__ = True
    assert classify(error).kind is K.UNKNOWN


def test_a_group_is_its_worst_member_and_did_what_any_did() -> None:
    group = ExceptionGroup("g", [ConnectionRefusedError(errno.ECONNREFUSED, "x"), TimeoutError()])
    assert (classify(group).kind, classify(group).executed) == (K.TRANSIENT, MAYBE)
    group = ExceptionGroup("g", [TimeoutError(), ExceptionGroup("h", [TypeError()])])
    assert classify(group).kind is K.PROGRAMMING
    refused = ExceptionGroup("g", [ConnectionRefusedError(errno.ECONNREFUSED, "x")])
    assert classify(refused).executed is NO


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, other = Odd("1"), Odd("2")
    one.__cause__, other.__cause__ = other, one
    assert classify(one).kind is K.UNKNOWN
    retry, again = RetryableError("1"), RetryableError("2")
    retry.__cause__, again.__cause__ = again, retry
    assert classify(retry).kind is K.TRANSIENT


# --- never raises -------------------------------------------------------------------------------------------


class Hostile(Exception):
    """Every attribute raises something of its own."""

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(name) if len(name) % 2 else RuntimeError(name)

    def __str__(self) -> str:
        raise ValueError("no")

    def __repr__(self) -> str:
        raise ValueError("no")


def test_control_flow_is_asked_of_the_class_alone() -> None:
    assert not is_control_flow(Hostile())


class Wordless(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307 - that is what it is made for


@pytest.mark.parametrize(
    "thing",
    [
        Hostile,
        Wordless,
        MagicMock,
        lambda: raised_from(Odd("x"), Hostile()),
        lambda: ExceptionGroup("g", [Hostile()]),
        lambda: SimpleNamespace(status_code=503, headers=Hostile(), text=Hostile()),
        lambda: None,
        lambda: 3,
        lambda: b"\xff",
        object,
        lambda: type,
        list,
        dict,
        lambda: float("nan"),
        lambda: Exception("\ud800"),
        lambda: Exception("x" * 10**6),
        lambda: Exception("{" * 50_000),
        lambda: Exception("{'a':" * 5_000),
    ],
)
def test_whatever_it_is_given_it_answers(thing: Any) -> None:
    failure = classify(thing())
    assert failure.executed is not NO
    assert len(failure.message) <= 2000
    assert len(failure.fingerprint) == 16
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "code", "type", "message", "status", "details", "retry-after"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        ["status_code", "status", "code", "headers", "body", "text", "content", "response", "errno", "reason", "args",
         "os_error", "orig", "returncode", "_content", "_body", "type", "error_code", "__cause__", "__context__"]
    ),
    ANY,
)  # fmt: skip
BASES = st.sampled_from([Exception, OSError, ValueError, RuntimeError, ssl.SSLError, socket.gaierror, httpx.HTTPError])


@given(BASES, ATTRIBUTES, ANY)
def test_arbitrary_attributes_never_make_it_raise(
    base: type[Exception], attributes: dict[str, object], said: object
) -> None:
    error = type("Made", (base,), {})(said)
    for name, value in attributes.items():
        try:
            setattr(error, name, value)
        except (TypeError, ValueError, AttributeError):
            continue
    for thing in (error, SimpleNamespace(**attributes), said):
        failure = classify(thing, now_ms=0)
        assert failure.retry_after_s is None or failure.retry_after_s >= 0
        msgspec.json.encode(failure)


# --- what it carries ----------------------------------------------------------------------------------------


def test_a_failure_of_ours_says_what_happened() -> None:
    died = process_died()
    assert (died.kind, died.reason, died.executed, died.scope) == (K.TRANSIENT, "process.died", MAYBE, Scope.PROCESS)
    late = attempt_timed_out(2.5)
    assert (late.kind, late.reason, late.executed) == (K.TRANSIENT, "attempt.timeout", MAYBE)
    assert "2.5 s" in late.message


def test_the_fingerprint_of_a_failure_survives_its_ids() -> None:
    one, other = classify(TimeoutError("req_1 took 3 s")), classify(TimeoutError("req_29 took 11 s"))
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != classify(OSError(errno.EPIPE, "req_1 took 3 s")).fingerprint


def test_the_error_is_left_as_it_was() -> None:
    error = raised_from(Odd("x"), ValueError("y"))
    before = pickle.dumps(error.__cause__), error.args, error.__traceback__
    classify(error)
    assert (pickle.dumps(error.__cause__), error.args, error.__traceback__) == before


def test_every_pattern_compiles_although_it_is_compiled_late() -> None:
    found = [thing for thing in gc.get_objects() if type(thing) is _Uncompiled]
    assert len(found) > 20
    for late in found:
        re.compile(late._source, late._flags)


def test_no_client_library_is_imported() -> None:
    code = (
        "import sys; from yaoki.classify import classify; classify(ValueError()); classify(TimeoutError('x'));"
        "heavy = {'httpx', 'requests', 'aiohttp', 'urllib3', 'asyncio', 'pydantic', 'ssl', 'email'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_402_is_a_wait_only_where_the_server_says_when() -> None:
    bare, told = (SimpleNamespace(status_code=402, headers=headers, text="") for headers in ({}, {"Retry-After": "3"}))
    assert classify(bare).kind is FailureKind.BUDGET
    assert (classify(told).kind, classify(told).retry_after_s) == (FailureKind.RATE_LIMITED, 3.0)
    broke = SimpleNamespace(
        status_code=402, headers={"Retry-After": "3"}, text='{"error":{"code":"insufficient_quota"}}'
    )
    assert classify(broke).kind is FailureKind.BUDGET


def test_a_200_that_says_it_failed_is_no_success() -> None:
    for body in ('{"ok":false,"error":"a_code_of_tomorrow"}', '{"errors":[{"message":"?"}]}'):
        failure = classify(SimpleNamespace(status_code=200, headers={}, text=body))
        assert (failure.kind, failure.executed) == (FailureKind.PERMANENT, Executed.MAYBE)


def test_a_limit_somebody_s_own_code_reached_is_no_server_s() -> None:
    assert classify(RuntimeError("upload limit reached: 3 files")).kind is FailureKind.UNKNOWN
