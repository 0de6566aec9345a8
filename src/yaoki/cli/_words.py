"""What `yaoki answer` was told: which question, which verdict, which value. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from yaoki.cli._exits import CommandError
from yaoki.cli._input import json_value
from yaoki.cli._views_ask import example_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.runtime._receipt import Ask, Receipt

__all__ = ["ABSENT", "Words", "open_ask", "parse_words", "value_of"]

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
    Return `[ASK] VALUE|happened VALUE|not-happened|skip|abort` sorted out.

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
        case ["happened", value]:
            return Words(verdict="happened", value=value)
        case [ask, "happened"]:
            return Words(ask=ask, verdict="happened")
        case [ask, verdict] if verdict in _WITHOUT_VALUE:
            return Words(ask=ask, verdict=verdict)
        case [ask, value] if ask not in _WITHOUT_VALUE:
            return Words(ask=ask, verdict="value", value=value)
        case [ask, "happened", value]:
            return Words(ask=ask, verdict="happened", value=value)
        case _:
            raise CommandError("usage", f"answer: {_FORMS}, not: {' '.join(words) or 'nothing'}")


_FORMS = "say [ASK] and one of VALUE, happened VALUE, not-happened, skip, abort"


def open_ask(receipt: Receipt[Any], ask: str | None) -> Ask | None:
    """Return the question meant, or `None` where the runtime must say why there is none."""
    asks = [a for a in receipt.asks if not a.verdict]
    if ask is not None:
        return next((a for a in asks if a.id == ask), None)
    return asks[0] if len(asks) == 1 else None


def value_of(typed: Words, ask: Ask | None) -> object:
    """
    Return the value as the question's type reads it; `ABSENT` where none is needed.

    A question for text takes the words as they are; every other type takes JSON.

    Raises:
        CommandError: The value is no JSON, or `happened` lacks the value the step returns.
    """
    if typed.verdict in _WITHOUT_VALUE:
        return ABSENT
    if typed.value is None:
        if ask is None or _takes(ask, "null"):
            return None if ask is not None else ABSENT
        raise CommandError(
            "usage",
            f"what did {ask.call.partition('(')[0] or 'it'} return? happened {example_of(ask)} ({ask.type or 'JSON'})",
        )
    if ask is not None and _takes(ask, "string"):
        return _text(typed.value)
    return json_value(typed.value, what="the answer")


def _text(typed: str) -> object:
    try:
        value: object = json.loads(typed)
    except ValueError:
        return typed
    return value if isinstance(value, str) else typed


def _takes(ask: Ask, kind: str) -> bool:
    schema: object = ask.schema
    return isinstance(schema, dict) and cast("dict[str, object]", schema).get("type") == kind
