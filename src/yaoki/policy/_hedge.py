"""A second call beside a slow first one: when it is made, and how many are. Fed with durations; reads no clock."""

from __future__ import annotations

import math
import threading
from collections import deque

from msgspec import Struct

from yaoki.errors import DeclarationError

__all__ = ["Hedge", "Pace"]

_KEPT = 200
_LEAST = 20
_CALLS_PER_SECOND_CALL = 20
"""One in twenty: at most 5 % more load."""


class Hedge(Struct, frozen=True, kw_only=True):
    """
    A second, equal call once the first takes longer than most: the first success of the two counts.

    For tools that only read, and `KEYED` ones, whose second call carries the same key to the same receiver; in runs
    only. What is slow is measured: the given quantile of the tool's last 200 calls in this process, and not before it
    has made 20. Of the calls that a process begins, a second one stands beside at most one in twenty, whatever the
    window: never two within twenty calls, none within the first twenty (Dean & Barroso, *The Tail at Scale*, 2013).

    A second call counts for the run's budgets like any other, is recorded as a sub-step (`…!hedge.n`), and is not
    made while a brake, a breaker, a cooldown or an empty budget stands in its way. It is no attempt of its own: both
    lie within the attempt's timeout.

    Raises:
        DeclarationError: A quantile that cannot work.
    """

    quantile: float = 0.95
    """The share of calls that are answered sooner; 0.5 to 0.999."""

    def __post_init__(self) -> None:
        """Refuse bounds that cannot work, before anything runs."""
        if not 0.5 <= self.quantile <= 0.999:  # noqa: PLR2004 - said in the message
            raise DeclarationError(f"Hedge: quantile is {self.quantile!r}; it lies between 0.5 and 0.999")


class Pace:
    """How long one tool's calls took of late in this process, and how many were begun since the last second call."""

    def __init__(self, hedge: Hedge) -> None:
        self._quantile = hedge.quantile
        self._took = deque[float](maxlen=_KEPT)
        self._begun = 0
        self._lock = threading.Lock()

    def begun(self) -> float | None:
        """Count a call that begins; return after how many seconds it is slow, None while that is not known."""
        with self._lock:
            self._begun = min(self._begun + 1, _CALLS_PER_SECOND_CALL)
            if len(self._took) < _LEAST:
                return None
            return sorted(self._took)[math.ceil(self._quantile * len(self._took)) - 1]

    def took(self, took_s: float) -> None:
        """Note how long a call took that was answered; of one that its second overtook, at least so long."""
        with self._lock:
            self._took.append(took_s)

    def take(self) -> bool:
        """Take the one second call of the last twenty calls, if it is still there."""
        with self._lock:
            if self._begun < _CALLS_PER_SECOND_CALL:
                return False
            self._begun = 0
            return True
