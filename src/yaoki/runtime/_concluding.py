"""The end of a run's residency in a process: it is left in a designed outcome, with the record that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from yaoki.classify import classify, redact
from yaoki.errors import EncodingError, Fenced, JournalError, Passing, RunBusy, StepFailed, Unverified, YaokiError
from yaoki.records import (
    ABSENT,
    NANO,
    Ended,
    Executed,
    Failure,
    FailureKind,
    Parked,
    Record,
    Redrive,
    State,
)
from yaoki.runtime._doubt import doubts_left
from yaoki.runtime._failures import placed
from yaoki.runtime._group_of import raises_no_more
from yaoki.runtime._live import Halt, Live
from yaoki.runtime._sync import cut_branch
from yaoki.runtime._turns import park_unasked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.runtime._effects import Suspend
    from yaoki.runtime._held import Held

_NO_OTHER_PLAN = frozenset({FailureKind.PROGRAMMING, FailureKind.FATAL})
"""Another pass would meet a bug again."""

__all__ = ["Returned", "conclude"]


_COST_MOST_NUSD = (1 << 63) - 1


class Returned(Struct, frozen=True):
    """How the loop's function ended, if it did."""

    value: object = None
    error: BaseException | None = None
    held: Sequence[Held] = ()
    unfinished: bool = False
    """It was let go of while parked."""


def conclude(live: Live, returned: Returned) -> None:
    """
    Leave the run: final, sleeping or waiting, with the record that says why; synced before this returns.

    Raises:
        JournalError: It cannot be written; the run stays as it was.
        BaseException: What was raised to stop the process (Ctrl-C, a cancel of the runner): the run is left pending.
    """
    if live.broken is not None:
        raise live.broken
    error = returned.error
    if isinstance(error, Passing) or (live.detached and not _owns(live)):
        raise _taken_over(live)
    if error is not None and not isinstance(error, Exception):
        _leave_pending(live, "interrupted")
        raise error
    if isinstance(error, JournalError):
        raise error
    halt = live.halt
    if halt is None and not returned.unfinished:
        halt = _end_of_loop(live, returned)
        if halt is None:
            return
    if halt is None:
        _park(live, returned.held)
    elif halt.to == "code":
        _wait_for_code(live, halt.text, halt.diff)
    elif halt.to == "drain":
        _leave_pending(live, halt.text)
    else:
        _end(live, halt)


def _end_of_loop(live: Live, returned: Returned) -> Halt | None:
    """The loop returned or raised: end the run, or say what stops it instead."""
    error = returned.error
    if error is not None:
        failure = _failure_of(live, error)
        if isinstance(error, Unverified):
            by = live.capped or "verify"
            return Halt(to="capped", text=str(error), stopped_by=by, failure=failure, value=_partial(live, error.value))
        if isinstance(error, StepFailed):
            text = _line(failure, error.step)
            return Halt(to="dead", text=text, stopped_by="step", step=error.step, failure=failure)
        behind = error.__cause__  # `raise … from` a step's failure: that step is where the run ended
        step = behind.step if isinstance(behind, StepFailed) else ""
        return Halt(to="dead", text=_line(failure, ""), stopped_by="loop", step=step, failure=failure)
    if live.main.cut:
        cut_branch(live, "its return")
        return live.halt
    keys = live.history.unasked(live.asked)
    if keys:
        park_unasked(live, keys, "its return")
        return live.halt
    try:
        data = _encoded(live, returned.value)
    except EncodingError as wrong:
        text = f"the loop's return value cannot be journaled: {wrong}"
        failure = _own(FailureKind.PROGRAMMING, "value.lost", text)
        return Halt(to="dead", text=text, stopped_by="loop", failure=failure)
    capped = bool(live.capped)
    state = State.CAPPED if capped else State.COMPLETED
    record = Ended(
        at=live.now_ms(),
        state="capped" if capped else "completed",
        value=Raw(data),
        turns=live.history.spent.turns,
        stopped_by=live.capped,
    )
    _leave(live, state, record, note=f"stopped by {live.capped}" if capped else "", value=data)
    return None


def _encoded(live: Live, value: object) -> bytes:
    """
    Return a loop's value as it is journaled.

    Raises:
        EncodingError: It cannot be, or is too large.
    """
    data = live.loop.codec().encode(value)
    live.loop.codec().decode(data)
    if len(data) > live.limits.result_max_bytes:
        msg = f"it has {len(data):,} bytes; result_max_bytes is {live.limits.result_max_bytes:,}"
        raise EncodingError(msg)
    return data


def _partial(live: Live, value: object) -> bytes | None:
    """Return what was not accepted, as the loop's value; None where it is not even of its type."""
    try:
        return None if value is None else _encoded(live, value)
    except EncodingError:
        return None


def _end(live: Live, halt: Halt) -> None:
    cancel = live.history.cancel
    if halt.to == "cancelled" and cancel is not None and cancel.compensate and not live.compensating:
        _leave_pending(live, "cancelled; what it did is to be undone")
        return
    if replanned := _replanned(live, halt):
        _leave(live, State.PENDING, replanned, note=f"re-plans: {halt.text}")
        return
    state = State(halt.to)
    value: Raw = ABSENT
    saved = halt.value
    if saved is None and (halt.to == "capped" or halt.stopped_by == "fatal"):
        saved = live.history.state
    if saved is not None:
        value = Raw(saved)
    record = Ended(
        at=live.now_ms(),
        state=halt.to,  # type: ignore[arg-type]  # the four final ones, by the caller
        value=value,
        failure=halt.failure,
        step=halt.step,
        turns=live.history.spent.turns,
        stopped_by=halt.stopped_by,
    )
    _leave(live, state, record, note=halt.text, value=bytes(value) if value is not ABSENT else None)


def _replanned(live: Live, halt: Halt) -> Redrive | None:
    """Return the new pass that a run makes by itself where it would be dead, if its loop allows one more."""
    history, failure = live.history, halt.failure
    if halt.stopped_by not in ("step", "dead_letter", "verify") or failure is None:
        return None
    if failure.kind in _NO_OTHER_PLAN or len(history.replanned) >= live.loop.replans_max:
        return None
    whole = history.checkpoint is None or any(undo.outcome == "done" for undo in history.undone.by_step.values())
    return Redrive(
        at=live.now_ms(),
        source="start" if whole else "checkpoint",
        pass_=history.pass_ + 1,
        posts=history.post_seq,
        failure=failure,
    )


def _park(live: Live, held: Sequence[Held]) -> None:
    """Every branch has ended or waits: sleep until the earliest time, else wait for somebody."""
    if held and all(one.suspend.waits_for == "replay" for one in held):
        raised = next((one.branch.ended_by_raise for one in held if one.branch.ended_by_raise), "")
        cut = "a step that a timeout had cancelled was asked for, but that timeout was not"
        _wait_for_code(live, raises_no_more(raised) if raised else cut, "")
        return
    joins = bool(held) and all(one.suspend.waits_for == "join" for one in held)
    if joins or any(one.seen < live.history.post_seq or one.suspend.room for one in held):
        # What it waits for may have come while other branches were still at work: look again at once.
        _leave_pending(live, "")
        return
    suspends = [one.suspend for one in held]
    paused = next((s.scope for s in suspends if s.waits_for == "pause"), "")
    first = next((s for s in suspends if s.waits_for in ("person", "budget", "signal", "pause")), None)
    expiry = min((one.until_ms for one in held if one.until_ms), default=0)
    freed = min((s.freed for s in suspends if s.freed >= 0), default=-1)
    now_ms = live.now_ms()
    times = [s for s in suspends if s.waits_for == "time"]
    if times:
        text = _waiting_text(live, first) if first is not None else min(times, key=lambda s: s.until_ms).text
        parked = Parked(at=now_ms, state="sleeping", waits_for="time", wake_at=expiry, text=text)
        # A sleeping run that also asks somebody is listed with those who need one.
        waits_for = first.waits_for if first is not None else "time"
        _leave(live, State.SLEEPING, parked, wake_ms=expiry, waits_for=waits_for, note=text, paused=paused, freed=freed)
        return
    text = _waiting_text(live, first) if first is not None else "waits"
    if first is not None and first.waits_for == "budget":
        parked = Parked(at=now_ms, state="waiting", waits_for="budget", wake_at=expiry, text=text)
    elif first is not None and first.waits_for == "signal":
        parked = Parked(at=now_ms, state="waiting", waits_for="signal", wake_at=expiry, text=text)
    elif first is not None and first.waits_for == "pause":
        parked = Parked(at=now_ms, state="waiting", waits_for="pause", wake_at=expiry, text=text)
    else:
        parked = Parked(at=now_ms, state="waiting", waits_for="person", wake_at=expiry, text=text)
    _leave(
        live,
        State.WAITING,
        parked,
        wake_ms=expiry,
        waits_for=parked.waits_for,
        note=text,
        paused=paused,
        freed=freed,
    )


def _wait_for_code(live: Live, text: str, diff: str) -> None:
    parked = Parked(at=live.now_ms(), state="waiting", waits_for="code", text=text, diff=diff or text)
    _leave(live, State.WAITING, parked, waits_for="code", note=text)


def _waiting_text(live: Live, suspend: Suspend) -> str:
    asked = live.history.questions.get(suspend.question)
    return asked.question.text if asked is not None else suspend.text


def _taken_over(live: Live) -> RunBusy:
    return RunBusy(f"run {live.name}: another process took it over; what it does is in its journal", live.name)


def _leave_pending(live: Live, text: str) -> None:
    _leave(live, State.PENDING, Parked(at=live.now_ms(), state="pending", waits_for="drain", text=text), note=text)


def _owns(live: Live) -> bool:
    row = live.journal.get(live.name)
    return row is not None and row.epoch == live.epoch


def _leave(
    live: Live,
    state: State,
    record: Record,
    *,
    wake_ms: int = 0,
    waits_for: str = "",
    note: str = "",
    value: bytes | None = None,
    paused: str = "",
    freed: int = -1,
) -> None:
    items: list[tuple[str, Record]] = []
    if state.final:
        live.driven.clear()
        left = "The run ended while this was open; an answer is recorded, nothing is sent."
        items = doubts_left(live, left, whole=True)
    items.append(("", record))
    seq = live.history.seq + 1
    for key, item in items:
        live.note(key, item)
    try:
        live.journal.leave(
            live.run,
            live.epoch,
            seq,
            items,
            state=state,
            wake_ms=wake_ms,
            waits_for=waits_for,
            note=note[:500],
            value=value,
            seen=live.history.post_seq,
            paused=paused,
            cost_nusd=min(round(live.history.spent.cost_usd * NANO), _COST_MOST_NUSD),
            waits_for_group=(live.group, freed) if freed >= 0 else None,
        )
    except Fenced:
        raise _taken_over(live) from None
    for key, item in items:
        live.show(key, item)
    live.journal.sync()


def _failure_of(live: Live, error: BaseException) -> Failure:
    """What ended the loop, as a failure; the traceback goes to the log, the place to the message."""
    import logging

    if isinstance(error, StepFailed):
        return error.failure
    if isinstance(error, Unverified):
        return _own(FailureKind.SEMANTIC, error.code, redact(str(error)))
    logging.getLogger("yaoki").error("run %s: the loop raised %s", live.name, type(error).__name__, exc_info=error)
    if isinstance(error, YaokiError):
        return _own(FailureKind.PROGRAMMING, error.code, str(error))
    failure = classify(error, now_ms=live.now_ms())
    return placed(failure, error, live.loop.file)


def _own(kind: FailureKind, reason: str, message: str) -> Failure:
    return Failure(
        kind=kind, reason=reason, message=message[:2000], executed=Executed.NO, evidence="yaoki", fingerprint=reason
    )


def _line(failure: Failure, step: str) -> str:
    name = step.rsplit("/", 1)[-1].split("#", maxsplit=1)[0] if step else ""
    lead = f"{name}: " if name else ""
    return f"{lead}{failure.reason} {failure.message}".strip()
