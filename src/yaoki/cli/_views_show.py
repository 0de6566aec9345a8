"""Why a run is where it is, and what to type next: the pure part of `yaoki show` and of the end of `yaoki run`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from yaoki.classify import redact
from yaoki.cli._views_ask import ask_lines, evidence
from yaoki.cli._views_groups import spent_line
from yaoki.cli._views_next import Around, next_lines, paused_lines
from yaoki.cli._views_steps import identity, rows
from yaoki.cli._views_text import Line, columns, duration, line, money, plural, short_call, shorten
from yaoki.cli._views_timeline import note_of, timeline_lines
from yaoki.records import Cancel, Claimed, State
from yaoki.runtime._moves import open_asks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_text import Commands, Now, Role, Span
    from yaoki.records import Entry
    from yaoki.runtime._receipt import Met, Receipt

__all__ = ["show_lines"]

_ROWS_SHOWN = 12
_VALUE_SHOWN = 2_000
_MESSAGE_CELLS = 300
_LISTED = 8
"""Failures, gaps, orphans: at most this many of each; `--journal` and `--json` have all."""

_ROLES: dict[State, Role] = {
    State.COMPLETED: "good",
    State.CAPPED: "ask",
    State.DEAD: "bad",
    State.WAITING: "ask",
    State.CANCELLED: "dim",
}


def show_lines(
    receipt: Receipt[Any],
    entries: Sequence[Entry],
    now: Now,
    commands: Commands,
    *,
    steps: bool = True,
    around: Around | None = None,
) -> list[Line]:
    """
    Return a run for a person who must decide: headline, the reason, the commands, what it cost, what it did.

    `around` is what is known of it beside its own records; without it, nothing is.
    """
    asks = open_asks(receipt, now.now_ms)
    around = around or Around()
    head = [_headline(receipt, entries, now, left=around.left)]
    blocks: list[list[Line]] = [head, [] if receipt.status.final else paused_lines(around, now, commands)]
    blocks += [
        ask_lines(receipt.run_id, ask, evidence(entries, ask.step), now, commands, ended=receipt.status.final)
        for ask in asks
    ]
    blocks.append(_reason(receipt, entries, now, asked=bool(asks)))
    blocks.append(_outcome(receipt))
    blocks.append(_listed("Gap", receipt.gaps) + _listed("Orphan", receipt.orphans))
    blocks.append(next_lines(receipt, commands, around, now, asked=bool(asks)))
    tail = [line(("Spent", "head"), "   ", " · ".join(_spent(receipt)))]
    if around.group is not None:
        tail.append(spent_line(around.group))
    if steps:
        tail += timeline_lines(entries, now, rows_max=_ROWS_SHOWN)
        tail.append(line(("All: ", "dim"), (commands.verb("show", receipt.run_id, "--journal"), "command")))
    blocks.append(tail)
    out: list[Line] = []
    for block in blocks:
        if block:
            out += [line(), *block] if out else block
    return out


def _headline(receipt: Receipt[Any], entries: Sequence[Entry], now: Now, *, left: bool) -> Line:
    file = f" · {PurePath(receipt.file).name}" if receipt.file else ""
    return line(
        (receipt.run_id, "head"),
        f" · {receipt.loop} · ",
        (receipt.status.value.upper(), _ROLES.get(receipt.status, "head")),
        _headline_time(receipt, entries, now, left=left),
        (file, "dim"),
    )


def _headline_time(receipt: Receipt[Any], entries: Sequence[Entry], now: Now, *, left: bool) -> str:
    match receipt.status:
        case State.WAITING:
            whom = {"person": "you", "budget": "a budget", "signal": "a signal", "code": "code", "pause": "an unpause"}
            since = receipt.waiting_since
            wait = f" since {now.time(since)} ({now.since(since)})" if since else ""
            return f" for {whom.get(receipt.waits_for, receipt.waits_for or 'somebody')}{wait}"
        case State.SLEEPING:
            if not receipt.wake_at:
                return ""
            if receipt.wake_at <= now.now_ms:
                return f" until {now.time(receipt.wake_at)}, {now.since(receipt.wake_at)} ago: nothing drives it"
            return f" until {now.time(receipt.wake_at)} ({now.until(receipt.wake_at)} to go)"
        case State.RUNNING:
            claim = next((e.record for e in reversed(entries) if isinstance(e.record, Claimed)), None)
            if claim is None:
                return f" since {now.time(receipt.started_at)}" if receipt.started_at else ""
            if left:
                return f" since {now.time(claim.at)}, but its process (pid {claim.pid}) died: nothing drives it"
            return f" since {now.time(claim.at)} ({now.since(claim.at)}), by pid {claim.pid}"
        case State.PENDING:
            return f" since {now.time(receipt.created_at)}" if receipt.created_at else ""
        case State.COMPLETED | State.CAPPED | State.DEAD | State.CANCELLED:
            began = receipt.started_at or receipt.created_at
            took = f" after {duration(receipt.ended_at - began)}" if began else ""
            return f" {now.time(receipt.ended_at)}{took}"


def _reason(receipt: Receipt[Any], entries: Sequence[Entry], now: Now, *, asked: bool) -> list[Line]:
    """Return why it is there, where no question says it already."""
    match receipt.status:
        case State.DEAD:
            return _death(receipt, now)
        case State.WAITING if receipt.waits_for == "code":
            lines = [line((redact(receipt.text) or "The code no longer fits what is recorded.", "ask"))]
            lines += [line(("  " + text, _diff_role(text))) for text in redact(receipt.diff).splitlines()]
            return lines
        case State.PENDING:
            return _pending(receipt, entries)
        case State.RUNNING:
            return _in_flight(entries, now)
        case State.SLEEPING:
            return _asleep(receipt, entries, now, asked=asked)
        case State.WAITING if asked:
            return []
        case State.COMPLETED:
            return []
        case State.CAPPED:
            by = receipt.stopped_by or "a cap"
            said = "" if by in receipt.text else receipt.text
            return [line(f"Ended by {by}" + (f": {said}" if said else ""))]
        case _:
            return [line(redact(receipt.text))] if receipt.text else []


def _pending(receipt: Receipt[Any], entries: Sequence[Entry]) -> list[Line]:
    """Return what moved it, instead of what it waited for before that."""
    posts = [line(f"{row.what} {row.note}".rstrip()) for row in rows(entries) if not row.key and row.by_hand][-1:]
    if any(isinstance(entry.record, Cancel) for entry in entries):
        return [*posts, line("The next run of it ends it as cancelled.")]
    answered = {ask.text for ask in receipt.asks if ask.verdict}
    text = "" if receipt.text in answered or posts else redact(receipt.text)
    return [*posts, *([line(text)] if text else [])]


def _in_flight(entries: Sequence[Entry], now: Now) -> list[Line]:
    """Return the attempts that have begun and not ended, and those past their timeout as such."""
    lines: list[Line] = []
    for row in [row for row in rows(entries) if row.open][-_LISTED:]:
        ran_ms = now.now_ms - row.begun_at
        late = f"; its timeout was {duration(row.timeout_ms)}" if 0 < row.timeout_ms < ran_ms else ""
        attempt = f", attempt {row.attempts}" if row.attempts > 1 else ""
        said = f" since {now.time(row.begun_at)} ({duration(ran_ms)}{attempt}{late})"
        lines.append(line("In flight   ", (short_call(redact(row.what)), "ask" if late else "head"), said))
    return lines


def _asleep(receipt: Receipt[Any], entries: Sequence[Entry], now: Now, *, asked: bool) -> list[Line]:
    """Return which steps it sleeps for, where the journal says so; else the text it was left with."""
    waiting = [row for row in rows(entries) if row.outcome == "waiting" and row.next_at][-_LISTED:]
    if not waiting:
        return [line(redact(receipt.text))] if receipt.text and not asked else []
    lines: list[Line] = []
    if " cools down" in receipt.text or " is open" in receipt.text:
        lines.append(line((redact(receipt.text), "ask"), f" until {now.time(receipt.wake_at)}"))
    for row in waiting:
        lines.append(line((short_call(redact(row.what)), "head"), ": ", note_of(row, now)))
        if row.said:
            lines.append(line("  " + shorten(row.said, _MESSAGE_CELLS)))
    return lines


def _death(receipt: Receipt[Any], now: Now) -> list[Line]:
    met = [m for m in receipt.failures if m.step == receipt.step] if receipt.step else []
    where = met[-1].call if met and met[-1].call else identity(receipt.step).name if receipt.step else receipt.loop
    failure = receipt.failure
    if failure is None:
        return [line(("Ended at ", ""), (where, "head"), f": {receipt.text or receipt.stopped_by}")]
    reason = "" if failure.message == failure.reason else failure.message
    lines = [line("Ended at ", (where, "head"), ": ", (failure.reason, "bad"), "  ", shorten(reason, _MESSAGE_CELLS))]
    if failure.hint:
        lines.append(line("  " + failure.hint))
    if receipt.text and failure.reason not in receipt.text:
        lines.append(line("  " + receipt.text))
    if met:
        lines.append(line("Tried:"))
        lines += columns([_tried(m, now) for m in met[-_LISTED:]], indent="  ")
    return lines


def _tried(met: Met, now: Now) -> list[Span]:
    return [
        (f"attempt {met.attempt}", ""),
        (now.time(met.at), "dim"),
        (met.failure.reason, "bad"),
        (f"executed {met.failure.executed.value}", "dim"),
        (_THEN.get(met.then, met.then), "dim"),
    ]


_THEN = {
    "retry": "tried again",
    "repair": "asked again, with the error",
    "check": "checked whether it happened",
    "ask": "asked you",
    "tell": "told the model",
    "rung": "gave up",
    "end": "ended the run",
    "pause": "waited for a budget",
    "pass": "passed on",
}


def _diff_role(text: str) -> Role:
    if text.startswith("+"):
        return "add"
    return "remove" if text.startswith("-") else "dim"


def _outcome(receipt: Receipt[Any]) -> list[Line]:
    if receipt.status is State.COMPLETED:
        return [line(("Result", "head")), *_value(receipt.value)]
    if receipt.partial is not None:
        return [line(("Partial result", "head")), *_value(receipt.partial)]
    return []


def _value(value: object) -> list[Line]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=repr)
    shown = redact(text[:_VALUE_SHOWN])
    lines = [line("  " + part) for part in shown.splitlines() or [""]]
    if len(text) > _VALUE_SHOWN:
        lines.append(line((f"  … {len(text) - _VALUE_SHOWN:,} more characters: --json", "dim")))
    return lines


def _listed(noun: str, items: Sequence[str]) -> list[Line]:
    lines = [line((noun, "ask"), f"  {redact(item)}") for item in items[:_LISTED]]
    if len(items) > _LISTED:
        lines.append(line((f"{noun}  … {len(items) - _LISTED} more: --json", "dim")))
    return lines


def _spent(receipt: Receipt[Any]) -> list[str]:
    """Return what was used, beside its bound where there is one."""
    spent, bound = receipt.spent, receipt.budget
    parts: list[str] = []
    if spent.cost_usd or "cost_usd" in bound:
        top = f"/{bound['cost_usd']:.2f}" if "cost_usd" in bound else ""
        parts.append(money(spent.cost_usd) + top)
    for name, used in (("token", spent.tokens), ("call", spent.calls)):
        if used or name + "s" in bound:
            parts.append(_of(used, bound.get(name + "s"), name, name + "s"))
    parts.append(_of(spent.retries, bound.get("retries"), "retry", "retries"))
    turn = max(receipt.turn, spent.turns)
    if turn:
        parts.append(f"turn {turn}" + (f"/{bound['turns']:g}" if "turns" in bound else ""))
    if receipt.attempts != spent.calls:
        parts.append(plural(receipt.attempts, "attempt"))
    if receipt.restarts:
        parts.append(plural(receipt.restarts, "restart"))
    if receipt.failures:
        parts.append(_healed(receipt.failures))
    return parts


def _of(used: int, bound: float | None, noun: str, many: str) -> str:
    return plural(used, noun, many) if bound is None else f"{used}/{bound:g} {many}"


def _healed(failures: Sequence[Met]) -> str:
    counts = Counter(met.failure.reason for met in failures)
    named = ", ".join(f"{reason} x{count}" if count > 1 else reason for reason, count in counts.most_common(3))
    healed = sum(met.healed for met in failures)
    rest = ", …" if len(counts) > 3 else ""  # noqa: PLR2004 - as many as are named
    left = len(failures) - healed
    outcome = f"{left} not healed" if left else "all healed" if healed > 1 else "healed"
    return f"{plural(len(failures), 'failure')}, {outcome} ({named}{rest})"
