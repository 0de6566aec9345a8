"""
Values to JSON and back, strictly: what a loop sees is always `decode(encode(value))`.

JSON by msgspec, typed by the annotation: dataclasses, msgspec Structs, TypedDict, NamedTuple, attrs, enums,
datetimes, bytes, Decimal, UUID, sets; pydantic models by their own methods, found by name. Without an
annotation a value is plain JSON: tuples and sets come back as lists, keys as text. What JSON cannot carry is
refused with its place named; nothing is pickled, and nothing becomes `null` on the way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, ForwardRef, Literal, Protocol, cast, get_args, get_origin

import msgspec
from msgspec import inspect
from msgspec.json import Decoder, Encoder

from yaoki._types import customs_in, odd_keys
from yaoki.errors import EncodingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Codec", "UnresolvedAnnotation", "canonical", "codec_for", "fits"]

_DEPTH_MAX = 100
_TEXT_MAX = 200


class UnresolvedAnnotation(EncodingError):  # noqa: N818 - reads as what it says
    """
    A name in the annotation is not defined yet (a forward reference, or an import only type checkers see).

    Not final: `codec_for` may succeed once the module is loaded, so a decorator defers it to preflight.
    """

    code = "encoding.unresolved"


class _Model(Protocol):
    """What is asked of a pydantic model; anything with these two methods is one."""

    @classmethod
    def model_validate(cls, obj: object) -> object: ...
    def model_dump(self, *, mode: str) -> object: ...


class Codec:
    """JSON encoder and decoder of one annotation. Immutable and safe to share; get one from `codec_for`."""

    __slots__ = ("_decode", "_schema", "annotation", "type_name")

    def __init__(self, annotation: object, decode: Callable[[bytes | memoryview], object]) -> None:
        self.annotation = annotation
        self.type_name = _name(annotation)
        """The type as people write it: `str`, `list[dict]`, `Reply`."""
        self._decode = decode
        self._schema: dict[str, object] | None = None

    def encode(self, value: object) -> bytes:
        """
        Return the value as JSON; the value is never changed.

        Whether it fits the annotation shows when it is decoded.

        Raises:
            EncodingError: JSON cannot carry it (unknown objects, non-finite floats, lone surrogates, cycles).
        """
        try:
            data = _ENCODER.encode(value)
        except Exception as error:
            raise _refusal(value, error) from error
        # msgspec writes nan and inf as null; only where there is a null can there have been one.
        if b"null" in data and not _finite(value, len(data)):
            raise _refusal(value, None)
        return data

    def encode_unchecked(self, value: object) -> bytes:
        """
        Return the value as JSON, a non-finite float as null: for whoever asks `refuse_non_finite` where it matters.

        Raises:
            EncodingError: As `encode`.
        """
        try:
            return _ENCODER.encode(value)
        except Exception as error:
            raise _refusal(value, error) from error

    def refuse_non_finite(self, value: object) -> None:
        """
        Look at every number of a value that `encode_unchecked` wrote a null for.

        Raises:
            EncodingError: One is non-finite; the message says where.
        """
        if not _finite(value, _WALKED_MAX + 1):
            raise _refusal(value, None)

    def decode(self, data: bytes | memoryview | msgspec.Raw) -> object:
        """
        Return the value, as the annotation's type.

        Raises:
            EncodingError: The JSON is malformed or does not fit the annotation; the message says where.
        """
        try:
            return self._decode(data)
        except Exception as error:
            msg = f"{self.type_name}: {_bounded(error)}"
            raise EncodingError(msg) from error

    def schema(self) -> dict[str, object]:
        """Return the JSON schema (2020-12) of the annotation; `{}` where anything fits. A fresh copy each time."""
        if self._schema is None:
            self._schema = _schema_of(self.annotation)
        return cast("dict[str, object]", msgspec.json.decode(msgspec.json.encode(self._schema)))


def codec_for(annotation: object) -> Codec:
    """
    Return the codec of an annotation; cached. No annotation, `Any` and `object` mean plain JSON.

    Raises:
        UnresolvedAnnotation: A name in it is not defined yet; try again once its module is loaded.
        EncodingError: JSON cannot carry it (arbitrary classes, callables, unions that cannot be told apart).
    """
    if annotation is object or (
        getattr(annotation, "__module__", "") == "inspect" and getattr(annotation, "__qualname__", "").endswith("empty")
    ):
        annotation = Any
    try:
        hash(annotation)
    except TypeError:
        return _build(annotation)
    return _cached(annotation)


def canonical(value: object) -> bytes:
    """
    Return JSON for hashing: keys and sets sorted, so equal values give equal bytes in every process.

    Raises:
        EncodingError: As `Codec.encode`.
    """
    try:
        data = _SORTED.encode(value)
        # msgspec sorts a set by `<`, which is no order for sets in sets.
        if b"[[" in data:
            data = _SORTED.encode(_plain(value))
    except TypeError:  # keys that are no text, set members without an order, or a value to refuse
        try:
            data = _SORTED.encode(_plain(value))
        except Exception as error:
            raise _refusal(value, error) from error
    except Exception as error:
        raise _refusal(value, error) from error
    if b"null" in data and not _all_finite(value):
        raise _refusal(value, None)
    return data


# --- building -----------------------------------------------------------------------------------------------


def _build(annotation: object) -> Codec:
    try:
        tree = inspect.type_info(annotation)
        decoder = Decoder(cast("type[object]", annotation), dec_hook=_dec_hook)
    except NameError as error:
        raise _unresolved(annotation, str(error)) from error
    except Exception as error:
        if _holds_forward_ref(annotation):
            raise _unresolved(annotation, "a forward reference") from error
        msg = f"{_name(annotation)} cannot be carried as JSON: {_bounded(error)}. Use {_INSTEAD}."
        raise EncodingError(msg) from error
    for custom in customs_in(tree):
        if not _is_model(custom) and custom is not object:
            msg = f"{_name(annotation)}: {_name(custom)} cannot be carried as JSON. Use {_INSTEAD}."
            raise EncodingError(msg)
    for kind in odd_keys(tree):
        msg = f"{_name(annotation)}: JSON has no {kind} as a key of a dict. Use text or numbers, or a list of pairs."
        raise EncodingError(msg)
    return Codec(annotation, decoder.decode)


_cached = lru_cache(maxsize=4096)(_build)

_INSTEAD = "a dataclass, a msgspec Struct, a pydantic model or JSON types; clients and secrets are Local"


def _unresolved(annotation: object, what: str) -> UnresolvedAnnotation:
    msg = f"{_name(annotation)}: {what}. Import it at run time, not only under TYPE_CHECKING."
    return UnresolvedAnnotation(msg)


def _holds_forward_ref(annotation: object) -> bool:
    if isinstance(annotation, (str, ForwardRef)):
        return True
    return get_origin(annotation) is not Literal and any(map(_holds_forward_ref, get_args(annotation)))


def _name(annotation: object) -> str:
    """Return a type as people write it."""
    if annotation is None or annotation is type(None):
        return "None"
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and not args:
        return annotation.__name__
    text = annotation if isinstance(annotation, str) else repr(annotation)
    if origin is not None and args and origin is not Literal and isinstance(origin, type):
        inner = ", ".join("..." if arg is ... else _name(arg) for arg in args)
        text = " | ".join(map(_name, args)) if origin.__name__ == "UnionType" else f"{origin.__name__}[{inner}]"
    elif origin is not None and text.startswith(("typing.Optional[", "typing.Union[")):
        text = " | ".join(map(_name, args))
    return text.replace("typing.", "")[:_TEXT_MAX]


def _is_model(cls: object) -> bool:
    return isinstance(cls, type) and hasattr(cls, "model_validate") and hasattr(cls, "model_dump")


def _is_pydantic(cls: type) -> bool:
    """Whether the class takes pydantic's own keywords; a look-alike may know only `mode`."""
    return hasattr(cls, "__pydantic_serializer__")


def _schema_of(annotation: object) -> dict[str, object]:
    defs: dict[str, object] = {}

    def hook(cls: type) -> dict[str, object]:
        if not hasattr(cls, "model_json_schema"):
            return {}
        # References are relative to the whole document: a model's own definitions move up, under its name.
        part: dict[str, object] = cast("Any", cls).model_json_schema(ref_template=f"#/$defs/{cls.__name__}.{{model}}")
        for name, definition in cast("dict[str, object]", part.pop("$defs", {})).items():
            defs[f"{cls.__name__}.{name}"] = definition
        return part

    schema: dict[str, object] = msgspec.json.schema(annotation, schema_hook=hook)
    if defs:
        schema["$defs"] = {**cast("dict[str, object]", schema.get("$defs", {})), **defs}
    return schema


# --- hooks --------------------------------------------------------------------------------------------------


def _enc_hook(value: object) -> object:
    """Carry what msgspec does not know itself: subclasses of text and numbers, and pydantic models."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    if _is_model(type(value)):
        return _dump(cast("_Model", value), by_alias=True)
    msg = f"{type(value).__name__} objects are not JSON"
    raise TypeError(msg)


def _dump(model: _Model, *, by_alias: bool) -> object:
    if not _is_pydantic(type(model)):
        return model.model_dump(mode="json")
    for name, item in _children(model):
        if type(item).__name__ in _MASKED:
            msg = f"{type(model).__name__}{name} is a {type(item).__name__}, which serializes to asterisks"
            raise TypeError(msg)
    return cast("Any", model).model_dump(mode="json", round_trip=True, by_alias=by_alias, warnings=False)


_MASKED = frozenset({"SecretStr", "SecretBytes"})


def _dec_hook(cls: type, value: object) -> object:
    if cls is object:
        return value
    if not _is_pydantic(cls):
        return cast("type[_Model]", cls).model_validate(value)
    # From JSON, so that strict models take what JSON has no type of its own for.
    return cast("Any", cls).model_validate_json(_ENCODER.encode(value))


def _sorted_hook(value: object) -> object:
    if not _is_model(type(value)):
        return _enc_hook(value)
    dumped = _dump(cast("_Model", value), by_alias=False)
    if not isinstance(dumped, dict):
        return dumped
    fields = {name[1:]: item for name, item in _children(value)}
    return {
        name: _plain(fields[name]) if _holds_set(fields.get(name)) else item
        for name, item in cast("dict[str, object]", dumped).items()
    }


_ENCODER = Encoder(enc_hook=_enc_hook)
_SORTED = Encoder(enc_hook=_sorted_hook, order="sorted")


# --- walking a value ----------------------------------------------------------------------------------------


def _children(value: object) -> Iterator[tuple[str, object]]:
    """Yield what a value holds, each with its place as Python writes it; nothing for a leaf."""
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            yield f"[{key!r:.60}]", item
    elif isinstance(value, (list, tuple, set, frozenset)):
        for i, item in enumerate(cast("list[object]", value)):
            yield f"[{i}]", item
    else:
        for name in _field_names(value):
            yield f".{name}", getattr(value, name, None)


def _field_names(value: object) -> list[str]:
    cls = type(value)
    if hasattr(cls, "__dataclass_fields__"):
        return list(cast("Any", cls).__dataclass_fields__)
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if hasattr(cls, "__attrs_attrs__"):
        return [field.name for field in cast("Any", cls).__attrs_attrs__]
    if _is_model(cls):
        return [*getattr(value, "__dict__", ()), *(getattr(value, "__pydantic_extra__", None) or ())]
    return []


def _finite(value: object, size: int) -> bool:
    """
    Whether no number in a value is nan or inf; `size` is that of its JSON.

    Of a large value MessagePack tells faster, where it can: it writes a float as 0xCB and 8 bytes, of which the first
    12 bits are sign and exponent, all ones in what is not finite. No text and no count has these bytes in a row, and a
    number that happens to costs a walk.
    """
    if size > _WALKED_MAX:
        try:
            packed = _PACKER.encode(value)
        except Exception:  # noqa: BLE001 - a model, a large number: walked through
            return _all_finite(value)
        if b"\xcb" not in packed or _NON_FINITE.search(packed) is None:
            return True
    return _all_finite(value)


def _pack_hook(value: object) -> object:
    """Carry what cannot hold a number in a way of its own; a model's fields are looked at one by one."""
    if isinstance(value, (str, float, int)):
        return _enc_hook(value)
    msg = f"{type(value).__name__} objects are walked through"
    raise TypeError(msg)


_WALKED_MAX = 4096
_PACKER = msgspec.msgpack.Encoder(enc_hook=_pack_hook)
_NON_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def _all_finite(value: object) -> bool:
    pending = [value]
    for item in pending:  # grows as it goes
        cls = type(item)
        if cls is str or cls is int or item is None:
            continue
        if isinstance(item, float):
            if not isfinite(item):
                return False
        elif cls is dict:
            pending.extend(cast("dict[object, object]", item).values())
        elif cls is list or cls is tuple:
            pending.extend(cast("list[object]", item))
        else:
            pending.extend(child for _, child in _children(item))
    return True


def _holds_set(value: object) -> bool:
    return isinstance(value, (set, frozenset)) or any(_holds_set(item) for _, item in _children(value))


def _plain(value: object) -> object:
    """Return the value as dicts with text keys, and lists; sets sorted by their members' own canonical bytes."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {_key(key): _plain(item) for key, item in items}
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, cast("set[object]", value)), key=_SORTED.encode)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[object]", value)]
    if _is_model(type(value)):
        return _sorted_hook(value)
    names = _field_names(value)
    if not names:
        return value
    tag = value.__struct_config__.tag if isinstance(value, msgspec.Struct) else None
    return {**({"": tag} if tag is not None else {}), **{name: _plain(getattr(value, name)) for name in names}}


def _key(key: object) -> str:
    """Return a dict key as msgspec writes it."""
    return next(iter(msgspec.json.decode(_ENCODER.encode({key: 0}), type=dict[str, int])))


# --- refusing -----------------------------------------------------------------------------------------------


def _refusal(value: object, error: Exception | None) -> EncodingError:
    """Say which part of the value is refused, why, and what to do."""
    refused = _is_non_finite if error is None else _is_refused
    place, culprit = "", value
    for _ in range(_DEPTH_MAX):
        found = next(((name, item) for name, item in _children(culprit) if refused(item)), None)
        if found is None:
            break
        place, culprit = place + found[0], found[1]
    else:
        return EncodingError("the value refers to itself, or is nested too deeply. Return what of it is a tree.")
    where = f"value{place[:_TEXT_MAX]}"
    if error is None:
        return EncodingError(f"{where} is {culprit!r}: JSON has no such number. Use None or text for it.")
    if isinstance(culprit, str):
        return EncodingError(f"{where} is text with a lone surrogate. Clean it, or carry bytes.")
    return EncodingError(f"{where}: {_bounded(error)}. Use {_INSTEAD}.")


def _is_refused(value: object) -> bool:
    try:
        _ENCODER.encode(value)
    except Exception:  # noqa: BLE001 - any error is the answer
        return True
    return False


def _is_non_finite(value: object) -> bool:
    return not _all_finite(value)


def _bounded(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it refers to itself, or is nested too deeply"
    return " ".join(str(error).split())[:_TEXT_MAX].rstrip(".") or type(error).__name__


# --- schemas ------------------------------------------------------------------------------------------------


def fits(schema: Mapping[str, object], value: object) -> str | None:
    """
    Say where a JSON value does not fit a JSON schema, in one line; `None` if it fits.

    For answers checked where no code is loaded. Knows what `Codec.schema` writes: type, enum, const,
    properties, required, additionalProperties, items, prefixItems, anyOf, oneOf, allOf, `$ref` into
    `$defs`, bounds of numbers and lengths. Keywords it does not know refuse nothing.
    """
    from yaoki._schema import mismatch

    return mismatch(schema, value)
