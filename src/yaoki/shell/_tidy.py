"""
Forgets commands whose end stands in the journal, on disk: never earlier, and a few at a time.

By the next use of the tool on that store, and as a process takes leave of it; what a killed process has left, the
next one does. What is in doubt stays, since a person may want to look, until its run is completed or discarded.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from yaoki.records import State
from yaoki.shell._files import Files, left_in

if TYPE_CHECKING:
    from yaoki.journal import Journal

__all__ = ["note_learned", "tidy"]

_AT_ONCE = 64
"""How many are looked at in one use."""
_LOOKS_MOST = 50
"""Uses after which one whose step is still not settled is left to the next process."""

_lock = threading.Lock()
_learned: dict[str, dict[str, int]] = {}
"""By folder, the keys whose ends this process has met, and how often they were looked at since."""


def note_learned(folder: str, key: str, journal: Journal) -> None:
    """Note that a command's end was met here; its step is about to be settled with that."""
    with _lock:
        _keys_in(folder)[key] = 0
    journal.before_close(folder, lambda: _tidy_at_last(folder, journal))


def tidy(folder: str, journal: Journal) -> None:
    """Forget what is settled; the first use in a process looks at what others have left."""
    with _lock:
        keys = _keys_in(folder)
        looked = list(keys.items())[:_AT_ONCE]
        for key, looks in looked:  # to the end of the line, or out of it
            del keys[key]
            if looks < _LOOKS_MOST:
                keys[key] = looks + 1
    settled = [files for key, _ in looked if _is_settled(files := Files(folder, key), journal)]
    if not settled:
        return
    journal.sync()
    for files in settled:
        files.remove()
        with _lock:
            keys.pop(os.path.basename(files.path), None)  # noqa: PTH119


def _tidy_at_last(folder: str, journal: Journal) -> None:
    """Forget what is settled as a process takes leave; that it cannot is no reason for a run to fail."""
    try:
        tidy(folder, journal)
    except OSError:
        logging.getLogger("yaoki").exception("%s: what is left of ended commands could not be removed", folder)


def _keys_in(folder: str) -> dict[str, int]:
    """Return what is to be looked at in a folder; at first, all that is there. Under the lock."""
    if folder not in _learned:
        _learned[folder] = dict.fromkeys(left_in(folder), _LOOKS_MOST)
    return _learned[folder]


def _is_settled(files: Files, journal: Journal) -> bool:
    """Whether nobody can ask for it any more: its step has its value, its run is completed, or was discarded."""
    who = files.who()
    if who is None or not who.run or files.under_way():
        return False
    row = journal.get(who.run)
    return row is None or row.state is State.COMPLETED or journal.has_value(row.id, who.step)
