"""Check declared numbers once, where they are written, with an error that teaches."""

from __future__ import annotations

import math

from yaoki.errors import DeclarationError

__all__ = ["require_count", "require_number"]


def require_count(owner: str, name: str, value: object, *, least: int, most: int) -> None:
    """Raise `DeclarationError` unless `value` is an int (no bool) in `least..most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DeclarationError(f"{owner}: {name}={value!r} cannot work. Write a whole number from {least} to {most}.")


def require_number(owner: str, name: str, value: object, *, most: float, zero: bool = True) -> None:
    """Raise `DeclarationError` unless `value` is a finite number (no bool) from 0, or above it, to `most`."""
    good = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    if not good or not 0 <= value <= most or (value == 0 and not zero):  # type: ignore[operator]
        start = "from 0" if zero else "above 0"
        raise DeclarationError(f"{owner}: {name}={value!r} cannot work. Write a number {start}, at most {most:g}.")
