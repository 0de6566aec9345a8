"""A run taken up in a process: folded from its journal, what nobody saw the end of settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.classify import process_died
from yaoki.policy import Ladder, crash_verdict, decide
from yaoki.records import (
    Cause,
    Claimed,
    Decision,
    Executed,
    Failure,
    FailureKind,
    Record,
    Scope,
    Settle,
)
from yaoki.runtime._doubt import doubts_left
from yaoki.runtime._effects import Suspend
from yaoki.runtime._groups import Counted, charge_of, counted
from yaoki.runtime._history import History
from yaoki.runtime._ladder import ladder
from yaoki.runtime._live import Driver, Halt, Limits, Live
from yaoki.runtime._settling import at_rung
from yaoki.runtime._survivors import end_survivors, own_mark
from yaoki.runtime._undoing import compensation, still_to_undo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.clock import Clock
    from yaoki.events import Observer
    from yaoki.journal import Claim, Journal, RunRow
    from yaoki.runtime._effects import Steps
    from yaoki.runtime._loop import Loop
    from yaoki.runtime._past import Past

__all__ = ["take_up", "undo_all"]


def take_up(
    journal: Journal,
    claim: Claim,
    loop: Loop[Any, Any],
    *,
    limits: Limits,
    clock: Clock,
    driver: Driver,
    pid: int,
    observers: Sequence[Observer] = (),
) -> Live:
    """
    Fold a claimed run's journal and settle what nobody saw the end of, before user code is entered.

    Each attempt left open is settled as `process.died`, executed maybe, and decided from its own begin.
    """
    row = claim.row
    history = History.of(journal.load(row.id))
    _end_survivors(journal, row.name, history)
    live = Live(
        journal=journal,
        run=row.id,
        name=row.name,
        epoch=row.epoch,
        group=row.group,
        counted=counted(history) if row.group else Counted(),
        loop=loop,
        history=history,
        declared=loop.budget,
        limits=limits,
        clock=clock,
        driver=driver,
        observers=observers,
    )
    now_ms = clock.now_ms()
    items: list[tuple[str, Record]] = [
        ("", _claimed(journal, row, loop, now_ms, pid)),
    ]
    seq = live.note(*items[0])
    dead = crash_verdict(history.crashes, loop.crashes_max)
    last_step = ""
    for past in history.unfinished():
        last_step = past.step
        settle = _settle_unseen(live, past, now_ms)
        items.append((past.step, settle))
        live.note(past.step, settle)
    for key, question in doubts_left(live, "A timeout had ended the step; the loop goes on without it.", cut=True):
        items.append((key, question))
        live.note(key, question)
    live.recall()
    journal.append(row.id, row.epoch, seq, items, charge_of(live) if live.group else None)
    journal.mark()
    for key, item in items:
        live.show(key, item)
    if history.cancel is not None and history.cancel.compensate:
        live.compensating = True
    elif history.cancel is not None:
        live.stop_with(Halt(to="cancelled", text="cancelled by a person", stopped_by="cancel"))
    if dead:
        last_step = last_step or history.last_step
        text = f"its process died {history.crashes} times in a row{_at(last_step)}"
        live.stop_with(Halt(to="dead", text=text, stopped_by="crashes", step=last_step, failure=process_died()))
    return live


def _end_survivors(journal: Journal, name: str, history: History) -> None:
    """
    What a dead attempt has left running ends before the attempt is decided: it might still act.

    A process that let go of the run and lives on keeps what it has started, and its own life.
    """
    if any(past.open and past.begin is not None and past.begin.pgid for past in history.steps.values()):
        if any(worker.alive and worker.mark == history.mark for worker in journal.workers()):
            return
        left = end_survivors(history.mark)
        if left:
            import logging

            logging.getLogger("yaoki").warning("run %s: processes %s of a dead attempt do not end", name, left)


def _claimed(journal: Journal, row: RunRow, loop: Loop[Any, Any], now_ms: int, pid: int) -> Claimed:
    bounds = loop.budget.as_dict()
    return Claimed(
        at=now_ms, epoch=row.epoch, worker=journal.worker, pid=pid, mark=own_mark(), deaths=row.deaths, budget=bounds
    )


def _at(step: str) -> str:
    return f", last in {step.rsplit('/', 1)[-1].split('#', maxsplit=1)[0]}" if step else " before its first step"


def _settle_unseen(live: Live, past: Past, now_ms: int) -> Settle:
    begin = past.begin
    assert begin is not None
    last = past.last
    if past.open or last is None:
        failure, executed = process_died(), Executed.MAYBE
    else:
        executed = last.executed
        failure = _cancelled_failure(last.cause or Cause.RUNNER, executed)
    before = past.executed if past.open else _without_last(past)
    position = Ladder(
        effect=begin.effect,
        executed=_stronger(before, executed),
        attempts=begin.attempt,
        attempts_max=begin.attempts_max,
        deadline_ms=begin.ends_at,
        base_s=begin.base_ms / 1000,
        cap_s=begin.cap_ms / 1000,
        has_check=begin.effect == "checked",
        check_after_s=begin.check_after_ms / 1000,
        retries_left=live.budget.left(live.history.spent, "retries"),
        retry_wait_left_s=live.budget.left(live.history.spent, "retry_wait_s"),
    )
    if past.beside:
        decision = Decision(do="pass", why="a second call; its attempt is decided about")
    else:
        decision = at_rung(decide(failure, position, now_ms=now_ms, rng=live.clock.rng()), past)
    return Settle(
        at=now_ms,
        attempt=begin.attempt,
        rung=begin.rung,
        outcome="failed",
        executed=executed,
        failure=failure,
        decision=decision,
    )


def _stronger(a: Executed, b: Executed) -> Executed:
    from yaoki.records import strongest

    return strongest(a, b)


def _without_last(past: Past) -> Executed:
    found = Executed.NO
    for executed in past.executed_by[past.cleared : -1]:
        found = _stronger(found, executed)
    return found


def _cancelled_failure(cause: Cause, executed: Executed) -> Failure:
    who = "the runner" if cause is Cause.RUNNER else "the loop's own code"
    return Failure(
        kind=FailureKind.TRANSIENT,
        reason="attempt.cancelled",
        message=f"the attempt was cancelled by {who}",
        executed=executed,
        scope=Scope.PROCESS,
        evidence=f"cause {cause.value}",
        fingerprint="attempt.cancelled",
    )


def undo_all(live: Live) -> Steps:
    """Carry out a cancel that asks for compensation, in place of the loop."""
    yield from compensation(live, "", ladder)
    left = still_to_undo(live)
    text = f"cancelled by a person; what it did was undone{'. ' if left else ''}{left}"
    live.stop_with(Halt(to="dead" if left else "cancelled", text=text, stopped_by="cancel"))
    yield Suspend("halt")
