"""A clock that only moves when somebody waits, and an event loop that lives on it."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from yaoki.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from concurrent.futures import Executor

__all__ = ["START_MS", "FakeClock", "FakeTimeLoop"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

START_MS = 1_700_000_000_000
"""Where a fake clock starts: 14 Nov 2023, 22:13:20 UTC."""
_HORIZON_S = 6 * 3_600
_STUCK_S = 20.0


class FakeClock:
    """
    A `Clock` for `Runner(url, clock=…)` on which waiting takes no time: it moves the clock.

    A sync run needs no more. An async one waits in its event loop: drive it by `clock.run(main())`, in place of
    `asyncio.run`. Waits are decided, journaled and counted as always, and what is bounded by time runs out: a
    `run.timeout`, a deadline, an hour of `run.sleep`. Times start at 14 Nov 2023; jitter and ids repeat, by `seed`.
    What it cannot move is the machine's own time: real I/O and threads take as long as they take, and a tool's
    `time.sleep` sleeps.
    """

    def __init__(self, *, seed: int = 7) -> None:
        self._us = 0
        self._rng = random.Random(seed)  # noqa: S311 - jitter, not secrets
        self._ids = 0
        self.slept: list[float] = []
        """The seconds of each `sleep`, in order."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since the epoch, UTC."""
        return START_MS + self._us // 1000

    def monotonic_s(self) -> float:
        """Return the seconds that have passed."""
        return self._us / 1e6

    def sleep(self, delay_s: float) -> None:
        """Let that much time pass at once."""
        self.slept.append(delay_s)
        self.advance(delay_s)

    def advance(self, delay_s: float) -> None:
        """Let time pass with nobody waiting; never back."""
        self._us += max(0, math.ceil(delay_s * 1e6))

    @property
    def passed_s(self) -> float:
        """The seconds since this clock was made."""
        return self._us / 1e6

    def rng(self) -> random.Random:
        """Return the generator jitter is rolled with."""
        return self._rng

    def new_id(self) -> str:
        """Return 1, 2, 3 …, as 32 hexadecimal characters."""
        self._ids += 1
        return f"{self._ids:032x}"

    def run(self, main: Coroutine[Any, Any, R]) -> R:
        """
        Run a coroutine in an event loop on this clock: when nothing is ready, time jumps to the next timer.

        Raises:
            AssertionError: For 20 s of the machine's time nothing happens and no timer is left; or the clock is moved
                by six hours, without end in sight.
        """
        with _syncs_owed() as owed:
            factory = lambda: FakeTimeLoop(self, owed)  # noqa: E731 - a loop's making, in one line
            with asyncio.Runner(loop_factory=factory) as runner:
                return runner.run(main)


@contextmanager
def _syncs_owed() -> Generator[Callable[[], bool], None, None]:
    """Give the question whether a journal still owes somebody a sync, which its own thread makes."""
    waiting: list[asyncio.Future[None]] = []
    original = Journal.sync_async

    def sync_async(self: Journal, waiter: Any) -> None:  # noqa: ANN401 - the futures of whoever waits
        waiting.extend(waiter)
        original(self, waiter)

    def owed() -> bool:
        waiting[:] = [one for one in waiting if not one.done()]
        return bool(waiting)

    setattr(Journal, "sync_async", sync_async)  # noqa: B010 - a method's place, not a new one
    try:
        yield owed
    finally:
        setattr(Journal, "sync_async", original)  # noqa: B010 - the same


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """
    An event loop on a fake clock: when nothing is ready, the clock jumps to the next timer.

    It does not jump while `busy()` says that another thread still owes an answer (a sync of the journal), nor while
    one of the loop's own executor is at work: that takes the machine's time.
    """

    def __init__(self, clock: FakeClock, busy: Callable[[], bool]) -> None:
        self._clock = clock
        self._in_threads: set[asyncio.Future[Any]] = set()
        super().__init__(_Selector(clock, lambda: busy() or bool(self._in_threads)))

    def time(self) -> float:
        """Return the clock's seconds."""
        return self._clock.monotonic_s()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], R], *args: *Ts
    ) -> asyncio.Future[R]:
        """Hand a call to a thread, and let no time pass until it has returned."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads.add(future)
        future.add_done_callback(self._in_threads.discard)
        return future


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
            if not ready:
                raise AssertionError("nothing in this event loop will ever happen")
            return ready
        self._clock.advance(timeout)
        if self._clock.passed_s >= self._until_s:
            raise AssertionError("nothing happens in this event loop but that time passes")
        return []
