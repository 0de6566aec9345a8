"""Whether a state would come back, told from what changed in it: a field alone, an item alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_type_hints

import msgspec
from msgspec import inspect

from yaoki.codec import codec_for
from yaoki.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yaoki.codec import Codec
    from yaoki.runtime._states import Part

__all__ = ["parts_come_back"]

_ARRAYS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_OTHERS = (
    inspect.AnyType,
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.DictType,
)
"""What may stand beside them in a union: they take no array, or any."""


class _Field(NamedTuple):
    codec: Codec
    by_item: bool
    """Whether each item of it is checked for itself, so that appended ones can be alone."""


def parts_come_back(kind: type, parts: Sequence[Part]) -> bool:
    """
    Return whether a state that came back before also does with these parts new.

    False also where the parts do not tell: types that look at themselves as a whole, or at the number of their items.
    Then the whole state has to be decoded.
    """
    fields = _fields_of(kind)
    for name, how, value in parts:
        field = _ANYTHING if fields is None else fields.get(name)
        if field is None or (how == "a" and not field.by_item):
            return False
        try:
            field.codec.decode(value)
        except EncodingError:
            return False
    return True


_ANYTHING = _Field(codec_for(Any), by_item=True)


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> Mapping[str, _Field] | None:
    """Return the fields that can be checked alone, by their encoded names; None where all is plain JSON."""
    if kind is dict or kind is list:
        return None
    if hasattr(kind, "__post_init__") or hasattr(kind, "model_validate"):
        return {}
    try:
        return {name: _Field(codec_for(one), _by_item(one)) for name, one in _types_of(kind).items()}
    except (EncodingError, NameError, TypeError):
        return {}


def _types_of(kind: type) -> dict[str, Any]:
    if issubclass(kind, msgspec.Struct):
        array_like = kind.__struct_config__.array_like
        return {} if array_like else {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    import dataclasses

    other = cast("type[Any]", kind)
    if not dataclasses.is_dataclass(other):
        return {}
    hints = get_type_hints(other, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(other)}


def _by_item(annotation: object) -> bool:
    found = inspect.type_info(annotation)
    options = found.types if isinstance(found, inspect.UnionType) else (found,)
    return all(isinstance(one, _OTHERS) or (isinstance(one, _ARRAYS) and _unbounded(one)) for one in options)


def _unbounded(array: inspect.Type) -> bool:
    return not getattr(array, "min_length", None) and getattr(array, "max_length", None) is None
