"""Records to and from the bytes in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from yaoki.errors import StoreCorrupt, StoreRefused
from yaoki.records import KINDS, Entry, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaoki.journal._sqlite import Row

__all__ = ["POSTS", "SEQ_MASK", "decode_all", "encode"]

POSTS = 1 << 31
"""The first seq of records posted from outside; the driver's are below it."""

SEQ_MASK = (1 << 32) - 1

_encode = msgspec.json.Encoder().encode


def encode(record: Record) -> bytes:
    """Encode a record. Text from outside may hold lone surrogates, which JSON cannot: they are replaced."""
    try:
        return _encode(record)
    except UnicodeEncodeError:
        return _encode(_clean(record))


def _clean(value: Any) -> Any:  # noqa: ANN401 - a record's field
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, msgspec.Struct):
        cleaned = {name: _clean(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **cleaned)
    if isinstance(value, list):
        return [_clean(one) for one in cast("list[object]", value)]
    return value


_DECODERS: dict[int, msgspec.json.Decoder[Record]] = {}
"""Each is made when its kind is first met: all of them would be a third of importing the journal."""


def decode_all(rows: Iterable[Row], path: str) -> list[Entry]:
    """
    Decode rows `(id, kind, key, body)`.

    Raises:
        StoreRefused: A kind this version does not know: it is refused, never skipped.
        StoreCorrupt: A body that is not the record its kind says.
    """
    return [_decode(row, path) for row in rows]


def _decode(row: Row, path: str) -> Entry:
    rowid, kind, key, body = row
    decoder = _DECODERS.get(kind) or _decoder(kind)
    if decoder is None:
        raise StoreRefused(
            f"store {path}: {_where(rowid)} is of kind {kind}, which this version does not know. "
            "Continue this run with the yaoki version that wrote it, or a newer one."
        )
    try:
        record = decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(
            f"store {path}: {_where(rowid)} is damaged: {error}. "
            "Restore a backup, or discard this run; nothing was changed."
        ) from error
    return Entry(rowid & SEQ_MASK, key, record)


def _decoder(kind: int) -> msgspec.json.Decoder[Record] | None:
    if (cls := KINDS.get(kind)) is None:
        return None
    decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(cls)
    _DECODERS[kind] = decoder
    return decoder


def _where(rowid: int) -> str:
    return f"record {rowid & SEQ_MASK} of run number {rowid >> 32}"
