"""Runs, steps, attempts: one engine as a generator of effects, two small drivers, the runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.runtime._around import Around, around
from yaoki.runtime._loop import Bound, Loop, loop
from yaoki.runtime._receipt import Ask, Met, Receipt
from yaoki.runtime._retry import retry
from yaoki.runtime._run import AsyncRun, Run
from yaoki.runtime._runner import Runner
from yaoki.runtime._signature import INJECTED, Local
from yaoki.runtime._survivors import MARK, end_survivors
from yaoki.runtime._tool import BoundTool, Feedback, ForModel, Happened, NotHappened, Tool, tool
from yaoki.runtime._toolbox import Settled, Told, Toolbox, ToolCall, ToolResult, refusal
from yaoki.runtime._usage import Usage
from yaoki.runtime._verify import EVIDENCE_MAX, Check, Verdict, check_name, is_async, judged, judged_async

if TYPE_CHECKING:
    from yaoki.runtime._async_runner import AsyncRunner

__all__ = [
    "EVIDENCE_MAX",
    "INJECTED",
    "MARK",
    "Around",
    "Ask",
    "AsyncRun",
    "AsyncRunner",
    "Bound",
    "BoundTool",
    "Check",
    "Feedback",
    "ForModel",
    "Happened",
    "Local",
    "Loop",
    "Met",
    "NotHappened",
    "Receipt",
    "Run",
    "Runner",
    "Settled",
    "Told",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Toolbox",
    "Usage",
    "Verdict",
    "around",
    "check_name",
    "end_survivors",
    "is_async",
    "judged",
    "judged_async",
    "loop",
    "refusal",
    "retry",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import the async runner, and asyncio with it, when it is asked for."""
    if name == "AsyncRunner":
        from yaoki.runtime._async_runner import AsyncRunner

        return AsyncRunner
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
