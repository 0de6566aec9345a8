"""
Words for people: times, durations, columns and lines with roles instead of colours.

A view is a list of `Line`s. A line is a list of spans `(text, role)`; what a role looks like is decided
where it is printed, so that the same view serves a terminal, a pipe and a test.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

__all__ = [
    "Commands",
    "Line",
    "Now",
    "Role",
    "Span",
    "clean",
    "columns",
    "duration",
    "line",
    "money",
    "plain",
    "plural",
    "short_call",
    "shorten",
    "size",
    "width",
    "wrapped",
]

Role: TypeAlias = Literal["", "head", "good", "bad", "ask", "dim", "command", "add", "remove"]
Span: TypeAlias = tuple[str, Role]
Line: TypeAlias = list[Span]

_SECOND_MS = 1_000
_MINUTE_S = 60
_HOUR_S = 3_600
_DAY_S = 86_400
_FINE_S = 10
"""Below this many seconds one decimal is shown; below this many minutes (hours, days), the smaller unit."""


def line(*parts: str | Span) -> Line:
    """Return a line; a bare string has no role."""
    return [(part, "") if isinstance(part, str) else part for part in parts]


def plain(text: Line) -> str:
    """Return a line as it is printed in a pipe: no roles, nothing a terminal would obey, no trailing blanks."""
    return "".join(clean(part) for part, _ in text).rstrip()


def clean(text: str) -> str:
    """Return the text on one line with every character that a terminal would obey written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    if char in "\n\r\t":
        return " "
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def shorten(text: str, cells_max: int) -> str:
    """Return the text in at most `cells_max` terminal cells, with an ellipsis where it was cut."""
    if width(text) <= cells_max:
        return text
    kept: list[str] = []
    room = cells_max - 1
    for char in text:
        room -= width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def width(text: str) -> int:
    """Return how many terminal cells the text takes; East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrapped(text: Line, cells_max: int) -> list[Line]:
    """
    Return the line broken between words so that each part fits, the later ones indented below the first.

    A command stays whole: broken, it could not be copied. So does a word wider than the terminal.
    """
    whole = "".join(part for part, _ in text)
    if width(whole) <= cells_max:
        return [text]
    hang = len(whole) - len(whole.lstrip(" ")) + 2
    lines: list[Line] = [[]]
    used = 0
    for part, role in text:
        for word in [part] if role == "command" else _WORDS.findall(part):
            cells = width(word.rstrip(" "))
            if used > hang and used + cells > cells_max and cells:
                lines.append([(" " * hang, "")])
                used = hang
            placed = word if used > hang else word.lstrip(" ") if len(lines) > 1 else word
            lines[-1].append((placed, role))
            used += width(placed)
    return lines


_WORDS = re.compile(r" *[^ ]+ *| +")


def columns(rows: Sequence[Sequence[Span]], *, indent: str = "", gap: str = "  ", width_max: int = 0) -> list[Line]:
    """Return the rows as lines with aligned columns, none wider than `width_max`; the last one is not padded."""
    cells: list[list[Span]] = [[(clean(text), role) for text, role in row] for row in rows]
    count = max((len(row) for row in cells), default=0)
    widths = [max((width(row[i][0]) for row in cells if i < len(row) - 1), default=0) for i in range(count)]
    if width_max:
        widths = [min(one, width_max) for one in widths]
    lines: list[Line] = []
    for row in cells:
        out: Line = [(indent, "")] if indent else []
        for i, (text, role) in enumerate(row):
            last = i == len(row) - 1
            pad = "" if last else " " * (widths[i] - width(text)) + gap
            out.append((text, role))
            if pad:
                out.append((pad, ""))
        lines.append(out)
    return lines


def duration(ms: int) -> str:
    """Return a length of time as people say it: `12 ms`, `3.1 s`, `38 s`, `4m 12s`, `51m`, `2h 5m`, `3d 4h`."""
    if ms < _SECOND_MS // 10:
        return f"{max(ms, 0)} ms"
    s = ms / _SECOND_MS
    if s < _FINE_S:
        return f"{s:.1f} s"
    if s < _MINUTE_S:
        return f"{s:.0f} s" if s < _MINUTE_S - 0.5 else "59 s"
    whole = int(s)
    if whole < _HOUR_S:
        minutes, rest = divmod(whole, _MINUTE_S)
        return f"{minutes}m {rest}s" if minutes < _FINE_S and rest else f"{minutes}m"
    if whole < _DAY_S:
        hours, rest = divmod(whole, _HOUR_S)
        return f"{hours}h {rest // _MINUTE_S}m" if hours < _FINE_S and rest >= _MINUTE_S else f"{hours}h"
    days, rest = divmod(whole, _DAY_S)
    return f"{days}d {rest // _HOUR_S}h" if days < _FINE_S and rest >= _HOUR_S else f"{days}d"


def money(usd: float) -> str:
    """Return dollars with cents, and with more places where cents would round to nothing."""
    return f"${usd:.2f}" if usd == 0 or abs(usd) >= 0.01 else f"${usd:.4f}"  # noqa: PLR2004 - one cent


def size(count: int) -> str:
    """Return bytes as people say them: `812 bytes`, `4.1 kB`, `12 MB`, `3.4 GB`."""
    amount = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        if amount < _KILO:
            break
        amount /= _KILO
        if amount < _KILO or unit == "TB":
            return f"{amount:.1f} {unit}" if amount < _FINE_S else f"{amount:.0f} {unit}"
    return plural(count, "byte")


_KILO = 1_000


def plural(count: int, noun: str, many: str = "") -> str:
    """Return `1 run`, `2 runs`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


_KEYWORD = re.compile(r"(?<=[(\s])[A-Za-z_]\w*=")
_SIMPLE = re.compile(r'"([\w.@:/+-]{1,40})"')


def short_call(call: str, cells_max: int = 40) -> str:
    """Return a call for a table: values without names, simple strings without quotes, cut to fit."""
    short = _SIMPLE.sub(r"\1", _KEYWORD.sub("", call))
    if width(short) <= cells_max:
        return short
    cut = shorten(short, cells_max - 1)
    return cut + ")" if short.endswith(")") else cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The moment a view is made at, and the zone it speaks in; `zone=None` is the machine's."""

    now_ms: int
    zone: tzinfo | None = None

    def _local(self, ms: int) -> datetime:
        return datetime.fromtimestamp(ms / _SECOND_MS, self.zone).astimezone(self.zone)

    def _day(self, when: datetime) -> str:
        today = self._local(self.now_ms)
        if when.date() == today.date():
            return ""
        day = f"{when.day} {when:%b} "
        return day if when.year == today.year else f"{day}{when.year} "

    def time(self, ms: int) -> str:
        """Return `02:14:08`, with the date when it is not today."""
        when = self._local(ms)
        return f"{self._day(when)}{when:%H:%M:%S}"

    def minute(self, ms: int) -> str:
        """Return `02:31`, with the date when it is not today."""
        when = self._local(ms)
        return f"{self._day(when)}{when:%H:%M}"

    def since(self, ms: int) -> str:
        """Return how long ago that was."""
        return duration(max(self.now_ms - ms, 0))

    def until(self, ms: int) -> str:
        """Return how long it is until then; never negative."""
        return duration(max(ms - self.now_ms, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Commands as they are to be typed in `cwd`: quoted, and with `--store` where it had to be given."""

    store: str = ""
    cwd: str = ""

    def verb(self, *words: str) -> str:
        """Return `yaoki …` with each word quoted where a shell needs it."""
        return self.dress("yaoki " + shlex.join(words))

    def run(self, file: str, loop: str, run_id: str) -> str:
        """Return the command that goes on with a run."""
        return self.verb("run", f"{file or 'FILE'}:{loop}", "--run-id", run_id)

    def dress(self, command: str) -> str:
        """Return a command the runtime proposed, made to be typed here and to reach this store."""
        if self.cwd:
            command = command.replace(f"{self.cwd}/", "")
        if not self.store or not command.startswith("yaoki ") or "--store" in command:
            return command
        return f"{command} --store {shlex.quote(self.store)}"
