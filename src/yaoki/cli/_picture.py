"""What a whole store looks like: its runs in groups, each run in one. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_text import Now
    from yaoki.journal import Brake, Target
    from yaoki.records import Group as Budgeted
    from yaoki.runtime._receipt import Receipt

__all__ = ["GROUPS", "Group", "Picture", "group_of", "status_names"]

GROUPS = ("needs-you", "left", "dead", "active", "done")
"""In the order they are shown; their names are also taken by `--status`."""

_BY_STATE = {
    State.WAITING: "needs-you",
    State.DEAD: "dead",
    State.RUNNING: "active",
    State.SLEEPING: "active",
}
"""Where nothing else is known; every other state is done."""

_LATE_MS = 5_000
_FOR_SOMEBODY = ("person", "budget", "signal", "pause")


@dataclass(slots=True, kw_only=True)
class Group:
    """Some runs of a store."""

    name: str
    count: int = 0
    """How many there are."""
    shown: list[Receipt[Any]] = field(default_factory=list["Receipt[Any]"])
    """Those to be listed, in order."""
    parts: dict[State, int] = field(default_factory=dict[State, int])
    """The count by state, where a line says so."""


@dataclass(slots=True, kw_only=True)
class Picture:
    """A store at one moment."""

    groups: dict[str, Group]
    loop: str = ""
    """The loop it was narrowed to."""
    chosen: Group | None = None
    """The one group or state that was asked for."""
    brake: Brake | None = None
    workers: int = 0
    """How many live."""
    died: frozenset[str] = frozenset()
    """Runs whose process died, and which nobody has taken up since."""
    asking: dict[str, str] = field(default_factory=dict[str, str])
    """The open question of each run whose row names none."""
    pending_since: int = 0
    """Since when the oldest pending run is; 0: none is."""
    targets: list[Target] = field(default_factory=list["Target"])
    """Who is told of runs that need somebody."""
    shared: Sequence[Budgeted] = ()
    """The groups of runs with a budget of their own, and what they have spent."""
    cost_usd: float = 0.0
    """What the runs that are done have cost."""
    first_asleep: Receipt[Any] | None = None
    """The sleeping run that wakes next."""

    @property
    def empty(self) -> bool:
        """Whether there is no run to speak of."""
        return not any(group.count for group in self.groups.values())


def status_names() -> list[str]:
    """Return every word `--status` takes."""
    return sorted({*GROUPS, *(state.value for state in State)})


def group_of(receipt: Receipt[Any], picture: Picture, now: Now) -> str:
    """Return the group a run is in."""
    moving = receipt.status in (State.RUNNING, State.SLEEPING)
    if receipt.run_id in picture.asking or (moving and receipt.waits_for in _FOR_SOMEBODY):
        return "needs-you"
    late = receipt.status is State.SLEEPING and 0 < receipt.wake_at < now.now_ms - _LATE_MS
    if receipt.run_id in picture.died or late:
        return "left"
    if receipt.status is State.PENDING:
        return "active" if picture.workers else "left"
    return _BY_STATE.get(receipt.status, "done")
