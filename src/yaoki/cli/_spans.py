"""Lengths of time as people type them: `30d`, `24h`, `90m`, `2w`, `1d12h`."""

from __future__ import annotations

import re

from yaoki.cli._exits import CommandError

__all__ = ["span_ms"]

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])")
_MOST_MS = 100 * 366 * 86_400_000


def span_ms(typed: str, *, option: str) -> int:
    """
    Return the length in milliseconds, at most a hundred years.

    Raises:
        CommandError: It is no length of time; the message names the option.
    """
    text = typed.strip().lower()
    parts = _PART.findall(text)
    total = int(sum(float(count) * _UNITS_MS[unit] for count, unit in parts))
    if not parts or "".join(count + unit for count, unit in parts) != text or total > _MOST_MS:
        raise CommandError("usage", f"{option} {typed or '(empty)'}: say how long, as 45m, 24h, 30d or 2w")
    return total
