"""The bounds of one step's ladder, as declared."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from yaoki.policy._backoff import backoff_ceiling_s
from yaoki.policy._bounds import require_count, require_number

__all__ = ["OVERLOADED_FACTOR", "Retry"]

OVERLOADED_FACTOR = 10
"""An overloaded server gets its first retry from 5 s instead of 0.5 s."""

_ATTEMPTS_MOST = 10_000
_YEAR_S = 366 * 86_400.0


class Retry(Struct, frozen=True, kw_only=True):
    """
    How often and how long one step may be tried. Every field is a bound; none can be switched off.

    Waits are full jitter, doubling from `base_s` (ten times that for `overloaded`) up to `cap_s`, and never
    shorter than the server's own hint. A wait that would not end before the deadline is not begun. The
    bounds hold across restarts: attempts and deadline are journaled before each attempt.

    Raises:
        DeclarationError: A bound that cannot work.
    """

    attempts_max: int = 8
    """Attempts in all, the first included; 1 to 10,000. Repairs count."""
    deadline_s: float = 900
    """For the whole ladder, waits included, from its first attempt; waiting for a person is not counted."""
    base_s: float = 0.5
    """Ceiling of the first wait."""
    cap_s: float = 60
    """Ceiling of every wait, the server's hint aside. 0: no waits of our own."""
    same_error_limit: int = 3
    """After so many equal failures in a row the next rung is tried, if there is one."""
    unknown_attempts: int = 1
    """Attempts in all that an `unknown` failure may have: 1 does not retry what nobody recognised."""

    never: ClassVar[Retry]
    """One attempt, no retry."""

    def __post_init__(self) -> None:
        """Refuse bounds that cannot work, before anything runs."""
        require_count("Retry", "attempts_max", self.attempts_max, least=1, most=_ATTEMPTS_MOST)
        require_number("Retry", "deadline_s", self.deadline_s, most=_YEAR_S, zero=False)
        require_number("Retry", "base_s", self.base_s, most=_YEAR_S)
        require_number("Retry", "cap_s", self.cap_s, most=_YEAR_S)
        require_count("Retry", "same_error_limit", self.same_error_limit, least=1, most=_ATTEMPTS_MOST)
        require_count("Retry", "unknown_attempts", self.unknown_attempts, least=1, most=_ATTEMPTS_MOST)

    def worst_case_s(self, timeout_s: float = 120) -> float:
        """
        Return the longest the ladder can take when every attempt runs into `timeout_s`.

        Each wait counts at its ceiling, for an overloaded server. A server's hint can stretch a ladder of
        two attempts or more further, but never past `deadline_s`, which bounds the answer too.
        """
        base_s = self.base_s * OVERLOADED_FACTOR
        waits_s = (backoff_ceiling_s(n, base_s=base_s, cap_s=self.cap_s) for n in range(1, self.attempts_max))
        return min(self.deadline_s, self.attempts_max * timeout_s + sum(waits_s))


Retry.never = Retry(attempts_max=1)
