"""
Compensation: a run's completed effects undone, the newest first (a saga: Garcia-Molina and Salem, SIGMOD '87).

What is done and what is undone stands in the journal, so a crash goes on where it was. An undo is a sub-step of the
step it undoes: begun, keyed, retried and, if in doubt, asked about like any other. One that fails does not stop the
rest.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec
from msgspec import Raw, Struct

from yaoki.codec import codec_for
from yaoki.errors import EncodingError, StepFailed
from yaoki.records import ABSENT, Adopt, Answer, Begin, Effect, Executed, FailureKind, Question, Settle, Undo, sub_key
from yaoki.runtime._doubt import doubt_left, until_answered
from yaoki.runtime._effects import Barrier, Steps, Suspend, Wait, Write
from yaoki.runtime._failures import own_failure, unknown_outcome
from yaoki.runtime._signature import hints_of
from yaoki.runtime._step import Step, fingerprint, undo_key
from yaoki.runtime._undo_tool import result_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yaoki.records import Entry, Record
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._tool import Tool

__all__ = ["Done", "compensation", "done_by", "still_to_undo", "undo_lines"]

_FREE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})
_GOES_ON = frozenset({"retry", "repair", "check"})
_LISTED = 20
_LOOK_MS = 50
"""How often it is looked whether the attempts of other branches have ended."""


class Done(Struct, frozen=True, kw_only=True):
    """A completed effect: what began it, and what came of it."""

    step: str
    begin: Begin
    value: Raw
    seq: int
    by_person: bool = False
    """A person gave the value instead of the tool."""

    @property
    def tool(self) -> str:
        """The name of the tool that did it."""
        return self.begin.tool or self.step.rpartition("/")[2].partition("#")[0]


def done_by(entries: Iterable[Entry]) -> list[Done]:
    """Return a run's completed effects by its journal, over all its passes, the newest first."""
    begins: dict[str, Begin] = {}
    asked: dict[str, tuple[int, str]] = {}
    found: dict[str, Done] = {}
    for seq, key, record in entries:
        if isinstance(record, Question):
            asked[record.id] = seq, key
        elif isinstance(record, Answer):
            at, step = asked.get(record.question, (0, ""))
            if step in begins and record.verdict in ("happened", "value") and step not in found:
                by = record.verdict == "value"
                found[step] = Done(step=step, begin=begins[step], value=record.value, seq=at, by_person=by)
        elif "!" in key:
            continue
        elif isinstance(record, Begin):
            begins[key] = record
        elif key not in begins:
            continue
        elif _completes(record):
            found[key] = Done(step=key, begin=begins[key], value=record.value, seq=seq)
    effects = [one for one in found.values() if one.begin.effect is not Effect.READ_ONLY]
    return sorted(effects, key=lambda one: -one.seq)


def _completes(record: Record) -> TypeGuard[Settle | Adopt]:
    if isinstance(record, Settle):
        return record.outcome == "ok"
    return isinstance(record, Adopt) and record.source == "check"


def compensation(live: Live, cause: str, climb: Callable[[Live, Step], Steps]) -> Steps:
    """
    Undo what the run has done, also what parallel branches complete meanwhile.

    Attempts in flight are waited for, and effects in doubt are asked about, first.

    Args:
        live: The run.
        cause: The step whose ladder led here; empty for a cancel.
        climb: The ladder of a step.
    """
    while True:
        while any(past.open for past in live.history.steps.values()):
            yield Wait(live.now_ms() + _LOOK_MS, "undo", through=True)
            if live.halt is not None and live.halt.to in ("drain", "code"):
                yield Suspend("halt")
        yield from _doubts_answered(live, cause)
        live.flush()
        left = [done for done in done_by(live.journal.load(live.run)) if done.step not in live.history.undone.by_step]
        if not left:
            return
        for done in left:
            yield from _undo(live, done, cause, climb)


def still_to_undo(live: Live) -> str:
    """Return what is left to be undone by hand, for people; empty if nothing is."""
    failed = [undo for undo in live.history.undone.by_step.values() if undo.outcome == "failed"]
    if not failed:
        return ""
    listed = ", ".join(_line(undo) for undo in failed[:_LISTED])
    more = f" and {len(failed) - _LISTED} more" if len(failed) > _LISTED else ""
    return f"Still to be undone by hand: {listed}{more}"


def undo_lines(undos: Iterable[Undo]) -> list[str]:
    """Return a line for each effect that was not undone, as it stands on the receipt."""
    words = {"failed": "still to be undone by hand", "by_hand": "not undone"}
    return [f"{words[undo.outcome]}: {_line(undo)}" for undo in undos if undo.outcome in words]


def _line(undo: Undo) -> str:
    why = f" ({undo.failure.reason}: {undo.failure.message[:200]})" if undo.failure is not None else ""
    return f"{undo.call}{why}"


def _doubts_answered(live: Live, cause: str) -> Steps:
    for past in [*live.history.steps.values(), *live.history.kept.values()]:
        if past.step == cause or not _in_doubt(past):
            continue
        asked = live.history.open_question(past)
        if asked is None and past.step in live.driven:  # its own ladder goes on, and asks
            continue
        if asked is None and not any(one.ordinal == past.begun and one.answer is not None for one in past.questions):
            number = f"q{len(live.history.questions) + 1}"
            note = "What the run has done is being undone; this may be part of it."
            yield Write(past.step, doubt_left(live, past, number, note))
            asked = live.history.open_question(past)
        while asked is not None and asked.open:
            yield from until_answered(live, asked, past.step)


def _in_doubt(past: Past) -> bool:
    """Whether an action is in doubt, and its own ladder does nothing more about that."""
    if past.settled or past.skipped or past.open or past.effect in _FREE or past.slot < 0 or "!" in past.step:
        return False
    decision = past.last.decision if past.last is not None else None
    return past.executed is not Executed.NO and (decision is None or decision.do not in _GOES_ON)


def _undo(live: Live, done: Done, cause: str, climb: Callable[[Live, Step], Steps]) -> Steps:
    begin = done.begin
    record = Undo(at=live.now_ms(), outcome="done", slot=begin.slot, action=begin.action, call=begin.call, cause=cause)
    tool = _tool_named(live, done)
    found = "" if tool is None else _step_of(live, done, tool)
    if tool is None:
        record = _not_undone(record, "failed", f"no tool {done.tool} is at hand")
    elif done.by_person:
        record = _not_undone(record, "by_hand", "a person gave its value")
    elif tool.undo is None:
        record = _not_undone(record, "by_hand", f"{done.tool} has no undo=")
    elif isinstance(found, str):
        record = _not_undone(record, "failed", found)
    else:
        try:
            yield from climb(live, found)
            past = live.history.steps[found.key]
            if past.skipped:
                record = msgspec.structs.replace(record, outcome="failed", failure=unknown_outcome(past))
        except StepFailed as error:
            record = msgspec.structs.replace(record, outcome="failed", failure=error.failure)
    yield Write(done.step, msgspec.structs.replace(record, at=live.now_ms()), Barrier.STARTED)


def _not_undone(record: Undo, outcome: Any, why: str) -> Undo:
    failure = own_failure(FailureKind.PROGRAMMING, "undo.impossible", why, Executed.NO)
    return msgspec.structs.replace(record, outcome=outcome, failure=failure)


def _tool_named(live: Live, done: Done) -> Tool[Any, Any] | None:
    seen = live.given.get(done.step)
    if seen is not None:
        return seen.tool
    known = [*live.loop.tools(), *(step.tool for step in live.given.values())]
    return next((tool for tool in known if tool.name == done.tool), None)


def _step_of(live: Live, done: Done, tool: Tool[Any, Any]) -> Step | str:
    """Return the undo's step, or why there can be none."""
    undo = tool.undo
    if undo is None:
        return ""
    try:
        result = tool.codec.decode(done.value)
    except EncodingError as error:
        return f"its result is of another type now: {error}"
    values = _values_of(live, done, tool)
    if isinstance(values, str):
        return values
    seen = live.given.get(done.step)
    step = Step(undo, live.main, sub_key(done.step, "undo", live.history.undone.tries(done.step)))
    if tool.is_method:
        owner = seen.given[0] if seen is not None and seen.given else live.loop.owner_of(tool)
        if owner is None:
            return f"the object whose method {tool.name} is, is not at hand"
        step.given = (owner,)
    step.values = {result_name(undo): result, **values}
    step.named = step.values
    step.args = step.action = fingerprint(undo.name, done.begin.key.encode())
    step.fixed_key = undo_key(done.begin.key)
    return step


def _values_of(live: Live, done: Done, tool: Tool[Any, Any]) -> dict[str, Any] | str:
    """Return the call's arguments, as this process knows them, or as they were journaled."""
    seen = live.given.get(done.step)
    if seen is not None:
        return seen.values
    if done.begin.given is ABSENT:
        return "its arguments were not recorded: it had no undo= when it was called"
    hints = hints_of(tool.fn) or {}
    values: dict[str, Any] = {}
    try:
        for name, data in msgspec.json.decode(done.begin.given, type=dict[str, Raw]).items():
            values[name] = codec_for(hints.get(name, inspect.Parameter.empty)).decode(data)
    except (EncodingError, msgspec.DecodeError) as error:
        return f"its arguments are of another type now: {error}"
    for name in tool.params.local:
        if name not in live.loop.locals:
            return f"its Local argument {name} is not at hand"
        values[name] = live.loop.locals[name]
    return values
