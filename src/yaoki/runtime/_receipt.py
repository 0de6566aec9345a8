"""The receipt: the typed report of a run, at any time in its life."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from yaoki.codec import codec_for
from yaoki.errors import RunFailed, RunWaiting
from yaoki.records import Executed, Failure, Spent, State

__all__ = ["Ask", "Met", "Receipt"]

R = TypeVar("R")


def _whole(value: object) -> object:
    """Return a structure with every field in it, also those that records leave out at their default."""
    if isinstance(value, Struct):
        return {name: _whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [_whole(one) for one in cast("list[object]", value)]
    return value


class Ask(Struct, kw_only=True, omit_defaults=False):
    """A question of the run, open or answered."""

    id: str
    why: str
    """doubt · ask · approve · orphan"""
    text: str
    step: str
    call: str = ""
    executed: Executed = Executed.MAYBE
    attempt: int = 0
    attempts_max: int = 0
    type: str = ""
    schema: Any = None
    options: list[str] | None = None
    asked_at: int = 0
    expires_at: int = 0
    note: str = ""
    retries: bool = False
    """Asked in place of a wait: when it expires, the step is tried again."""
    has_default: bool = False
    default: Any = None
    """What stands when it expires, where `has_default`."""
    verdict: str = ""
    """Empty while open."""
    answer: Any = None
    answered_at: int = 0


class Met(Struct, kw_only=True, omit_defaults=False):
    """A failure the run met, also one that healed."""

    step: str
    call: str
    attempt: int
    at: int
    failure: Failure
    then: str
    """What was decided: retry, repair, check, ask, tell, rung, …"""
    healed: bool = False


class Receipt(Struct, Generic[R], kw_only=True, omit_defaults=False):
    """
    The typed report of a run; its state at any time, final or not.

    `value` is set when `completed`, `partial` when `capped` (what the loop returned, or the last saved
    state). Times are milliseconds UTC, 0 where there is none.
    """

    run_id: str
    loop: str
    status: State
    value: Any = None
    partial: Any = None
    failure: Failure | None = None
    failures: list[Met] = []
    gaps: list[str] = []
    orphans: list[str] = []
    asks: list[Ask] = []
    spent: Spent = msgspec.field(default_factory=Spent)
    budget: dict[str, float] = {}
    """The bounds that apply, by field name, top-ups included."""
    attempts: int = 0
    first_attempt_failures: int = 0
    restarts: int = 0
    turn: int = 0
    step: str = ""
    """For `dead`: the step it ended at."""
    created_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    wake_at: int = 0
    waits_for: str = ""
    """time · person · budget · signal · code; empty unless sleeping or waiting"""
    waiting_since: int = 0
    text: str = ""
    """Why the run is where it is, one line for people."""
    diff: str = ""
    """For `code`: what the journal has and what the code asked for."""
    stopped_by: str = ""
    group: str = ""
    """The group whose budget it shares."""
    next_action: str = ""
    """The command that takes it on, or nothing."""
    file: str = ""

    def unwrap(self) -> R:
        """
        Return the value (`completed`) or the partial value (`capped`).

        Raises:
            RunWaiting: It is not final: it waits, sleeps or runs.
            RunFailed: It is dead or cancelled.
        """
        if self.status is State.COMPLETED:
            return cast("R", self.value)
        if self.status is State.CAPPED:
            return cast("R", self.partial)
        where = f"run {self.run_id}: {self.status.value}"
        why = f": {self.text}" if self.text else ""
        then = f" See: {self.next_action}" if self.next_action else f" See: yaoki show {self.run_id}"
        if self.status.final:
            raise RunFailed(f"{where}{why}.{then}", self.run_id)
        raise RunWaiting(f"{where}{why}.{then}", self.run_id)

    def to_json(self) -> bytes:
        """Return the receipt as JSON, every field present; a value only its loop can type is plain JSON."""
        return codec_for(Any).encode(_whole(self))
