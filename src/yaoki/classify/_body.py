"""
The codes and sentences inside an error body, unwrapped.

Gateways wrap a vendor's body: JSON in a string in `message`, or in `metadata.raw`; SDKs print it as a Python
dict after `Error code: 429 - `. Up to `UNWRAP_MAX` such layers are opened; the innermost codes come first,
since they are the vendor's own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Final, TypeVar, cast

import msgspec

from yaoki.classify._patterns import pattern

__all__ = ["NOTHING", "UNWRAP_MAX", "Body", "read"]

UNWRAP_MAX: Final = 3
_DEPTH_MAX: Final = 8
_ITEMS_MAX: Final = 16

_CODES = (
    "error_code",
    "code",
    "reason",
    "type",
    "status",
    "finish_reason",
    "finishReason",
    "__type",
    "Code",
    "decline_code",
    "limit_source",
    "errorCode",
    "errorType",
    "error_type",
)
_STATUSES = ("status_code", "statusCode", "HTTPStatusCode")
_CODED = (*_CODES, *_STATUSES)
_SENTENCES = ("message", "Message", "detail", "error_description", "msg", "title", "error", "errors", "raw")
_NESTED = (
    "error",
    "errors",
    "details",
    "detail",
    "metadata",
    "body",
    "response",
    "fault",
    "violations",
    "cause",
    "choices",
    "candidates",
)


_T = TypeVar("_T")


def _order(names: tuple[str, ...]) -> dict[object, int]:
    return {name: at for at, name in enumerate(names)}


class Body(msgspec.Struct):
    """What a body says, innermost first."""

    codes: list[str] = msgspec.field(default_factory=list[str])
    """Words such as `insufficient_quota`, as written."""
    messages: list[str] = msgspec.field(default_factory=list[str])
    """Sentences for people."""
    status: int | None = None
    """An HTTP status named as such in the body: the vendor's, under a gateway's."""
    quotas: list[str] = msgspec.field(default_factory=list[str])
    """Names of the quotas that were exceeded (google.rpc.QuotaFailure)."""
    failed: bool = False
    """It says outright that it failed: Slack's `"ok": false`, a GraphQL answer of errors without data."""


NOTHING: Final = Body()


def read(payload: object) -> Body:
    """Return what the payload says: text holding JSON or a printed dict, or what was parsed. Others hold it too."""
    if isinstance(payload, str) and len(payload) <= _REMEMBERED_MAX:
        return _read_text(payload)
    return _read(payload)


_REMEMBERED_MAX: Final = 2000


@lru_cache(maxsize=1024)
def _read_text(text: str) -> Body:
    """Read a text; a server in trouble sends the same many times."""
    return _read(text)


def _read(payload: object) -> Body:
    body = Body()
    opened = _open(payload)
    if isinstance(opened, str) and _CODE_ALONE.fullmatch(opened):
        body.codes.append(opened)
    _walk(opened, body, 0, 0)
    return body


def _open(payload: object) -> object:
    """Return the JSON or printed dict inside a text; anything else as it is."""
    if not isinstance(payload, str):
        return payload
    start = min((at for at in (payload.find("{"), payload.find("[{")) if at >= 0), default=-1)
    if start < 0:
        return payload
    part = payload[start:]
    end = max(part.rfind("}"), part.rfind("}]") + 1) + 1
    try:
        return msgspec.json.decode(part[:end])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    if "':" not in part:
        return payload
    try:
        from ast import literal_eval

        return cast("object", literal_eval(part[:end]))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return payload


def _walk(node: object, body: Body, depth: int, unwrapped: int) -> None:
    if depth > _DEPTH_MAX:
        return
    if isinstance(node, list):
        for item in cast("list[object]", node)[:_ITEMS_MAX]:
            _walk(item, body, depth + 1, unwrapped)
    elif isinstance(node, dict):
        _take(cast("dict[object, object]", node), body, depth, unwrapped)


def _take(fields: dict[object, object], body: Body, depth: int, unwrapped: int) -> None:
    """Take what one object says, that of the objects inside it first; each sort in the order of its names above."""
    nested, sentences, coded = _sorted_out(fields)
    body.quotas += [said for name in _QUOTAS if isinstance(said := fields.get(name), str)]
    for _, inner in _in_order(nested):
        _walk(inner, body, depth + 1, unwrapped)
    for _, said in _in_order(sentences):
        _sentence(said, body, depth, unwrapped)
    for _, code in _in_order(coded):
        _code(code, body)
    if fields.get("ok") is False or (isinstance(fields.get("errors"), list) and fields.get("data") is None):
        body.failed = True
    if isinstance(word := fields.get("error"), str) and _WORD.fullmatch(word):
        # Slack, OAuth: `{"error": "invalid_auth"}`.
        body.codes.append(word)


def _sorted_out(
    fields: dict[object, object],
) -> tuple[list[tuple[int, object]], list[tuple[int, str]], list[tuple[int, object]]]:
    """Return an object's objects, sentences and codes, each with the place of its name above."""
    nested: list[tuple[int, object]] = []
    sentences: list[tuple[int, str]] = []
    coded: list[tuple[int, object]] = []
    for name, found in islice(fields.items(), _FIELDS_MAX):
        if name not in _LOOKED_AT:
            continue
        if isinstance(found, str):
            if (at := _SENTENCES_AT.get(name)) is not None:
                sentences.append((at, found))
            if (at := _CODED_AT.get(name)) is not None:
                coded.append((at, found))
        elif isinstance(found, (dict, list)):
            if (at := _NESTED_AT.get(name)) is not None:
                nested.append((at, cast("object", found)))
        elif isinstance(found, int) and (at := _CODED_AT.get(name)) is not None:
            coded.append((at, found))
    return nested, sentences, coded


def _in_order(found: list[tuple[int, _T]]) -> list[tuple[int, _T]]:
    return found if len(found) < 2 else sorted(found, key=_place)


_FIELDS_MAX: Final = 200
_place = itemgetter(0)
_NESTED_AT: Final = _order(_NESTED)
_SENTENCES_AT: Final = _order(_SENTENCES)
_CODED_AT: Final = _order(_CODED)
_QUOTAS: Final = ("quotaId", "quota_limit", "quotaMetric")
_LOOKED_AT: Final = frozenset({*_NESTED, *_SENTENCES, *_CODED})


def _sentence(said: str, body: Body, depth: int, unwrapped: int) -> None:
    if "{" in said and unwrapped < UNWRAP_MAX and not isinstance(inner := _open(said), str):
        _walk(inner, body, depth + 1, unwrapped + 1)
        said = said[: said.find("{")].strip()
    if said:
        body.messages.append(said)


_WORD = pattern(r"[a-z]{3,40}(_[a-z]{2,40}){0,6}", re.ASCII)
_CODE_ALONE = pattern(r"\s*[A-Za-z]{2,40}(_[A-Za-z]{2,40}){1,6}\s*", re.ASCII)
"""A text that is nothing but a code."""
_NUMBER = pattern(r"[45][0-9]{2}", re.ASCII)


def _code(found: object, body: Body) -> None:
    """Take a code: a word, or an HTTP status as number or digits; the innermost status stays."""
    if isinstance(found, bool):
        return
    if isinstance(found, str) and found and not found.isdigit():
        body.codes.append(found)
    elif isinstance(found, (int, str)) and _NUMBER.fullmatch(str(found)):
        body.status = body.status or int(found)
