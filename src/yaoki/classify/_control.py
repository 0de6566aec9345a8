"""
Control flow is no failure: cancellation, exit, and the signals frameworks raise to steer.

Those of frameworks are known by name along the MRO, so that none is imported. A `TimeoutError` is never
control flow, also where a library made it from a cancellation.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from yaoki.classify._evidence import names_of
from yaoki.errors import Passing

__all__ = ["is_control_flow", "leaves"]

_BUILTIN = (KeyboardInterrupt, SystemExit, GeneratorExit, Passing)

_SIGNALS = frozenset({
    "asyncio.CancelledError",
    "concurrent.CancelledError",
    "trio.Cancelled",
    "grpc.FutureCancelledError",
    "langgraph.GraphBubbleUp",
    "langgraph.GraphInterrupt",
    "langgraph.NodeInterrupt",
    "langgraph.ParentCommand",
    "langgraph.GraphDrained",
    "mistralai.DeferredToolCallsException",
    "pydantic_ai.ModelRetry",
    "pydantic_ai.CallDeferred",
    "pydantic_ai.ApprovalRequired",
    "pydantic_ai.ToolRetryError",
    "pydantic_ai.ToolFailed",
    "pydantic_ai.ToolFailedError",
    "pydantic_ai.RetryModelRequest",
    "pydantic_ai.SkipModelRequest",
    "pydantic_ai.SkipToolExecution",
    "pydantic_ai.SkipToolValidation",
})  # fmt: skip

_MEMBERS_MAX = 200


def is_control_flow(exc: BaseException) -> bool:
    """
    Whether it passes through instead of being classified.

    A group is control flow if all its members are, or if one is more than an `Exception` (Ctrl-C beside
    failures still means stop).
    """
    cls = type(exc)  # not isinstance: that asks the object for its `__class__`, which may raise
    if (known := _known.get(cls)) is not None:
        return known
    if issubclass(cls, _BUILTIN):
        return True
    if issubclass(cls, BaseExceptionGroup):
        return _group(cast("BaseExceptionGroup[BaseException]", exc))
    asyncio = sys.modules.get("asyncio.exceptions")  # a CancelledError exists only if this was imported
    if asyncio is not None and issubclass(cls, asyncio.CancelledError):
        return True
    found = not _SIGNALS.isdisjoint(names_of(cls)[1])
    if len(_known) >= _KNOWN_MAX:  # classes made in a loop must not fill the memory
        _known.clear()
    _known[cls] = found
    return found


_known: dict[type, bool] = {}
"""What the names along a class's MRO say."""
_KNOWN_MAX = 2000


def _group(group: BaseExceptionGroup[BaseException]) -> bool:
    found, _ = leaves(group)
    steering = [is_control_flow(error) for error in found]
    hard = [not issubclass(type(error), Exception) for error in found]
    return bool(found) and (all(steering) or any(a and b for a, b in zip(steering, hard, strict=True)))


def leaves(group: BaseExceptionGroup[BaseException]) -> tuple[list[BaseException], bool]:
    """Return the errors in a group and the groups inside it, at most 200, and whether that is all of them."""
    found: list[BaseException] = []
    waiting: list[BaseExceptionGroup[BaseException]] = [group]
    for _ in range(_MEMBERS_MAX):
        if not waiting:
            return found, True
        members: tuple[BaseException, ...] = _MEMBERS.__get__(waiting.pop(0))
        for member in members[: _MEMBERS_MAX + 1]:
            if issubclass(type(member), BaseExceptionGroup):
                waiting.append(cast("BaseExceptionGroup[BaseException]", member))
            elif len(found) < _MEMBERS_MAX:
                found.append(member)
            else:
                return found, False
    return found, not waiting


_MEMBERS: Any = BaseExceptionGroup.__dict__["exceptions"]
"""The descriptor itself: a subclass may have shadowed it."""
