"""A branch that waits for somebody, or for a time too far to sit out in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaoki.runtime._effects import Suspend
    from yaoki.runtime._live import Branch

__all__ = ["Held"]


class Held:
    """
    What a branch was suspended for, until when at most, and the newest post it knew.

    A `run.timeout` around it bounds every wait. `wake` is the async driver's future.
    """

    __slots__ = ("branch", "seen", "suspend", "until_ms", "wake")

    def __init__(self, suspend: Suspend, branch: Branch, wake: Any = None) -> None:
        self.suspend = suspend
        ends_ms = 0 if suspend.waits_for in ("halt", "code", "replay") else branch.ends_ms()
        self.until_ms = min(suspend.until_ms or ends_ms, ends_ms or suspend.until_ms)
        self.branch = branch
        self.wake = wake
        self.seen = branch.live.history.post_seq
