"""Records about the run itself: who drives it, what it saved, why it is where it is."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from yaoki.records._words import ABSENT, Failure

__all__ = [
    "Cancel",
    "Checkpoint",
    "Claimed",
    "Ended",
    "Fired",
    "Gap",
    "Parked",
    "Redrive",
    "Signal",
    "Spend",
    "TopUp",
    "Value",
]


class Claimed(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A process took the run."""

    at: int
    epoch: int
    worker: int
    pid: int = 0
    mark: str = ""
    """What the processes of its attempts carry in their environment; empty if nobody supervises it."""
    deaths: int = 0
    """
    How many owners of this run had died so far; an ordered end (a drain) is none. Crashes in a row are
    today's count less the count of the last claim under which an attempt's own process settled.
    """
    budget: dict[str, float] | None = None
    """The bounds its code declares, by field, top-ups left out."""


class Checkpoint(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The state at the end of a turn. What lies before it is not replayed, the prelude excepted."""

    at: int
    turn: int
    form: Literal["base", "delta"] = "base"
    state: Raw
    """base: the whole state; delta: what it has more than the one before, with references `{"$": [seq, "field"]}`."""
    prefix: str = ""
    """
    What the state put together from the last base and the deltas up to this one is held against: 8 characters chain
    the deltas; 16, of earlier stores, are hex digits of the SHA-256 of the state.
    """


class TopUp(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A person adds to a budget, by the budget's field names."""

    at: int
    add: dict[str, float]
    by: str = ""


class Signal(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A named value from outside, kept until a `wait_signal` takes it."""

    at: int
    name: str
    value: Raw = ABSENT
    by: str = ""


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A reading of time, chance or an id, so that a replay sees the same."""

    at: int
    value: Raw


class Gap(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something is missing from the result, and this says what."""

    at: int
    text: str


class Fired(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A `run.timeout` ran out; its replay raises at the same point."""

    at: int


class Spend(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The loop reported use of a budget itself."""

    at: int
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class Parked(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The run left memory: until a time, or for somebody."""

    at: int
    state: Literal["sleeping", "waiting", "pending"]
    waits_for: Literal["time", "person", "budget", "signal", "code", "drain", "pause"]
    wake_at: int = 0
    text: str = ""
    """One line for people."""
    diff: str = ""
    """For `code`: what the journal has and what the code asked for."""


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The run is final."""

    at: int
    state: Literal["completed", "capped", "dead", "cancelled"]
    value: Raw = ABSENT
    """The loop's value; for `capped`, and for `dead` by a fatal failure, the partial one."""
    failure: Failure | None = None
    step: str = ""
    """The step it ended at, for `dead`."""
    turns: int = 0
    """Turns begun: the last one may have left no record of its own."""
    stopped_by: str = ""
    """`budget.turns`, `dead_letter`, `crashes`, `cancel`, …"""


class Redrive(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A person orders a final or waiting run to go on; or the run re-plans by itself, instead of being `dead`."""

    at: int
    source: Literal["step", "checkpoint", "start"]
    step: str = ""
    """For `step`: whose ladder starts anew, with the same key."""
    pass_: int = msgspec.field(default=1, name="pass")
    posts: int = 0
    """seq of the newest post it knew: a cancel up to there is answered by it, a later one holds."""
    by: str = ""
    failure: Failure | None = None
    """For a run that re-plans by itself: what ended its pass."""
    input: Raw = ABSENT
    """The loop's arguments from here on, if a person edited them; the run's row has them too."""


class Cancel(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A person ordered the run to stop: no new begin; attempts in flight settle."""

    at: int
    by: str = ""
    compensate: bool = False
