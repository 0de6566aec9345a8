"""
The codes and sentences inside an error body, unwrapped.

Gateways wrap a vendor's body: JSON in a string in `message`, or in `metadata.raw`; SDKs print it as a Python
dict after `Error code: 429 - `. Up to `UNWRAP_MAX` such layers are opened; the innermost codes come first,
since they are the vendor's own.
"""

from __future__ import annotations

import re
from typing import Final, cast

import msgspec

from yaoki.classify._patterns import pattern

__all__ = ["NOTHING", "UNWRAP_MAX", "Body", "read"]

UNWRAP_MAX: Final = 3
_DEPTH_MAX: Final = 8
_ITEMS_MAX: Final = 16

_CODES = ("error_code", "code", "reason", "type", "status", "finish_reason", "__type", "Code", "decline_code")
_STATUSES = ("status_code", "statusCode", "HTTPStatusCode")
_CODED = (*_CODES, *_STATUSES)
_SENTENCES = ("message", "Message", "detail", "error_description", "msg", "title", "error", "raw")
_NESTED = ("error", "errors", "details", "detail", "metadata", "body", "response", "fault", "violations", "cause")


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


NOTHING: Final = Body()


def read(payload: object) -> Body:
    """Return what the payload says: text holding JSON or a printed dict, or what was parsed from it."""
    body = Body()
    _walk(_open(payload), body, 0, 0)
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
    """Take what one object says, that of the objects inside it first."""
    for name in _NESTED:
        if isinstance(inner := fields.get(name), (dict, list)):
            _walk(cast("object", inner), body, depth + 1, unwrapped)
    for name in _SENTENCES:
        if isinstance(said := fields.get(name), str):
            _sentence(said, body, depth, unwrapped)
    for name in _CODED:
        if (found := fields.get(name)) is not None:
            _code(found, body)
    if isinstance(word := fields.get("error"), str) and _WORD.fullmatch(
        word
    ):  # Slack, OAuth: `{"error": "invalid_auth"}`
        body.codes.append(word)
    for name in ("quotaId", "quota_limit", "quotaMetric"):
        if isinstance(quota := fields.get(name), str):
            body.quotas.append(quota)


def _sentence(said: str, body: Body, depth: int, unwrapped: int) -> None:
    if "{" in said and unwrapped < UNWRAP_MAX and not isinstance(inner := _open(said), str):
        _walk(inner, body, depth + 1, unwrapped + 1)
        said = said[: said.find("{")].strip()
    if said:
        body.messages.append(said)


_WORD = pattern(r"[a-z]{3,40}(_[a-z]{2,40}){0,6}", re.ASCII)
_NUMBER = pattern(r"[45][0-9]{2}", re.ASCII)


def _code(found: object, body: Body) -> None:
    """Take a code: a word, or an HTTP status as number or digits; the innermost status stays."""
    if isinstance(found, bool):
        return
    if isinstance(found, str) and found and not found.isdigit():
        body.codes.append(found)
    elif isinstance(found, (int, str)) and _NUMBER.fullmatch(str(found)):
        body.status = body.status or int(found)
