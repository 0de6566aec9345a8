"""
An error as a person has it at hand: a traceback's last line, a JSON body, a curl transcript, a sentence.

What is found in it becomes fields of a report, as `yaoki.classify.reported` takes them.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from yaoki.cli._exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fields_of", "header_fields"]

_HTTP = re.compile(r"^(?:< )?HTTP/[\d.]+ (\d{3})\b.*$")
_PRINTED = re.compile(
    r"^(?:Error code:|HTTP(?: status)?(?: code)?:?|status(?:[ _]code)?[:=]?) ?(\d{3})\b", re.IGNORECASE
)
_PHRASED = re.compile(r"^(\d{3}) ([A-Z][A-Za-z' -]{2,40})")
_CLASS = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: |$)")
_ENDINGS = ("Error", "Exception", "Timeout", "Exit", "Interrupt", "Cancelled", "Disconnected", "Expired")
_NOISE = ("*", ">")
"""How the lines of `curl -v` begin that are not the answer's."""


def fields_of(text: str) -> dict[str, object]:
    """Return what is in a pasted text of `exception_class`, `http_status`, `headers` and `body`."""
    text = text.replace("\r\n", "\n").strip("\n")
    lines = text.split("\n")
    if any(_HTTP.match(line) for line in lines):
        return _transcript(lines)
    if len(lines) > 1 and any(line.startswith("Traceback (most recent call last)") for line in lines):
        text = _raised(lines)
    found: dict[str, object] = {}
    head, _, rest = text.partition(": ")
    said = _CLASS.match(text)
    if said and (said[1].endswith(_ENDINGS) or "." in said[1]) and head == said[1]:
        found["exception_class"], text = said[1], rest
    elif _CLASS.fullmatch(text) and text.endswith(_ENDINGS):
        return {"exception_class": text, "body": ""}
    if (printed := _PRINTED.match(text)) or (printed := _phrased(text)):
        found["http_status"] = int(printed[1])
    found["body"] = text
    return found


def _phrased(text: str) -> re.Match[str] | None:
    """Return the match of a status line without its protocol: `429 Too Many Requests`."""
    said = _PHRASED.match(text)
    if said is None:
        return None
    try:
        phrase = HTTPStatus(int(said[1])).phrase.lower()
    except ValueError:
        return None
    return said if said[2].lower().startswith(phrase) else None


def _raised(lines: Sequence[str]) -> str:
    """Return the last error of a traceback, with the lines of its message."""
    at = max(i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)"))
    for i in range(at + 1, len(lines)):
        if lines[i] and not lines[i].startswith(" "):
            return "\n".join(lines[i:])
    return "\n".join(lines[at:])


def _transcript(lines: Sequence[str]) -> dict[str, object]:
    """Return the last answer of a transcript of `curl -i` or `curl -v`."""
    at = max(i for i, line in enumerate(lines) if _HTTP.match(line))
    verbose = lines[at].startswith("< ")
    headers: dict[str, str] = {}
    body: list[str] = []
    in_head = True
    for raw in lines[at + 1 :]:
        line = raw.removeprefix("<").lstrip(" ") if verbose and in_head and raw.startswith("<") else raw
        if in_head:
            in_head = bool(line.strip())
            name, colon, value = line.partition(":")
            if colon and in_head:
                headers[name.strip().lower()] = value.strip()
        elif not (verbose and raw.startswith(_NOISE)):
            body.append(raw)
    status = _HTTP.match(lines[at])
    return {"http_status": int(status[1]) if status else None, "headers": headers, "body": "\n".join(body).strip()}


def header_fields(given: Sequence[str]) -> dict[str, str]:
    """
    Return the headers of `--header 'name: value'`, names in small letters.

    Raises:
        CommandError: One is no header.
    """
    headers: dict[str, str] = {}
    for one in given:
        name, colon, value = one.partition(":")
        if not colon or not name.strip():
            raise CommandError("usage", f"--header {one!r} is no header; write it as --header 'retry-after: 20'")
        headers[name.strip().lower()] = value.strip()
    return headers
