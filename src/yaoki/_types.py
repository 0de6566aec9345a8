"""A type tree, as msgspec tells it of an annotation: what in it JSON needs help with, or cannot carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec import inspect as _types

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["customs_in", "odd_keys"]

_KEYS = (
    _types.AnyType,
    _types.StrType,
    _types.IntType,
    _types.FloatType,
    _types.BytesType,
    _types.EnumType,
    _types.LiteralType,
    _types.DateTimeType,
    _types.DateType,
    _types.TimeType,
    _types.TimeDeltaType,
    _types.UUIDType,
    _types.DecimalType,
)
"""What msgspec writes as the key of a dict, and reads back."""


def customs_in(tree: object) -> Iterator[object]:
    """Yield the classes in a type tree that msgspec leaves to its hooks."""
    for node in _nodes(tree, set()):
        if isinstance(node, _types.CustomType):
            yield node.cls


def odd_keys(tree: object) -> Iterator[str]:
    """Yield the kind of each key of a dict in a type tree that JSON cannot carry: `tuple`, `struct`, `none`."""
    for node in _nodes(tree, set()):
        if not isinstance(node, _types.DictType):
            continue
        for key in _members(node.key_type):
            plain = isinstance(key, _types.CustomType) and key.cls is object
            if not plain and not isinstance(key, _KEYS):
                yield type(key).__name__.removesuffix("Type").lower()


def _nodes(node: object, seen: set[int]) -> Iterator[object]:
    """Yield every type in a tree once; a class may refer to itself."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, (_types.Type, _types.Field)):
        yield node
        for name in node.__struct_fields__:
            if name != "cls":
                yield from _nodes(getattr(node, name), seen)
    elif isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from _nodes(item, seen)


def _members(node: object) -> Iterator[object]:
    """Yield the members of a union, or the type itself."""
    if isinstance(node, _types.UnionType):
        for one in node.types:
            yield from _members(one)
    elif isinstance(node, _types.Metadata):
        yield from _members(node.type)
    else:
        yield node
