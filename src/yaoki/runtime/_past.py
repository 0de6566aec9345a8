"""What the journal says about one step: its attempts, whether its action happened, how it ended."""

from __future__ import annotations

from msgspec import Raw, Struct

from yaoki.policy import allows_repeat
from yaoki.records import (
    ABSENT,
    Adopt,
    Answer,
    Begin,
    Cause,
    Effect,
    Executed,
    Failure,
    FailureKind,
    Hold,
    Question,
    Settle,
    strongest,
)

__all__ = ["CUT", "Asked", "Past", "Slots"]

CUT = "!cut"
"""Ends the key under which it is recorded that a `run.timeout` took the loop away from a step."""

_FREE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})
_FORGOTTEN = Raw(b"null")
_FANS = ("map#", "call#")
_ONCE = (Executed.YES,)
_UNDER_WAY = frozenset({"retry", "repair", "check", "ask", "pause", "pass"})
_OVER = frozenset({"rung", "tell", "end"})
_OVER_BY_ANSWER = frozenset({"happened", "value", "skip", "abort", "refused"})


class Slots:
    """Every slot of a run, by action. Rebuilt from begins and adopts; never from the code."""

    __slots__ = ("_by_action",)

    def __init__(self) -> None:
        # Nearly every action has one slot: its owner stands there without a list around it.
        self._by_action: dict[str, Past | list[Past | None]] = {}

    def note(self, action: str, index: int, owner: Past) -> None:
        """Record that a step's action took a slot."""
        found = self._by_action.get(action)
        if not index and (found is None or isinstance(found, Past)):
            self._by_action[action] = owner
            return
        slots: list[Past | None] = found if isinstance(found, list) else [found]
        slots.extend([None] * (index + 1 - len(slots)))
        slots[index] = owner
        self._by_action[action] = slots

    def owned(self, action: str, owner: Past) -> bool:
        """Whether a step still owns a slot of an action."""
        found = self._by_action.get(action)
        return owner in found if isinstance(found, list) else found is owner

    def owner(self, action: str, index: int) -> Past | None:
        """Return the step that has a slot of an action."""
        found = self._by_action.get(action)
        slots = found if isinstance(found, list) else [found]
        return slots[index] if index < len(slots) else None

    def owners(self) -> list[Past]:
        """Return every step that has a slot."""
        found: list[Past] = []
        for slots in self._by_action.values():
            found.extend(one for one in (slots if isinstance(slots, list) else [slots]) if one is not None)
        return found

    def lowest(self, action: str, step: str, driven: set[str]) -> tuple[int, Past | None]:
        """
        Return the slot a new equal call takes, and the step it must share an outcome with, if any.

        A slot whose step is open or complete is passed over; one that ended `no` is free again; one in
        doubt, skipped, or happened with its value lost is never executed again: a later call joins it. One that
        an earlier pass left unclaimed is taken with what is recorded of it, or executed again where that may be.
        A call in a branch beside it (of one map, one call_tools) is no later call, whenever it comes: it is its
        own action.
        """
        found = self._by_action.get(action)
        if found is None:
            return 0, None
        slots = found if isinstance(found, list) else [found]
        for index, owner in enumerate(slots):
            if owner is None or owner.slot_free:
                return index, None
            if owner.undone:
                continue
            if owner.stale:
                return index, owner if owner.to_adopt else None
            if owner.slot_shared(driven=owner.step in driven) and not _side_by_side(owner.step, step):
                return index, owner
        return len(slots), None


def _side_by_side(one: str, other: str) -> bool:
    """
    Whether two steps stand in branches that part from one another, neither before the other in the loop's order.

    Steps of different turns or passes never do: the earlier turn is over before the later one begins.
    """
    ones, others = one.split("/")[:-1], other.split("/")[:-1]
    parted = next(((a, b) for a, b in zip(ones, others, strict=False) if a != b), None)
    if parted is None or not parted[0].startswith(_FANS):
        return False
    return parted[0].partition("[")[0] == parted[1].partition("[")[0]


class Past(Struct, eq=False):
    """
    One step as the journal has it; grows by `note_*` as records are applied, live and on load alike.

    `begun` counts all attempts ever, `attempts` those on the present rung of the present ladder. A run holds one of
    these a step, so it is small, and holds no container until something went wrong.
    """

    step: str
    first_seq: int
    action: str = ""
    args: str = ""
    call: str = ""
    key: str = ""
    slot: int = -1
    effect: Effect = Effect.AT_MOST_ONCE
    begin: Begin | None = None
    open: bool = False
    begun: int = 0
    attempts: int = 0
    rung: int = 0
    position: int = -1
    """The rung that was reached last, by its place among those declared; -1: the ladder goes on."""
    deadline_at: int = 0
    last: Settle | None = None
    settled_ms: int = 0
    executed_by: tuple[Executed, ...] = ()
    cleared: int = 0
    inherited: int = 0
    """Answers in `executed_by` that come before this step's own attempts."""
    value: Raw = ABSENT
    value_seq: int = -1
    """The driver's record that holds the value; none for an answer, which may be read after what it led to."""
    lost: Failure | None = None
    skipped: bool = False
    stood_in: bool = False
    """Its value is a substitute's: the action itself did not happen."""
    undone: bool = False
    closed: bool = False
    cut: bool = False
    """A `run.timeout` took the loop away from it, whatever came of it."""
    adopt: Adopt | None = None
    hold: Hold | None = None
    questions: tuple[Asked, ...] = ()
    semantic: int = 0
    same_error: int = 0
    outputs: tuple[tuple[Raw, str], ...] = ()
    """Rejected outputs, the newest last, each with why; absent where the tool itself raised, and there is only that."""
    redriven: bool = False
    waited_ms: int = 0
    """How long the run had waited for somebody when the deadline was set."""
    ladder: int = 1
    stale: bool = False
    """Left behind by an earlier pass; its slot is unclaimed until an equal call takes it."""
    shared_by: str = ""
    """The step of this pass that was given what is recorded here, where that is no value."""
    given_up: bool = False
    """Its ladder ended without a further attempt: its scope was not available in time."""

    @property
    def tool(self) -> str:
        """The tool's name, from the identity."""
        return self.step.rpartition("/")[2].partition("#")[0]

    @property
    def to_adopt(self) -> bool:
        """Whether an equal call of a later pass gets what is recorded here, instead of an attempt."""
        if self.effect is Effect.READ_ONLY or self.stood_in:  # a new pass reads the world anew, and tries again
            return False
        if self.settled or self.skipped or self.lost is not None:
            return True
        if self.executed is Executed.NO:
            return False
        return self.aborted or not allows_repeat(self.effect, self.executed)

    @property
    def aborted(self) -> bool:
        """Whether a person said to stop, when asked whether it happened; a new ladder since then takes that back."""
        asked = self.questions[-1] if self.questions else None
        if asked is None or asked.ladder != self.ladder or asked.answer is None:
            return False
        return asked.question.why == "doubt" and asked.answer.verdict == "abort"

    @property
    def orphaned(self) -> bool:
        """Whether this is an effect of an earlier pass that may have happened, and that no call has been given."""
        if not self.stale or self.shared_by or self.effect is Effect.READ_ONLY or self.undone:
            return False
        return self.executed is not Executed.NO

    @property
    def sent_beside(self) -> bool:
        """Whether a person said that this call is meant beside what an earlier pass did."""
        return any(
            asked.question.why == "orphan" and asked.answer is not None and asked.answer.verdict == "not-happened"
            for asked in self.questions
        )

    @property
    def approved(self) -> bool:
        """Whether a person allowed this call."""
        return any(asked.answer is not None and asked.answer.verdict == "approved" for asked in self.questions)

    @property
    def question(self) -> Asked | None:
        """The question this step waits on or has just been answered; an attempt or a redrive since ends it."""
        asked = self.questions[-1] if self.questions else None
        if asked is None or asked.ordinal != self.begun or asked.ladder != self.ladder:
            return None
        return asked

    @property
    def ordered(self) -> bool:
        """Whether a person orders what comes next; a question asked in place of a wait does only if answered."""
        asked = self.question
        return asked is not None and (asked.answer is not None or not asked.question.retries)

    @property
    def deadline_stands(self) -> bool:
        """Whether the next attempt's deadline is in the journal: an order starts it anew, a hold since keeps it."""
        if not self.deadline_at or not self.ordered:
            return bool(self.deadline_at)
        asked, hold = self.question, self.hold
        if asked is None or asked.answer is None or hold is None:
            return False
        return 0 < asked.answer.at <= hold.at and hold.deadline_at > 0

    @property
    def cut_by_timeout(self) -> bool:
        """Whether a `run.timeout` took the loop away from it, in a call or a wait, and no new ladder was ordered."""
        if self.redriven:
            return False
        last = self.last
        return self.cut or (last is not None and last.cause is Cause.TIMEOUT and last.outcome == "cancelled")

    @property
    def doubt_unasked(self) -> bool:
        """Whether its action is in doubt, its ladder not over, and nobody was asked about that."""
        last = self.last
        if self.settled or self.effect in _FREE or self.executed is Executed.NO or last is None:
            return False
        if last.decision is None or last.decision.do not in _UNDER_WAY:
            return False
        return not any(asked.ordinal == self.begun and not asked.question.retries for asked in self.questions)

    @property
    def executed(self) -> Executed:
        """Whether the action happened: the strongest answer since the last check or person said it did not."""
        found = Executed.NO
        for executed in self.executed_by[self.cleared :]:
            found = strongest(found, executed)
        return found

    @property
    def settled(self) -> bool:
        """Whether there is a value."""
        return self.value is not ABSENT

    def slot_shared(self, *, driven: bool) -> bool:
        """
        Return whether a later equal call must share this step's answer instead of acting.

        While a ladder drives the step, and asks nobody, its doubt is that ladder's. Once nobody does (it ended, a
        cancel left it, or a replay has not come to it), it is everybody's.
        """
        if self.settled or self.effect in _FREE:
            return False
        if self.skipped or self.lost is not None:
            return True
        if self.open or self.executed is Executed.NO:
            return False
        return not driven or any(asked.open and not asked.question.retries for asked in self.questions)

    @property
    def slot_free(self) -> bool:
        """Whether the slot may be taken by another call: the ladder is over and the action did not happen."""
        over = self.closed or (self.cut_by_timeout and not self.open)
        return over and self.executed is Executed.NO and (self.stood_in or not self.settled)

    def note_begin(self, begin: Begin) -> None:
        """An attempt is about to be made; what was asked about the earlier ones is moot."""
        self.note_moot()
        if begin.rung != self.rung or (begin.attempt == 1 and self.begun):
            self.attempts = 0
            self.same_error = 0
        if begin.rung != self.rung:
            self.semantic, self.outputs = 0, ()
            self.position = max(self.position, begin.rung - 1)
            if self.effect is Effect.READ_ONLY:  # what only read has done nothing that another tool could repeat
                self.cleared = len(self.executed_by)
        self.redriven = False
        self.given_up = False
        self.closed = False
        self.cut = False
        self.hold = None
        self.begin = begin
        self.open = True
        self.begun += 1
        self.attempts = begin.attempt
        self.rung = begin.rung
        self.deadline_at = begin.ends_at
        self.action = begin.action
        self.args = begin.args or begin.action
        if not begin.rung:
            self.key = begin.key
        self.slot = begin.slot
        self.effect = begin.effect
        self.call = begin.call

    def note_settle(self, settle: Settle) -> None:
        """An attempt ended; a second settle of one attempt (a cancel decided on resume) replaces the first."""
        decision = settle.decision
        if not settle.attempt:
            self.last, self.closed, self.given_up, self.redriven = settle, True, True, False
            if decision is not None and decision.do == "rung":
                self.position = decision.rung
            return
        again = not self.open
        self.open = False
        previous = self.last
        self.last = settle
        self.settled_ms = settle.at
        self.closed = decision is not None and decision.do in _OVER
        if decision is not None and decision.do == "rung":
            self.position = decision.rung
        if settle.outcome == "ok" and not self.executed_by:
            self.executed_by = _ONCE
            self.value = settle.value
            self.begin = self.last = None
            return
        earlier = self.executed_by[:-1] if again else self.executed_by
        self.executed_by = (*earlier, settle.executed)
        if settle.outcome == "ok":
            self.value = settle.value
            return
        if settle.value_lost:
            self.lost = settle.failure
        if again:  # decided anew; what was counted of the attempt stays
            return
        failure = settle.failure
        if failure is not None and failure.kind is FailureKind.SEMANTIC:
            self.semantic += 1
            self.outputs = (*self.outputs[-1:], (settle.output, failure.message))
        if failure is not None:
            before = previous.failure if previous is not None else None
            same = before is not None and before.fingerprint == failure.fingerprint and self.same_error > 0
            self.same_error = self.same_error + 1 if same else 1

    def note_moot(self) -> None:
        """Nobody needs to answer what is still asked about this step."""
        for asked in self.questions:
            asked.superseded = True

    def note_cleared(self, ordinal: int) -> None:
        """A check or a person says that nothing up to this attempt (counted over all) happened."""
        self.cleared = max(self.cleared, ordinal + self.inherited)

    def note_not_happened(self) -> None:
        """The receiver says that nothing so far happened; nobody else needs to."""
        self.note_moot()
        self.note_cleared(self.begun)

    def note_answer(self, asked: Asked, answer: Answer) -> None:
        """A person or reconciler answered; an answer to an earlier ladder says only what happened."""
        if answer.verdict in ("happened", "value"):
            self.value = answer.value
            self.executed_by = (*self.executed_by, Executed.YES)
        elif answer.verdict == "not-happened":
            self.note_cleared(asked.ordinal)
        elif asked.ladder == self.ladder:
            self.skipped = self.skipped or answer.verdict == "skip"
            self.closed = self.closed or answer.verdict in ("abort", "refused")

    def forget(self) -> None:
        """Drop what only a replay of its segment needs; the slot stays."""
        if self.value is not ABSENT:
            self.value = _FORGOTTEN
        self.outputs = ()
        self.last = None

    def inherit(self, before: Past) -> None:
        """Take over what an earlier pass knows of the action whose slot this step has taken, to attempt it again."""
        before.note_moot()
        if before.executed is not Executed.NO and before.effect is not Effect.READ_ONLY:
            self.executed_by = (*self.executed_by, before.executed)
            self.inherited += 1

    def to_redrive(self, step: str, verdict: str) -> bool:
        """
        Whether a redrive starts a new ladder here: the run ended at it, or the loop has not had its outcome yet.

        What the loop went on with (a failure it caught, a skip, a timeout) stays: a replay repeats it.

        Args:
            step: Where the run ended.
            verdict: What was answered to its question by then; on load that is met only later.
        """
        if self.settled or self.cut_by_timeout or "!" in self.step:
            return False
        if self.step == step:
            return True
        if not (self.begun or self.questions or self.given_up):
            return False
        if self.question is not None and self.question.open:
            return verdict not in _OVER_BY_ANSWER
        last = self.last
        fatal = last is not None and last.decision is not None and last.decision.do == "end"
        return fatal or not (self.closed or self.skipped)

    def note_redrive(self) -> None:
        """A new ladder starts with the same key; what is known about the action stays."""
        if self.adopt is not None and self.adopt.failure is not None:
            self.adopt = None
        self.redriven = True
        self.given_up = False
        self.ladder += 1
        self.closed = False
        self.skipped = False
        self.lost = None
        self.attempts = 0
        self.rung = 0
        self.position = -1
        self.deadline_at = 0
        self.same_error = 0
        self.semantic = 0
        self.hold = None


class Asked:
    """A question and, once given, its answer."""

    __slots__ = ("answer", "answer_seq", "key", "ladder", "order", "ordinal", "past", "question", "superseded", "taken")

    def __init__(self, question: Question, past: Past | None, key: str = "") -> None:
        self.question = question
        self.past = past
        self.key = key
        """The step or the point it was asked at."""
        self.taken = ""
        """What the loop went on with, at its own point: `answer`, `default`, or `timeout` (of a block around it)."""
        self.ordinal = past.begun if past is not None else 0
        self.ladder = past.ladder if past is not None else 0
        self.order = 0
        """How often the run had been redriven."""
        self.answer: Answer | None = None
        self.superseded = False
        self.answer_seq = 0

    @property
    def open(self) -> bool:
        """Whether nobody has answered yet (it may have expired), nor was it asked anew or the call made again since."""
        return self.answer is None and not self.superseded and not self.taken
