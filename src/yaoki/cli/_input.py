"""Input from the command line: JSON, read strictly, with the place where it stops being JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

from yaoki.cli._exits import CommandError

__all__ = ["encoded", "json_value", "read_input"]


def read_input(given: str, *, what: str = "--input") -> object:
    """
    Return the value of `--input JSON|@FILE`, or of `what` else takes that; `@-` is stdin.

    Raises:
        CommandError: The file cannot be read, or what was given is no JSON.
    """
    if not given.startswith("@"):
        return json_value(given, what=what)
    name = given[1:]
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError("input.unreadable", f"{what} {given}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError("input.unreadable", f"{what} {given}: not UTF-8 at byte {error.start}") from error
    return json_value(text, what=f"{what} {given}")


def encoded(value: object, *, what: str) -> bytes:
    """
    Return the value as JSON bytes that every strict reader takes.

    Raises:
        CommandError: It has what JSON text cannot say: a number beyond all bounds, half a character, no end of depth.
    """
    import msgspec

    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        msgspec.json.decode(data)
    except UnicodeEncodeError as error:
        raise CommandError("input.not_json", f"{what} has half a character (a lone surrogate)") from error
    except (ValueError, RecursionError) as error:
        raise CommandError("input.not_json", f"{what} is not JSON: {error}") from error
    return data


def json_value(text: str, *, what: str) -> object:
    """
    Return the value of a JSON text; `NaN` and `Infinity` are none.

    Raises:
        CommandError: It is no JSON; the message says where, and how a plain string is given.
    """
    try:
        value: object = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        hint = f"; a string needs its own quotes: {_quoted(text)}" if _bare(text) else ""
        where = f"line {error.lineno} column {error.colno}"
        raise CommandError("input.not_json", f"{what} is not JSON at {where}: {error.msg}{hint}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError("input.not_json", f"{what} is not JSON: {error}") from error
    return value


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON number"
    raise ValueError(msg)


_BARE_MAX = 60


def _bare(text: str) -> bool:
    return bool(text) and len(text) <= _BARE_MAX and text[0] not in '{["' and "\n" not in text


def _quoted(text: str) -> str:
    return "'" + json.dumps(text, ensure_ascii=False) + "'"
