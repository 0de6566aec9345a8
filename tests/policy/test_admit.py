"""Admission: what may begin, and what happens to the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.strategies import NOW_MS, some
from yaoki.policy import Admission, Budget, admit, crash_verdict
from yaoki.records import Spent


def asked(**facts: Any) -> Admission:
    defaults: dict[str, Any] = {
        "budget": Budget(),
        "spent": Spent(),
        "elapsed_wall_s": 0.0,
        "cancelled": False,
        "first": True,
        "deadline_ms": 0,
        "now_ms": NOW_MS,
    }
    return admit(**(defaults | facts))


def test_a_fresh_run_may_begin():
    assert asked() == Admission(go=True)


def test_a_cancelled_run_begins_nothing():
    assert asked(cancelled=True) == Admission(stop="cancel", text="the run was cancelled")


def test_a_run_whose_time_is_used_up_is_capped_at_its_next_step():
    assert asked(elapsed_wall_s=86_399.9).go
    assert asked(elapsed_wall_s=86_400.0) == Admission(cap="budget.wall_s", text="time: 86400 s of 86400 s")


def test_a_run_without_a_time_bound_is_never_capped_by_time():
    assert asked(budget=Budget(wall_s=None), elapsed_wall_s=1e12).go


def test_a_retry_whose_deadline_has_come_ends_the_ladder():
    assert asked(first=False, deadline_ms=NOW_MS + 1).go
    assert asked(first=False, deadline_ms=NOW_MS) == Admission(stop="ladder", text="deadline")


def test_a_retry_without_a_deadline_may_begin():
    assert asked(first=False, deadline_ms=0).go


def test_a_first_attempt_has_no_deadline_to_miss():
    assert asked(first=True, deadline_ms=NOW_MS - 1).go


def test_a_retry_that_a_sibling_took_the_last_of_ends_the_ladder():
    budget = Budget(retries=3)

    assert asked(budget=budget, spent=Spent(retries=2), first=False).go
    assert asked(budget=budget, spent=Spent(retries=3), first=False) == Admission(
        stop="ladder", text="retry budget used up"
    )


def test_a_first_attempt_needs_no_retry():
    assert asked(budget=Budget(retries=0), first=True).go


@pytest.mark.parametrize(
    ("field", "bound", "almost", "text"),
    [
        ("calls", 3, 2, "calls: 3 of 3"),
        ("tokens", 1000, 999, "tokens: 1000 of 1000"),
        ("cost_usd", 2.0, 1.99, "budget: $2.00 of $2.00"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_empty_budget_waits_for_a_top_up_or_caps_as_declared(field, bound, almost, text, first):
    budget, full = Budget(**{field: bound}), Spent(**{field: bound})
    capping = Budget(**{field: bound}, on_empty="cap")

    assert asked(budget=budget, spent=Spent(**{field: almost}), first=first).go
    assert asked(budget=budget, spent=full, first=first) == Admission(wait="budget", text=text)
    assert asked(budget=capping, spent=full, first=first) == Admission(cap=f"budget.{field}", text=text)


@pytest.mark.parametrize("field", ["calls", "tokens", "cost_usd"])
def test_a_top_up_lets_a_waiting_run_go_on(field):
    budget, spent = Budget(**{field: 2}), Spent(**{field: 2})

    assert asked(budget=budget, spent=spent).wait == "budget"
    assert asked(budget=budget.topped_up({field: 1}), spent=spent).go


def test_turns_and_waits_spent_stop_no_attempt():
    assert asked(spent=Spent(turns=10**6, retry_wait_s=1e9), budget=Budget(turns=1, retry_wait_s=1)).go


def test_the_order_is_cancel_then_time_then_the_ladder_then_the_budgets():
    worst: dict[str, Any] = {
        "budget": Budget(calls=0, wall_s=0, retries=0),
        "cancelled": True,
        "first": False,
        "deadline_ms": 1,
    }

    assert asked(**worst).stop == "cancel"
    assert asked(**worst | {"cancelled": False}).cap == "budget.wall_s"
    assert asked(**worst | {"cancelled": False, "budget": Budget(calls=0, retries=0)}).text == "deadline"
    lasting = worst | {"cancelled": False, "deadline_ms": 0}
    assert asked(**lasting | {"budget": Budget(calls=0, retries=0)}).text == "retry budget used up"
    assert asked(**lasting | {"budget": Budget(calls=0)}).wait == "budget"


counts = st.none() | st.integers(0, 3)


@some
@given(
    st.builds(
        Budget,
        calls=counts,
        tokens=counts,
        cost_usd=counts,
        retries=counts,
        wall_s=counts,
        on_empty=st.sampled_from(["wait", "cap"]),
    ),
    st.builds(
        Spent, calls=st.integers(0, 4), tokens=st.integers(0, 4), cost_usd=st.floats(0, 4), retries=st.integers(0, 4)
    ),
    st.booleans(),
    st.booleans(),
    st.integers(NOW_MS - 2, NOW_MS + 2) | st.just(0),
    st.floats(0, 4),
)
def test_exactly_one_thing_happens_and_nothing_begins_on_an_empty_budget(
    budget, spent, cancelled, first, deadline_ms, elapsed_s
):
    admission = asked(
        budget=budget,
        spent=spent,
        cancelled=cancelled,
        first=first,
        deadline_ms=deadline_ms,
        elapsed_wall_s=elapsed_s,
    )

    assert sum(map(bool, (admission.go, admission.wait, admission.cap, admission.stop))) == 1
    assert bool(admission.text) is not admission.go
    if admission.go:
        assert not cancelled
        assert all(budget.left(spent, field) > 0 for field in ("calls", "tokens", "cost_usd"))
        assert budget.wall_s is None or elapsed_s < budget.wall_s
        assert first or budget.left(spent, "retries") > 0
        assert first or not deadline_ms or deadline_ms > NOW_MS


@some
@given(st.integers(0, 6), st.integers(0, 12), st.integers(0, 6))
def test_no_run_begins_more_calls_and_retries_than_it_may(calls_max, tries, retries_max):
    budget, spent = Budget(calls=calls_max, retries=retries_max), Spent()
    for i in range(tries):
        if asked(budget=budget, spent=spent, first=i == 0).go:
            spent.calls += 1
            spent.retries += i > 0

    assert spent.calls <= calls_max
    assert spent.retries <= retries_max


def test_a_run_is_dead_at_its_last_allowed_crash_and_not_before():
    assert not crash_verdict(7, 8)
    assert crash_verdict(8, 8)
    assert crash_verdict(9, 8)
