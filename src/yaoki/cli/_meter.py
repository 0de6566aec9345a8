"""Progress of a verb that may take long: one line on stderr, written over, and only where somebody sees it."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from yaoki.cli._options import Session

__all__ = ["Meter"]

_EVERY_S = 0.2
_CLEAR = "\r\x1b[K"


class Meter:
    """A context manager; `at` may be called as often as one likes."""

    def __init__(self, here: Session) -> None:
        self._clock = here.clock
        self._seen = here.out.watched
        self._next_s = here.clock.monotonic_s() + _EVERY_S
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._write(_CLEAR)

    def at(self, done: int, total: int, what: str) -> None:
        """Show `done` of `total` (0: nobody knows) of what is done."""
        self.say(f"{done:,} of {total:,} {what}" if total else f"{done:,} {what}")

    def say(self, text: str) -> None:
        """Show a line, unless the last one is a moment old."""
        if not self._seen or self._clock.monotonic_s() < self._next_s:
            return
        self._next_s = self._clock.monotonic_s() + _EVERY_S
        self._shown = True
        self._write(f"{_CLEAR}{text} …")

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
