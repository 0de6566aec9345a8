"""How long to wait before a retry, when the server did not say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

__all__ = ["backoff_ceiling_s", "full_jitter_s"]


def backoff_ceiling_s(retry_no: int, *, base_s: float, cap_s: float) -> float:
    """Return the longest wait before the `retry_no`-th retry (1-based): `min(cap, base * 2**(retry_no - 1))`."""
    try:
        grown_s = math.ldexp(base_s, retry_no - 1)
    except OverflowError:
        return cap_s
    return min(cap_s, grown_s)


def full_jitter_s(retry_no: int, *, base_s: float, cap_s: float, rng: Random) -> float:
    """
    Draw the wait before the `retry_no`-th retry: uniform between 0 and the exponential ceiling.

    "Full jitter" spreads clients that failed together over the whole interval; of the variants compared
    it finishes contended work with the fewest calls. Source: Marc Brooker, "Exponential Backoff and
    Jitter", AWS Architecture Blog, 2015.

    Args:
        retry_no: 1 for the wait after the first attempt. Any size; nothing overflows.
        base_s: Ceiling of the first wait.
        cap_s: No wait is longer.
        rng: The run's own, seeded: chance is an argument.
    """
    return rng.uniform(0.0, backoff_ceiling_s(retry_no, base_s=base_s, cap_s=cap_s))
