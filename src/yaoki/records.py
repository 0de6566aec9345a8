"""
What is persisted: the record vocabulary of the journal, and the words it is written in.

A journal row is `(seq, kind, key, body)`. `kind` is the integer in `KINDS`; `key` is the text identity of
the step (or named point of the loop) the record belongs to, `""` for the run itself; `body` is the
record below as JSON. Both the integers and the field names are data: a test pins them, they are never
derived from a class name, and a kind this version does not know is refused, never skipped.

Stored times are integer milliseconds UTC. Fields at their default are not written.

An identity reads `pass.segment/branch/tool#n`: `1.3//charge#0` is the first `charge` of turn 3 in the main
branch, `1.0/map#0[doc-7]/fetch#0` one inside a map. A sub-step appends its role: `1.3//charge#0!check.0`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

__all__ = [
    "ABSENT",
    "KINDS",
    "Adopt",
    "Answer",
    "Begin",
    "Cancel",
    "Cause",
    "Checkpoint",
    "Claimed",
    "Decision",
    "Effect",
    "Ended",
    "Entry",
    "Executed",
    "Failure",
    "FailureKind",
    "Fired",
    "Gap",
    "Hold",
    "Parked",
    "Question",
    "Record",
    "Redrive",
    "Refused",
    "Scope",
    "Settle",
    "Signal",
    "Spend",
    "Spent",
    "State",
    "TopUp",
    "Undo",
    "Value",
    "kind_of",
    "step_key",
    "strongest",
    "sub_key",
]


ABSENT = Raw()
"""No value here. A JSON `null` is a value; test with `is ABSENT`."""


class Effect(StrEnum):
    """How safe a tool is to repeat; SEMANTICS section 3 in `docs/guarantees.md` has the whole table."""

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


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Claimed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process took the run."""

    at: int
    epoch: int
    worker: int
    pid: int = 0
    deaths: int = 0
    """
    How many owners of this run had died so far; an ordered end (a drain) is none. Crashes in a row are
    today's count less the count of the last claim under which an attempt's own process settled.
    """


class Begin(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    timeout_ms: int = 0
    reserved: dict[str, float] | None = None
    pgid: int = 0
    """Process group of the attempt's children, if it starts any."""


class Settle(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Written after an attempt: its outcome and, for a failure, what was decided; one record."""

    at: int
    attempt: int = 1
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


class Hold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that waits before its first begin, so that a crash restarts no deadline. `sleep` is one too."""

    at: int
    since: int
    until: int = 0
    """0: until somebody acts."""
    reason: Literal["sleep", "timeout", "budget", "breaker", "cooldown", "semaphore", "question", "signal"]
    action: str = ""
    args: str = ""
    call: str = ""
    deadline_at: int = 0
    joins: str = ""
    """For `question`: the step whose answer this equal call shares."""


class Adopt(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Checkpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state at the end of a turn. What lies before it is not replayed, the prelude excepted."""

    at: int
    turn: int
    form: Literal["base", "delta"] = "base"
    state: Raw
    """base: the whole state; delta: what was appended, with references `{"$": [seq, "field"]}`."""
    base: int = 0
    """seq of the checkpoint a delta builds on."""
    prefix: str = ""
    """Hash of the stored prefix; an edit in place shows here."""
    spent: Spent | None = None
    ledger: dict[str, list[str]] | None = None
    """Slots by action that changed since the record this one builds on."""
    orphans: list[str] | None = None


class Question(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first answer wins; written by the verb, never by the run's driver."""

    at: int
    question: str
    verdict: Literal["happened", "not-happened", "skip", "abort", "value", "refused"]
    value: Raw = ABSENT
    by: str = ""


class TopUp(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person adds to a budget, by the budget's field names."""

    at: int
    add: dict[str, float]
    by: str = ""


class Signal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named value from outside, kept until a `wait_signal` takes it."""

    at: int
    name: str
    value: Raw = ABSENT
    by: str = ""


class Undo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A completed effect was undone (or could not be), under the original step's identity; its slot is closed."""

    at: int
    outcome: Literal["done", "failed", "by_hand"]
    slot: int = 0
    action: str = ""
    failure: Failure | None = None


class Value(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reading of time, chance or an id, so that a replay sees the same."""

    at: int
    value: Raw


class Gap(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something is missing from the result, and this says what."""

    at: int
    text: str


class Fired(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `run.timeout` ran out; its replay raises at the same point."""

    at: int


class Spend(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The loop reported use of a budget itself."""

    at: int
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class Refused(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's call that could not become an attempt: unknown tool, bad arguments."""

    at: int
    failure: Failure
    call: str = ""
    call_id: str = ""


class Parked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run left memory: until a time, or for somebody."""

    at: int
    state: Literal["sleeping", "waiting", "pending"]
    waits_for: Literal["time", "person", "budget", "signal", "code", "drain"]
    wake_at: int = 0
    text: str = ""
    """One line for people."""
    diff: str = ""
    """For `code`: what the journal has and what the code asked for."""


class Ended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run is final."""

    at: int
    state: Literal["completed", "capped", "dead", "cancelled"]
    value: Raw = ABSENT
    """The loop's value; for `capped` the partial one."""
    failure: Failure | None = None
    step: str = ""
    """The step it ended at, for `dead`."""
    stopped_by: str = ""
    """`budget.turns`, `dead_letter`, `crashes`, `cancel`, …"""


class Redrive(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person orders a final or waiting run to go on."""

    at: int
    source: Literal["step", "checkpoint", "start"]
    step: str = ""
    """For `step`: whose ladder starts anew, with the same key."""
    pass_: int = msgspec.field(default=1, name="pass")
    by: str = ""


class Cancel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person ordered the run to stop: no new begin; attempts in flight settle."""

    at: int
    by: str = ""
    compensate: bool = False


Record: TypeAlias = (
    Claimed
    | Begin
    | Settle
    | Hold
    | Adopt
    | Checkpoint
    | Question
    | Answer
    | TopUp
    | Signal
    | Undo
    | Value
    | Gap
    | Fired
    | Spend
    | Refused
    | Parked
    | Ended
    | Redrive
    | Cancel
)

KINDS: dict[int, type[Record]] = {
    1: Claimed,
    2: Begin,
    3: Settle,
    4: Hold,
    5: Adopt,
    6: Checkpoint,
    7: Question,
    8: Answer,
    9: TopUp,
    10: Signal,
    11: Undo,
    12: Value,
    13: Gap,
    14: Fired,
    15: Spend,
    16: Refused,
    17: Parked,
    18: Ended,
    19: Redrive,
    20: Cancel,
}
"""The persisted kinds. Numbers are never reused."""

_KIND_OF: dict[type[Record], int] = {cls: kind for kind, cls in KINDS.items()}


def kind_of(record: Record) -> int:
    """Return the persisted integer of a record's kind."""
    return _KIND_OF[type(record)]


class Entry(NamedTuple):
    """One journal row, decoded. `seq` orders a run's records; posts from outside have `seq >= 2**31`."""

    seq: int
    key: str
    record: Record


def step_key(pass_: int, segment: int, branch: str, name: str, n: int) -> str:
    """Return the text identity of the n-th `name` in a branch of a segment of a pass."""
    return f"{pass_}.{segment}/{branch}/{name}#{n}"


def sub_key(step: str, role: str, i: int) -> str:
    """Return the identity of a step's i-th sub-step in a role (`check`, `undo`)."""
    return f"{step}!{role}.{i}"
