"""`admit` with what the attempt would reserve, and what calls in flight may give back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.strategies import some
from yaoki.policy import Admission, Budget, admit_spending
from yaoki.records import Spent

GO = Admission(go=True)


@pytest.mark.parametrize("field", ["tokens", "cost_usd"])
def test_what_an_attempt_reserves_must_be_left(field):
    budget = Budget(**{field: 100})
    assert admit_spending(budget, Spent(**{field: 70}), {field: 30}) == GO
    assert admit_spending(budget, Spent(**{field: 71}), {field: 30}).wait == "budget"


def test_the_words_say_what_is_spent_and_what_would_be_reserved():
    tokens = admit_spending(Budget(tokens=100), Spent(tokens=71), {"tokens": 30})
    assert tokens.text == "tokens: 71 of 100 (this call reserves 30)"
    cost = admit_spending(Budget(cost_usd=2.5), Spent(cost_usd=2.004), {"cost_usd": 0.505})
    assert cost.text == "budget: $2.00 of $2.50 (this call reserves $0.5050)"


@pytest.mark.parametrize("on_empty", ["wait", "cap"])
@pytest.mark.parametrize("field", ["tokens", "cost_usd"])
def test_what_calls_in_flight_may_give_back_is_waited_for_before_anybody_is_asked_or_anything_ends(field, on_empty):
    budget = Budget(**{field: 100}, on_empty=on_empty)
    spent, held = Spent(**{field: 90}), Spent(**{field: 60})
    assert admit_spending(budget, spent, {field: 30}, held).wait == "room"
    assert admit_spending(budget, spent, {field: 80}, held).wait in ("budget", "")
    full = admit_spending(budget, spent, {field: 80}, held)
    assert full.cap == (f"budget.{field}" if on_empty == "cap" else "")


def test_a_budget_that_calls_in_flight_have_filled_holds_those_that_reserve_nothing_too():
    budget = Budget(tokens=100)
    assert admit_spending(budget, Spent(tokens=100), None, Spent(tokens=10)).wait == "room"
    assert admit_spending(budget, Spent(tokens=99), None, Spent(tokens=10)) == GO


def test_a_hair_of_binary_is_no_overspending():
    assert 0.1 + 0.1 + 0.1 > 0.3
    assert admit_spending(Budget(cost_usd=0.3), Spent(cost_usd=0.1 + 0.1), {"cost_usd": 0.1}) == GO
    assert admit_spending(Budget(cost_usd=0.3), Spent(cost_usd=0.1 + 0.1 + 0.1)).wait == "budget"


@some
@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=30))
def test_calls_that_reserve_what_they_can_use_never_overspend(bound, calls):
    budget, spent, held = Budget(tokens=bound), Spent(), Spent()
    opened: list[tuple[int, int]] = []
    for reserve, use in calls:
        if admit_spending(budget, spent, {"tokens": reserve}, held).go:
            spent.tokens += reserve
            held.tokens += reserve
            opened.append((reserve, min(use, reserve)))
        elif opened:
            took, used = opened.pop(0)
            spent.tokens += used - took
            held.tokens -= took
        assert spent.tokens <= bound
