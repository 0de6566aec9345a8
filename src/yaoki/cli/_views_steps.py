"""The journal as a story: one row a step, and one for everything a person did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yaoki.records import (
    Adopt,
    Answer,
    Begin,
    Cancel,
    Executed,
    Gap,
    Hold,
    Question,
    Redrive,
    Refused,
    Settle,
    Signal,
    TopUp,
    Undo,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaoki.records import Entry, Record

__all__ = ["Identity", "Row", "identity", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A step's key, taken apart; `turn` is -1 where the key is not a step's."""

    pass_: int = 1
    turn: int = -1
    branch: str = ""
    name: str = ""
    n: int = 0
    role: str = ""


def identity(key: str) -> Identity:
    """Return the parts of `pass.segment/branch/tool#n[!role.i]`; what does not parse is a bare name."""
    where, slash, rest = key.partition("/")
    head, dot, segment = where.partition(".")
    if not (slash and dot and head.isdigit() and segment.isdigit()):
        return Identity(name=key)
    path, hash_, tail = rest.rpartition("#")
    if not hash_:
        return Identity(pass_=int(head), turn=int(segment), name=rest.strip("/"))
    branch, _, name = path.rpartition("/")
    number, _, sub = tail.partition("!")
    return Identity(
        pass_=int(head),
        turn=int(segment),
        branch=branch.strip("/"),
        name=name,
        n=int(number) if number.isdigit() else 0,
        role=sub.partition(".")[0],
    )


@dataclass(slots=True, kw_only=True)
class Row:
    """One line of the story."""

    key: str
    at: int
    what: str
    """The call, or what a person did."""
    outcome: str = ""
    """
    ok · failed · UNKNOWN · running · cancelled · adopted · stand-in · undone · asked · waiting · refused; empty for a
    person's act.
    """
    took_ms: int = -1
    """The last attempt's length; -1 while there is none."""
    attempts: int = 0
    waited_ms: int = 0
    reasons: list[str] = field(default_factory=list[str])
    note: str = ""
    pid: int = 0
    begun_at: int = 0
    timeout_ms: int = 0
    attempts_max: int = 0
    next_at: int = 0
    """When it goes on, while it waits for a time; else 0."""
    by_hand: bool = False
    """Whether it is what a person did."""
    said: str = ""
    """What the last failure said."""
    instead: str = ""
    """The fallback's tool that acts, once one does."""

    @property
    def open(self) -> bool:
        """Whether its last attempt has begun and nothing says how it ended."""
        return self.outcome == "running"


def rows(entries: Iterable[Entry]) -> list[Row]:
    """Return the story of a run, in the order things began."""
    story = _Story()
    for entry in entries:
        story.add(entry.key, entry.record)
    return sorted(story.rows, key=lambda row: row.at)


class _Story:
    """Rows in the making: a step's row is found again by its key."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._steps: dict[str, Row] = {}
        self._asked: dict[str, str] = {}
        """The step each question is about; a step's earlier questions are forgotten."""

    def add(self, key: str, record: Record) -> None:
        match record:
            case Begin():
                self._begin(key, record)
            case Settle():
                self._settle(key, record)
            case Hold():
                self._hold(key, record)
            case Adopt() | Undo():
                self._otherwise(key, record)
            case Question():
                self._question(key, record)
            case Refused():
                row = self._row(key, record.at, record.call)
                row.outcome, row.note = "refused", record.failure.reason
            case Gap():
                self._act(record.at, f"gap: {record.text}", by_hand=False)
            case Answer():
                self._act(record.at, *_act_of(record))
                self._answer(record)
            case Redrive() | Cancel() | TopUp() | Signal():
                self._act(record.at, *_act_of(record))
            case _:
                pass

    def _act(self, at: int, what: str, by: str = "", *, by_hand: bool = True) -> None:
        self.rows.append(Row(key="", at=at, what=what, note=f"by {by}" if by else "", by_hand=by_hand))

    def _row(self, key: str, at: int, call: str) -> Row:
        row = self._steps.get(key)
        if row is None:
            row = Row(key=key, at=at, what=call or _name_of(key))
            self._steps[key] = row
            self.rows.append(row)
        elif call:
            row.what = call
        return row

    def _begin(self, key: str, begin: Begin) -> None:
        row = self._row(key, begin.at, begin.call)
        row.outcome, row.note, row.took_ms = "running", "", -1
        row.attempts += 1
        row.begun_at, row.timeout_ms = begin.at, begin.timeout_ms
        row.attempts_max, row.next_at = begin.attempts_max, 0
        row.instead = begin.tool

    def _settle(self, key: str, settle: Settle) -> None:
        row = self._row(key, settle.at, "")
        row.took_ms = max(settle.at - row.begun_at, 0) if row.begun_at else 0
        failure = settle.failure
        if settle.outcome == "ok":
            row.outcome, row.note = "ok", ""
            return
        if settle.outcome == "cancelled":
            row.outcome = "cancelled"
            row.note = settle.cause.value if settle.cause else ""
            return
        row.outcome = "UNKNOWN" if _in_doubt(settle) else "failed"
        if failure is not None:
            row.reasons.append(failure.reason)
            row.note = failure.reason
            row.said = "" if failure.message == failure.reason else failure.message
            if failure.reason == "process.died":
                row.took_ms = -1
        if settle.decision is not None and settle.decision.do in ("retry", "repair"):
            row.outcome = "waiting"
            row.waited_ms += settle.decision.wait_ms
            row.next_at = settle.decision.next_at

    def _hold(self, key: str, hold: Hold) -> None:
        row = self._row(key, hold.at, hold.call)
        if row.outcome in ("", "waiting"):
            row.outcome, row.note = "waiting", f"for {hold.reason}" if hold.reason != "sleep" else "asleep"
            row.next_at = 0 if hold.reason in ("question", "signal", "budget") else hold.until

    def _otherwise(self, key: str, record: Adopt | Undo) -> None:
        """Note what a step got by no attempt of its own, or lost."""
        if isinstance(record, Adopt):
            self._adopt(key, record)
        else:
            self._undo(key, record)

    def _adopt(self, key: str, adopt: Adopt) -> None:
        row = self._row(key, adopt.at, adopt.call)
        if adopt.source in ("cached", "degrade"):
            row.outcome, row.note = "stand-in", adopt.gap or adopt.source
            return
        row.outcome = "failed" if adopt.failure else "adopted"
        row.note = adopt.failure.reason if adopt.failure else f"from {adopt.source}"

    def _undo(self, key: str, undo: Undo) -> None:
        if undo.outcome == "done":
            row = self._row(key, undo.at, "")
            row.outcome, row.note = "undone", ""
        else:
            why = f": {undo.failure.reason} {undo.failure.message}" if undo.failure is not None else ""
            self._act(undo.at, f"not undone: {undo.call}{why}", by_hand=False)

    def _answer(self, answer: Answer) -> None:
        """Close a doubt. Answers are read last; what was sent again since has another outcome by now."""
        row = self._steps.get(self._asked.get(answer.question, ""))
        if row is not None and row.outcome in ("UNKNOWN", "asked"):
            row.outcome, row.note = "answered", answer.verdict

    def _question(self, key: str, question: Question) -> None:
        self._asked = {name: step for name, step in self._asked.items() if step != key} | {question.id: key}
        row = self._row(key, question.at, question.call)
        if row.outcome != "UNKNOWN":
            row.outcome = "asked"
            row.note = question.id


def _name_of(key: str) -> str:
    parts = identity(key)
    return f"{parts.role} of {parts.name}" if parts.role else parts.name


def _in_doubt(settle: Settle) -> bool:
    asked = settle.decision is not None and settle.decision.do in ("ask", "tell", "check")
    return asked and (settle.failure is None or settle.failure.executed is not Executed.NO)


def _act_of(record: Answer | Redrive | Cancel | TopUp | Signal) -> tuple[str, str]:
    match record:
        case Answer():
            return f"{record.question} answered: {record.verdict}", record.by
        case Redrive():
            word = "redriven" if record.failure is None else f"re-planned ({record.failure.reason})"
            return f"{word} from {record.source}", record.by
        case Cancel():
            return "cancel ordered" + (", and all of it undone" if record.compensate else ""), record.by
        case TopUp():
            return "topped up: " + ", ".join(f"{name} +{amount:g}" for name, amount in record.add.items()), record.by
        case Signal():
            return f"signal {record.name}", record.by
