"""What a supervisor owes as process 1 of a container, or as a subreaper: the exit status of others is taken."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["is_reaper", "reap_others"]

_PR_GET_CHILD_SUBREAPER = 37
"""From `linux/prctl.h`; prctl(2)."""


def is_reaper() -> bool:
    """Whether processes that lose their parent become children of this one."""
    if os.getpid() == 1:
        return True
    if sys.platform != "linux":
        return False
    import ctypes

    found = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0) == 0 and found.value != 0


def reap_others(own: int) -> None:
    """Take the exit status of every child that has ended, but never that of `own`: who started it waits for it."""
    with suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if found.si_pid == own:
                return
            os.waitpid(found.si_pid, os.WNOHANG)
