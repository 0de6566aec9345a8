"""What a person can type about a run, and what each command does; for the views and for notices. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from yaoki.codec import fits
from yaoki.records import Executed, State

if TYPE_CHECKING:
    from yaoki.runtime._receipt import Ask, Receipt

__all__ = ["Move", "answers", "example_of", "known_to_have_happened", "moves", "open_asks", "recordable", "skipped"]


class Move(NamedTuple):
    """A command, as the words after `yaoki`, and what it does."""

    words: tuple[str, ...]
    means: str


def open_asks(receipt: Receipt[Any], now_ms: int) -> list[Ask]:
    """Return the questions that still want an answer; of a run that has ended, those about what happened."""
    return [
        ask
        for ask in receipt.asks
        if not ask.verdict
        and not (ask.expires_at and ask.expires_at <= now_ms)
        and (ask.why == "doubt" or not receipt.status.final)
    ]


def answers(run_id: str, ask: Ask) -> list[Move]:
    """Return the answers a question takes."""

    def choice(means: str, *words: str) -> Move:
        return Move(("answer", run_id, ask.id, *words), means)

    kind = f" ({ask.type})" if ask.type else ""
    abort = choice("raise StepFailed in the loop", "abort")
    if ask.why == "approve":
        told = "the model is told, and why" if ask.call else "the loop is told"
        return [choice("let it be done", "approve"), choice(f"it is not done; {told}", "refuse", "because …"), abort]
    if ask.why == "orphan":
        return [
            choice("both are wanted: send this one too", "send"),
            choice("go on without this one", "skip"),
            choice(f"the earlier one was this one{kind}", "happened", example_of(ask)),
            abort,
        ]
    if ask.why == "doubt":
        again = [] if known_to_have_happened(ask) else [choice(_again(ask), "not-happened")]
        happened = choice(f"go on with this result{kind}", "happened", example_of(ask))
        return [happened, *again, choice(skipped(ask), "skip"), abort]
    if ask.options:
        rows = [choice(f"answer {option}", json.dumps(option, ensure_ascii=False)) for option in ask.options]
    else:
        rows = [choice(f"your answer{kind}", example_of(ask))]
    if ask.call:
        again = [choice("try again now", "retry")] if ask.retries else []
        return [*again, *rows, choice("go on without an answer", "skip"), abort]
    default = [choice(f"{json.dumps(ask.default, ensure_ascii=False)} stands", "skip")] if ask.has_default else []
    return [*rows, *default, abort]


def recordable(run_id: str, ask: Ask) -> list[Move]:
    """Return the answers that still say something once the run has ended."""
    rows = [Move(("answer", run_id, ask.id, "happened", example_of(ask)), "it happened")]
    if not known_to_have_happened(ask):
        rows.append(Move(("answer", run_id, ask.id, "not-happened"), "it did not"))
    return rows


def moves(receipt: Receipt[Any]) -> list[Move]:
    """Return what takes a dead or capped run on, or ends it for good; nothing for any other."""
    if receipt.status is State.DEAD:
        return _of_dead(receipt)
    field = _FLAGS.get(receipt.stopped_by) if receipt.status is State.CAPPED else None
    if field is None:
        return []
    more = f"{receipt.budget.get(field, 1):g}"
    flag = f"--{field.replace('_', '-')}"
    return [
        Move(("top-up", receipt.run_id, flag, more), "or however much more, then"),
        Move(("redrive", receipt.run_id), "goes on where it was capped"),
    ]


def _of_dead(receipt: Receipt[Any]) -> list[Move]:
    run_id = receipt.run_id
    said = "tries that step again, same key; fix the cause first"
    if not receipt.step:
        said = "no step was at fault: change the loop first, then run it again"
    rows = [Move(("redrive", run_id), said)]
    if receipt.turn:
        then = f"a new pass with the code as it is, from the state after turn {receipt.turn}"
        rows.append(Move(("redrive", run_id, "--from", "checkpoint"), then))
    return [*rows, Move(("discard", run_id), "deletes it for good")]


_FLAGS = {
    "budget.turns": "turns",
    "budget.calls": "calls",
    "budget.tokens": "tokens",
    "budget.cost_usd": "cost_usd",
    "budget.wall_s": "wall_s",
}


def known_to_have_happened(ask: Ask) -> bool:
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


def _again(ask: Ask) -> str:
    following = ask.attempt + 1
    if not ask.attempt:
        return "send it again"
    if following > ask.attempts_max:
        return f"send it once more (attempt {following}; {ask.attempts_max} were allowed)"
    return f"send it again (attempt {following} of {ask.attempts_max})"


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
