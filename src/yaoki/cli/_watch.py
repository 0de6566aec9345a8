"""What a supervisor reads in the journal: progress, who claimed, and attempts that outlive their time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yaoki.records import Begin, Claimed, Settle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaoki.records import Entry

__all__ = ["Overdue", "Watch"]

_FACTOR = 2
"""A worker is killed when an attempt runs twice its timeout: a call that cannot be interrupted in its thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """An attempt past twice its timeout."""

    call: str
    attempt: int
    timeout_ms: int


@dataclass(slots=True)
class _Open:
    begin: Begin
    seen_s: float


class Watch:
    """
    Fed with new journal entries, knows which attempts of the newest claim are open, and since when.

    Time is counted on the monotonic clock from when an attempt was first seen here, so neither a jump of
    the wall clock nor a suspended machine kills a worker; it is late by at most one reading interval.
    """

    def __init__(self) -> None:
        self.claim: Claimed | None = None
        self.settled = 0
        """Attempts settled by the process that made them."""
        self._open: dict[str, _Open] = {}

    def feed(self, entries: Iterable[Entry], monotonic_s: float) -> None:
        """Take entries not fed before, in order."""
        for _, key, record in entries:
            if isinstance(record, Claimed):
                self.claim = record
                self._open.clear()
            elif isinstance(record, Begin):
                self._open[key] = _Open(record, monotonic_s)
            elif isinstance(record, Settle):
                self._open.pop(key, None)
                if record.failure is None or record.failure.reason != "process.died":
                    self.settled += 1

    def overdue(self, pid: int, monotonic_s: float) -> Overdue | None:
        """Return an attempt of that worker past twice its timeout, if there is one."""
        if self.claim is None or self.claim.pid != pid:
            return None
        for opened in self._open.values():
            timeout_ms = opened.begin.timeout_ms
            if timeout_ms and (monotonic_s - opened.seen_s) * 1_000 >= _FACTOR * timeout_ms:
                return Overdue(call=opened.begin.call, attempt=opened.begin.attempt, timeout_ms=timeout_ms)
        return None
