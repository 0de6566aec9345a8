"""What can be asked of a store from outside a run: look, answer, cancel, redrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from yaoki.codec import canonical, codec_for, fits
from yaoki.errors import AnswerRefused, EncodingError, RunBusy, RunNotFound
from yaoki.policy import Budget
from yaoki.records import ABSENT, Answer, Cancel, Entry, Question, Redrive, Signal, State, TopUp
from yaoki.runtime._groups import group_bounds
from yaoki.runtime._history import POSTS_FROM as POSTS
from yaoki.runtime._history import History
from yaoki.runtime._mailbox import schema_wanted
from yaoki.runtime._report import light_receipt, receipt_of
from yaoki.runtime._run_base import refuse_signal_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaoki.clock import Clock
    from yaoki.journal import Journal, RunRow
    from yaoki.records import Group
    from yaoki.runtime._past import Asked
    from yaoki.runtime._receipt import Receipt

__all__ = ["SOURCES", "VERDICTS", "Verbs"]

_SIGNAL_MAX_BYTES = 16 * 1024 * 1024
_UNTAKEN_MAX = 10_000
SOURCES = ("step", "checkpoint", "start")
VERDICTS = ("happened", "not-happened", "skip", "abort", "value", "send", "approve", "refuse", "retry")
_REDRIVABLE = frozenset({State.DEAD, State.CANCELLED, State.CAPPED, State.WAITING, State.SLEEPING, State.PENDING})


class Verbs:
    """The verbs on one store; none of them drives a run."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def row(self, run_id: str) -> RunRow:
        """Return a run's row, or raise RunNotFound."""
        row = self._journal.get(run_id)
        if row is None:
            msg = f"no run {run_id!r} in {self._journal.url}. See: yaoki runs"
            raise RunNotFound(msg, run_id)
        return row

    def get(self, run_id: str) -> Receipt[Any]:
        """Return a run's receipt."""
        row = self.row(run_id)
        return receipt_of(row, History.of(self._journal.load(row.id)))

    def list(self, status: str | None = None, limit: int = 10_000) -> list[Receipt[Any]]:
        """Return receipts from the rows alone, oldest first."""
        states = () if status is None else (State(status),)
        return [self._light(row) for row in self._journal.list(states=states, limit=limit)]

    def _light(self, row: RunRow) -> Receipt[Any]:
        """Return the row's receipt; a run under way that has asked somebody says so, like one that waits."""
        receipt = light_receipt(row)
        if row.state is State.RUNNING:
            history = History.of(self._journal.load(row.id))
            asked = next((one for one in history.questions.values() if one.open), None)
            if asked is not None:
                receipt.waits_for, receipt.text = "person", asked.question.text
                receipt.waiting_since = asked.question.at
        return receipt

    def journal(self, run_id: str) -> list[Entry]:  # type: ignore[valid-type]  # `list` is a verb above
        """Return a run's records, oldest first."""
        return self._journal.load(self.row(run_id).id)

    def answer(
        self, run_id: str, ask: str | None, verdict: str, value: object = ABSENT, *, by: str = ""
    ) -> Receipt[Any]:
        """
        Answer a question; the first answer wins, and is on disk when this returns.

        Raises:
            AnswerRefused: No such question, several without `ask`, answered already, moot, or a value of another type.
        """
        row = self.row(run_id)
        if verdict not in VERDICTS:
            msg = f"run {run_id}: {verdict!r} is no answer; it is one of {', '.join(VERDICTS)}"
            raise AnswerRefused(msg)
        data = Raw(codec_for(Any).encode(value)) if value is not ABSENT else ABSENT
        now_ms = self._clock.now_ms()
        asked = _pick(run_id, History.of(self._journal.load(row.id)), ask)
        recorded: Any = _recorded(run_id, asked.question, verdict)
        record = Answer(at=now_ms, question=asked.question.id, verdict=recorded, value=data, by=by)

        def guard(entries: list[Entry]) -> None:
            _refuse(run_id, _pick(run_id, History.of(entries), asked.question.id), record, now_ms)

        self._journal.post(row.id, record, guard=guard)
        return self.get(run_id)

    def cancel(self, run_id: str, *, compensate: bool = False, by: str = "") -> Receipt[Any]:
        """
        Order a run to stop: nothing new begins, attempts in flight settle. A final run stays as it is.

        With `compensate`, whoever drives it then undoes what it did, before it is `cancelled`.
        """
        row = self.row(run_id)
        if not row.state.final:
            self._journal.post(row.id, Cancel(at=self._clock.now_ms(), by=by, compensate=compensate))
        return self.get(run_id)

    def top_up(self, run_id: str, add: dict[str, float], *, by: str = "") -> Receipt[Any]:
        """
        Add to a run's budget, by field; on disk when this returns. A run waiting for its budget becomes pending.

        Raises:
            DeclarationError: No such budget, or an amount that is none.
            AnswerRefused: The run is completed. Any other final one can be redriven, and then has what was added.
        """
        row = self.row(run_id)
        Budget().topped_up(add)
        if row.state is State.COMPLETED:
            msg = f"run {run_id} is {row.state.value}: a top-up changes nothing any more"
            raise AnswerRefused(msg)
        self._journal.post(row.id, TopUp(at=self._clock.now_ms(), add=add, by=by))
        return self.get(run_id)

    def group(self, name: str, bounds: Mapping[str, float | None]) -> Group:
        """
        Set bounds over all runs of a group, and return it; what is None stays as it is. On disk when this returns.

        Raises:
            DeclarationError: A bound that cannot work, or no name.
        """
        return self._journal.set_group(name, group_bounds(name, bounds))

    def top_up_group(self, name: str, add: Mapping[str, float]) -> Group:
        """
        Add to a group's budget; on disk when this returns. Its runs that wait for that become pending.

        Raises:
            DeclarationError: No such group, one without that bound, or an amount that is none; nothing was added.
        """
        return self._journal.top_up_group(name, group_bounds(name, add, add=True))

    def signal(self, run_id: str, name: str, value: object = ABSENT, *, by: str = "") -> Receipt[Any]:
        """
        Send a signal to a run, kept until a `wait_signal` takes it; on disk when this returns.

        Raises:
            AnswerRefused: The run is final, waits for a signal of another type, or has 10,000 that nobody took.
            DeclarationError: No name for a signal.
            EncodingError: No JSON, or above 16 MB.
        """
        refuse_signal_name(name)
        row = self.row(run_id)
        data = ABSENT if value is ABSENT else Raw(codec_for(Any).encode(value))
        if data is not ABSENT and len(bytes(data)) > _SIGNAL_MAX_BYTES:
            msg = f"run {run_id}: signal {name} has {len(bytes(data)):,} bytes; {_SIGNAL_MAX_BYTES:,} is the most"
            raise EncodingError(msg)

        def guard(entries: list[Entry]) -> None:
            current = self.row(run_id)
            if current.state.final:
                msg = f"run {run_id} is {current.state.value}: it takes no signal any more"
                raise AnswerRefused(msg)
            history = History.of(entries)
            if history.signals.untaken >= _UNTAKEN_MAX:
                msg = f"run {run_id} has {_UNTAKEN_MAX:,} signals that nobody took; it takes no more"
                raise AnswerRefused(msg)
            schema = schema_wanted(history.points, history.signals, name)
            sent = None if data is ABSENT else msgspec.json.decode(data)
            wrong = None if schema is ABSENT else fits(msgspec.json.decode(schema), sent)
            if wrong is not None:
                msg = f"run {run_id} waits for another {name}: {wrong}"
                raise AnswerRefused(msg)

        self._journal.post(row.id, Signal(at=self._clock.now_ms(), name=name, value=data, by=by), guard=guard)
        return self.get(run_id)

    def redrive(
        self, run_id: str, source: str = "step", *, edits: Mapping[str, object] | None = None, by: str = ""
    ) -> Receipt[Any]:
        """
        Let a run go on.

        From `step`, the ladder it ended at starts anew with the same key. From `checkpoint` or `start`, a new pass
        begins there with the code as it is: equal effects are adopted, the others are orphans. What was spent stays
        spent. With `edits`, from `start` only, these arguments of the loop take the place of those it was started with.

        Raises:
            RunBusy: A living process drives it.
            AnswerRefused: It is completed, its process died and nobody has taken it up yet, or it is to go on from the
                start and has no turn left in its budget.
        """
        row = self.row(run_id)
        if row.state is State.RUNNING:
            owner = self._journal.owner(row)
            if owner is None or not owner.alive:
                msg = f"run {run_id}: its process died; what it had begun is to be decided. First: yaoki run or worker"
                raise AnswerRefused(msg)
            msg = f"run {run_id} is running, in pid {owner.pid}. First: yaoki cancel {run_id}"
            raise RunBusy(msg, run_id)
        if row.state not in _REDRIVABLE:
            msg = f"run {run_id} is {row.state.value}: there is nothing to redrive"
            raise AnswerRefused(msg)
        if source not in SOURCES:
            msg = f"run {run_id}: redrive goes on from one of {', '.join(SOURCES)}, not {source!r}"
            raise AnswerRefused(msg)
        data = None if edits is None else _edited(row, source, edits)
        history = History.of(self._journal.load(row.id))
        step = history.ended.step if history.ended is not None and source == "step" else ""
        if source != "start" and history.undone.at_the_end(history.ended, history.last_step):
            msg = f"run {run_id}: what it did was undone, so it cannot go on from there: redrive it --from start"
            raise AnswerRefused(msg)
        _refuse_without_turns(run_id, history, source)
        pass_ = history.pass_ if source == "step" else history.pass_ + 1
        record = Redrive(
            at=self._clock.now_ms(),
            source=source,  # type: ignore[arg-type]  # one of SOURCES
            step=step,
            pass_=pass_,
            posts=history.post_seq,
            by=by,
            input=ABSENT if data is None else Raw(data),
        )
        seen = history.seq

        def guard(entries: list[Entry]) -> None:
            driven = max((entry.seq for entry in entries if entry.seq < POSTS), default=0)
            if driven != seen:
                msg = f"run {run_id} was taken up or redriven by somebody else meanwhile. See: yaoki show {run_id}"
                raise AnswerRefused(msg)

        self._journal.reopen(row.id, [("", record)], guard=guard, input=data)
        return self.get(run_id)


def _edited(row: RunRow, source: str, edits: Mapping[str, object]) -> bytes:
    """Return a run's input with some arguments changed."""
    if source != "start":
        msg = f"run {row.name}: its input is edited for a pass from the start alone: redrive it --from start"
        raise AnswerRefused(msg)
    values: dict[str, object] = msgspec.json.decode(row.input)
    unknown = sorted(edits.keys() - values.keys())
    if unknown:
        msg = f"run {row.name}: its loop was given no {unknown[0]!r}; it was given: {', '.join(values) or 'nothing'}"
        raise AnswerRefused(msg)
    return canonical({**values, **edits})


def _refuse_without_turns(run_id: str, history: History, source: str) -> None:
    """Refuse a pass from the start that no turn is left for: what was spent stays spent."""
    most = history.bounds.get("turns")
    if source != "start" or most is None:
        return
    most += sum(top_up.add.get("turns", 0) for top_up in history.top_ups)
    if history.spent.turns >= most:
        msg = (
            f"run {run_id} has used its {most:g} turns, and those of a pass from the start are new ones. "
            f"First: yaoki top-up {run_id} --turns N"
        )
        raise AnswerRefused(msg)


def _pick(run_id: str, history: History, ask: str | None) -> Asked:
    if ask is not None:
        found = history.questions.get(ask)
        if found is None:
            known = ", ".join(history.questions) or "none"
            msg = f"run {run_id} has no question {ask!r}; it has: {known}"
            raise AnswerRefused(msg)
        return found
    waiting = [asked for asked in history.questions.values() if asked.open]
    if not waiting:
        msg = f"run {run_id} asks nothing. See: yaoki show {run_id}"
        raise AnswerRefused(msg)
    if len(waiting) > 1:
        listed = "; ".join(f"{asked.question.id}: {asked.question.text}" for asked in waiting)
        msg = f"run {run_id} asks {len(waiting)} questions; say which: {listed}"
        raise AnswerRefused(msg)
    return waiting[0]


def _recorded(run_id: str, question: Question, verdict: str) -> str:
    """Return the verdict as it is recorded: a call held back beside an orphan did not happen, and is to be sent."""
    if question.why == "orphan":
        if verdict == "value":
            msg = f"run {run_id}: {question.id} takes no plain value: say send, skip, abort or happened VALUE"
            raise AnswerRefused(msg)
        return "not-happened" if verdict == "send" else verdict
    if question.why == "approve":
        if verdict not in _APPROVALS:
            msg = f"run {run_id}: {question.id} is an approval: say approve, refuse [TEXT] or abort"
            raise AnswerRefused(msg)
        return _APPROVALS[verdict]
    if verdict in _APPROVALS and verdict != "abort":
        msg = f"run {run_id}: {question.id} is no approval, so {verdict} is no answer. See: yaoki show {run_id}"
        raise AnswerRefused(msg)
    if question.why == "ask" and not question.call:
        if verdict not in ("value", "abort") and not (verdict == "skip" and question.default is not ABSENT):
            also = "skip (its default stands)" if question.default is not ABSENT else "abort"
            msg = f"run {run_id}: {question.id} takes a value of type {question.type or 'JSON'}, or {also}"
            raise AnswerRefused(msg)
        return verdict
    if verdict == "retry" and not question.retries:
        msg = f"run {run_id}: {question.id} waits for no retry. See: yaoki show {run_id}"
        raise AnswerRefused(msg)
    if verdict == "send":
        msg = f"run {run_id}: {question.id} is not about sending: say happened VALUE, not-happened, skip or abort"
        raise AnswerRefused(msg)
    return verdict


_APPROVALS = {"approve": "approved", "refuse": "refused", "abort": "abort"}


def _refuse(run_id: str, asked: Asked, record: Answer, now_ms: int) -> None:
    question = asked.question
    if asked.answer is not None:
        msg = f"run {run_id}: {question.id} was answered already ({asked.answer.verdict}); the first answer stands"
        raise AnswerRefused(msg)
    if question.expires_at and now_ms >= question.expires_at:
        then = "it is tried again" if question.retries else f"it is a dead letter. See: yaoki redrive {run_id}"
        msg = f"run {run_id}: {question.id} expired unanswered; {then}"
        raise AnswerRefused(msg)
    if asked.taken in ("default", "timeout") or not asked.open:
        msg = f"run {run_id}: {question.id} is not asked any more: asked anew, or settled. See: yaoki show {run_id}"
        raise AnswerRefused(msg)
    if record.verdict != "refused":
        _refuse_value(run_id, question, record)
    elif record.value is not ABSENT and not isinstance(msgspec.json.decode(record.value), str):
        msg = f"run {run_id}: refuse takes a text that says why"
        raise AnswerRefused(msg)


def _refuse_value(run_id: str, question: Question, record: Answer) -> None:
    needs_value = record.verdict in ("happened", "value")
    if needs_value and record.value is ABSENT:
        if question.type in ("None", "null"):
            msg = f"run {run_id}: {question.id} needs its value; it returns nothing, so: happened null"
        else:
            msg = f"run {run_id}: {question.id} needs a value of type {question.type or 'JSON'}: happened VALUE"
        raise AnswerRefused(msg)
    if not needs_value and record.value is not ABSENT:
        msg = f"run {run_id}: {record.verdict} takes no value"
        raise AnswerRefused(msg)
    if needs_value and question.schema is not ABSENT:
        wrong = fits(msgspec.json.decode(question.schema), msgspec.json.decode(record.value))
        if wrong is not None:
            msg = f"run {run_id}: {question.id} wants {question.type or 'another type'}: {wrong}"
            raise AnswerRefused(msg)
