"""A clock that only moves when somebody waits, and an event loop that lives on it."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Callable

START_MS = 1_700_000_000_000
_HORIZON_S = 6 * 3_600
_STUCK_S = 20.0


class FakeClock:
    """Implements `yaoki.clock.Clock`. Sleeping takes no time and moves the clock; jitter and ids repeat."""

    def __init__(self, *, seed: int = 7) -> None:
        self._us = 0
        self._rng = random.Random(seed)
        self._ids = 0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return START_MS + self._us // 1000

    def monotonic_s(self) -> float:
        return self._us / 1e6

    def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.advance(delay_s)

    def advance(self, delay_s: float) -> None:
        self._us += max(0, math.ceil(delay_s * 1e6))

    @property
    def passed_s(self) -> float:
        return self._us / 1e6

    def rng(self) -> random.Random:
        return self._rng

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """
    An event loop on a fake clock: when nothing is ready, the clock jumps to the next timer.

    It does not jump while `busy()` says that another thread still owes an answer (a sync of the journal):
    that takes the machine's time.
    """

    def __init__(self, clock: FakeClock, busy: Callable[[], bool]) -> None:
        self._clock = clock
        super().__init__(_Selector(clock, busy))

    def time(self) -> float:
        return self._clock.monotonic_s()


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: FakeClock, busy: Callable[[], bool]) -> None:
        super().__init__()
        self._clock = clock
        self._busy = busy
        self._until_s = clock.passed_s + _HORIZON_S

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self._busy():
            ready = super().select(_STUCK_S)
            assert ready, "nothing in this event loop will ever happen"
            return ready
        self._clock.advance(timeout)
        assert self._clock.passed_s < self._until_s, "nothing happens in this event loop but that time passes"
        return []
