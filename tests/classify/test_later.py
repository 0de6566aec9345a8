"""Every form in which servers say "later" is read; no bytes make the reading fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaoki.classify import FailureKind, classify, later

NOW_MS = 1_445_412_480_000  # Wed, 21 Oct 2015 07:28:00 GMT
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 7 "}, 7),
        ({"Retry-After": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30),
        ({"retry-after": "Wednesday, 21-Oct-15 07:28:30 GMT"}, 30),
        ({"retry-after": "Wed Oct 21 07:28:30 2015"}, 30),
        ({"retry-after": "2015-10-21T07:28:30Z"}, 30),
        ({"retry-after": "Wed, 21 Oct 2015 07:20:00 GMT"}, 0),
        ({"retry-after": "Thu, 22 Oct 2015 07:28:10 GMT", "date": "Thu, 22 Oct 2015 07:28:00 GMT"}, 10),
        ({"retry-after": "99999999999999999999"}, 31_536_000),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset": "1445412540"}, 60),
        ({"x-ratelimit-reset": "1445412540000"}, 60),
        ({"x-ratelimit-reset": "1445412000"}, 0),
        ({"ratelimit-reset": "12"}, 12),
        ({"anthropic-ratelimit-tokens-reset": "2015-10-21T07:28:05Z"}, 5),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "9",
            },
            1,
        ),
        ({"retry-after": "3", "x-ratelimit-reset-tokens": "6m0s"}, 3),
        ({"retry-after": "60s"}, 60),
        ({"retry-after": "5m"}, 300),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"ratelimit": "limit=10, remaining=0, reset=12"}, 12),
    ],
)
def test_headers_say_when(headers: dict[str, str], wait_s: float) -> None:
    assert later(headers, "", NOW_MS) == pytest.approx(wait_s)


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("Please try again in 9m38.016s. Need more?", 578.016),
        ("Please try again in 644ms.", 0.644),
        ("retry after 20s", 20),
        ("Please retry in 36.5s", 36.5),
        ("Rate limited, wait 2 minutes before you go on", 120),
        ("try again in 1 hour and 5 minutes", 3900),
        ('{"error":{"details":[{"retryDelay":"26s"}]}}', 26),
        ('{\\"retryDelay\\": \\"26.5s\\"}', 26.5),
        ('{"message":"slow","retry_after":1.25}', 1.25),
        ('{"retry_after_ms": 500}', 0.5),
        ('{"retryDelay":"36s"} Please retry in 36.4s', 36.4),
    ],
)
def test_bodies_say_when(text: str, wait_s: float) -> None:
    assert later({}, text, NOW_MS) == pytest.approx(wait_s)


@pytest.mark.parametrize(
    "value", ["soon", "", "nan", "inf", "1_000", "\uff11\uff12", "7s?", "0x10", "Wed, 99 Foo", "\x00", "²"]
)
def test_what_says_nothing_is_nothing(value: str) -> None:
    assert later({"retry-after": value, "x-ratelimit-reset": value}, value, NOW_MS) is None


def test_a_number_in_prose_is_no_wait() -> None:
    assert later({}, "order 42 failed 3 times, see page 7; retry 5", NOW_MS) is None


def test_a_date_without_any_clock_is_nothing() -> None:
    assert later({"retry-after": DATE}, "", None) is None
    assert later({"x-ratelimit-reset": "1445412540"}, "", None) is None


def answer(status: int, headers: dict[str, str], text: str = "") -> object:
    return SimpleNamespace(status_code=status, headers=headers, text=text)


def test_over_a_day_is_a_budget_and_a_past_time_is_now() -> None:
    assert classify(answer(429, {"Retry-After": "86401"})).kind is FailureKind.BUDGET
    assert classify(answer(429, {"Retry-After": "86400"})).kind is FailureKind.RATE_LIMITED
    past = classify(answer(429, {"Retry-After": DATE}), now_ms=NOW_MS + 5000)
    assert (past.kind, past.retry_after_s) == (FailureKind.RATE_LIMITED, 0.0)


def test_reset_headers_every_answer_carries_do_not_hold_up_a_server_error() -> None:
    assert classify(answer(500, {"x-ratelimit-reset-tokens": "6m0s"})).retry_after_s is None
    assert classify(answer(429, {"x-ratelimit-reset-tokens": "6m0s"})).retry_after_s == 360


HEADER = st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-reset", "x-ratelimit-reset-tokens"])
VALUE = (
    st.text(max_size=40)
    | st.text("0123456789.-+:smhd GMTZ,JanOct", max_size=30)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT"))
    | st.binary(max_size=30).map(lambda data: data.decode("latin-1"))
)


@given(st.dictionaries(HEADER, VALUE), VALUE, st.none() | st.integers(0, 2**45))
def test_reading_never_raises_and_answers_within_bounds(headers: dict[str, str], text: str, now_ms: int | None) -> None:
    wait = later(headers, f"try again in {text}", now_ms)
    assert wait is None or 0 <= wait <= 31_536_000


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ('{"error":{"type":"usage_limit_reached","resets_in_seconds":900}}', 900),
        ('{"error":{"type":"usage_limit_reached","resets_at":1445412540}}', 60),
        ('{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1445412540000"}}}}', 60),
        ('{"reset_time":"2015-10-21T07:28:05Z"}', 5),
        ('{"error":"loading","estimated_time":20.0}', 20),
        ('{"retryDelay":{"seconds":7,"nanos":0}}', 7),
        ('{"retry_after":0.35}', 0.35),
        ("You will regain access on 2015-10-21 at 07:29 UTC.", 60),
        ("Your limit will reset at 2015-10-21 07:29:00", None),  # of which zone it does not say
        ("the reset at 3 of the counter", None),
    ],
)
def test_bodies_say_until_when(text: str, wait_s: float | None) -> None:
    found = later({}, text, NOW_MS)
    assert found == (None if wait_s is None else pytest.approx(wait_s))


def test_a_moment_needs_a_clock_to_hold_it_against() -> None:
    assert later({}, '{"resets_at":1445412540}', None) is None
    assert later({"date": DATE}, '{"resets_at":1445412540}', None) == pytest.approx(60)
