"""The branches of one `map` or `call_tools`: ended together where one of them raises, live and on replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from yaoki.records import Value
from yaoki.runtime._live import Halt
from yaoki.runtime._sync import commit_inline
from yaoki.runtime._unasked import fan_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.runtime._live import Branch

__all__ = ["BranchGroup", "raises_no_more"]


def raises_no_more(fan: str) -> str:
    """Say that the journal has a branch raise where the code does not."""
    return f"a branch of {fan} raised, in the journal, and none does now"


class BranchGroup:
    """
    Branches side by side. That one raised is recorded: what the others would have gone on with depends on when.

    On replay nothing new begins in any of them, until one raises again.
    """

    def __init__(self, parent: Branch, names: Sequence[str]) -> None:
        self.parent = parent
        self.branches = [parent.child(name) for name in names]
        self.name = fan_of(names[0]) if names else ""
        self._key = f"{parent.live.prefix}{parent.path}/{self.name}!raised"
        self.raised_before = self._key in parent.live.history.points
        for branch in self.branches:
            branch.ended = self.name if self.raised_before else ""

    def stop(self) -> None:
        """One raised: nothing more begins in the others."""
        for branch in self.branches:
            branch.stopped = True

    def raised(self, error: BaseException) -> None:
        """All have ended, one by raising: the loop goes on from there, whatever the others had recorded."""
        live = self.parent.live
        live.leave_out(self.branches)
        gone = live.detached or live.stopping or live.broken is not None
        if isinstance(error, Exception) and not self.raised_before and not gone:
            commit_inline(live, self._key, Value(at=live.now_ms(), value=Raw(b"null")))

    def park_if_it_raised_before(self) -> bool:
        """None raised, but one did in the journal: park the run for code; return whether that is so."""
        if self.raised_before:
            text = raises_no_more(self.name)
            self.parent.live.stop_with(Halt(to="code", text=text, diff=f"- recorded: {text}", step=self._key))
        return self.raised_before
