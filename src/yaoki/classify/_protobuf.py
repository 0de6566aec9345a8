"""
Enough of protocol buffers to read a google.rpc.Status: RetryInfo, QuotaFailure, ErrorInfo.

Field numbers: googleapis, google/rpc/status.proto and error_details.proto. Wire format: protobuf.dev, "Encoding".
Bounded, and never raises: bytes that are no message say nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rpc_status"]

_BYTES_MAX: Final = 65_536
_FIELDS_MAX: Final = 200
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_VARINT_MAX: Final = 10


def rpc_status(packed: bytes) -> dict[str, object]:
    """
    Return what a serialised google.rpc.Status adds to its code.

    Returns:
        `retry_s` (seconds, of RetryInfo), `reason` (of ErrorInfo) and `details`, a list with `violations`, each as
        in Google's JSON; only what was there.
    """
    found: dict[str, object] = {}
    try:
        for number, value in _fields(packed[:_BYTES_MAX]):
            if number == 3 and isinstance(value, bytes):  # repeated google.protobuf.Any details
                _detail(value, found)
    except (ValueError, IndexError, OverflowError):
        return found
    return found


def _detail(packed: bytes, found: dict[str, object]) -> None:
    fields = dict(_fields(packed))
    kind, value = fields.get(1), fields.get(2)
    if not isinstance(kind, bytes) or not isinstance(value, bytes):
        return
    name = kind.rpartition(b".")[2]
    if name == b"RetryInfo":
        duration = dict(_fields(value)).get(1)
        if isinstance(duration, bytes):
            found["retry_s"] = _seconds(duration)
    elif name == b"ErrorInfo":
        reason = dict(_fields(value)).get(1)
        if isinstance(reason, bytes):
            found["reason"] = reason.decode("utf-8", "replace")
    elif name == b"QuotaFailure":
        violations = [_violation(item) for number, item in _fields(value) if number == 1 and isinstance(item, bytes)]
        found["details"] = [{"violations": violations}]


def _violation(packed: bytes) -> dict[str, str]:
    names = {1: "subject", 2: "description", 4: "quotaMetric", 5: "quotaId"}
    return {
        names[number]: value.decode("utf-8", "replace")
        for number, value in _fields(packed)
        if number in names and isinstance(value, bytes)
    }


def _seconds(duration: bytes) -> float:
    fields = dict(_fields(duration))
    whole, nanos = fields.get(1, 0), fields.get(2, 0)
    if not isinstance(whole, int) or not isinstance(nanos, int) or whole >= 1 << 63:  # negative: now
        return 0.0
    return float(whole) + nanos / 1e9


def _fields(packed: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field; raises ValueError where the bytes are no message."""
    at = 0
    for _ in range(_FIELDS_MAX):
        if at >= len(packed):
            return
        tag, at = _varint(packed, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(packed, at)
            yield number, value
        elif wire == _LENGTH:
            size, at = _varint(packed, at)
            if at + size > len(packed):
                raise ValueError("a field longer than its message")
            yield number, packed[at : at + size]
            at += size
        elif wire in {_FIXED64, _FIXED32}:
            at += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError("no wire type")


def _varint(packed: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_MAX):
        byte = packed[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a varint without end")
