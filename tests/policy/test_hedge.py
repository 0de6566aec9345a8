"""When a call is slow, and how many second calls there are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaoki import DeclarationError, Hedge
from yaoki.policy import Pace


@given(st.lists(st.booleans(), max_size=400), st.integers(1, 400))
def test_over_any_window_second_calls_are_at_most_one_in_twenty(slow, window):
    pace = Pace(Hedge())
    second = []
    for is_slow in slow:
        pace.begun()
        second.append(is_slow and pace.take())
    assert sum(second) <= len(slow) / 20, "of all calls since the process started"
    for start in range(len(second)):
        seen = second[start : start + window]
        assert sum(seen) <= math.ceil(len(seen) / 20)
    if all(slow):
        assert sum(second) == len(slow) // 20, "and they are made where they are allowed"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_a_call_is_slow_once_it_takes_longer_than_the_quantile_of_the_last_two_hundred(took, quantile):
    pace = Pace(Hedge(quantile=quantile))
    for one in took:
        pace.took(one)
    after_s = pace.begun()
    if len(took) < 20:
        assert after_s is None
        return
    last = took[-200:]
    assert after_s in last
    assert sum(one <= after_s for one in last) >= quantile * len(last)
    assert sum(one < after_s for one in last) < quantile * len(last)


@pytest.mark.parametrize("quantile", [0, 0.49, 1, -1, 5, math.nan])
def test_a_quantile_that_cannot_work_is_refused(quantile):
    with pytest.raises(DeclarationError, match=r"Hedge: quantile is .*; it lies between 0\.5 and 0\.999"):
        Hedge(quantile=quantile)
