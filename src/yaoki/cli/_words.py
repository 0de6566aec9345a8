"""What `yaoki answer` was told: which question, which verdict, which value. Pure."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from yaoki.cli._exits import CommandError
from yaoki.cli._input import json_value
from yaoki.codec import fits
from yaoki.errors import AnswerRefused
from yaoki.runtime._moves import example_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.runtime._receipt import Ask, Receipt

__all__ = ["ABSENT", "Words", "meant", "open_ask", "parse_words", "value_of"]

ABSENT: object = object()
"""No value was given."""

_WITHOUT_VALUE = ("not-happened", "skip", "abort")
_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words after RUN, sorted out; `value` is as typed, `None` where there is none."""

    ask: str | None = None
    verdict: str
    value: str | None = None


def parse_words(words: Sequence[str]) -> Words:
    """
    Return `[ASK] VALUE|happened VALUE|not-happened|skip|abort|approve|refuse [TEXT]` sorted out.

    A word that is a verdict is one; a string that reads like a verdict is given as JSON: `'"skip"'`.

    Raises:
        CommandError: They fit none of the forms.
    """
    match list(words):
        case ["happened"]:
            return Words(verdict="happened")
        case [verdict] if verdict in _WITHOUT_VALUE:
            return Words(verdict=verdict)
        case [value]:
            return Words(verdict="value", value=value)
        case ["happened" | "refuse" as verdict, value]:
            return Words(verdict=verdict, value=value)
        case [ask, "happened"]:
            return Words(ask=ask, verdict="happened")
        case [ask, verdict] if verdict in _WITHOUT_VALUE:
            return Words(ask=ask, verdict=verdict)
        case [ask, value] if ask not in _WITHOUT_VALUE:
            return Words(ask=ask, verdict="value", value=value)
        case [ask, "happened" | "refuse" as verdict, value]:
            return Words(ask=ask, verdict=verdict, value=value)
        case _:
            raise CommandError("usage", f"answer: {_FORMS}, not: {' '.join(words) or 'nothing'}")


_VERDICTS = {
    "doubt": "happened VALUE, not-happened, skip or abort",
    "orphan": "send, skip, abort or happened VALUE",
    "approve": "approve, refuse [TEXT] or abort",
}


def meant(typed: Words, ask: Ask | None) -> Words:
    """Return the words with `send`, `approve` and `refuse` as the verdicts they are, where the question takes them."""
    if ask is not None and ask.why == "orphan" and typed.verdict == "value" and typed.value == "send":
        return Words(ask=typed.ask, verdict="send")
    if ask is not None and ask.retries and typed.verdict == "value" and typed.value == "retry":
        return Words(ask=typed.ask, verdict="retry")
    if ask is not None and ask.why == "approve" and typed.verdict == "value" and typed.value in ("approve", "refuse"):
        return Words(ask=typed.ask, verdict=typed.value)
    return typed


_FORMS = "say [ASK] and one of VALUE, happened VALUE, not-happened, skip, abort, approve, refuse [TEXT]"


def open_ask(receipt: Receipt[Any], ask: str | None) -> Ask | None:
    """Return the question meant, or `None` where the runtime must say why there is none."""
    asks = [a for a in receipt.asks if not a.verdict]
    if ask is not None:
        return next((a for a in asks if a.id == ask), None)
    return asks[0] if len(asks) == 1 else None


def value_of(typed: Words, ask: Ask | None, run_id: str = "RUN") -> object:
    """
    Return the value as the question's type reads it; `ABSENT` where none is needed.

    A question for text takes the words as they are; every other type takes JSON.

    Raises:
        CommandError: The value is no JSON or of another type, `happened` lacks the value the step returns, or
            the answer to a doubt is no verdict.
    """
    if typed.verdict in (*_WITHOUT_VALUE, "send", "approve", "refuse", "retry"):
        return ABSENT if typed.value is None else _text(typed.value)  # why it is refused
    if ask is None:  # whatever it is, it will be refused: that the value is no JSON is not why
        return ABSENT if typed.value is None else _as_typed(typed.value)
    if ask.why in _VERDICTS and typed.verdict == "value":
        said = f"{typed.value} is no verdict on {ask.id}: say {_VERDICTS[ask.why]}"
        raise CommandError("usage", f"{said}. See: yaoki show {run_id}")
    example = f"for example: yaoki answer {run_id} {_example(ask)}"
    if typed.value is None:
        if _takes(ask, "null"):
            return None
        tool = ask.call.partition("(")[0] or "it"
        raise CommandError("usage", f"say what {tool} returned ({ask.type or 'as JSON'}), {example}")
    if _takes(ask, "string"):
        return _text(typed.value)
    try:
        value = json_value(typed.value, what="the answer")
    except CommandError as error:
        if not ask.type:
            raise
        raise CommandError("input.not_json", f"{typed.value} is no {ask.type} in JSON; {example}") from error
    schema: object = ask.schema
    wrong = fits(cast("dict[str, object]", schema), value) if isinstance(schema, dict) else None
    if wrong is not None:
        raise CommandError(AnswerRefused.code, f"{ask.id} wants {ask.type or 'another type'}: {wrong}; {example}")
    return value


def _example(ask: Ask) -> str:
    happened = ["happened"] if ask.why == "doubt" else []
    return shlex.join([ask.id, *happened, example_of(ask)])


def _as_typed(typed: str) -> object:
    try:
        return json_value(typed, what="the answer")
    except CommandError:
        return typed


def _text(typed: str) -> object:
    try:
        value: object = json.loads(typed)
    except ValueError:
        return typed
    return value if isinstance(value, str) else typed


def _takes(ask: Ask, kind: str) -> bool:
    schema: object = ask.schema
    return isinstance(schema, dict) and cast("dict[str, object]", schema).get("type") == kind
