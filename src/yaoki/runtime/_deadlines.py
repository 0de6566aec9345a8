"""
The bound on an async attempt, cheap enough to be always there.

`asyncio.timeout` arms and cancels a loop timer around every await: 5 µs. Here a call that never suspends costs
one look at the clock, since nothing could interrupt it; one that does puts its deadline on a heap, and one timer
per loop sweeps it. Cancelling and uncancelling follow `asyncio.Timeout` of Python 3.13.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import types
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from yaoki.runtime._alone import AttemptTimeout
from yaoki.runtime._resumed import resumed
from yaoki.runtime._waits import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator

__all__ = ["Deadline", "Deadlines", "as_coroutine", "bounded", "dressed_cancel", "now_s", "rest_within"]

_SLACK = 64
"""Dropped deadlines a heap may hold beside as many as it has live ones."""
_NEVER = float("inf")
now_s = SYSTEM_CLOCK.monotonic_s
"""When an attempt starts. Not the loop's clock: finding the loop costs a system call on Python 3.11."""


class Deadline:
    """One task's: cancels it when due, unless left before."""

    __slots__ = ("_cancelling", "_heap", "fired", "left", "task")

    def __init__(self, task: asyncio.Task[Any], heap: Deadlines) -> None:
        self.task = task
        self.fired = False
        self.left = False
        self._heap = heap
        self._cancelling = task.cancelling()

    def fire(self) -> None:
        """Cancel the task, marked as ours."""
        self.fired = True
        self.task.cancel()

    def leave(self) -> bool:
        """Take it off, and its cancel back; return whether it had fired and nobody else cancelled meanwhile."""
        if self.fired:
            return self.task.uncancel() <= self._cancelling
        self.left = True
        self._heap.drop(self)
        return False


class Deadlines:
    """
    One event loop's deadlines, swept by at most one timer.

    Strongly held by that timer and by the calls under way alone: a closed loop takes its deadlines with it. A
    deadline that is left stays on the heap until it comes up, is last, or the heap is mostly such ones.
    """

    __slots__ = ("__weakref__", "_armed_s", "_context", "_heap", "_live", "_loop", "_order", "_resting", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Deadline]] = []
        self._order = itertools.count()
        self._live = 0
        self._armed_s = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._resting = False
        # An empty one, so that the timer does not keep the variables of whichever call came first.
        self._context = contextvars.Context()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due_s: float, task: asyncio.Task[Any]) -> Deadline:
        """Put a task's deadline on, on the loop's clock."""
        deadline = Deadline(task, self)
        heappush(self._heap, (due_s, next(self._order), deadline))
        self._live += 1
        if due_s < self._armed_s:
            self._arm(due_s)
        return deadline

    def drop(self, deadline: Deadline) -> None:
        """Forget a deadline that was left before it was due."""
        heap = self._heap
        self._live -= 1
        if heap[-1][2] is deadline:  # the last place of a heap can be taken off as it is
            heap.pop()
        elif len(heap) > 2 * self._live + _SLACK:
            heap[:] = [entry for entry in heap if not entry[2].left]
            heapify(heap)
        if not self._live and not self._resting:
            self._resting = True
            self._loop.call_soon(self._rest, context=self._context)

    def _rest(self) -> None:
        """Disarm, unless another call came in the same turn of the loop: no timer outlives what it is for."""
        self._resting = False
        if not self._live and self._timer is not None:
            self._timer.cancel()
            self._timer, self._armed_s = None, _NEVER
            self._heap.clear()

    def _arm(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_s = due_s
        self._timer = self._loop.call_at(due_s, self._sweep, context=self._context)

    def _sweep(self) -> None:
        """Fire what is due; sleep until the next that was not left."""
        self._timer, self._armed_s = None, _NEVER
        heap = self._heap
        now_s = self._loop.time()
        while heap and (heap[0][2].left or heap[0][0] <= now_s):
            deadline = heappop(heap)[2]
            if not deadline.left:
                self._live -= 1
                deadline.fire()
        if heap and heap[0][0] < self._armed_s:
            self._arm(heap[0][0])


_BY_LOOP: WeakValueDictionary[int, Deadlines] = WeakValueDictionary()
"""By `id`: deadlines hold their loop, so while they are here no other loop has its id."""


def _deadlines_of(loop: asyncio.AbstractEventLoop) -> Deadlines:
    found = _BY_LOOP.get(id(loop))
    if found is None:
        found = _BY_LOOP[id(loop)] = Deadlines(loop)
    return found


async def bounded(call: Awaitable[object], timeout_s: float | None) -> object:
    """
    Await an attempt for at most `timeout_s`, counted from here; at most 10 ms late on a loop that is not blocked.

    Raises:
        AttemptTimeout: The bound cancelled it, and it let itself be cancelled. Any other TimeoutError is the
            tool's own, any other CancelledError somebody else's.
    """
    if timeout_s is None:
        return await call
    coroutine = as_coroutine(call)
    started_s = now_s()
    try:
        first = coroutine.send(None)
    except StopIteration as done:
        return done.value
    return await rest_within(coroutine, first, started_s, timeout_s)


_CHAIN_MAX = 8


def dressed_cancel(error: BaseException) -> bool:
    """
    Whether an error was made of a CancelledError: by a tool, or a library, that catches one and raises its own.

    Only a cancel that is still asked for (`Task.cancelling`) is the caller's; a timeout of the library's own,
    which cancels too, takes its cancel back.
    """
    at: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if at is None or isinstance(at, asyncio.CancelledError):
            return at is not None
        at = at.__cause__ or at.__context__
    return False


def as_coroutine(call: Awaitable[object]) -> Coroutine[Any, Any, object]:
    """Return what can be started by hand; almost always it is already."""
    return cast("Coroutine[Any, Any, object]", call) if type(call) is types.CoroutineType else _awaiting(call)


async def _awaiting(call: Awaitable[object]) -> object:
    return await call


@types.coroutine
def rest_within(
    call: Coroutine[Any, Any, object], first: object, started_s: float, timeout_s: float
) -> Generator[Any, Any, object]:
    """Await the rest of a call that was started by hand at `started_s` and has suspended on `first`."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task(loop)
    if task is None:
        call.close()
        msg = "a tool with a timeout must be awaited inside a task"
        raise RuntimeError(msg)
    deadline = _deadlines_of(loop).add(loop.time() + timeout_s - (now_s() - started_s), task)
    try:
        value: object = yield from resumed(call, first)
    except asyncio.CancelledError as cut:
        if deadline.leave():
            msg = f"no answer within {timeout_s:g} s"
            raise AttemptTimeout(msg) from cut
        raise
    except BaseException:
        deadline.leave()
        raise
    deadline.leave()
    return value
