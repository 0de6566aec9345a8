"""May an attempt begin? Asked before every begin, first attempts and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from yaoki.policy._budget import Budget
    from yaoki.records import Spent

__all__ = ["Admission", "admit", "crash_verdict"]


class Admission(Struct, frozen=True, kw_only=True):
    """
    Whether an attempt may begin, and if not, what happens instead: exactly one of the first four is set.

    An action that is in doubt is asked about before anything but `go` and `wait` is carried out
    (`end_of_ladder` decides so).
    """

    go: bool = False
    wait: Literal["", "budget"] = ""
    """`budget`: the branch waits for a top-up; nothing was begun."""
    cap: str = ""
    """The run ends `capped`, with this as `stopped_by`: `budget.wall_s`, `budget.calls`, …"""
    stop: Literal["", "cancel", "ladder"] = ""
    """`cancel`: the run was cancelled · `ladder`: this step's ladder is over, as `text` says."""
    text: str = ""
    """One line for people; empty for `go`."""


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
    """
    if cancelled:
        return Admission(stop="cancel", text="the run was cancelled")
    if budget.wall_s is not None and elapsed_wall_s >= budget.wall_s:
        return Admission(cap="budget.wall_s", text=f"time: {elapsed_wall_s:.0f} s of {budget.wall_s:g} s")
    if not first and deadline_ms and now_ms >= deadline_ms:
        return Admission(stop="ladder", text="deadline")
    if not first and budget.left(spent, "retries") < 1:
        return Admission(stop="ladder", text="retry budget used up")
    return _admit_spending(budget, spent)


def _admit_spending(budget: Budget, spent: Spent) -> Admission:
    # Spelled out, not looped: this runs before every attempt of every run.
    if budget.calls is not None and spent.calls >= budget.calls:
        return _refused(budget, "calls", f"calls: {spent.calls} of {budget.calls}")
    if budget.tokens is not None and spent.tokens >= budget.tokens:
        return _refused(budget, "tokens", f"tokens: {spent.tokens} of {budget.tokens}")
    if budget.cost_usd is not None and spent.cost_usd >= budget.cost_usd:
        return _refused(budget, "cost_usd", f"cost: ${spent.cost_usd:.2f} of ${budget.cost_usd:.2f}")
    return _GO


def _refused(budget: Budget, field: str, text: str) -> Admission:
    if budget.on_empty == "cap":
        return Admission(cap=f"budget.{field}", text=text)
    return Admission(wait="budget", text=text)


def crash_verdict(crashes: int, crashes_max: int) -> bool:
    """Return whether a run is `dead`: so many of its processes died in a row without settling an attempt they made."""
    return crashes >= crashes_max
