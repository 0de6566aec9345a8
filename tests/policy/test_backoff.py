"""Waits: within their ceiling, whatever the numbers."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.policy.strategies import Highest, Lowest, rngs, some
from yaoki.policy import backoff_ceiling_s, full_jitter_s


def test_the_ceiling_doubles_from_the_base_until_the_cap():
    assert [backoff_ceiling_s(n, base_s=0.5, cap_s=3) for n in (1, 2, 3, 4, 5)] == [0.5, 1, 2, 3, 3]


def test_full_jitter_draws_from_zero_to_the_ceiling():
    assert full_jitter_s(3, base_s=0.5, cap_s=60, rng=Lowest()) == 0
    assert full_jitter_s(3, base_s=0.5, cap_s=60, rng=Highest()) == 2


def test_full_jitter_uses_the_whole_interval():
    rng = Random(7)
    waits = [full_jitter_s(1, base_s=1, cap_s=60, rng=rng) for _ in range(2_000)]

    assert min(waits) < 0.01
    assert max(waits) > 0.99
    assert 0.47 < sum(waits) / len(waits) < 0.53


def test_the_same_seed_draws_the_same_wait():
    assert full_jitter_s(5, base_s=1, cap_s=60, rng=Random(3)) == full_jitter_s(5, base_s=1, cap_s=60, rng=Random(3))


@some
@given(st.integers(1, 10**400), st.floats(0, 1e300), st.floats(0, 1e300), rngs)
def test_jitter_stays_within_its_ceiling_and_never_overflows(retry_no, base_s, cap_s, rng):
    wait_s = full_jitter_s(retry_no, base_s=base_s, cap_s=cap_s, rng=rng)

    assert 0 <= wait_s <= cap_s
    if retry_no <= 60:
        assert wait_s <= base_s * 2 ** (retry_no - 1)
