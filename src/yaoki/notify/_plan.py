"""When a notice leaves, and how much it covers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

__all__ = ["ATTEMPTS_MAX", "batch", "retry_after_s"]

ATTEMPTS_MAX = 8
"""Attempts to deliver one message: with the waits between, some four minutes. Then it is noted as lost."""
SINGLY_MAX = 3
"""More than this at once is told as one digest."""
_BASE_S, _CAP_S = 2.0, 60.0


def batch(pending: int, left: int) -> int:
    """
    Return how many of the pending things the next message covers; 0 is none for now.

    Up to three go one by one while the minute's budget has room for each; else all of them are one digest.

    Args:
        pending: Things to tell, in order.
        left: Messages left in this minute.
    """
    if not pending or left <= 0:
        return 0
    return 1 if pending <= min(SINGLY_MAX, left) else pending


def retry_after_s(failures: int, rng: Random) -> float:
    """Return the wait after the n-th failure in a row: full jitter over 2, 4, 8 … 60 s, at least 1 s."""
    ceiling_s = min(_CAP_S, _BASE_S * 2 ** min(failures - 1, 10))
    return max(1.0, rng.uniform(0, ceiling_s))
