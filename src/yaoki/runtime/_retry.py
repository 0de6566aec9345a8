"""`@retry`: any function, repeated while that can help; writing it says that it may be repeated."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, overload

from yaoki.policy import Retry
from yaoki.records import Effect
from yaoki.runtime._alone import Pause, Plan, recover
from yaoki.runtime._resumed import resumed
from yaoki.runtime._waits import SYSTEM_CLOCK, wait_async, wait_sync

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterator
    from types import TracebackType

__all__ = ["Attempt", "retry"]

P = ParamSpec("P")
R = TypeVar("R")
On = type[BaseException] | tuple[type[BaseException], ...]


class Attempt:
    """One pass of `retry.attempts`: a context manager around the code that may be repeated."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.error: BaseException | None = None
        self.keep = True

    def __enter__(self) -> Self:
        """Enter the attempt."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Keep an exception for the iterator to decide about."""
        self.error = error
        self.keep = False
        return error is not None


class _Retry:
    """The decorator, and the iterator beside it."""

    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def __call__(
        self, policy: Retry | None = None, /, *, on: On | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def __call__(self, fn: Any = None, /, *, on: On | None = None) -> Any:
        """
        Repeat a function while its failure can heal, inside the bounds of a `Retry`.

        Raises the original exception at the end, with a note of what was tried. The success path is a plain call.
        A generator is repeated only before its first item.

        Args:
            fn: The function; or a `Retry`, to decorate with that policy.
            on: Exceptions that can heal, by your word; any other is raised at once. By default each is classified.
        """
        if fn is None or isinstance(fn, Retry):
            policy = fn or Retry()

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                return _wrap(function, policy, on)

            return decorate
        return _wrap(fn, Retry(), on)

    def attempts(self, policy: Retry | None = None, *, on: On | None = None, name: str = "block") -> Iterator[Attempt]:
        """
        Iterate over attempts: `for attempt in retry.attempts(on=httpx.HTTPError): with attempt: …`.

        Ends after the first attempt that does not raise; raises the original exception when it gives up.
        """
        plan = Plan(name, Effect.IDEMPOTENT, policy or Retry(), None, _as_tuple(on))
        ladder: Generator[Pause, BaseException | None, None] | None = None
        number = 1
        while True:
            attempt = Attempt(number)
            yield attempt
            error = attempt.error
            if error is None:
                return
            try:
                if ladder is None:
                    ladder = recover(plan, error, SYSTEM_CLOCK.now_ms())
                    pause = next(ladder)
                else:
                    pause = ladder.send(error)
            except StopIteration:
                raise error from error.__cause__
            wait_sync(pause.delay_s)
            number += 1


def _as_tuple(on: On | None) -> tuple[type[BaseException], ...] | None:
    return None if on is None else on if isinstance(on, tuple) else (on,)


def _wrap(fn: Callable[..., Any], policy: Retry, on: On | None) -> Callable[..., Any]:
    name = getattr(fn, "__name__", "call")
    plan = Plan(name, Effect.IDEMPOTENT, policy, None, _as_tuple(on))
    if inspect.iscoroutinefunction(fn):
        wrapped = _wrap_async(fn, plan)
    elif inspect.isgeneratorfunction(fn):
        wrapped = _wrap_generator(fn, plan)
    elif inspect.isasyncgenfunction(fn):
        wrapped = _wrap_async_generator(fn, plan)
    else:
        wrapped = _wrap_sync(fn, plan)
    return functools.update_wrapper(wrapped, fn)


def _wrap_sync(fn: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again unless it heals
            return _again(functools.partial(fn, *args, **kwargs), plan, error)

    return call


def _again(call: Callable[[], Any], plan: Plan, error: BaseException | None) -> Any:
    assert error is not None
    ladder = recover(plan, error, SYSTEM_CLOCK.now_ms())
    try:
        pause = next(ladder)
        while True:
            wait_sync(pause.delay_s)
            try:
                return call()
            except Exception as again:  # noqa: BLE001
                error = again
                pause = ladder.send(again)
    except StopIteration:
        raise error from error.__cause__
    finally:
        # The error's traceback holds this frame: without this the two, and a socket in it, wait for the collector.
        error = None
        ladder.close()


def _wrap_async(fn: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001
            return await _again_async(functools.partial(fn, *args, **kwargs), plan, error)

    return call


async def _again_async(call: Callable[[], Any], plan: Plan, error: BaseException | None) -> Any:
    assert error is not None
    ladder = recover(plan, error, SYSTEM_CLOCK.now_ms())
    try:
        pause = next(ladder)
        while True:
            await wait_async(pause.delay_s)
            try:
                return await call()
            except Exception as again:  # noqa: BLE001
                error = again
                pause = ladder.send(again)
    except StopIteration:
        raise error from error.__cause__
    finally:
        # The error's traceback holds this frame: without this the two, and a socket in it, wait for the collector.
        error = None
        ladder.close()


def _wrap_generator(fn: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        def first() -> tuple[Any, Any]:
            items = fn(*args, **kwargs)
            try:
                return items, next(items)
            except StopIteration as stop:
                return None, stop.value

        try:
            items, item = first()
        except Exception as error:  # noqa: BLE001
            items, item = _again(first, plan, error)
        if items is None:
            return item
        return (yield from resumed(items, item))

    return call


def _wrap_async_generator(fn: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        async def first() -> tuple[Any, Any]:
            items = fn(*args, **kwargs)
            try:
                return items, await anext(items)
            except StopAsyncIteration:
                return None, None

        try:
            items, item = await first()
        except Exception as error:  # noqa: BLE001
            items, item = await _again_async(first, plan, error)
        while items is not None:
            try:
                sent: object = yield item
            except GeneratorExit:
                await items.aclose()
                raise
            except BaseException as error:  # noqa: BLE001 - thrown on
                step = items.athrow(error)
            else:
                step = items.asend(sent)
            try:
                item = await step
            except StopAsyncIteration:
                return

    return call


retry = _Retry()
"""`@retry`, `@retry(Retry(...), on=...)`, `retry.attempts(...)`."""
