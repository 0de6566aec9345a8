"""
A run's journal folded into what the engine and the receipt need; pure, and the same live as on load.

Posts from outside (answers, top-ups, signals, cancels) are applied when they are met, which may be long
after the records they caused: each of them is written so that its order among the others does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import StoreCorrupt
from yaoki.records import (
    ABSENT,
    Adopt,
    Answer,
    Begin,
    Cancel,
    Checkpoint,
    Claimed,
    Ended,
    Entry,
    Executed,
    Failure,
    Fired,
    Gap,
    Hold,
    Parked,
    Question,
    Record,
    Redrive,
    Refused,
    Scope,
    Settle,
    Signal,
    Spend,
    Spent,
    TopUp,
    Undo,
    Value,
)
from yaoki.runtime._inbox import TAKEN as ANSWERED
from yaoki.runtime._inbox import Inbox
from yaoki.runtime._leaving import OVER, leave_end, leave_pass
from yaoki.runtime._mailbox import TAKEN, Mailbox
from yaoki.runtime._met import Failures
from yaoki.runtime._past import CUT, Past, Slots
from yaoki.runtime._receipt import Met
from yaoki.runtime._saved import Saved
from yaoki.runtime._undone import Undone
from yaoki.runtime._usage import count, count_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from msgspec import Raw

    from yaoki.runtime._past import Asked

__all__ = ["POSTS_FROM", "History"]

STAND_INS = frozenset({"cached", "degrade"})
"""Sources of a value that no attempt made."""
_CHECK_MARK = "!check."


class History:
    """What a run's records say, so far."""

    def __init__(self) -> None:
        self.pass_ = 1
        self.segment = 0
        self.seq = 0
        self.post_seq = 0
        self.steps: dict[str, Past] = {}
        self.kept: dict[str, Past] = {}
        self.points: dict[str, tuple[int, Record]] = {}
        self.last_step = ""
        self.slots = Slots()
        self.checkpoint: Checkpoint | None = None
        self.saved = Saved()
        self.inbox = Inbox()
        self.questions = self.inbox.by_id
        self.top_ups: list[TopUp] = []
        self.signals = Mailbox()
        self.cancel: Cancel | None = None
        self.spent = Spent()
        self.turns_before = 0
        """Turns of `spent` that were begun before the last redrive from the start: turns are numbered anew then."""
        self.in_flight = Spent()
        """What attempts under way have reserved, as part of `spent`: tokens and cost_usd."""
        self.gaps: list[str] = []
        self.undone = Undone()
        self.failures = Failures()
        self.attempts = 0
        self.first_attempt_failures = 0
        self.claims = 0
        self.mark = ""
        self.bounds: dict[str, float] = {}
        self.deaths = 0
        self.progress_deaths = 0
        self.started_ms = 0
        self.waited_ms = 0
        self._redriven_after = 0
        self.redriven_ms = 0
        self.redriven_seq = 0
        self.parked: Parked | None = None
        self.ended: Ended | None = None
        self.replanned: list[Failure] = []
        self.unavailable: set[str] = set()
        """Scopes that this run does not use any more."""
        self.stale_tools: set[str] = set()
        """Tools of which an earlier pass left effects: new calls of them are held against these."""
        self._starts_ahead = 0
        self._prefix = ""
        self._appliers: dict[type, Callable[[int, str, Record], None]] = {
            Claimed: self._claimed,
            Begin: self._begin,
            Settle: self._settle,
            Hold: self._hold,
            Adopt: self._adopt,
            Checkpoint: self._checkpoint,
            Question: self._question,
            Answer: self._answer,
            TopUp: self._top_up,
            Signal: self._signal,
            Undo: self._undo,
            Value: self._value,
            Gap: self._gap,
            Fired: self._fired,
            Spend: self._spend,
            Refused: self._refused,
            Parked: self._note_parked,
            Ended: self._note_ended,
            Redrive: self._redrive,
            Cancel: self._cancel,
        }

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> History:
        """Fold a whole journal."""
        history = cls()
        entries = list(entries)
        history._starts_ahead = sum(type(one.record) is Redrive and one.record.source == "start" for one in entries)
        history.inbox.foresee((one.seq, one.record) for one in entries if isinstance(one.record, Answer))
        for seq, key, record in entries:
            history.apply(seq, key, record)
        return history

    def apply(self, seq: int, key: str, record: Record) -> None:
        """Fold one record, live or loaded."""
        if seq < POSTS_FROM:
            self.seq = seq
        else:
            self.post_seq = max(self.post_seq, seq)
        self._appliers[type(record)](seq, key, record)

    @property
    def crashes(self) -> int:
        """Deaths in a row without a settle written by the process that made the attempt."""
        return self.deaths - self.progress_deaths

    def elapsed_wall_s(self, now_ms: int) -> float:
        """Seconds since the first claim, the time spent `waiting` left out; sleep and downtime count."""
        if not self.started_ms:
            return 0.0
        waiting = self.parked.at if self.parked is not None and self.parked.state == "waiting" else 0
        waited_ms = self.waited_ms + (max(0, now_ms - waiting) if waiting else 0)
        return max(0, now_ms - self.started_ms - waited_ms) / 1000

    @property
    def state(self) -> bytes | None:
        """
        The state as it was last saved, whole; None before the first checkpoint.

        Raises:
            StoreCorrupt: What was put together from its parts is not what was saved.
        """
        return self.saved.whole()

    def results(self) -> list[tuple[int, Raw]]:
        """Return the results a saved state may refer to, with the seq of their record."""
        return [(past.value_seq, past.value) for past in self.steps.values() if past.value_seq >= 0]

    def failures_at(self, seq: int) -> list[Failure]:
        """Return what this segment and the prelude had met by that record of the driver, oldest first."""
        return self.failures.by(seq, lambda key: key in self.steps or key in self.points)

    def step_ever(self, key: str) -> Past | None:
        """Return a step of this segment or the prelude, or one of an earlier turn whose doubt outlives it."""
        return self.steps.get(key) or self.kept.get(key)

    def open_question(self, past: Past) -> Asked | None:
        """Return the step's question that nobody has answered."""
        for asked in reversed(past.questions):
            if asked.open and not asked.question.retries:
                return asked
        return None

    def unfinished(self) -> list[Past]:
        """Return the steps whose last attempt nobody saw the end of, or whose end was a cancel to be decided."""
        found: list[Past] = []
        for past in self.steps.values():
            last = past.last
            if past.open or (
                last is not None
                and last.outcome == "cancelled"
                and last.cause in ("runner", "loop")
                and not past.settled
                and past.begun
            ):
                found.append(past)
        return found

    def unasked(self, asked: set[str]) -> list[str]:
        """Return recorded steps and points of this segment and the prelude that the code has not asked for."""
        return [key for key in (*self.steps, *self.points) if key not in asked and "!" not in key]

    # --- one record each

    def _past(self, seq: int, key: str) -> Past:
        past = self.steps.get(key)
        if past is None:
            past = self.steps[key] = Past(key, seq)
            self._see(key)
        return past

    def _fired(self, seq: int, key: str, record: Record) -> None:
        step = self.steps.get(key.removesuffix(CUT)) if key.endswith(CUT) else None
        if step is not None:
            step.cut = True
        self._point(seq, key, record)

    def _see(self, key: str) -> None:
        if self._prefix and key.startswith(self._prefix):
            return
        self._prefix = key[: key.index("/") + 1]
        self.segment = max(self.segment, int(key[key.index(".") + 1 : key.index("/")]))
        self.spent.turns = max(self.spent.turns, self.turns_before + self.segment)

    def _claimed(self, _seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Claimed)
        self.claims += 1
        self.deaths = record.deaths
        self.mark = record.mark
        self.bounds = record.budget or self.bounds
        self.started_ms = self.started_ms or record.at
        if self.parked is not None and self.parked.state == "waiting":
            self.waited_ms += max(0, record.at - self.parked.at)
        self.parked = None

    def _begin(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Begin)
        past = self._past(seq, key)
        if (self.pass_ > 1 or self.stale_tools) and past.slot < 0:
            before = self.slots.owner(record.action, record.slot)
            if before is not None and before.stale:
                past.inherit(before)
        past.note_begin(record)
        self.slots.note(record.action, record.slot, past)
        past.waited_ms = self.waited_ms
        self.last_step = key
        self.attempts += 1
        self.spent.calls += 1
        if record.attempt > 1:
            self.spent.retries += 1
        if record.reserved:
            count(self.spent, record.reserved, 1)
            count(self.in_flight, record.reserved, 1)

    def _settle(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Settle)
        past = self.steps.get(key)
        if past is None:
            msg = f"the journal settles {key}, which it never began. See: yaoki show RUN --journal"
            raise StoreCorrupt(msg)
        again = not past.open
        if not again:  # what is decided anew about an attempt was used once
            count_use(self.spent, self.in_flight, past.begin.reserved if past.begin is not None else None, record.used)
        if record.uncounted and record.uncounted not in self.gaps:
            self.gaps.append(record.uncounted)
        past.note_settle(record)
        if record.value is not ABSENT:
            past.value_seq = seq
        if record.unavailable:
            self.note_unavailable(record)
        failure = record.failure
        if record.attempt and (failure is None or failure.scope is not Scope.PROCESS):
            self.progress_deaths = self.deaths
        if failure is not None:
            self._note_failure(past, record, failure, again=again)
        elif _CHECK_MARK in key and bytes(record.value) == b"null":
            asker = self.steps.get(key[: key.index("!")])
            if asker is not None:
                joined = self.step_ever(asker.hold.joins) if asker.hold is not None and not asker.begun else None
                (joined or asker).note_not_happened()

    def note_unavailable(self, settle: Settle) -> None:
        """Use a scope no more, if a settle names one; a redrive orders its use again."""
        if settle.unavailable:
            self.unavailable.add(settle.unavailable)

    def _note_failure(self, past: Past, record: Settle, failure: Failure, *, again: bool) -> None:
        decision = record.decision
        if decision is not None and decision.do in ("retry", "repair"):
            self.spent.retry_wait_s += decision.wait_ms / 1000
        then = decision.do if decision is not None else ""
        if again and self.failures.decided_anew(self.seq, past, record.attempt, failure, then):
            return
        if past.begun == 1 and record.attempt:
            self.first_attempt_failures += 1
        met = Met(step=past.step, call=past.call, attempt=record.attempt, at=record.at, failure=failure, then=then)
        self.failures.add(self.seq, past, met)

    def _hold(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Hold)
        if not record.action:
            self._point(seq, key, record)
            return
        past = self._past(seq, key)
        past.hold = record
        past.waited_ms = self.waited_ms
        past.action = record.action
        past.args = record.args or record.action
        past.call = record.call
        past.deadline_at = record.deadline_at

    def _adopt(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Adopt)
        past = self._past(seq, key)
        past.adopt = record
        past.action = past.action or record.action
        past.args = past.args or record.args or record.action
        past.call = past.call or record.call
        if record.gap:
            self.gaps.append(record.gap)
        if record.value is not ABSENT:
            past.value = record.value
            past.value_seq = seq
            past.note_moot()
            if record.source in STAND_INS:
                past.stood_in = past.closed = True
            else:
                past.executed_by = (*past.executed_by, Executed.YES)
        source = self.kept.get(record.source)
        if source is None or not source.stale:
            return
        if record.value is ABSENT:
            source.shared_by = source.shared_by or key  # a turn that is saved keeps its share
        else:
            source.note_moot()
            past.key, past.slot, past.effect = source.key, source.slot, source.effect
            self.slots.note(source.action, source.slot, past)

    def orphans(self) -> list[Past]:
        """Return the effects of earlier passes that no equal call has taken over, in the order they were made."""
        if not self.stale_tools:
            return []
        found = [one for one in self.kept.values() if one.orphaned and self.slots.owned(one.action, one)]
        return sorted(found, key=lambda one: one.first_seq)

    def orphans_of(self, tool: str, action: str, slot: int) -> list[Past]:
        """Return the orphans of a tool that a call differs from; none, if it takes the slot of one itself."""
        if tool not in self.stale_tools:
            return []
        mine = [one for one in self.orphans() if one.tool == tool]
        own = self.slots.owner(action, slot)
        return [] if own in mine else [one for one in mine if one.action != action]

    def _checkpoint(self, _seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Checkpoint)
        self.saved.take(record, self.results)
        self.checkpoint = record
        self.segment = record.turn + 1
        self.spent.turns = max(self.spent.turns, self.turns_before + record.turn)
        self.progress_deaths = self.deaths
        gone = f"{self.pass_}.{record.turn}/"
        for key in [key for key in self.steps if key.startswith(gone)]:
            past = self.steps.pop(key)
            if past.settled or past.slot < 0:
                if not self._starts_ahead:  # else a later pass needs the values again
                    past.forget()
            else:  # an equal call of a later turn may have to share its answer
                self.kept[key] = past
        for key in [key for key in self.points if key.startswith(gone)]:
            del self.points[key]

    def _question(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Question)
        if self.inbox.ask(key, record, self.step_ever(key)):
            self._point(seq, key, record)

    def _answer(self, seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Answer)
        self.inbox.answer(seq, record)

    def _top_up(self, _seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, TopUp)
        self.top_ups.append(record)

    def _signal(self, seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Signal)
        self.signals.put(seq, record)

    def _undo(self, _seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Undo)
        self.undone.note(key, record, self.slots)

    def _point(self, seq: int, key: str, record: Record) -> None:
        self.points[key] = (seq, record)
        self._see(key)

    def _value(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Value)
        if key.endswith(OVER) and key in self.points:
            leave_end(self, key)
            return
        self._point(seq, key, record)
        if key.endswith(TAKEN):
            self.signals.take(key, record)
        elif key.endswith(ANSWERED):
            self.inbox.take(key, record)

    def _gap(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Gap)
        self.gaps.append(record.text)
        if key:
            self._point(seq, key, record)

    def _spend(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Spend)
        self.spent.calls += record.calls
        self.spent.tokens += record.tokens
        self.spent.cost_usd += record.cost_usd
        self._point(seq, key, record)

    def _refused(self, seq: int, key: str, record: Record) -> None:
        assert isinstance(record, Refused)
        past = Past(key, seq)
        past.call = record.call
        met = Met(step=key, call=record.call, attempt=0, at=record.at, failure=record.failure, then="tell")
        self.failures.add(self.seq, past, met)
        self._point(seq, key, record)

    def _note_parked(self, _seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Parked)
        self.parked = record

    def _note_ended(self, _seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Ended)
        self.ended = record
        self.spent.turns = max(self.spent.turns, record.turns)
        self.parked = None

    def _redrive(self, seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Redrive)
        if self.ended is not None:  # a final run waits for this very order
            self.waited_ms += max(0, record.at - self.ended.at)
        self.ended = None
        self.cancel = None
        if record.failure is not None:
            self.replanned.append(record.failure)
        self._redriven_after = record.posts
        self.redriven_ms = record.at
        self.redriven_seq = seq
        self.progress_deaths = self.deaths
        self.unavailable.clear()
        self.undone.note_redrive()
        if record.source == "step":
            for key in self.inbox.redriven(record):
                self.points.pop(key, None)
            for past in self.steps.values():
                if past.to_redrive(record.step, self.inbox.verdict_on(past.question, record.posts)):
                    past.note_redrive()
            return
        leave_pass(self, whole=record.source == "start")
        self._prefix = ""
        self.pass_ = record.pass_
        if record.source == "start":
            self.turns_before = self.spent.turns
            self._starts_ahead -= 1
            self.checkpoint = None
            self.saved = Saved()
        self.segment = self.checkpoint.turn + 1 if self.checkpoint is not None else 0

    def _cancel(self, seq: int, _key: str, record: Record) -> None:
        assert isinstance(record, Cancel)
        if seq > self._redriven_after:
            self.cancel = record


POSTS_FROM = 1 << 31
