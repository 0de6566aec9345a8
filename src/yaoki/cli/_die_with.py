"""A worker dies with its supervisor: the kernel sees to it where it can."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["die_with"]

_PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`; prctl(2)."""


def die_with(parent: int) -> None:
    """
    Have this process killed when `parent`, its direct parent, dies; end at once if it has died already.

    Linux only. Elsewhere an orphaned worker drives its run to its end, which is no harm: the same command
    then finds the run busy, or done.
    """
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
