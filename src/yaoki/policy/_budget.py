"""What a run may spend, as declared and topped up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from yaoki.errors import DeclarationError
from yaoki.policy._bounds import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaoki.records import Spent

__all__ = ["Budget"]

_COUNTS = ("turns", "retries", "calls", "tokens")
_AMOUNTS = ("retry_wait_s", "wall_s", "cost_usd")
_MOST = 2**53
"""Above this a float no longer counts in ones."""


class Budget(Struct, frozen=True, kw_only=True):
    """
    What one run may use. `None` is no bound; 0 allows nothing.

    What is used is counted when an attempt begins and kept in the journal: no restart refunds it.
    `retries` and `retry_wait_s` used up end a ladder; `calls`, `tokens` and `cost_usd` used up make the run
    wait for a top-up (or cap it); `turns` and `wall_s` used up cap it with its partial result.

    Raises:
        DeclarationError: A bound that cannot work.
    """

    turns: int | None = 200
    retries: int | None = 50
    """Attempts beyond the first, over all steps; repairs count."""
    retry_wait_s: float | None = None
    """Waits before retries, over all steps."""
    calls: int | None = None
    """Attempts, over all steps."""
    wall_s: float | None = 86_400
    """From the first begin, sleep and downtime included, waiting for somebody not. Ends at the next step."""
    tokens: int | None = None
    cost_usd: float | None = None
    on_empty: Literal["wait", "cap"] = "wait"
    """When `calls`, `tokens` or `cost_usd` are used up: wait for a top-up, or end `capped`."""

    def __post_init__(self) -> None:
        """Refuse bounds that cannot work, before anything runs."""
        for name in _COUNTS:
            if (count := self._bound(name)) is not None:
                require_count("Budget", name, count, least=0, most=_MOST)
        for name in _AMOUNTS:
            if (amount := self._bound(name)) is not None:
                require_number("Budget", name, amount, most=float(_MOST))
        if self.on_empty not in ("wait", "cap"):
            raise DeclarationError(f'Budget: on_empty={self.on_empty!r} cannot work. Write "wait" or "cap".')

    def _bound(self, name: str) -> float | None:
        if name not in _COUNTS and name not in _AMOUNTS:
            known = ", ".join(sorted(_COUNTS + _AMOUNTS))
            raise DeclarationError(f"Budget: there is no field {name!r}. Use one of: {known}.")
        bound: float | None = getattr(self, name)
        return bound

    def topped_up(self, add: Mapping[str, float]) -> Budget:
        """
        Return the budget with a person's additions, by field name; what has no bound stays without.

        Raises:
            DeclarationError: An unknown field, a negative or non-finite amount, a fraction of a count, or a
                sum too large to count. Nothing is added then.
        """
        raised: dict[str, float] = {}
        for name, more in add.items():
            bound = self._bound(name)
            require_number("top-up", name, more, most=float(_MOST))
            if name in _COUNTS and more != int(more):
                raise DeclarationError(f"top-up: {name}={more!r} cannot work. Write a whole number.")
            if bound is not None:
                raised[name] = bound + (int(more) if name in _COUNTS else more)
        return replace(self, **raised)

    def as_dict(self) -> dict[str, float]:
        """Return the bounds that are set, by field name."""
        bounds = ((name, self._bound(name)) for name in _COUNTS + _AMOUNTS)
        return {name: bound for name, bound in bounds if bound is not None}

    def left(self, spent: Spent, field: str) -> float:
        """
        Return what is left of a field: infinite without a bound, 0 when overspent.

        Raises:
            DeclarationError: An unknown field.
        """
        bound = self._bound(field)
        if bound is None:
            return math.inf
        used: float = getattr(spent, field)
        return max(0.0, bound - used)
