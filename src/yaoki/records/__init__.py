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

from typing import NamedTuple, TypeAlias

from yaoki.records._groups import GROUP_FIELDS, NANO, Charge, Group
from yaoki.records._run import (
    Cancel,
    Checkpoint,
    Claimed,
    Ended,
    Fired,
    Gap,
    Parked,
    Redrive,
    Signal,
    Spend,
    TopUp,
    Value,
)
from yaoki.records._scopes import Circuit
from yaoki.records._steps import LADDER_MS, Adopt, Answer, Begin, Decision, Hold, Question, Refused, Settle, Undo
from yaoki.records._words import (
    ABSENT,
    Cause,
    Effect,
    Executed,
    Failure,
    FailureKind,
    Scope,
    Spent,
    State,
    strongest,
)

__all__ = [
    "ABSENT",
    "GROUP_FIELDS",
    "KINDS",
    "LADDER_MS",
    "NANO",
    "Adopt",
    "Answer",
    "Begin",
    "Cancel",
    "Cause",
    "Charge",
    "Checkpoint",
    "Circuit",
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
    "Group",
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
