"""An async tool outside any run. Imported with the first such tool, since `import yaoki` leaves asyncio alone."""

from __future__ import annotations

import asyncio
import inspect
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from yaoki.runtime._alone import ask_check, happened_on_wire, plan_of, recover
from yaoki.runtime._deadlines import as_coroutine, bounded, dressed_cancel, now_s, rest_within
from yaoki.runtime._waits import SYSTEM_CLOCK, wait_async

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from yaoki.runtime._tool import Tool

__all__ = ["async_alone"]

_COROUTINE: Any = CoroutineType


def async_alone(tool: Tool[Any, Any]) -> Callable[..., Coroutine[Any, Any, object]]:
    """Return the tool's function, bounded and retried; only with a failure in hand is the ladder entered."""
    fn: Callable[..., Coroutine[Any, Any, object]] = tool.fn

    async def call(*args: Any, **kwargs: Any) -> object:
        try:
            # `bounded`, written out: this is the success path of every call.
            attempt = fn(*args, **kwargs)
            if type(attempt) is not _COROUTINE:
                attempt = as_coroutine(attempt)
            started_s = now_s()
            try:
                first = attempt.send(None)
            except StopIteration as done:
                return done.value
            return await rest_within(attempt, first, started_s, tool.timeout_s)
        except Exception as error:  # noqa: BLE001 - classified, and raised again unless it heals
            return await _recover(tool, args, kwargs, error)

    return call


async def _recover(
    tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException | None
) -> object:
    assert error is not None
    if _is_cancelled(error):
        raise error from error.__cause__
    ladder = recover(plan_of(tool, args, kwargs), error, SYSTEM_CLOCK.now_ms())
    try:
        pause = next(ladder)
        while True:
            await wait_async(pause.delay_s)
            if pause.check:
                verdict = ask_check(tool, args, kwargs)
                value = happened_on_wire(await verdict if inspect.isawaitable(verdict) else verdict)
                if value is not None:
                    return tool.codec.decode(value)
                pause = ladder.send(None)
                continue
            try:
                return await bounded(tool.fn(*args, **kwargs), tool.timeout_s)
            except Exception as again:
                error = again
                if _is_cancelled(again):
                    raise
                pause = ladder.send(again)
    except StopIteration:
        raise error from error.__cause__
    finally:
        # The error's traceback holds this frame: without this the two, and a socket in it, wait for the collector.
        error = None
        ladder.close()


def _is_cancelled(error: BaseException) -> bool:
    """Whether the caller cancels, and the tool answered with an error of its own: nothing is tried again then."""
    if not dressed_cancel(error):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
