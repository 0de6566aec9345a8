"""Skip every wait, so that a test of ten retries takes no time."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from yaoki.runtime._waits import set_skipping

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["NoWaits", "no_waits"]

P = ParamSpec("P")
R = TypeVar("R")


class NoWaits:
    """Waits are skipped between entering and leaving; may be entered again, also inside itself."""

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        """Skip from here on."""
        self._before.append(set_skipping(True))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait again, unless this was inside another."""
        set_skipping(self._before.pop())

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return `fn` with its waits skipped; an async function's for as long as it runs."""
        if inspect.iscoroutinefunction(fn):

            @functools.wraps(fn)
            async def without_waits(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - fn's own result
                with NoWaits():
                    return await fn(*args, **kwargs)

            return cast("Callable[P, R]", without_waits)

        @functools.wraps(fn)
        def at_once(*args: P.args, **kwargs: P.kwargs) -> R:
            with NoWaits():
                return fn(*args, **kwargs)

        return at_once


@overload
def no_waits() -> NoWaits: ...
@overload
def no_waits(fn: Callable[P, R], /) -> Callable[P, R]: ...
def no_waits(fn: Callable[P, R] | None = None, /) -> NoWaits | Callable[P, R]:
    """
    Skip all waits of this process, for a block or, as `@no_waits`, for a test.

    Backoff, a server's hint, the pause before a check and `run.sleep` end at once, in `@retry`, in tools and in
    runs; a run that would go to `sleeping` goes on. Nothing else changes: what was decided is journaled and
    counted as if it had been waited for, and attempts keep their `timeout_s` and a run its `run.timeout`.

    It is a switch of the process, not of the thread or task: do not use it beside code that must wait.
    """
    skipper = NoWaits()
    return skipper if fn is None else skipper(fn)
