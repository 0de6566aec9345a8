"""A group of runs: what its budget is counted in, and what one record changes of it."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

__all__ = ["GROUP_FIELDS", "NANO", "Charge", "Group"]

NANO = 1_000_000_000
"""Parts a dollar is counted in, so that any number of additions and subtractions is exact."""
GROUP_FIELDS = ("calls", "tokens", "cost_usd")
"""What a group may have a budget of."""


class Charge(NamedTuple):
    """What a record changes of its run's group: what is counted, and what of that is reserved by calls in flight."""

    group: str
    calls: int = 0
    tokens: int = 0
    cost_nusd: int = 0
    tokens_held: int = 0
    cost_nusd_held: int = 0

    @property
    def nothing(self) -> bool:
        """Whether nothing changes."""
        return not any(self[1:])

    @property
    def frees(self) -> bool:
        """Whether something comes back, or is known not to."""
        return min(self[2:]) < 0


class Group(Struct, frozen=True, kw_only=True):
    """A group of runs and its budget, as the store has it at the moment of reading. A bound of None is none."""

    name: str
    calls_max: int | None
    tokens_max: int | None
    cost_usd_max: float | None
    """Bounds with their top-ups."""
    calls: int
    tokens: int
    cost_usd: float
    """Spent by all its runs, what calls in flight have reserved included."""
    tokens_held: int
    cost_usd_held: float
    """Reserved by calls in flight."""
    freed: int
    """Raised when something of it comes back, and by a top-up."""
    runs: int
    """How many runs of it there are (0 where it was not asked for)."""
