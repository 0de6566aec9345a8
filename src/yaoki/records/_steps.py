"""Records about a step: its attempts, its waits, its questions."""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from yaoki.records._words import ABSENT, Cause, Effect, Executed, Failure

__all__ = ["Adopt", "Answer", "Begin", "Decision", "Hold", "Question", "Refused", "Settle", "Undo"]


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What was decided after a failure; written in the same record as the failure, so it is made once."""

    do: Literal["retry", "repair", "check", "ask", "tell", "rung", "end", "pause", "pass"]
    """
    retry: again at `next_at` · repair: again, told what was wrong · check: ask the receiver at `next_at` ·
    ask: a person or reconciler says whether it happened · tell: the model is told the outcome is unknown ·
    rung: the ladder is over, next escalation · end: the run is over (fatal) · pause: wait for a budget ·
    pass: control flow, passed through in the live process.
    """
    why: str = ""
    """Why not something milder, for people: `attempts 4 of 4`, `effect may have happened`."""
    next_at: int = 0
    wait_ms: int = 0
    """How much of `retry_wait_s` this decision spends."""


class Begin(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Written before an attempt: everything needed to decide about it if nobody survives it."""

    at: int
    attempt: int = 1
    rung: int = 0
    slot: int = 0
    key: str = ""
    """The action's idempotency key: hash(run, tool, key arguments, slot)."""
    action: str = ""
    """Hash of tool and key arguments: equal calls share it, and share slots."""
    args: str = ""
    """Fingerprint of all arguments; `""` where it equals `action`."""
    tool: str = ""
    """Only where the identity does not name it (a fallback's member)."""
    call: str = ""
    """The call for people, bounded: `charge(order_id="A-1009", cents=4200)`."""
    call_id: str = ""
    """The model's id for it; recorded, never identifying."""
    effect: Effect = Effect.AT_MOST_ONCE
    undeclared: bool = False
    scope: str = ""
    """`vendor/model/key`; `""` is the tool's name."""
    attempts_max: int = 8
    deadline_at: int = 0
    """End of the whole ladder on this rung; 0 is none."""
    base_ms: int = 500
    cap_ms: int = 60_000
    check_after_ms: int = 5_000
    timeout_ms: int = 0
    reserved: dict[str, float] | None = None
    pgid: int = 0
    """Process group of the attempt's children, if it starts any."""


class Settle(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Written after an attempt: its outcome and, for a failure, what was decided; one record."""

    at: int
    attempt: int = 1
    """0: the ladder ended before its first attempt, since its scope was not available in time."""
    rung: int = 0
    outcome: Literal["ok", "failed", "cancelled"] = "ok"
    value: Raw = ABSENT
    value_lost: bool = False
    """It happened, but its result could not be kept (not encodable, too large, rejected, duplicate)."""
    executed: Executed = Executed.YES
    """Of this attempt alone."""
    failure: Failure | None = None
    decision: Decision | None = None
    output: Raw = ABSENT
    """The output that failed validation, kept up to `result_max_bytes`."""
    cause: Cause | None = None
    """For `cancelled`: by whom."""
    timeout: str = ""
    """For cause `timeout`: the identity of that `run.timeout`."""
    used: dict[str, float] | None = None
    """Usage reported: tokens, cost_usd."""
    unavailable: str = ""
    """A scope that this run does not use any more: its breaker opened, and is not to be probed."""


class Hold(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A step that waits before its first begin, so that a crash restarts no deadline. `sleep` is one too."""

    at: int
    since: int
    until: int = 0
    """0: until somebody acts."""
    reason: Literal["sleep", "timeout", "budget", "breaker", "cooldown", "semaphore", "question", "signal", "pause"]
    action: str = ""
    args: str = ""
    call: str = ""
    deadline_at: int = 0
    joins: str = ""
    """For `question`: the step whose answer this equal call shares."""


class Adopt(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A step answered from an earlier record instead of an attempt."""

    at: int
    source: str
    """A question's id, `check`, or the identity of the step whose slot it took."""
    value: Raw = ABSENT
    failure: Failure | None = None
    """Set where what was recorded is no value: skipped, or happened with its value lost."""
    slot: int = 0
    key: str = ""
    action: str = ""
    args: str = ""
    call: str = ""


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Somebody is asked. Bound to its step and its arguments; listed from this record on; answered once."""

    at: int
    id: str
    why: Literal["doubt", "ask", "approve", "orphan"]
    text: str
    call: str = ""
    args: str = ""
    executed: Executed = Executed.MAYBE
    attempt: int = 0
    attempts_max: int = 0
    type: str = ""
    """The answer's type for people: `str`."""
    schema: Raw = ABSENT
    """Its JSON schema, so that an answer is checked where no code is loaded."""
    options: list[str] | None = None
    expires_at: int = 0
    default: Raw = ABSENT
    """What stands when it expires; nothing: a dead letter."""
    note: str = ""


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The first answer wins; written by the verb, never by the run's driver."""

    at: int
    question: str
    verdict: Literal["happened", "not-happened", "skip", "abort", "value", "refused"]
    value: Raw = ABSENT
    by: str = ""


class Undo(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A completed effect was undone (or could not be), under the original step's identity; its slot is closed."""

    at: int
    outcome: Literal["done", "failed", "by_hand"]
    slot: int = 0
    action: str = ""
    failure: Failure | None = None


class Refused(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A model's call that could not become an attempt: unknown tool, bad arguments."""

    at: int
    failure: Failure
    call: str = ""
    call_id: str = ""
