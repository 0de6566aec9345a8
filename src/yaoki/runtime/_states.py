"""
Saved states as deltas: what was appended since the last checkpoint, with references to results already stored. Pure.

A state is JSON. A delta has, for an object, `a` (items appended to a list field), `s` (fields set) and `i` (deltas of
object fields); for a list, the appended items. An item or field whose bytes are those of a step's result of this
turn, or of a field of one, is stored as `{"$":[seq]}` or `{"$":[seq,"field"]}`: a model's reply is on disk once. A
value of the user's own that begins like a reference is stored as `{"$":[null,value]}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["Found", "Restored", "delta_of", "digest", "references_to"]

_MARK = b'{"$":'
_REFERENCE_MIN = 64
"""Bytes from which on a reference is the shorter one by far."""
_DEPTH_MAX = 3

_encode = msgspec.json.Encoder().encode
_fields_of = msgspec.json.Decoder(dict[str, Raw]).decode
_items_of = msgspec.json.Decoder(list[Raw]).decode

Found: TypeAlias = "Callable[[int], bytes | None]"
"""Returns the result recorded under a seq, as JSON."""


class _Reference(Struct):
    at: list[Raw] = msgspec.field(name="$")


class _Delta(Struct, omit_defaults=True):
    a: dict[str, list[Raw]] = {}
    s: dict[str, Raw] = {}
    i: dict[str, Raw] = {}
    n: list[Raw] = []


_reference_of = msgspec.json.Decoder(_Reference).decode
_delta_from = msgspec.json.Decoder(_Delta).decode


def digest(state: bytes) -> str:
    """Return the hash a restored state is held against."""
    from hashlib import sha256

    return sha256(state).hexdigest()[:16]


def references_to(results: Iterable[tuple[int, bytes]]) -> dict[bytes, bytes]:
    """Return the references to results, and to the fields of those that are objects, by the bytes they stand for."""
    found: dict[bytes, bytes] = {}
    for seq, value in results:
        if len(value) < _REFERENCE_MIN:
            continue
        found.setdefault(value, _encode({"$": [seq]}))
        if value[:1] == b"{":
            for name, field in _fields_of(value).items():
                raw = bytes(field)
                if len(raw) >= _REFERENCE_MIN:
                    found.setdefault(raw, _encode({"$": [seq, name]}))
    return found


def delta_of(old: bytes, new: bytes, references: Mapping[bytes, bytes]) -> bytes | None:
    """
    Return what turns the old state into the new one, or None where that is no shorter than the new one.

    Costs O(state), a comparison of bytes and no more; nothing is decoded but the fields' bounds.
    """
    found = _diff(old, new, references, 0)
    if found is None:
        return None
    data = _encode(found)
    return data if len(data) < len(new) else None


def _diff(old: bytes, new: bytes, references: Mapping[bytes, bytes], depth: int) -> _Delta | None:
    if old[:1] == b"[" and new[:1] == b"[":
        appended = _appended(old, new)
        return None if appended is None else _Delta(n=[_stored(item, references) for item in appended])
    if old[:1] != b"{" or new[:1] != b"{":
        return None
    before, after = _fields_of(old), _fields_of(new)
    if list(after)[: len(before)] != list(before):  # fields went, or changed places
        return None
    if _whole({name: bytes(value) for name, value in after.items()}) != new:
        return None  # not as it would be put together again: a key written in another way, or twice
    delta = _Delta(a={}, s={}, i={})
    for name, value in after.items():
        was, now = bytes(before.get(name, b"")), bytes(value)
        if was == now:
            continue
        appended = _appended(was, now)
        inner = _diff(was, now, references, depth + 1) if depth < _DEPTH_MAX and was[:1] == b"{" else None
        if appended is not None:
            delta.a[name] = [_stored(item, references) for item in appended]
        elif inner is not None:
            delta.i[name] = Raw(_encode(inner))
        else:
            delta.s[name] = _stored(value, references)
    return delta


def _appended(old: bytes, new: bytes) -> list[Raw] | None:
    """Return the items that a list has more than it had, if all those it had are still there."""
    if old[:1] != b"[" or new[:1] != b"[" or not new.startswith(old[:-1]):
        return None
    if old == new:
        return []
    if old == b"[]":
        return _items_of(new)
    return _items_of(b"[" + new[len(old) :]) if new[len(old) - 1 : len(old)] == b"," else None


def _stored(value: Raw, references: Mapping[bytes, bytes]) -> Raw:
    data = bytes(value)
    reference = references.get(data) if len(data) >= _REFERENCE_MIN else None
    if reference is not None:
        return Raw(reference)
    return Raw(b'{"$":[null,' + data + b"]}") if data.startswith(_MARK) else value


class Restored:
    """
    A state put together from a base and the deltas after it, in O(what they store).

    Raises:
        LookupError: A reference to a result, or a field of it, that is not there.
        msgspec.DecodeError: A delta that is none.
    """

    def __init__(self, base: bytes) -> None:
        self._root: Any = base

    def apply(self, delta: bytes, found: Found) -> None:
        """Go on to the next state."""
        self._root = _applied(self._root, _delta_from(delta), found)

    def __bytes__(self) -> bytes:
        """Return the state as it was encoded."""
        return _whole(self._root)


class _List:
    def __init__(self, data: bytes) -> None:
        self.chunks: list[bytes] = [] if data == b"[]" else [data[1:-1]]


def _applied(node: Any, delta: _Delta, found: Found) -> Any:
    if isinstance(node, _List) or (isinstance(node, bytes) and node[:1] == b"["):
        return _extended(node, delta.n, found)
    fields: dict[str, Any]
    if isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
    else:
        fields = {name: bytes(raw) for name, raw in _fields_of(node).items()}
    for name, value in delta.s.items():
        fields[name] = _read(value, found)
    for name, items in delta.a.items():
        fields[name] = _extended(fields[name], items, found)
    for name, inner in delta.i.items():
        fields[name] = _applied(fields[name], _delta_from(inner), found)
    return fields


def _extended(node: Any, items: list[Raw], found: Found) -> _List:
    known = node if isinstance(node, _List) else _List(node)
    known.chunks.extend(_read(item, found) for item in items)
    return known


def _read(value: Raw, found: Found) -> bytes:
    data = bytes(value)
    if not data.startswith(_MARK):
        return data
    at = _reference_of(data).at
    if bytes(at[0]) == b"null":
        return bytes(at[1])
    seq = msgspec.json.decode(at[0], type=int)
    result = found(seq)
    if result is None:
        msg = f"record {seq}, which a saved state refers to, is not there"
        raise LookupError(msg)
    return result if len(at) == 1 else bytes(_fields_of(result)[msgspec.json.decode(at[1], type=str)])


def _whole(node: Any) -> bytes:
    if isinstance(node, bytes):
        return node
    if isinstance(node, _List):
        return b"[" + b",".join(node.chunks) + b"]"
    return b"{" + b",".join(_encode(name) + b":" + _whole(value) for name, value in node.items()) + b"}"
