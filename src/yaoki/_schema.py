"""
JSON schema, as much of it as annotations use, to tell whether an answer fits the type of its question.

Checked where no code is loaded, so only the schema stored with the question is at hand. Follows JSON Schema
2020-12 for the keywords it knows; those it does not know refuse nothing, and the loop's own decoding still
checks the answer fully.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["mismatch"]

_DEPTH_MAX = 64


def mismatch(schema: Mapping[str, object], value: object) -> str | None:
    """Say where the value does not fit, in one line: `$.order.cents: expected integer, got text`; else `None`."""
    return _Check(schema).at(schema, value, "$", 0)


class _Check:
    """One document's rules; `root` is where `$ref` looks."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self.root = root

    def at(self, schema: object, value: object, path: str, depth: int) -> str | None:
        if schema is False:
            return f"{path}: not expected"
        if not isinstance(schema, dict) or depth > _DEPTH_MAX:
            return None
        rules = cast("dict[str, object]", schema)
        return (
            _own(rules, value, path)
            or self._combined(rules, value, path, depth + 1)
            or self._object(rules, value, path, depth + 1)
            or self._array(rules, value, path, depth + 1)
        )

    def _combined(self, rules: dict[str, object], value: object, path: str, depth: int) -> str | None:
        """Apply `$ref`, `allOf`, `anyOf` and `oneOf`."""
        ref = rules.get("$ref")
        if isinstance(ref, str) and (wrong := self.at(self._resolve(ref), value, path, depth)):
            return wrong
        for part in _list(rules.get("allOf")):
            if wrong := self.at(part, value, path, depth):
                return wrong
        for word in ("anyOf", "oneOf"):
            if not (parts := _list(rules.get(word))):
                continue
            wrongs = [self.at(part, value, path, depth) for part in parts]
            if None not in wrongs:
                return _deepest([wrong for wrong in wrongs if wrong])
            if word == "oneOf" and wrongs.count(None) > 1:
                return f"{path}: fits more than one of the alternatives"
        return None

    def _resolve(self, ref: str) -> object:
        """Follow a local reference; one that leads nowhere refuses nothing."""
        found: object = self.root
        for part in ref.removeprefix("#").strip("/").split("/"):
            if part and isinstance(found, dict):
                found = cast("dict[str, object]", found).get(part.replace("~1", "/").replace("~0", "~"))
        return found

    def _object(self, rules: dict[str, object], value: object, path: str, depth: int) -> str | None:
        if not isinstance(value, dict):
            return None
        fields = cast("dict[str, object]", value)
        for name in _list(rules.get("required")):
            if name not in fields:
                return f"{path}: {name} is missing"
        known = rules.get("properties")
        known = cast("dict[str, object]", known) if isinstance(known, dict) else {}
        for name, item in fields.items():
            rule = known[name] if name in known else rules.get("additionalProperties", True)
            if wrong := self.at(rule, item, f"{path}.{name}", depth):
                return wrong
        return None

    def _array(self, rules: dict[str, object], value: object, path: str, depth: int) -> str | None:
        if not isinstance(value, list):
            return None
        first = _list(rules.get("prefixItems"))
        rest = rules.get("items", True)
        for i, item in enumerate(cast("list[object]", value)):
            if wrong := self.at(first[i] if i < len(first) else rest, item, f"{path}[{i}]", depth):
                return wrong
        return None


def _own(rules: dict[str, object], value: object, path: str) -> str | None:
    """Apply the keywords that look at this value alone."""
    types = rules.get("type")
    wanted = _list(types) or ([types] if types else [])
    if wanted and not any(_is(value, str(word)) for word in wanted):
        return f"{path}: expected {' or '.join(map(str, wanted))}, got {_word(value)}"
    choices = _list(rules.get("enum")) or ([rules["const"]] if "const" in rules else [])
    if choices and not any(_same(value, choice) for choice in choices):
        return f"{path}: expected one of {', '.join(repr(choice) for choice in choices)[:200]}"
    for keyword, (size, beyond) in _BOUNDS.items():
        bound, measured = rules.get(keyword), size(value)
        if measured is not None and _number(bound) is not None and beyond(measured, cast("float", bound)):
            return f"{path}: {keyword} is {bound}, got {measured}"
    pattern = rules.get("pattern")
    if isinstance(pattern, str) and isinstance(value, str) and not re.search(pattern, value):
        return f"{path}: does not match {pattern}"
    return None


def _is(value: object, word: str) -> bool:
    number = _number(value)
    if word == "integer":
        return number is not None and float(number).is_integer()
    if word == "number":
        return number is not None
    return word not in _TYPES or isinstance(value, _TYPES[word])


_TYPES: dict[str, type] = {"null": type(None), "boolean": bool, "string": str, "array": list, "object": dict}


def _word(value: object) -> str:
    words = ("null", "boolean", "integer", "number", "string", "array", "object")
    return next((word for word in words if _is(value, word)), type(value).__name__)


def _same(a: object, b: object) -> bool:
    """Compare as JSON does: true is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text_size(value: object) -> float | None:
    return len(value) if isinstance(value, str) else None


def _list_size(value: object) -> float | None:
    return len(cast("list[object]", value)) if isinstance(value, list) else None


_BOUNDS: dict[str, tuple[Callable[[object], float | None], Callable[[float, float], bool]]] = {
    "minimum": (_number, lambda got, bound: got < bound),
    "maximum": (_number, lambda got, bound: got > bound),
    "exclusiveMinimum": (_number, lambda got, bound: got <= bound),
    "exclusiveMaximum": (_number, lambda got, bound: got >= bound),
    "minLength": (_text_size, lambda got, bound: got < bound),
    "maxLength": (_text_size, lambda got, bound: got > bound),
    "minItems": (_list_size, lambda got, bound: got < bound),
    "maxItems": (_list_size, lambda got, bound: got > bound),
}


def _deepest(wrongs: list[str]) -> str:
    """Of several alternatives' complaints, the one that got furthest into the value says most."""
    deepest = max(wrongs, key=lambda wrong: len(wrong.split(":", 1)[0]))
    path = deepest.split(":", 1)[0]
    same = [wrong.split(": ", 1)[1] for wrong in wrongs if wrong.split(":", 1)[0] == path]
    return f"{path}: {'; or '.join(dict.fromkeys(same))}"[:300]
