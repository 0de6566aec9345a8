"""
Where tests stand beside an attempt: before its function is entered, after it returned, when it raised.

Nothing of this is on the way of a run that is not under test: while somebody watches, the drivers' one method that
makes an attempt is another.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct

from yaoki.records import Effect
from yaoki.runtime import _performing, _sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from yaoki.runtime._effects import Call
    from yaoki.runtime._tool import Tool

__all__ = ["Attempt", "Watcher", "attempts_watched"]


class Attempt(Struct, frozen=True):
    """One attempt about to be made, or made."""

    tool: str
    step: str
    """The step's identity; a check's and an undo's name theirs."""
    key: str
    """The idempotency key of its action, whether or not the tool takes it."""
    effect: Effect
    call: str
    """For people: `charge(order_id="A-1009", cents=4200)`."""
    number: int = 1
    encode: Callable[[object], bytes] | None = None
    """How a result of this tool is journaled."""


class Watcher(Protocol):
    """Told of each attempt; what it raises in `before` or `after`, the tool raises."""

    def before(self, attempt: Attempt) -> None:
        """Before the tool's function is entered."""
        ...

    def after(self, attempt: Attempt, value: object) -> None:
        """Once it returned."""
        ...

    def raised(self, attempt: Attempt, error: BaseException) -> None:
        """Once it raised, by itself or in `before`."""
        ...


_WATCHERS: list[Watcher] = []


@contextmanager
def attempts_watched(watcher: Watcher, *, first: bool = False) -> Generator[None, None, None]:
    """
    Show a watcher each attempt this process makes for a run.

    Several may watch: the newest is innermost, next to the tool's function; with `first` it is outermost.
    """
    _WATCHERS.insert(0 if first else len(_WATCHERS), watcher)
    if len(_WATCHERS) == 1:
        _patch()
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)
        if not _WATCHERS:
            _restore()


_SYNC_CALL: Callable[..., object] = getattr(_sync.SyncDriver, "_call")  # noqa: B009 - the seam is private
_ASYNC_CALL: Callable[..., Awaitable[object]] = getattr(_performing.Performance, "_call")  # noqa: B009 - the same


class _Dressed:
    """A tool whose function shows itself to the watchers; all else is the tool's own."""

    def __init__(self, tool: Tool[Any, Any], call: Call) -> None:
        self._tool = tool
        attempt = _attempt_of(tool, call)
        self.fn = _async_fn(tool.fn, attempt) if tool.is_async else _sync_fn(tool.fn, attempt)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the tool has
        return getattr(self._tool, name)


def _attempt_of(tool: Tool[Any, Any], call: Call) -> Attempt:
    step = call.step
    past = step.branch.live.history.steps.get(step.key)
    begin = past.begin if past is not None else None
    given = (call.injected or {}).get("idempotency_key")
    return Attempt(
        tool=tool.name,
        step=step.key,
        key=str(given) if given is not None else step.about or (begin.key if begin is not None else ""),
        effect=step.effect or Effect.READ_ONLY,
        call=step.call,
        number=begin.attempt if begin is not None else 1,
        encode=tool.codec.encode,
    )


def _sync_fn(fn: Callable[..., Any], attempt: Attempt) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the tool's own
        try:
            for watcher in _WATCHERS:
                watcher.before(attempt)
            value = fn(*args, **kwargs)
            for watcher in reversed(_WATCHERS):
                watcher.after(attempt, value)
        except BaseException as error:
            _tell_raised(attempt, error)
            raise
        return value

    return made


def _async_fn(fn: Callable[..., Any], attempt: Attempt) -> Callable[..., Any]:
    async def made(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the tool's own
        try:
            for watcher in _WATCHERS:
                watcher.before(attempt)
            value = await fn(*args, **kwargs)
            for watcher in reversed(_WATCHERS):
                watcher.after(attempt, value)
        except BaseException as error:
            _tell_raised(attempt, error)
            raise
        return value

    return made


def _tell_raised(attempt: Attempt, error: BaseException) -> None:
    for watcher in reversed(_WATCHERS):
        watcher.raised(attempt, error)


def _sync_call(self: Any, call: Call, branch: Any) -> object:  # noqa: ANN401 - the driver's own
    tool = call.step.tool
    call.step.tool = cast("Tool[Any, Any]", _Dressed(tool, call))
    try:
        return _SYNC_CALL(self, call, branch)
    finally:
        call.step.tool = tool


async def _async_call(self: Any, call: Call) -> object:  # noqa: ANN401 - the driver's own
    tool = call.step.tool
    call.step.tool = cast("Tool[Any, Any]", _Dressed(tool, call))
    try:
        return await _ASYNC_CALL(self, call)
    finally:
        call.step.tool = tool


def _patch() -> None:
    setattr(_sync.SyncDriver, "_call", _sync_call)  # noqa: B010 - a method's place, not a new one
    setattr(_performing.Performance, "_call", _async_call)  # noqa: B010 - the same


def _restore() -> None:
    setattr(_sync.SyncDriver, "_call", _SYNC_CALL)  # noqa: B010 - as `_patch`
    setattr(_performing.Performance, "_call", _ASYNC_CALL)  # noqa: B010 - the same
