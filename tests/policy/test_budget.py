"""`Budget`: what is left, what a top-up adds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.strategies import some
from yaoki.errors import DeclarationError
from yaoki.policy import Budget
from yaoki.records import Spent

FIELDS = ("turns", "retries", "retry_wait_s", "calls", "wall_s", "tokens", "cost_usd")


def test_the_defaults_bound_turns_retries_and_a_day():
    assert Budget().as_dict() == {"turns": 200, "retries": 50, "wall_s": 86_400}
    assert Budget().on_empty == "wait"


@pytest.mark.parametrize("field", FIELDS)
def test_left_is_the_bound_less_what_is_spent(field):
    assert Budget(**{field: 10}).left(Spent(**{field: 4}), field) == 6


@pytest.mark.parametrize("field", FIELDS)
def test_left_is_infinite_without_a_bound(field):
    assert Budget(**{field: None}).left(Spent(**{field: 4}), field) == math.inf


@some
@given(st.sampled_from(FIELDS), st.integers(0, 100), st.integers(0, 100))
def test_left_is_never_negative(field, bound, spent):
    assert Budget(**{field: bound}).left(Spent(**{field: spent}), field) >= 0


def test_a_top_up_adds_to_the_bound_and_leaves_the_rest():
    budget = Budget(cost_usd=2.0, calls=10).topped_up({"cost_usd": 1.5, "calls": 5.0})

    assert budget == Budget(cost_usd=3.5, calls=15)
    assert isinstance(budget.calls, int)


def test_a_top_up_of_what_has_no_bound_leaves_it_without():
    assert Budget().topped_up({"tokens": 5}).tokens is None


def test_a_top_up_after_an_overspend_pays_the_overspend_first():
    budget = Budget(cost_usd=2.0).topped_up({"cost_usd": 1.0})

    assert budget.left(Spent(cost_usd=2.25), "cost_usd") == 0.75


@some
@given(st.dictionaries(st.sampled_from(FIELDS), st.integers(0, 10**9)))
def test_a_top_up_never_lowers_a_bound(add):
    before = Budget(retry_wait_s=1, calls=2, tokens=3, cost_usd=4)
    after = before.topped_up(add)

    assert all(after.as_dict()[name] == bound + add.get(name, 0) for name, bound in before.as_dict().items())


@pytest.mark.parametrize("field", ["on_empty", "money", "as_dict", ""])
def test_a_top_up_of_a_field_there_is_not_is_refused_naming_those_there_are(field):
    with pytest.raises(DeclarationError, match=r"Use one of: calls, cost_usd, .*wall_s"):
        Budget().topped_up({field: 1})


def test_what_is_left_of_a_field_there_is_not_is_refused():
    with pytest.raises(DeclarationError, match="no field 'money'"):
        Budget().left(Spent(), "money")


@pytest.mark.parametrize("field", ["cost_usd", "tokens"])
@pytest.mark.parametrize("more", [-1, math.nan, math.inf, True, "1", None])
def test_a_top_up_that_is_no_amount_is_refused(field, more):
    with pytest.raises(DeclarationError, match="cannot work"):
        Budget(cost_usd=1, tokens=1).topped_up({field: more})


def test_a_top_up_of_a_fraction_of_a_call_is_refused():
    with pytest.raises(DeclarationError, match=r"calls=0\.5 cannot work\. Write a whole number"):
        Budget(calls=1).topped_up({"calls": 0.5})


def test_a_top_up_to_more_than_can_be_counted_is_refused():
    with pytest.raises(DeclarationError, match="calls"):
        Budget(calls=2**53).topped_up({"calls": 1})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("turns", -1),
        ("turns", 1.0),
        ("retries", True),
        ("calls", "3"),
        ("tokens", 2**53 + 1),
        ("retry_wait_s", -1),
        ("wall_s", math.nan),
        ("wall_s", math.inf),
        ("cost_usd", True),
        ("cost_usd", "2"),
        ("on_empty", "stop"),
    ],
)
def test_a_budget_that_cannot_work_is_refused_with_its_name_and_value(field, value):
    with pytest.raises(DeclarationError) as refused:
        Budget(**{field: value})

    assert f"Budget: {field}={value!r} cannot work" in str(refused.value)


def test_a_budget_of_nothing_is_accepted():
    Budget(turns=0, retries=0, retry_wait_s=0, calls=0, wall_s=0, tokens=0, cost_usd=0, on_empty="cap")
