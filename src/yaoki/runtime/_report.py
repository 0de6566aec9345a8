"""A run's row and history made into its receipt."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from yaoki.records import ABSENT, NANO, Executed, State
from yaoki.runtime._orphans import orphan_lines
from yaoki.runtime._receipt import Ask, Receipt
from yaoki.runtime._undoing import undo_lines

if TYPE_CHECKING:
    from yaoki.journal import RunRow
    from yaoki.policy import Budget
    from yaoki.runtime._history import History
    from yaoki.runtime._loop import Loop
    from yaoki.runtime._past import Asked

__all__ = ["light_receipt", "receipt_of"]


def receipt_of(
    row: RunRow, history: History, *, loop: Loop[Any, Any] | None = None, budget: Budget | None = None
) -> Receipt[Any]:
    """Return the receipt; with the loop at hand its value is typed, else plain JSON."""
    ended = history.ended
    receipt = light_receipt(row)
    receipt.spent = history.spent
    receipt.spent.wall_s = history.elapsed_wall_s(row.ended_ms or row.changed_ms)
    receipt.budget = _bounds(history, budget)
    receipt.failures = history.failures.listed()
    receipt.gaps = [*history.gaps, *undo_lines(history.undone.by_step.values())]
    receipt.orphans = orphan_lines(history)
    receipt.asks = [
        _ask(asked)
        for asked in history.questions.values()
        if asked.open or asked.taken == "default" or asked.answer is not None
    ]
    receipt.attempts = history.attempts
    receipt.first_attempt_failures = history.first_attempt_failures
    receipt.restarts = row.deaths
    receipt.turn = history.segment
    if history.parked is not None:
        receipt.diff = history.parked.diff
        receipt.wake_at = receipt.wake_at or history.parked.wake_at
    if ended is not None:
        receipt.failure = ended.failure
        receipt.step = ended.step
        receipt.stopped_by = ended.stopped_by
        value = _typed(ended.value, loop)
        if row.state is State.COMPLETED:
            receipt.value = value
        else:
            receipt.partial = value
    receipt.next_action = _next_action(receipt)
    return receipt


def light_receipt(row: RunRow) -> Receipt[Any]:
    """Return what the row alone says."""
    receipt = Receipt[Any](
        run_id=row.name,
        loop=row.loop,
        status=row.state,
        created_at=row.created_ms,
        started_at=row.started_ms,
        ended_at=row.ended_ms,
        wake_at=row.wake_ms,
        waits_for=row.waits_for,
        waiting_since=row.changed_ms if row.state in (State.WAITING, State.SLEEPING) else 0,
        text=row.note,
        file=row.file,
        group=row.group,
    )
    receipt.spent.cost_usd = row.cost_nusd / NANO
    receipt.next_action = _next_action(receipt)
    return receipt


def _bounds(history: History, declared: Budget | None) -> dict[str, float]:
    """Return the bounds with top-ups; without the loop at hand, those recorded when the run was last claimed."""
    bounds = dict(history.bounds if declared is None else declared.as_dict())
    for top_up in history.top_ups:
        for field, amount in top_up.add.items():
            if field in bounds:
                bounds[field] += amount
    return bounds


def _typed(data: Any, loop: Loop[Any, Any] | None) -> Any:
    if data is ABSENT:
        return None
    if loop is None:
        return msgspec.json.decode(data)
    try:
        return loop.codec().decode(data)
    except Exception:  # noqa: BLE001 - the annotation changed since: plain JSON is still the recorded value
        return msgspec.json.decode(data)


def _ask(asked: Asked) -> Ask:
    question, answer = asked.question, asked.answer
    ask = Ask(
        id=question.id,
        why=question.why,
        text=question.text,
        step=asked.key,
        call=question.call,
        executed=question.executed,
        attempt=question.attempt,
        attempts_max=question.attempts_max,
        type=question.type,
        schema=None if question.schema is ABSENT else msgspec.json.decode(question.schema),
        options=question.options,
        asked_at=question.at,
        expires_at=question.expires_at,
        note=question.note,
        retries=question.retries,
        has_default=question.default is not ABSENT,
        default=None if question.default is ABSENT else msgspec.json.decode(question.default),
    )
    if answer is not None:
        ask.verdict = answer.verdict
        ask.answer = None if answer.value is ABSENT else msgspec.json.decode(answer.value)
        ask.answered_at = answer.at
    elif asked.taken == "default":
        ask.verdict, ask.answer = "default", ask.default
    elif ask.why == "doubt":
        ask.executed = asked.past.executed if asked.past is not None else Executed.MAYBE
    return ask


def _next_action(receipt: Receipt[Any]) -> str:
    name = receipt.run_id
    match receipt.status:
        case State.WAITING:
            return {
                "person": f"yaoki show {name}",
                "budget": _top_up(receipt),
                "code": f"yaoki show {name}",
                "pause": f"yaoki unpause {receipt.text.partition(' is paused')[0]}",
                "signal": f"yaoki signal {name} {receipt.text.removeprefix('signal ')} VALUE",
            }.get(receipt.waits_for, f"yaoki show {name}")
        case State.DEAD:
            return f"yaoki show {name}"
        case State.PENDING:
            return f"yaoki run {_shown_file(receipt)} --run-id {name}"
        case _:
            return ""


def _top_up(receipt: Receipt[Any]) -> str:
    """Return the command that adds as much again as the run, or its group, had, by what it says it has used up."""
    name, text, lead = receipt.run_id, receipt.text, f"group {receipt.group}: "
    if receipt.group and text.startswith(lead):
        name, text = f"--group {shlex.quote(receipt.group)}", text.removeprefix(lead)
    noun, _, used = text.partition(": ")
    flag = {"calls": "--calls", "tokens": "--tokens", "budget": "--cost-usd", "cost": "--cost-usd"}.get(noun)
    bound = used.partition(" (")[0].rpartition(" of ")[2].lstrip("$")
    return f"yaoki top-up {name} {flag} {float(bound):g}" if flag is not None else f"yaoki top-up {name} --calls 1"


def _shown_file(receipt: Receipt[Any]) -> str:
    return f"{receipt.file or 'FILE'}:{receipt.loop}"
