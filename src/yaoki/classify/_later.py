"""
"Later", in every form servers say it.

Retry-After is seconds or an HTTP-date (RFC 9110, 10.2.3), a date meant against the server's own clock, so it
is held against its `Date` where there is one; some servers write a duration (`60s`). `retry-after-ms` is Azure's
and OpenAI's, `x-ms-retry-after-ms` Cosmos DB's. Reset headers hold Go durations (OpenAI: `6m0s`), seconds, unix
times (GitHub) or RFC 3339 times (Anthropic); `RateLimit: …;t=5` is the IETF's draft. Bodies hold
google.rpc.RetryInfo, `retry_after`, `resets_in_seconds`, `resets_at` and `estimated_time` fields, and sentences.
Nothing here raises, whatever the bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

from yaoki.classify._patterns import has_one, pattern

__all__ = ["DAILY", "DAY_S", "MINUTELY", "later", "phrase_s", "reset_s", "told_with"]

_Now: TypeAlias = "Callable[[], float | None]"

DAY_S: Final = 86_400.0
_YEAR_S: Final = 31_536_000.0
_TEXT_MAX = 20_000

DAILY: Final = pattern(r"per[ _-]?day|daily|\b(tpd|rpd)\b|perday|free-models-per-day", re.IGNORECASE | re.ASCII)
MINUTELY: Final = pattern(r"per[ _-]?(minute|second|hour)", re.IGNORECASE | re.ASCII)

_NUMBER = pattern(r"[+-]?\d{1,20}(\.\d{0,20})?", re.ASCII)
_UNITS: Final = {"ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S}
_PART = pattern(
    r"(\d{1,12}(?:\.\d{1,12})?)\s?(ms|milliseconds?|us|µs|ns|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
    r"(?![a-z])",
    re.IGNORECASE | re.ASCII,
)
_PHRASE = pattern(
    r"(?:try|retry|retrying|wait|resets?|available)(?: again)?(?: in| after| for)?[: ]{1,3}"
    r"((?:\d{1,12}(?:\.\d{1,12})?\s?[a-zµ]{1,12}[ ,]{0,2}(?:and )?){1,4})",
    re.ASCII,
)
_FIELD = pattern(
    r"[\"']?(?:retry_?(?:after|delay|in)|resets?_?(?:in|after)|estimated_time)(_?ms|_?seconds|_?s)?\\{0,4}[\"']\s*:\s*"
    r"\\{0,4}[\"']?(?:\{\s*\\{0,4}[\"']seconds\\{0,4}[\"']\s*:\s*[\"']?)?(\d{1,12}(?:\.\d{1,12})?)(ms|s|m|h)?\b",
    re.IGNORECASE | re.ASCII,
)
_AT = pattern(
    r"[\"'](?:x-ratelimit-reset|resets?_?at|reset_?time|retry_?at)\\{0,4}[\"']\s*:\s*\\{0,4}[\"']?([0-9TZ:.+-]{10,40})",
    re.IGNORECASE | re.ASCII,
)
_SAID_AT = pattern(
    r"(?:reset(?:s)?|again|access|retry|available)(?: again)? (?:at|on|after)[: ]{1,2}"
    r"(\d{4}-\d\d-\d\d)(?:[T ]| at )(\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?)\s?(?:Z|UTC|GMT)",
    re.IGNORECASE | re.ASCII,
)
"""Only where it says that it is UTC."""


_SAYS_WHEN = ("retry", "again", "wait", "reset", "available", "estimated_time", "regain")


def later(headers: Mapping[str, str], body_text: str, now_ms: int | None) -> float | None:
    """
    Return how many seconds to wait, from what the server said; never negative, at most a year; else `None`.

    Header names in any case.
    A time that has passed is 0. Times of day need the server's `Date` header or `now_ms`. Reset headers
    come last: they say when a bucket is full again, not that this request must wait for it.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    said = told_with(lowered, phrase_s(body_text), body_text, now_ms)
    return said if said is not None else reset_s(lowered, now_ms)


def told_with(headers: Mapping[str, str], phrase: float | None, body_text: str, now_ms: int | None) -> float | None:
    """Return the wait addressed to this request, its body's phrase being known: everything but the reset headers."""
    try:
        now = _server_now(headers, now_ms)
        if headers and (said := _header_s(headers, now)) is not None:
            return said
        return phrase if phrase is not None else _moment_s(body_text, now)
    except (ValueError, TypeError, OverflowError, AttributeError):
        return None


def reset_s(headers: Mapping[str, str], now_ms: int | None, *, empty_only: bool = False) -> float | None:
    """Return the wait of the reset headers, or of those whose bucket is said to be empty. Names in lower case."""
    return _reset_s(headers, _server_now(headers, now_ms), empty_only=empty_only)


def _header_s(headers: Mapping[str, str], now: _Now) -> float | None:
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (ms := headers.get(name)) and (number := _number(ms)) is not None:
            return _bounded(number / 1000)
    after = headers.get("retry-after")
    if not after:
        return None
    number = _number(after)
    if number is None:
        known = _GO.fullmatch(after.strip())
        number = _duration_s(after) if known else _date_s(after, now)
    return None if number is None else _bounded(number)


def phrase_s(text: str) -> float | None:
    """Return the wait a body names, in a `retryDelay` field or as `try again in 9m38s`; of both the longer."""
    return _phrase_s(text) if len(text) <= _REMEMBERED_MAX else _phrase_s.__wrapped__(text)


_REMEMBERED_MAX: Final = 2000


@lru_cache(maxsize=1024)
def _phrase_s(text: str) -> float | None:
    low = text[:_TEXT_MAX].lower()
    if not has_one(low, _SAYS_WHEN):
        return None
    waits: list[float] = []
    if ("retry" in low or "reset" in low or "estimated" in low) and (found := _FIELD.search(low)):
        unit = (found[3] or found[1] or "s").strip("_")
        waits.append(float(found[2]) * _UNITS.get(unit, 1.0))
    for found in _PHRASE.finditer(low):
        if (duration := _duration_s(found[1])) is not None:
            waits.append(duration)
            break
    return _bounded(max(waits)) if waits else None


def _moment_s(text: str, now: _Now) -> float | None:
    """Return the wait until the moment a body names, as a field or in a sentence."""
    text = text[:_TEXT_MAX]
    moment = _moment(text) if len(text) <= _REMEMBERED_MAX else _moment.__wrapped__(text)
    return _reset_value_s(moment, now) if moment else None


@lru_cache(maxsize=1024)
def _moment(text: str) -> str:
    """Return the moment a body names as it writes it, in UTC; empty if none."""
    if not has_one(text.lower(), _SAYS_WHEN):
        return ""
    if found := _AT.search(text):
        return found[1]
    said = _SAID_AT.search(text)
    return f"{said[1]}T{said[2]}" if said else ""


def _duration_s(text: str) -> float | None:
    """Return the seconds of `6m0s`, `20ms`, `1 hour and 5 minutes`."""
    total, any_part = 0.0, False
    for number, unit in _PART.findall(text):
        word = unit.lower()
        short = word if word in _UNITS else "ms" if word.startswith("mil") else word[0]
        total, any_part = total + float(number) * _UNITS[short], True
    return total if any_part else None


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def _bounded(delay_s: float) -> float:
    return min(max(delay_s, 0.0), _YEAR_S)


def _server_now(headers: Mapping[str, str], now_ms: int | None) -> _Now:
    """Return the server's idea of now, by its `Date`; else ours. Every answer has a date, and few need it read."""

    def now_s() -> float | None:
        date = headers.get("date")
        at = _http_date_s(date) if date else None
        return at if at is not None else None if now_ms is None else now_ms / 1000

    return now_s


def _date_s(text: str, now: _Now) -> float | None:
    at = _http_date_s(text)
    if at is None:
        at = _iso_s(text)
    now_s = now()
    return None if at is None or now_s is None else at - now_s


def _http_date_s(text: str) -> float | None:
    """Return the unix seconds of an HTTP-date in any of its three forms."""
    return _http_date(text[:100])


@lru_cache(maxsize=64)
def _http_date(text: str) -> float | None:
    from email.utils import mktime_tz, parsedate_tz

    try:
        parts = parsedate_tz(text)
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _iso_s(text: str) -> float | None:
    """Return the unix seconds of an RFC 3339 time; without an offset it is UTC."""
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(text.strip()[:40])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


_MILLIS_FROM, _UNIX_FROM = 1e11, 1e9


def _reset_s(headers: Mapping[str, str], now: _Now, *, empty_only: bool) -> float | None:
    """Return the longest wait of the empty buckets; of all, where none says it is empty."""
    empty: list[float] = []
    every: list[float] = []
    for name, value in headers.items():
        if name == "ratelimit" and (window := _WINDOW.search(value)):
            every.append(_bounded(float(window[1])))
            continue
        if "reset" not in name or "limit" not in name:
            continue
        wait = _reset_value_s(value, now)
        if wait is None:
            continue
        every.append(wait)
        if (headers.get(name.replace("reset", "remaining")) or "").strip() == "0":
            empty.append(wait)
    return max(empty or ([] if empty_only else every), default=None)


def _reset_value_s(value: str, now: _Now) -> float | None:
    try:
        number = _number(value)
        if number is None:
            known = _duration_s(value) if _GO.fullmatch(value.strip()) else _date_s(value, now)
            return None if known is None else _bounded(known)
        if number >= _UNIX_FROM:
            at = number / 1000 if number >= _MILLIS_FROM else number
            now_s = now()
            return None if now_s is None else _bounded(at - now_s)
        return _bounded(number)
    except (ValueError, TypeError, OverflowError):
        return None


_WINDOW = pattern(r"(?:^|[;,\s])(?:t|reset)\s?=\s?(\d{1,12})", re.IGNORECASE | re.ASCII)
"""draft-ietf-httpapi-ratelimit-headers: `"default";r=0;t=30`, in older ones `limit=10, remaining=0, reset=30`."""
_GO = pattern(r"(?:\d{1,12}(?:\.\d{1,12})?(?:ms|us|µs|ns|[smhd])){1,6}", re.ASCII)
