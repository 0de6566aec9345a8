"""A question of a run, with what is known about it and the commands that answer it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yaoki.classify import redact
from yaoki.cli._views_text import Line, columns, duration, line, plural, short_call, shorten
from yaoki.records import Begin, Claimed, Effect, Executed, Settle
from yaoki.runtime._moves import answers, known_to_have_happened, recordable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_text import Commands, Now, Span
    from yaoki.records import Entry
    from yaoki.runtime._moves import Move
    from yaoki.runtime._receipt import Ask

__all__ = ["Evidence", "ask_lines", "evidence"]

_MESSAGE_CELLS = 300
_SUBJECT = re.compile(r"\(([\w.@:/+-]+)[,)]")
"""A call's first argument, where it is one plain word: most likely what to look for."""
_REPEATABLE = {Effect.READ_ONLY, Effect.IDEMPOTENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the journal knows about the last attempt of the step in question."""

    begin: Begin | None = None
    settle: Settle | None = None
    pid: int = 0
    attempts: int = 0
    checks: int = 0


def evidence(entries: Sequence[Entry], step: str) -> Evidence:
    """Return the last attempt of a step, how it ended, and which process made it."""
    pid = maker = attempts = checks = 0
    begin: Begin | None = None
    settle: Settle | None = None
    for entry in entries:
        record = entry.record
        if isinstance(record, Claimed):
            pid = record.pid
        elif isinstance(record, Begin) and entry.key == step:
            begin, settle, maker = record, None, pid
            attempts += 1
        elif isinstance(record, Settle) and entry.key == step:
            settle = record
        elif isinstance(record, Settle) and entry.key.startswith(f"{step}!check."):
            checks += 1
    return Evidence(begin=begin, settle=settle, pid=maker, attempts=attempts, checks=checks)


def ask_lines(
    run_id: str, ask: Ask, known: Evidence, now: Now, commands: Commands, *, ended: bool = False
) -> list[Line]:
    """
    Return an open question as it is shown: what is asked, what is known, what to type, what happens if not.

    `ended` says that the run is final: an answer is recorded then, and moves nothing.
    """
    head = _TITLES.get(ask.why, "Question")
    if ask.why == "doubt":
        head = "What was its result?" if known_to_have_happened(ask) else "Did this happen?"
    subject = redact(ask.call or ask.text)
    lines = [line((head, "ask"), "   ", (subject, "head"), "            ", (f"ask {ask.id}", "dim"))]
    if ask.why == "doubt":
        lines += [line("  " + text) for text in _doubt(ask, known, now)]
    elif ask.call and ask.text:
        lines.append(line("  " + redact(ask.text)))
    if ended:
        lines.append(line("  The run has ended: your answer is recorded, and nothing is sent."))
    elif ask.note:
        lines.append(line("  " + redact(ask.note)))
    lines += [line(), line(_invitation(ask, known, now))]
    lines += columns(_rows(recordable(run_id, ask) if ended else answers(run_id, ask), commands), indent="  ")
    if not ended:
        lines.append(line(_expiry(ask, now)))
    return lines


_TITLES = {"approve": "May this be done?", "orphan": "Done already in an earlier pass?", "ask": "Question"}


def _doubt(ask: Ask, known: Evidence, now: Now) -> list[str]:
    begin, settle = known.begin, known.settle
    if begin is None:
        return [redact(ask.text)] if ask.text else []
    texts = _what_happened(begin, settle, known.pid, now)
    tool = (begin.call or ask.call).partition("(")[0] or "it"
    if known.checks:
        texts.append(f"Its check was asked {plural(known.checks, 'time')} and could not say.")
    if known_to_have_happened(ask):
        return [*texts, f"{tool} happened, so it is not sent again."]
    texts.append(_why_not_again(tool, begin))
    if begin.undeclared:
        texts.append("Takes a key, or only reads? Declare it, @tool(effect=…), and this question goes away.")
    return texts


def _what_happened(begin: Begin, settle: Settle | None, pid: int, now: Now) -> list[str]:
    sent = f"Attempt {begin.attempt} was sent {now.time(begin.at)}"
    failure = settle.failure if settle else None
    if settle is None or failure is None or failure.reason == "process.died":
        who = f"the worker (pid {pid})" if pid else "the worker"
        found = f" (found {now.time(settle.at)})" if settle and settle.at > begin.at else ""
        return [f"{sent}; {who} died before it recorded an answer{found}."]
    after = duration(max(settle.at - begin.at, 0))
    lost = settle.value_lost or failure.executed is Executed.YES
    how = f"it answered after {after}, but the answer was lost" if lost else f"it failed after {after}"
    said = failure.message if failure.message != failure.reason else ""
    return [f"{sent}; {how}: {failure.reason}", *([f"  {shorten(said, _MESSAGE_CELLS)}"] if said else [])]


def _why_not_again(tool: str, begin: Begin) -> str:
    kind = begin.effect.name + (" (undeclared)" if begin.undeclared else "")
    match begin.effect:
        case Effect.AT_MOST_ONCE:
            return f"{tool} is {kind}, so it is not sent again unless you say so."
        case Effect.CHECKED:
            return f"{tool} is {kind}, so it is not sent again until somebody knows that it did not happen."
        case Effect.KEYED:
            return f"{tool} is {kind}: every attempt carried the key {begin.key[:16]}; the attempts are used up."
        case Effect.READ_ONLY | Effect.IDEMPOTENT:
            return f"{tool} is {kind}; its attempts are used up."


def _invitation(ask: Ask, known: Evidence, now: Now) -> str:
    if ask.why == "doubt" and known.begin is not None and known.begin.effect not in _REPEATABLE:
        subject = _SUBJECT.search(short_call(redact(ask.call), 200))
        what = subject[1] if subject else "it"
        return f"Look in the receiving system for {what} near {now.time(known.begin.at)}, then one of:"
    return "Answer with one of:"


def _rows(moves: Sequence[Move], commands: Commands) -> list[list[Span]]:
    return [[(commands.verb(*move.words), "command"), (move.means, "dim")] for move in moves]


def _expiry(ask: Ask, now: Now) -> str:
    if not ask.expires_at:
        return "It waits until it is answered."
    if ask.retries:
        return f"Unanswered, it is tried again at {now.time(ask.expires_at)}."
    if ask.has_default:
        stands = json.dumps(ask.default, ensure_ascii=False)
        return f"Unanswered, {stands} stands on {now.minute(ask.expires_at)}."
    return f"Unanswered, it is a dead letter on {now.minute(ask.expires_at)}."
