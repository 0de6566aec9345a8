"""
A saved state in parts, and what the next one has more. Pure: bytes in, bytes out.

That an old item was edited in place is found by looking at it: the whole state is encoded at every turn and compared
with the one before, byte for byte. Only what differs is parsed, stored and checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from yaoki.runtime._stored import Delta, delta_from, fields_in, joined, stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Change", "Part", "Whole"]

_DEPTH_MAX = 3
_CHUNKS_MAX = 256
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What JSON that a value carries as it came (`msgspec.Raw`) may turn out to be."""

_encode = msgspec.json.Encoder().encode
_fields_of = msgspec.json.Decoder(dict[str, Raw]).decode
_items_of = msgspec.json.Decoder(list[Raw]).decode


class Part(NamedTuple):
    """A field that changed; the field `""` of a list is the list."""

    name: str
    how: Literal["a", "s", "i"]
    value: bytes
    """For `a` the appended items, as a list; else all that the field is now."""


class Change(NamedTuple):
    """What turns one state into the next."""

    delta: bytes
    """As it is stored."""
    parts: list[Part]


# --- a state in parts


class Whole:
    """A saved state; goes on by deltas in O(what they store), and says in one comparison what the next one changes."""

    def __init__(self, base: bytes) -> None:
        self._root: _Node = _opened(base)

    def change_to(self, data: bytes, references: Mapping[bytes, bytes]) -> Change | None:
        """
        Return what turns this state into the next, which is left as it is.

        Costs O(state), a comparison of bytes and no more; only what changed is parsed. None where fields went or
        changed places, where a list of lists was edited, or where a delta would be no shorter than the state.
        """
        try:
            parts = list(self._parts_of(data))
            delta = _encode(_delta_of(self._root, parts, references, 0))
        except (_Unlike, *_UNREADABLE):
            return None
        return Change(delta, parts) if len(delta) < len(data) else None

    def _parts_of(self, data: bytes) -> Iterator[Part]:
        root = self._root
        if isinstance(root, dict):
            return _compared(root, data)
        if not isinstance(root, _List):
            raise _Unlike
        end = root.shared(data, 0)
        if end < 0:
            raise _Unlike
        appended = _beyond(data, end)
        return iter([Part("", "a", appended)] if appended != b"[]" else [])

    def apply(self, delta: Delta) -> int:
        """
        Go on to the next state, by a delta whose references are resolved; return the bytes it set in place of others.

        Raises:
            LookupError: The delta does not fit what is there.
            msgspec.DecodeError: It is none.
        """
        replaced, self._root = _applied(self._root, delta)
        return replaced

    def __bytes__(self) -> bytes:
        """Return the state as it was encoded."""
        return _bytes_of(self._root)


class _Unlike(Exception):  # noqa: N818 - no error: the next state is stored whole
    """The next state cannot be told as a delta."""


class _List:
    """A list, as the parts it grew by."""

    __slots__ = ("chunks",)

    def __init__(self, data: bytes) -> None:
        self.chunks: list[bytes] = [] if data == b"[]" else [data[1:-1]]

    def grow(self, items: list[Raw]) -> None:
        if not items:
            return
        self.chunks.append(b",".join(map(bytes, items)))
        if len(self.chunks) > _CHUNKS_MAX:  # a comparison is one of memory, not of a thousand small parts
            self.chunks = [b",".join(self.chunks)]

    def shared(self, data: bytes, at: int) -> int:
        """Return where, in a list that begins at `at`, all the items of this one end; -1 if it has not all of them."""
        if data[at : at + 1] != b"[":
            return -1
        at += 1
        last = len(self.chunks) - 1
        for i, chunk in enumerate(self.chunks):
            if not data.startswith(chunk, at):
                return -1
            at += len(chunk)
            if i < last:
                at += 1
                if data[at - 1 : at] != b",":
                    return -1
        return at if not self.chunks or data[at : at + 1] in _ITEM_ENDS else -1

    def __bytes__(self) -> bytes:
        return b"[" + b",".join(self.chunks) + b"]"


_Node: TypeAlias = "bytes | _List | dict[str, _Node]"
_ITEM_ENDS = (b",", b"]")
_FIELD_ENDS = (b",", b"}")


def _opened(value: bytes) -> _Node:
    if value[:1] == b"[":
        return _List(value)
    try:
        fields = fields_in(value)
    except _UNREADABLE:
        return value
    if fields is None:
        return value
    return {name: _List(field) if field[:1] == b"[" else field for name, field in fields.items()}


def _bytes_of(node: _Node) -> bytes:
    if isinstance(node, dict):
        return joined((name, _bytes_of(inner)) for name, inner in node.items())
    return bytes(node)


# --- comparing


def _same(node: _Node, data: bytes, at: int) -> int:
    """Return where the value that begins at `at` ends, if it begins as this one; -1 if it does not."""
    if isinstance(node, bytes):
        return at + len(node) if data.startswith(node, at) else -1
    if isinstance(node, _List):
        end = node.shared(data, at)
        return end + 1 if end > 0 and data[end : end + 1] == b"]" else -1
    head = b"{"
    for name, inner in node.items():
        head += _encode(name) + b":"
        if not data.startswith(head, at):
            return -1
        at = _same(inner, data, at + len(head))
        if at < 0:
            return -1
        head = b","
    if not node:
        return at + 2 if data.startswith(b"{}", at) else -1
    return at + 1 if data[at : at + 1] == b"}" else -1


def _beyond(data: bytes, end: int) -> bytes:
    """Return the items after those that end at `end`, as a list; what follows the list follows it still."""
    return b"[" + data[end + (data[end : end + 1] == b",") :]


def _compared(fields: Mapping[str, _Node], data: bytes) -> Iterator[Part]:
    """Return what is different in an object; what follows the first such field is parsed, for the fields' bounds."""
    if data[:1] != b"{":
        raise _Unlike
    at, names = 1, list(fields)
    for i, (name, node) in enumerate(fields.items()):
        head = (b"," if i else b"") + _encode(name) + b":"
        if not data.startswith(head, at):
            raise _Unlike
        begin = at + len(head)
        end = _same(node, data, begin)
        if end > 0 and data[end : end + 1] in _FIELD_ENDS:
            at = end
            continue
        known = node.shared(data, begin) if isinstance(node, _List) else -1
        rest = data[begin:] if known < 0 else _beyond(data, known)
        return _compared_rest(fields, names[i:], _encode(name) + b":" + rest, grown=known > 0)
    if data[at:] == b"}":
        return iter(())
    return _compared_rest(fields, [], data[at + (at > 1) :], grown=False)


def _compared_rest(fields: Mapping[str, _Node], names: list[str], rest: bytes, *, grown: bool) -> Iterator[Part]:
    after = fields_in(b"{" + rest)
    if after is None or list(after)[: len(names)] != names:
        raise _Unlike
    if any(name in fields for name in list(after)[len(names) :]):  # written twice
        raise _Unlike
    for i, (name, value) in enumerate(after.items()):
        node = fields.get(name)
        if grown and not i:
            yield Part(name, "a", value)
        elif node is None:
            yield Part(name, "s", value)
        elif _same(node, value, 0) != len(value):
            yield _differing(name, node, value)


def _differing(name: str, node: _Node, value: bytes) -> Part:
    if isinstance(node, _List):
        known = node.shared(value, 0)
        return Part(name, "a", _beyond(value, known)) if known > 0 else Part(name, "s", value)
    if isinstance(node, dict) or (node[:1] == b"{" and value[:1] == b"{"):
        return Part(name, "i", value)
    return Part(name, "s", value)


def _delta_of(root: _Node, parts: list[Part], references: Mapping[bytes, bytes], depth: int) -> Delta:
    delta = Delta(a={}, s={}, i={})
    fields: Mapping[str, _Node] = root if isinstance(root, dict) else {}
    for name, how, value in parts:
        if how == "a":
            items = [stored(item, references) for item in _items_in(value)]
            if isinstance(root, dict):
                delta.a[name] = items
            else:
                delta.n = items
            continue
        inner = _inner(fields[name], value, references, depth + 1) if how == "i" else None
        if inner is not None and len(inner) < len(value):
            delta.i[name] = Raw(inner)
        else:
            delta.s[name] = stored(value, references)
    return delta


def _items_in(value: bytes) -> list[bytes]:
    items = [bytes(raw) for raw in _items_of(value)]
    if b"[" + b",".join(items) + b"]" != value:  # not as they would be put together again
        raise _Unlike
    return items


def _inner(node: _Node, value: bytes, references: Mapping[bytes, bytes], depth: int) -> bytes | None:
    """Return an object field's own delta, None where it is set whole."""
    known = _opened(node) if isinstance(node, bytes) else node
    if depth > _DEPTH_MAX or not isinstance(known, dict):
        return None
    try:
        return _encode(_delta_of(known, list(_compared(known, value)), references, depth))
    except _Unlike:
        return None


# --- putting together


def _misplaced() -> LookupError:
    return LookupError("a delta of an object stands where a list is, or the other way round")


def _applied(node: _Node, delta: Delta) -> tuple[int, _Node]:
    if isinstance(node, bytes):
        node = _List(node) if node[:1] == b"[" else {name: bytes(raw) for name, raw in _fields_of(node).items()}
    if isinstance(node, _List):
        if delta.a or delta.s or delta.i:
            raise _misplaced()
        node.grow(delta.n)
        return 0, node
    if delta.n:
        raise _misplaced()
    replaced = 0
    for name, value in delta.s.items():
        data = bytes(value)
        if name in node:
            replaced += len(data)
        node[name] = _List(data) if data[:1] == b"[" else data
    for name, items in delta.a.items():
        known = node[name]
        known = node[name] = known if isinstance(known, _List) else _List(_bytes_of(known))
        known.grow(items)
    for name, inner in delta.i.items():
        set_inside, node[name] = _applied(node[name], delta_from(inner))
        replaced += set_inside
    return replaced, node
