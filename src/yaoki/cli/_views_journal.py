"""Every record of a run, one line each: the pure part of `yaoki show --journal`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import msgspec

from yaoki.classify import redact
from yaoki.cli._views_text import Line, columns
from yaoki.records import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._views_text import Now, Role, Span
    from yaoki.records import Entry

__all__ = ["journal_data", "journal_lines"]

_POSTS_FROM = 2**31
"""Records at or beyond this seq were written from outside the run: answers, cancels, redrives."""
_DETAIL_SHOWN = 400

_ROLES: dict[str, Role] = {"begin": "head", "settle": "good", "question": "ask", "answer": "ask", "ended": "head"}


def journal_lines(entries: Sequence[Entry], now: Now) -> list[Line]:
    """Return one line a record: seq, time, kind, identity, and its fields as JSON."""
    return columns([_row(entry, now) for entry in entries])


def _row(entry: Entry, now: Now) -> list[Span]:
    name = type(entry.record).__name__.lower()
    fields = _fields(entry)
    at = fields.pop("at", 0)
    failed = fields.get("failure") is not None
    detail = json.dumps(fields, ensure_ascii=False, separators=(",", ":")) if fields else ""
    more = f"… ({len(detail):,} characters)" if len(detail) > _DETAIL_SHOWN else ""
    detail = redact(detail[:_DETAIL_SHOWN]) + more
    seq = f"+{entry.seq - _POSTS_FROM}" if entry.seq >= _POSTS_FROM else str(entry.seq)
    role: Role = "bad" if failed else _ROLES.get(name, "")
    return [(seq, "dim"), (now.time(cast("int", at)), "dim"), (name, role), (entry.key, ""), (detail, "dim")]


def _fields(entry: Entry) -> dict[str, object]:
    return cast("dict[str, object]", msgspec.json.decode(msgspec.json.encode(entry.record)))


def journal_data(entries: Sequence[Entry]) -> list[dict[str, object]]:
    """Return the records as data: `seq`, `key`, `kind` (its number and its name) and the record's own fields."""
    return [
        {
            "seq": entry.seq,
            "key": entry.key,
            "kind": kind_of(entry.record),
            "name": type(entry.record).__name__.lower(),
            "record": _fields(entry),
        }
        for entry in entries
    ]
