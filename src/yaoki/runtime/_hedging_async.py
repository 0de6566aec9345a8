"""A second, equal call beside a slow attempt, in the event loop: the one that is not needed is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from yaoki.classify import is_control_flow
from yaoki.errors import JournalError, Passing
from yaoki.records import Cause
from yaoki.runtime._alone import AttemptTimeout
from yaoki.runtime._attempt import barrier_of
from yaoki.runtime._deadlines import bounded
from yaoki.runtime._effects import Barrier, Call, Raised
from yaoki.runtime._hedging import CUT, Second, begin_second, with_time_left

if TYPE_CHECKING:
    from yaoki.policy import Pace
    from yaoki.runtime._async import AsyncDriver

__all__ = ["ToolCancelled", "hedged"]


class ToolCancelled(Exception):  # noqa: N818 - a failure's name
    """A tool raised CancelledError although nobody cancelled it."""


async def hedged(driver: AsyncDriver, call: Call, pace: Pace, after_s: float) -> object:
    """
    Await an attempt, and a second call beside it once it is slow; return its value, or `Raised`.

    Both have ended when this returns. Cancelled itself it cancels both, and raises what became of the first.
    """
    clock = driver.live.clock
    ends_s = clock.monotonic_s() + call.timeout_s
    first = asyncio.ensure_future(_made(call))
    other: asyncio.Task[object] | None = None
    second: Second | None = None
    try:
        await asyncio.wait((first,), timeout=after_s)
        if not first.done():
            driver.commits.flush()
            second = begin_second(driver.live, call, pace, Barrier.WRITTEN)
        if second is not None:
            await _on_disk(driver, second)
            left_s = ends_s - clock.monotonic_s()
            if not first.done() and left_s > 0:
                second.started = True
                other = asyncio.ensure_future(_made(with_time_left(call, left_s)))
        await _until_answered(first, other)
    except asyncio.CancelledError:
        await _end(first, other)
        if second is not None:
            second.close(CUT, _came(other))
        if first.cancelled():
            raise
        came: Any = first.result()
        if type(came) is Raised and isinstance(came.error, Exception):
            raise came.error from came.error.__cause__
        return came
    except BaseException:
        await _end(first, other)
        raise
    await _end(first, other)
    return _came(first) if second is None else second.close(_came(first), _came(other))


async def _on_disk(driver: AsyncDriver, second: Second) -> None:
    if barrier_of(second.begin) is Barrier.SYNCED:
        try:
            await driver.commits.synced()
        except JournalError as error:
            driver.live.broken = error
            raise


async def _made(call: Call) -> object:
    """Make one of the two calls: its value, or `Raised`; raises only what was ordered from outside."""
    step = call.step
    try:
        return await bounded(step.tool.fn(*step.given, **step.named, **(call.injected or {})), call.timeout_s)
    except Passing:
        raise
    except AttemptTimeout as error:
        return Raised(error, timed_out=True)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Raised(ToolCancelled(f"{step.tool.name} raised CancelledError by itself"))
    except Exception as error:  # noqa: BLE001 - classified by the ladder
        return Raised(error, cause=Cause.LOOP) if is_control_flow(error) else Raised(error)
    except BaseException as error:  # noqa: BLE001 - settled, then passed through
        return Raised(error, cause=Cause.RUNNER)


async def _until_answered(first: asyncio.Future[object], other: asyncio.Future[object] | None) -> None:
    """Wait for a value, for control flow, or until both have failed."""
    left = {first} if other is None else {first, other}
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            came: Any = CUT if one.cancelled() else one.result()
            if type(came) is not Raised or came.cause is not None:
                return


async def _end(*tasks: asyncio.Future[object] | None) -> None:
    """Cancel what is still under way and wait for its end; a cancel that comes meanwhile is passed on to it."""
    left: set[asyncio.Future[object]] = {task for task in tasks if task is not None and not task.done()}
    again: asyncio.CancelledError | None = None
    for task in left:
        task.cancel()
    while left:
        try:
            _, left = await asyncio.wait(left)
        except asyncio.CancelledError as error:
            again = error
            for task in left:
                task.cancel()
            left = {task for task in left if not task.done()}
    if again is not None:
        raise again


def _came(task: asyncio.Future[object] | None) -> object:
    return CUT if task is None or task.cancelled() else task.result()
