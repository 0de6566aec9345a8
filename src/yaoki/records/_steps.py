"""Records about a step: its attempts, its waits, its questions."""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from yaoki.records._words import ABSENT, Cause, Effect, Executed, Failure

__all__ = ["LADDER_MS", "Adopt", "Answer", "Begin", "Decision", "Hold", "Question", "Refused", "Settle", "Undo"]


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
    rung: int = 0
    """For `rung`: which one, by its place among those declared for the step, 0-based."""


LADDER_MS = 900_000
"""The deadline of a ladder whose begin names none. Data, whatever the default of `Retry` becomes."""


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
    """End of the whole ladder on this rung; 0 is `LADDER_MS` after `at`, as of most first attempts. Read `ends_at`."""
    base_ms: int = 500
    cap_ms: int = 60_000
    check_after_ms: int = 5_000
    timeout_ms: int = 120_000
    """Every attempt has a timeout; stores whose begins leave it out never left out another."""
    reserved: dict[str, float] | None = None
    pgid: int = 0
    """Process group of the attempt's children, if it starts any."""
    given: Raw = ABSENT
    """The arguments by name, of a tool with an `undo`: what is undone later may be called from no code any more."""

    @property
    def ends_at(self) -> int:
        """End of the whole ladder on this rung."""
        return self.deadline_at or self.at + LADDER_MS


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
    """
    Usage reported: tokens, cost_usd. It takes the place of what the begin reserved; none: that stays spent.
    """
    uncounted: str = ""
    """What could not be counted of it, and why, for people."""
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
    schema: Raw = ABSENT
    """For `signal`: the JSON schema of what it waits for, so that a signal is checked where no code is loaded."""
    rung: int = 0
    """Of which rung `deadline_at` is the deadline; as in a begin."""


class Adopt(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A step answered from an earlier record instead of an attempt."""

    at: int
    source: str
    """A question's id, `check`, the identity of the step whose slot it took; or the rung: `cached`, `degrade`."""
    value: Raw = ABSENT
    failure: Failure | None = None
    """Set where what was recorded is no value: skipped, or happened with its value lost."""
    slot: int = 0
    key: str = ""
    action: str = ""
    args: str = ""
    call: str = ""
    gap: str = ""
    """What is missing because a stand-in was taken; on the receipt, and told to a model."""


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
    retries: bool = False
    """Asked in place of a wait, since a person watches: when it expires, the step is tried again."""


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The first answer wins; written by the verb, never by the run's driver."""

    at: int
    question: str
    verdict: Literal["happened", "not-happened", "skip", "abort", "value", "approved", "refused", "retry"]
    value: Raw = ABSENT
    by: str = ""


class Undo(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A completed effect was undone (or could not be), under the original step's identity; its slot is closed."""

    at: int
    outcome: Literal["done", "failed", "by_hand"]
    """failed: it was tried, and is to be done by hand now · by_hand: nothing here can undo it."""
    slot: int = 0
    action: str = ""
    call: str = ""
    """What is undone, for people."""
    cause: str = ""
    """The step whose ladder led to it; empty for a cancel."""
    failure: Failure | None = None


class Refused(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A model's call that could not become an attempt: unknown tool, bad arguments."""

    at: int
    failure: Failure
    call: str = ""
    call_id: str = ""
