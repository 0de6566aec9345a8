"""
Control flow is no failure: cancellation, exit, and the signals frameworks raise to steer.

Those of frameworks are known by name along the MRO, so that none is imported. A `TimeoutError` is never
control flow, also where a library made it from a cancellation.
"""

from __future__ import annotations

import sys
from typing import cast

from yaoki.classify._evidence import names_of
from yaoki.errors import Passing

__all__ = ["is_control_flow"]

_BUILTIN = (KeyboardInterrupt, SystemExit, GeneratorExit, Passing)

_SIGNALS = frozenset({
    "asyncio.CancelledError",
    "concurrent.CancelledError",
    "trio.Cancelled",
    "langgraph.GraphBubbleUp",
    "langgraph.GraphInterrupt",
    "langgraph.NodeInterrupt",
    "langgraph.ParentCommand",
    "langgraph.GraphDrained",
    "pydantic_ai.ModelRetry",
    "pydantic_ai.CallDeferred",
    "pydantic_ai.ApprovalRequired",
    "pydantic_ai.ToolRetryError",
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
    if issubclass(cls, _BUILTIN):
        return True
    if issubclass(cls, BaseExceptionGroup):
        return _group(cast("BaseExceptionGroup[BaseException]", exc), 0)
    asyncio = sys.modules.get("asyncio.exceptions")  # a CancelledError exists only if this was imported
    if asyncio is not None and issubclass(cls, asyncio.CancelledError):
        return True
    return not _SIGNALS.isdisjoint(names_of(cls)[1])


def _group(group: BaseExceptionGroup[BaseException], depth: int) -> bool:
    if depth > 8:
        return False
    steering = [
        _group(cast("BaseExceptionGroup[BaseException]", member), depth + 1)
        if issubclass(type(member), BaseExceptionGroup)
        else is_control_flow(member)
        for member in group.exceptions[:_MEMBERS_MAX]
    ]
    hard = [not issubclass(type(member), Exception) for member in group.exceptions[:_MEMBERS_MAX]]
    return all(steering) or any(a and b for a, b in zip(steering, hard, strict=True))
