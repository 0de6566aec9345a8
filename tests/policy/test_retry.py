"""`Retry`: bounds that hold, refused early when they cannot."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.strategies import some
from yaoki.errors import DeclarationError
from yaoki.policy import Retry


def test_the_defaults_are_eight_attempts_in_fifteen_minutes():
    retry = Retry()

    assert (retry.attempts_max, retry.deadline_s, retry.base_s, retry.cap_s) == (8, 900, 0.5, 60)
    assert (retry.same_error_limit, retry.unknown_attempts) == (3, 1)


def test_never_is_one_attempt():
    assert Retry(attempts_max=1) == Retry.never
    assert Retry.never.worst_case_s(30) == 30


def test_a_policy_is_frozen():
    with pytest.raises(AttributeError):
        Retry().attempts_max = 9  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Retry(3)  # type: ignore[misc]


def test_the_worst_case_is_every_timeout_and_every_wait_at_its_ceiling_for_an_overloaded_server():
    assert Retry(attempts_max=4, deadline_s=10_000, base_s=0.5, cap_s=8).worst_case_s(10) == 4 * 10 + 5 + 8 + 8


def test_the_worst_case_is_never_beyond_the_deadline():
    assert Retry(attempts_max=8, deadline_s=900).worst_case_s(120) == 900


@some
@given(st.integers(1, 10_000), st.floats(0.001, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_any_worst_case_lies_between_one_timeout_and_the_deadline(attempts, deadline_s, base_s, cap_s, timeout_s):
    worst_s = Retry(attempts_max=attempts, deadline_s=deadline_s, base_s=base_s, cap_s=cap_s).worst_case_s(timeout_s)

    assert min(timeout_s, deadline_s) <= worst_s <= deadline_s


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attempts_max", 0),
        ("attempts_max", -1),
        ("attempts_max", 10_001),
        ("attempts_max", True),
        ("attempts_max", 3.0),
        ("attempts_max", None),
        ("deadline_s", 0),
        ("deadline_s", -1),
        ("deadline_s", math.inf),
        ("deadline_s", math.nan),
        ("deadline_s", None),
        ("deadline_s", True),
        ("deadline_s", 366 * 86_400 + 1),
        ("base_s", -0.1),
        ("base_s", "1"),
        ("base_s", math.inf),
        ("cap_s", -1),
        ("cap_s", math.nan),
        ("same_error_limit", 0),
        ("unknown_attempts", 0),
    ],
)
def test_a_bound_that_cannot_work_is_refused_with_its_name_and_value(field, value):
    with pytest.raises(DeclarationError) as refused:
        Retry(**{field: value})

    assert f"{field}={value!r} cannot work" in str(refused.value)
    assert "Write a" in str(refused.value)


def test_a_refusal_says_where_good_values_start_and_end():
    with pytest.raises(DeclarationError, match=r"Write a number above 0, at most"):
        Retry(deadline_s=0)
    with pytest.raises(DeclarationError, match=r"Write a number from 0, at most"):
        Retry(cap_s=-1)
    with pytest.raises(DeclarationError, match=r"Write a whole number from 1 to 10000\."):
        Retry(attempts_max=0)


def test_an_attempt_takes_two_minutes_at_most_unless_said_otherwise():
    assert Retry.never.worst_case_s() == 120


def test_the_outermost_good_bounds_are_accepted():
    Retry(attempts_max=10_000, deadline_s=366 * 86_400, base_s=0, cap_s=0, same_error_limit=1, unknown_attempts=10_000)
