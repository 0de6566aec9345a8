"""
Kills around a ledger line, where no server can hold the call: the ledger is a plain file.

After the append: the example writes a line to its log once the ledger has its own. The demo gives it a
named pipe for a log, and opening one for writing blocks until somebody reads: so the agent stands still
exactly between the append and its record, and is killed there.

Before it: the example locks the ledger to append. The demo holds that lock until the journal shows the
append as begun, and kills then.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from yaoki.records import Begin, Settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from threading import Event as Flag

    from yaoki.records import Entry

__all__ = ["append_is_open", "hold_after_append", "hold_before_append"]

_LOOK_S = 0.003
WAIT_S_MAX = 10.0
"""How long an append that was announced is waited for."""


def append_is_open(entries: Iterable[Entry]) -> bool:
    """Whether the journal has an append to the ledger that is begun and not settled."""
    opened = False
    for _, key, record in entries:
        if "/append_ledger#" in key:
            opened = isinstance(record, Begin) or (opened and not isinstance(record, Settle))
    return opened


def hold_after_append(pipe: Path, appended: Callable[[], bool], strike: Callable[[], None], ended: Flag) -> None:
    """
    Kill the agent that appended, then read its pipe so that nobody is held there again.

    `pipe` must be a named pipe before the agent starts. Returns when `ended` is set.
    """
    while not ended.wait(_LOOK_S):
        if appended():
            strike()
            break
    # Open for both, so that the pipe never counts as having no writer, and never blocks here.
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        while not ended.wait(_LOOK_S):
            try:
                os.read(reader, 65536)
            except BlockingIOError:
                continue
    finally:
        os.close(reader)


def hold_before_append(
    ledger: Path, go: Callable[[], None], is_open: Callable[[], bool], strike: Callable[[], None], ended: Flag
) -> None:
    """
    Lock the ledger, let the model ask for the append, and kill the agent once that is begun.

    `go` releases the model's reply; it is called with the lock held, so the append cannot slip through.
    """
    with ledger.open("a", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        go()
        for _ in range(int(WAIT_S_MAX / _LOOK_S)):
            if is_open():
                strike()
                return
            if ended.wait(_LOOK_S):
                return
