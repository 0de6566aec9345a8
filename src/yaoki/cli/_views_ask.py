"""A question of a run, with what is known about it and the commands that answer it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from yaoki.classify import redact
from yaoki.cli._views_text import Line, columns, duration, line, plural, short_call, shorten
from yaoki.codec import fits
from yaoki.records import Begin, Claimed, Effect, Executed, Settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_text import Commands, Now, Span
    from yaoki.records import Entry
    from yaoki.runtime._receipt import Ask, Receipt

__all__ = ["Evidence", "ask_lines", "evidence", "example_of", "open_asks", "skipped"]

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


def open_asks(receipt: Receipt[Any], now_ms: int) -> list[Ask]:
    """Return the questions that still want an answer; of a run that has ended, those about what happened."""
    return [
        ask
        for ask in receipt.asks
        if not ask.verdict
        and not (ask.expires_at and ask.expires_at <= now_ms)
        and (ask.why == "doubt" or not receipt.status.final)
    ]


def ask_lines(
    run_id: str, ask: Ask, known: Evidence, now: Now, commands: Commands, *, ended: bool = False
) -> list[Line]:
    """
    Return an open question as it is shown: what is asked, what is known, what to type, what happens if not.

    `ended` says that the run is final: an answer is recorded then, and moves nothing.
    """
    head = _TITLES.get(ask.why, "Question")
    if ask.why == "doubt":
        head = "What was its result?" if _lost(ask) else "Did this happen?"
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
    lines += columns(_recordable(run_id, ask, commands) if ended else _choices(run_id, ask, commands), indent="  ")
    if not ended:
        lines.append(line(_expiry(ask, now)))
    return lines


def _lost(ask: Ask) -> bool:
    """Whether it is known to have happened, and only its result is not."""
    return ask.why == "doubt" and ask.executed is Executed.YES


def skipped(ask: Ask) -> str:
    """Return what `skip` comes to for the loop, with a warning where its step never returns None by its type."""
    schema = _mapping(ask.schema)
    if ask.why != "doubt":
        return "go on without an answer"
    if not schema or fits(schema, None) is None:
        return "go on with None; a gap is noted"
    return f"the loop gets None: {ask.call.partition('(')[0] or 'its step'} is declared -> {ask.type}"


_TITLES = {"approve": "May this be done?", "orphan": "Done already in an earlier pass?", "ask": "Question"}


def _doubt(ask: Ask, known: Evidence, now: Now) -> list[str]:
    begin, settle = known.begin, known.settle
    if begin is None:
        return [redact(ask.text)] if ask.text else []
    texts = _what_happened(begin, settle, known.pid, now)
    tool = (begin.call or ask.call).partition("(")[0] or "it"
    if known.checks:
        texts.append(f"Its check was asked {plural(known.checks, 'time')} and could not say.")
    if _lost(ask):
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


def _choices(run_id: str, ask: Ask, commands: Commands) -> list[list[Span]]:
    def choice(means: str, *words: str) -> list[Span]:
        return [(commands.verb("answer", run_id, ask.id, *words), "command"), (means, "dim")]

    kind = f" ({ask.type})" if ask.type else ""
    if ask.why == "orphan":
        return [
            choice("both are wanted: send this one too", "send"),
            choice("go on without this one", "skip"),
            choice(f"the earlier one was this one{kind}", "happened", example_of(ask)),
            choice("raise StepFailed in the loop", "abort"),
        ]
    if ask.why == "doubt":
        again = [] if _lost(ask) else [choice(_again(ask), "not-happened")]
        return [
            choice(f"go on with this result{kind}", "happened", example_of(ask)),
            *again,
            choice(skipped(ask), "skip"),
            choice("raise StepFailed in the loop", "abort"),
        ]
    if ask.options:
        rows = [choice(f"answer {option}", json.dumps(option, ensure_ascii=False)) for option in ask.options]
    else:
        rows = [choice(f"your answer{kind}", example_of(ask))]
    return [*rows, choice("go on without an answer", "skip"), choice("raise StepFailed in the loop", "abort")]


def _recordable(run_id: str, ask: Ask, commands: Commands) -> list[list[Span]]:
    """Return the answers that still say something once the run has ended."""
    rows: list[list[Span]] = [
        [(commands.verb("answer", run_id, ask.id, "happened", example_of(ask)), "command"), ("it happened", "dim")],
    ]
    if not _lost(ask):
        rows.append([(commands.verb("answer", run_id, ask.id, "not-happened"), "command"), ("it did not", "dim")])
    return rows


def _again(ask: Ask) -> str:
    following = ask.attempt + 1
    if not ask.attempt:
        return "send it again"
    if following > ask.attempts_max:
        return f"send it once more (attempt {following}; {ask.attempts_max} were allowed)"
    return f"send it again (attempt {following} of {ask.attempts_max})"


def _expiry(ask: Ask, now: Now) -> str:
    if not ask.expires_at:
        return "It waits until it is answered."
    return f"Unanswered, it is a dead letter on {now.minute(ask.expires_at)}."


_SAMPLES: dict[str, object] = {"string": "…", "integer": 0, "number": 0.0, "boolean": True, "null": None, "array": []}


def example_of(ask: Ask) -> str:
    """Return a value in JSON that has the shape the answer must have, for the person to fill in."""
    root = _mapping(ask.schema)
    return json.dumps(_sample(root, root, 0), ensure_ascii=False)


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _sample(schema: dict[str, object], root: dict[str, object], depth: int) -> object:
    """Return a smallest value of a JSON schema; nested at most four deep."""
    if depth > 4:  # noqa: PLR2004 - the bound the docstring states
        return None
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _sample(_mapping(_mapping(root.get("$defs")).get(name)), root, depth + 1)
    for word in ("enum", "anyOf", "oneOf"):
        members = schema.get(word)
        if isinstance(members, list) and members:
            first = cast("list[object]", members)[0]
            return first if word == "enum" else _sample(_mapping(first), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "object":
        fields = _mapping(schema.get("properties"))
        needed = schema.get("required")
        names = [str(name) for name in cast("list[object]", needed)] if isinstance(needed, list) else list(fields)
        return {name: _sample(_mapping(fields.get(name)), root, depth + 1) for name in names}
    return _SAMPLES.get(str(kind), "…")
