"""
What a dead worker's attempts have left running: found by the mark its supervisor put into their environment.

Every process a supervised worker starts inherits `$YAOKI_MARK`, a random word of that worker alone, also if it
leads a session of its own. So nothing is killed by a number that may have been used again. A program that is to
outlive its worker is started without the mark.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from yaoki.clock import SystemClock

__all__ = ["MARK", "end_survivors", "own_group", "own_mark"]

MARK = "YAOKI_MARK"
_WAIT_S = 5.0
_LOOK_S = 0.01
_PROC = "/proc"


def own_mark() -> str:
    """Return this process's mark; empty if nobody supervises it."""
    return os.environ.get(MARK, "")


def own_group() -> int:
    """Return the process group attempts run in, if it is this worker's alone; else 0."""
    return os.getpgrp() if own_mark() and os.getpgrp() == os.getpid() else 0


def end_survivors(mark: str) -> list[int]:
    """
    Kill what a dead worker has left running and wait for its end, 5 s at most; return what then still lives.

    Never this process, nor any without the mark. Linux only; elsewhere nothing is found.
    """
    if not mark or mark == own_mark():
        return []
    until_s = SystemClock().monotonic_s() + _WAIT_S
    while found := _marked(mark):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if SystemClock().monotonic_s() > until_s:
            return found
        SystemClock().sleep(_LOOK_S)
    return []


def _marked(mark: str) -> list[int]:
    """Return the living processes with that mark; a zombie does not live."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    with suppress(OSError):
        others = [name for name in os.listdir(_PROC) if name.isdigit() and int(name) != os.getpid()]  # noqa: PTH208
        found = [int(name) for name in others if _has(name, wanted)]
    return found


def _has(name: str, wanted: bytes) -> bool:
    try:
        # Not by pathlib, which would be a good part of what importing yaoki costs.
        with open(f"{_PROC}/{name}/environ", "rb") as environ, open(f"{_PROC}/{name}/stat", "rb") as stat:  # noqa: PTH123
            return wanted in environ.read().split(b"\0") and b") Z " not in stat.read()
    except OSError:  # ended meanwhile, or somebody else's
        return False
