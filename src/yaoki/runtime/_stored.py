"""
What a saved state has more than another, as a checkpoint stores it: values, and references to results on disk. Pure.

A delta has, for an object, `a` (items appended to a list field), `s` (fields set) and `i` (deltas of object fields);
for a list, `n` (the appended items). An item or field whose bytes are those of a step's result of this turn, or of a
field of one, is stored as `{"$":[seq]}` or `{"$":[seq,"field"]}`: a model's reply is on disk once. One that has such
bytes somewhere in it, as a message has a tool's result, is stored as its pieces, `{"$":[["text",[seq],"text"]]}`. A
value of the user's own that begins like a reference is stored as `{"$":[null,value]}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Raw, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["Delta", "Found", "delta_from", "fields_in", "joined", "references_in", "resolved", "stored"]

_MARK = b'{"$":'
_REFERENCE_MIN = 64
"""Bytes from which on a reference is the shorter one by far."""

_encode = msgspec.json.Encoder().encode
_fields_of = msgspec.json.Decoder(dict[str, Raw]).decode

Found: TypeAlias = "Callable[[int], bytes | None]"
"""Returns the result recorded under a seq, as JSON."""


class _Reference(Struct):
    at: list[Raw] = msgspec.field(name="$")


class Delta(Struct, omit_defaults=True):
    """What one state has more than another; as it is stored, or with its references resolved."""

    a: dict[str, list[Raw]] = {}
    s: dict[str, Raw] = {}
    i: dict[str, Raw] = {}
    n: list[Raw] = []


_reference_of = msgspec.json.Decoder(_Reference).decode
_pieces_of = msgspec.json.Decoder(list[Raw]).decode
delta_from = msgspec.json.Decoder(Delta).decode
"""Reads a delta; its values stay as they are stored."""


def references_in(seq: int, value: bytes) -> dict[bytes, bytes]:
    """Return the references to a result, and to its fields if it is an object, by the bytes they stand for."""
    if len(value) < _REFERENCE_MIN:
        return {}
    found = {value: _encode({"$": [seq]})}
    for name, field in (fields_in(value) or {}).items():
        if len(field) >= _REFERENCE_MIN:
            found.setdefault(field, _encode({"$": [seq, name]}))
    return found


def stored(data: bytes, references: Mapping[bytes, bytes]) -> Raw:
    """Return a value as it is stored."""
    reference = references.get(data) if len(data) >= _REFERENCE_MIN else None
    if reference is None:
        reference = _in_pieces(data, references)
    if reference is not None:
        return Raw(reference)
    return Raw(b'{"$":[null,' + data + b"]}" if data.startswith(_MARK) else data)


def _in_pieces(data: bytes, references: Mapping[bytes, bytes]) -> bytes | None:
    """Return a value that has results in it as text and references; None where that saves nothing."""
    if len(data) < 2 * _REFERENCE_MIN:
        return None
    places: list[tuple[int, int, bytes]] = []
    for value, reference in references.items():
        at = data.find(value)
        if at >= 0:
            places.append((at, -len(value), reference))
    if not places:
        return None
    pieces: list[bytes] = []
    end = 0
    for at, length, reference in sorted(places):
        if at < end:  # within one that is taken
            continue
        if at > end:
            pieces.append(_encode(data[end:at].decode()))
        pieces.append(reference[len(_MARK) : -1])
        end = at - length
    if end < len(data):
        pieces.append(_encode(data[end:].decode()))
    whole = _MARK + b"[[" + b",".join(pieces) + b"]]}"
    return whole if len(whole) + _REFERENCE_MIN <= len(data) else None


def resolved(delta: bytes, found: Found) -> Delta:
    """
    Return a stored delta with the values its references stand for.

    Raises:
        LookupError: A reference to a result, or a field of it, that is not there.
        msgspec.DecodeError: It is no delta.
    """
    read = delta_from(delta)
    return Delta(
        a={name: [_plain(item, found) for item in items] for name, items in read.a.items()},
        s={name: _plain(value, found) for name, value in read.s.items()},
        i={name: Raw(_encode(resolved(bytes(inner), found))) for name, inner in read.i.items()},
        n=[_plain(item, found) for item in read.n],
    )


def _plain(value: Raw, found: Found) -> Raw:
    data = bytes(value)
    if not data.startswith(_MARK):
        return value
    at = _reference_of(data).at
    first = bytes(at[0])
    if first == b"null":
        return at[1]
    if first[:1] == b"[":
        return Raw(b"".join(_piece(bytes(piece), found) for piece in _pieces_of(first)))
    return _result_at(at, found)


def _piece(piece: bytes, found: Found) -> bytes:
    if piece[:1] == b"[":
        return bytes(_result_at(_pieces_of(piece), found))
    return msgspec.json.decode(piece, type=str).encode()


def _result_at(at: list[Raw], found: Found) -> Raw:
    seq = msgspec.json.decode(at[0], type=int)
    result = found(seq)
    if result is None:
        msg = f"record {seq}, which a saved state refers to, is not there"
        raise LookupError(msg)
    return Raw(result) if len(at) == 1 else _fields_of(result)[msgspec.json.decode(at[1], type=str)]


def fields_in(value: bytes) -> dict[str, bytes] | None:
    """Return an object's fields; None for anything else, and where they would not be put together so again."""
    if value[:1] != b"{":
        return None
    fields = {name: bytes(raw) for name, raw in _fields_of(value).items()}
    return fields if joined(fields.items()) == value else None


def joined(fields: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the object of these fields, as it is encoded."""
    return b"{" + b",".join([_encode(name) + b":" + value for name, value in fields]) + b"}"
