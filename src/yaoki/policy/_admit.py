"""May an attempt begin? Asked before every begin, first attempts and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaoki.policy._budget import Budget
    from yaoki.records import Spent

__all__ = ["Admission", "admit", "admit_spending", "crash_verdict"]


class Admission(Struct, frozen=True, kw_only=True):
    """
    Whether an attempt may begin, and if not, what happens instead: exactly one of the first four is set.

    An action that is in doubt is asked about before anything but `go` and `wait` is carried out
    (`end_of_ladder` decides so).
    """

    go: bool = False
    wait: Literal["", "budget", "room", "scope"] = ""
    """
    `budget`: the branch waits for a top-up; nothing was begun · `room`: it waits for calls in flight to settle, since
    what they reserved and do not use would be enough · `scope`: its scope did not let it begin any more, and says how
    long that may be.
    """
    cap: str = ""
    """The run ends `capped`, with this as `stopped_by`: `budget.wall_s`, `budget.calls`, …"""
    stop: Literal["", "cancel", "ladder"] = ""
    """`cancel`: the run was cancelled · `ladder`: this step's ladder is over, as `text` says."""
    text: str = ""
    """One line for people; empty for `go`."""
    freed: int = -1
    """For the budget of a group: how often that had freed when it had no room."""


_GO = Admission(go=True)


def admit(
    *,
    budget: Budget,
    spent: Spent,
    elapsed_wall_s: float,
    cancelled: bool,
    first: bool,
    deadline_ms: int,
    now_ms: int,
    reserved: Mapping[str, float] | None = None,
    in_flight: Spent | None = None,
) -> Admission:
    """
    Decide whether an attempt may begin now.

    In order: a cancelled run begins nothing · a run whose time is used up is capped · a ladder whose deadline
    has come, or whose run has no retry left (a parallel branch may have taken it), makes no retry · an empty
    budget waits, or caps. The ladder comes before the budgets: what could not go on is not made to wait.

    Args:
        budget: As declared and topped up.
        spent: Counted so far, without the attempt in question.
        elapsed_wall_s: Since the run's first begin, waiting for somebody left out.
        cancelled: Whether a person cancelled the run.
        first: Whether this is the step's first attempt on its rung; its deadline starts with it.
        deadline_ms: End of the ladder, 0 for none.
        now_ms: The same clock as the deadline's.
        reserved: What the attempt would reserve: tokens, cost_usd. It must fit into what is left.
        in_flight: What attempts under way have reserved, part of `spent`; some of it may come back.
    """
    if cancelled:
        return Admission(stop="cancel", text="the run was cancelled")
    if budget.wall_s is not None and elapsed_wall_s >= budget.wall_s:
        return Admission(cap="budget.wall_s", text=f"time: {elapsed_wall_s:.0f} s of {budget.wall_s:g} s")
    if not first and deadline_ms and now_ms >= deadline_ms:
        return Admission(stop="ladder", text="deadline")
    if not first and budget.left(spent, "retries") < 1:
        return Admission(stop="ladder", text="retry budget used up")
    return admit_spending(budget, spent, reserved, in_flight)


def admit_spending(
    budget: Budget, spent: Spent, reserved: Mapping[str, float] | None = None, in_flight: Spent | None = None
) -> Admission:
    """Decide whether a budget (a run's, or a group's) has room for one more attempt; see `admit`."""
    # Spelled out, not looped: this runs before every attempt of every run.
    if budget.calls is not None and spent.calls >= budget.calls:
        return _refused(budget, "calls", f"calls: {spent.calls} of {budget.calls}")
    if budget.tokens is not None:
        wants = reserved.get("tokens", 0) if reserved else 0
        if _over(spent.tokens, wants, budget.tokens):
            comes_back = in_flight is not None and not _over(spent.tokens - in_flight.tokens, wants, budget.tokens)
            text = f"tokens: {spent.tokens} of {budget.tokens}" + (f" (this call reserves {wants:g})" if wants else "")
            return _refused(budget, "tokens", text, comes_back=comes_back)
    if budget.cost_usd is not None:
        wants = reserved.get("cost_usd", 0) if reserved else 0
        if _over(spent.cost_usd, wants, budget.cost_usd):
            left = spent.cost_usd - in_flight.cost_usd if in_flight is not None else spent.cost_usd
            comes_back = in_flight is not None and not _over(left, wants, budget.cost_usd)
            text = f"budget: {_usd(spent.cost_usd)} of {_usd(budget.cost_usd)}"
            text += f" (this call reserves {_usd(wants)})" if wants else ""
            return _refused(budget, "cost_usd", text, comes_back=comes_back)
    return _GO


_HAIR = 1e-9
"""A sum of cents in binary may be this far off: it is nobody's overspending."""


def _over(spent: float, wants: float, bound: float) -> bool:
    return spent > bound - _HAIR or spent + wants > bound + _HAIR


def _usd(amount: float) -> str:
    """Return dollars with cents; below a dollar, what is no whole number of cents with more places."""
    cents = round(amount, 2)
    return f"${amount:.2f}" if amount >= 1 or abs(amount - cents) < _HAIR else f"${amount:.4f}"


def _refused(budget: Budget, field: str, text: str, *, comes_back: bool = False) -> Admission:
    if comes_back:
        return Admission(wait="room", text=text)
    if budget.on_empty == "cap":
        return Admission(cap=f"budget.{field}", text=text)
    return Admission(wait="budget", text=text)


def crash_verdict(crashes: int, crashes_max: int) -> bool:
    """Return whether a run is `dead`: so many of its processes died in a row without settling an attempt they made."""
    return crashes >= crashes_max
