"""
Time, chance and ids: the only file that reads them.

Everything else takes a `Clock`. Stored times are integer milliseconds UTC; waits are measured on the
monotonic clock, so a wall clock that jumps moves neither a running wait nor an attempt's timeout.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """What the runtime may know of time and chance. Tests pass a fake one."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since the epoch, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never goes back; only differences mean anything."""
        ...

    def sleep(self, delay_s: float) -> None:
        """Block the calling thread for `delay_s` seconds."""
        ...

    def rng(self) -> random.Random:
        """Return the generator jitter is rolled with."""
        ...

    def new_id(self) -> str:
        """Return a fresh unique id, 32 hexadecimal characters."""
        ...


class SystemClock:
    """The machine's own clock, and a generator seeded from the operating system."""

    def __init__(self) -> None:
        self._rng = random.Random()  # noqa: S311 - jitter, not secrets

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, delay_s: float) -> None:
        """Block the calling thread for `delay_s` seconds."""
        time.sleep(delay_s)

    def rng(self) -> random.Random:
        """Return the generator jitter is rolled with."""
        return self._rng

    def new_id(self) -> str:
        """Return a fresh unique id, 32 hexadecimal characters."""
        return uuid.uuid4().hex
