"""What `yaoki check` says of the files it looked at: one line a finding, as compilers write them."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

from yaoki.cli._views_text import Line, line, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._findings import Examined, Found
    from yaoki.cli._views_text import Role

__all__ = ["check_lines", "shown_file"]

_ROLES: dict[str, Role] = {"note": "dim", "warn": "ask", "error": "bad"}


def check_lines(examined: Sequence[Examined], cwd: str) -> list[Line]:
    """Return the findings of each file with their places, and a line that sums each file up."""
    lines: list[Line] = []
    for one in examined:
        file = shown_file(one.file, cwd)
        if one.error:
            number, text = _without(one.error, one.file, file)
            lines.append(line((f"{file}:{number} ", "dim"), ("error", "bad"), f": {text}"))
            continue
        lines += [_finding(found, cwd) for found in one.findings]
        lines.append(_summary(one, file))
    return lines


def _finding(found: Found, cwd: str) -> Line:
    place = f"{shown_file(found.file, cwd)}:{found.line}: " if found.file else ""
    subject = f"{found.subject}: "
    text = found.text.removeprefix(f"loop {subject}").removeprefix(f"tool {subject}")
    return line((place, "dim"), (found.level, _ROLES[found.level]), ": ", (subject, "head"), text)


def _summary(one: Examined, file: str) -> Line:
    counts = Counter(found.level for found in one.findings)
    said = [plural(counts[level], noun) for level, noun in _NOUNS if counts[level]]
    what = f"{plural(len(one.loops), 'loop')}, {plural(len(one.tools), 'tool')}"
    if said:
        return line((file, "head"), f": {what}: ", ", ".join(said))
    return line((file, "head"), f": {what}: ", ("in order", "good"))


_NOUNS = (("error", "error"), ("warn", "warning"), ("note", "note"))


def _without(message: str, path: str, file: str) -> tuple[str, str]:
    """Return the line's number, `""` or `12:`, and the message without the file's name in front."""
    for name in (os.path.realpath(path), path, file):
        if found := re.match(rf"{re.escape(name)}:(?:(\d+):)? *", message):
            return f"{found[1]}:" if found[1] else "", message[found.end() :]
    return "", message


def shown_file(file: str, cwd: str) -> str:
    """Return the file as it is typed here."""
    return file.removeprefix(f"{cwd}/") if cwd else file
