"""
A run's part in its group's budget: every record is written with what it changes of the group's count.

The count of a group is what its runs' histories say, added up; so the charge of a record is the difference it makes
to its own run's history, whatever record it is. Only a begin is asked for: it may not have room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from yaoki.errors import DeclarationError
from yaoki.policy import Admission, Budget, admit_spending
from yaoki.records import GROUP_FIELDS, NANO, Charge, Spent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaoki.records import Begin, Group
    from yaoki.runtime._history import History
    from yaoki.runtime._live import Live

__all__ = ["Counted", "admit_in_group", "charge_for", "charge_of", "counted", "group_bounds"]


class Counted(NamedTuple):
    """What of a run its group has been charged with."""

    calls: int = 0
    tokens: int = 0
    cost_nusd: int = 0
    tokens_held: int = 0
    cost_nusd_held: int = 0


def counted(history: History) -> Counted:
    """Return what a run's history says."""
    spent, held = history.spent, history.in_flight
    return Counted(
        spent.calls, spent.tokens, round(spent.cost_usd * NANO), held.tokens, round(held.cost_usd * NANO)
    )  # fmt: skip


def charge_of(live: Live) -> Charge | None:
    """Return what was folded since the group was last charged; it is to be written with those records."""
    now, before = counted(live.history), live.counted
    live.counted = now
    charge = Charge(live.group, *(a - b for a, b in zip(now, before, strict=True)))
    return None if charge.nothing else charge


def charge_for(live: Live, begin: Begin) -> Charge:
    """Return the charge that folding a begin would make."""
    reserved = begin.reserved or {}
    tokens, cost_usd = int(reserved.get("tokens", 0)), reserved.get("cost_usd", 0.0)
    spent, held, before = live.history.spent, live.history.in_flight, live.counted
    return Charge(
        live.group,
        1,
        tokens,
        round((spent.cost_usd + cost_usd) * NANO) - before.cost_nusd,
        tokens,
        round((held.cost_usd + cost_usd) * NANO) - before.cost_nusd_held,
    )


def admit_in_group(group: Group, begin: Begin, declared: Budget) -> Admission:
    """Decide by the group's budget; what then becomes of the run, its own `on_empty` says."""
    bounds = Budget(
        turns=None,
        retries=None,
        wall_s=None,
        calls=group.calls_max,
        tokens=group.tokens_max,
        cost_usd=group.cost_usd_max,
        on_empty=declared.on_empty,
    )
    spent = Spent(calls=group.calls, tokens=group.tokens, cost_usd=group.cost_usd)
    held = Spent(tokens=group.tokens_held, cost_usd=group.cost_usd_held)
    admission = admit_spending(bounds, spent, begin.reserved, held)
    if admission.go:
        return admission
    cap = admission.cap.replace("budget.", "group.")
    # Where others hold room, somebody frees it: the run is woken then, by whoever does.
    text = f"group {group.name}: {admission.text}"
    return Admission(wait="" if cap else "budget", cap=cap, text=text, freed=group.freed)


def group_bounds(name: str, amounts: Mapping[str, float | None], *, add: bool = False) -> dict[str, float]:
    """
    Return the amounts that are given, checked as a budget's.

    Raises:
        DeclarationError: No such field of a group's budget, or an amount that is none.
    """
    given = {field: amount for field, amount in amounts.items() if amount is not None}
    for field in given:
        if field not in GROUP_FIELDS:
            msg = f"group {name}: there is no budget of {field!r} over a group. Use one of: {', '.join(GROUP_FIELDS)}."
            raise DeclarationError(msg)
    if add:
        Budget().topped_up(given)
    else:
        Budget(**given)  # type: ignore[arg-type]
    return given
