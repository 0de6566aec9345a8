"""The words records are written in: kinds, states, a failure, what was spent."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Raw, Struct

__all__ = [
    "ABSENT",
    "Cause",
    "Effect",
    "Executed",
    "Failure",
    "FailureKind",
    "Scope",
    "Spent",
    "State",
    "strongest",
]

ABSENT = Raw()
"""No value here. A JSON `null` is a value; test with `is ABSENT`."""


class Effect(StrEnum):
    """How safe a tool is to repeat; `docs/guarantees.md`, "The gate", has the whole table."""

    READ_ONLY = "read_only"
    """Changes nothing; repeated freely."""
    IDEMPOTENT = "idempotent"
    """Twice is the same as once; repeated freely."""
    KEYED = "keyed"
    """Takes an idempotency key by which the receiver deduplicates; repeated with the same key."""
    CHECKED = "checked"
    """Has a `check=` that says whether it happened; repeated after the check says it did not."""
    AT_MOST_ONCE = "at_most_once"
    """Started once; a second start is ordered only by a person. The default."""


class FailureKind(StrEnum):
    """Can it heal? Decides what is tried next."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    PERMANENT = "permanent"
    BUDGET = "budget"
    CAPABILITY = "capability"
    SEMANTIC = "semantic"
    PROGRAMMING = "programming"
    FATAL = "fatal"
    UNKNOWN = "unknown"


class Executed(StrEnum):
    """Did the action happen? Belongs to the action: the strongest answer over all its attempts."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


_STRENGTH = {Executed.NO: 0, Executed.MAYBE: 1, Executed.YES: 2}


def strongest(a: Executed, b: Executed) -> Executed:
    """Return the stronger of two answers: yes over maybe over no."""
    return a if _STRENGTH[a] >= _STRENGTH[b] else b


class Scope(StrEnum):
    """Who is failing: how far beyond this one request the failure reaches."""

    REQUEST = "request"
    MODEL = "model"
    KEY = "key"
    VENDOR = "vendor"
    PROCESS = "process"


class State(StrEnum):
    """Where a run is. The last four are final."""

    PENDING = "pending"
    RUNNING = "running"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    COMPLETED = "completed"
    CAPPED = "capped"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether the run has ended: nothing but a redrive changes it any more."""
        return self in _FINAL


_FINAL = frozenset({State.COMPLETED, State.CAPPED, State.DEAD, State.CANCELLED})


class Cause(StrEnum):
    """Who cancelled an attempt: the runner being stopped, a `run.timeout`, or the loop's own code."""

    RUNNER = "runner"
    TIMEOUT = "timeout"
    LOOP = "loop"


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A classified error: what it is, whether the action happened, who is failing, when to come back."""

    kind: FailureKind
    reason: str
    """Stable code: `http.429.insufficient_quota`, `os.ECONNREFUSED`, `process.died`."""
    message: str = ""
    """Bounded to 2,000 characters, secrets removed."""
    executed: Executed = Executed.MAYBE
    scope: Scope = Scope.REQUEST
    retry_after_s: float | None = None
    """The server's own hint, seconds from the moment of the failure; never negative."""
    evidence: str = ""
    """What decided: `status`, `body.code`, `errno`, `class`, … and the rule's name."""
    fingerprint: str = ""
    """Equal for failures that differ only in ids, numbers and times."""
    hint: str = ""
    """What a person could do about it, one sentence, or nothing."""


class Spent(Struct, kw_only=True, omit_defaults=True):
    """What a run has used of its budget: counted when begun, never refunded by a restart."""

    turns: int = 0
    retries: int = 0
    retry_wait_s: float = 0.0
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0
