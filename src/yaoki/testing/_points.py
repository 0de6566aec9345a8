"""The places where a process can die, counted, and one of them at which it does: by SIGKILL, of itself."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from yaoki.journal import Journal
from yaoki.records import Begin, Checkpoint, Ended, Settle, Undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from yaoki.records import Record
    from yaoki.testing._seam import Attempt

__all__ = ["Points", "journal_pointed", "point"]

DIED = "died.txt"


class Points:
    """
    Counts the places a process comes by; at number `die_at` (0: at none) it kills itself.

    Where that was stands in the file `died.txt` of `home` beforehand.
    """

    def __init__(self, home: Path, die_at: int = 0) -> None:
        self.trail: list[tuple[str, str]] = []
        """Kind and place of each, in order."""
        self.counting = True
        self._home = home
        self._die_at = die_at
        self._lock = threading.RLock()

    def reach(self, kind: str, where: str) -> None:
        """Come by a place; no return if it is the one."""
        with self._lock:
            if not self.counting:
                return
            self.trail.append((kind, where))
            if len(self.trail) == self._die_at:
                (self._home / DIED).write_text(where, encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)

    # --- as a watcher of attempts

    def before(self, attempt: Attempt) -> None:
        """Come by the place between a begin and its call."""
        self.reach("between begin and call", f"between begin and call of {attempt.call}")

    def after(self, attempt: Attempt, value: object) -> None:  # noqa: ARG002 - the watcher's shape
        """Come by the place between a call and its settle."""
        self.reach("between call and settle", f"between call and settle of {attempt.call}")

    def raised(self, attempt: Attempt, error: BaseException) -> None:
        """Come by the place between a call that failed and its settle."""
        self.reach("between call and settle", f"between {type(error).__name__} and settle of {attempt.call}")


_here: list[Points] = []


def point(where: str) -> None:
    """
    Mark a place in your own code where `crash_matrix` is to kill the process; outside of a matrix it does nothing.

    Between two writes of a tool, say: a kill at an effect's boundaries alone does not fall there.
    """
    for points in _here:
        points.reach("inside the call", f"inside the call: {where}")


def journal_pointed(points: Points) -> None:
    """Make each write of the journal a place, before and after, in this process for good: it is one that dies."""
    _here.append(points)
    for name, written in _WRITES.items():
        setattr(Journal, name, _pointed(name, getattr(Journal, name), points, written))


_WRITES: dict[str, Callable[..., Iterable[tuple[str, Record]]]] = {
    "create": lambda *_: (),
    "claim": lambda *_: (),
    "append": lambda _run, _epoch, _seq, items, *_: items,
    "append_if": lambda _run, _epoch, _seq, key, record: [(key, record)],
    "append_ruled": lambda _run, _epoch, _seq, items: items,
    "append_batch": lambda batch, *_: [item for _, _, _, items in batch for item in items],
    "leave": lambda _run, _epoch, _seq, items: items,
}
"""What drives a run writes by these, and the records that each call is given."""


def _pointed(
    name: str, method: Callable[..., Any], points: Points, given: Callable[..., Iterable[tuple[str, Record]]]
) -> Callable[..., Any]:
    def written(self: Journal, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the method's own
        kind, what = _what(name, list(given(*args)))
        points.reach(f"before {kind}", f"before {what}")
        value = method(self, *args, **kwargs)
        points.reach(f"after {kind}", f"after {what}")
        return value

    return written


def _what(name: str, items: list[tuple[str, Record]]) -> tuple[str, str]:
    """Return the kind of a write, and the write for people."""
    if name in ("create", "claim"):
        return f"the {name}", f"the {name} of the run"
    if name == "leave":
        return "the leaving", f"the leaving of the run ({_named(items) or 'nothing more to write'})"
    kinds = [_kind(key, record) for key, record in items]
    return kinds[0] if kinds else name, _named(items)


def _named(items: Iterable[tuple[str, Record]]) -> str:
    return ", ".join(f"{_kind(key, record)} {_whose(key, record)}".strip() for key, record in items)


def _kind(key: str, record: Record) -> str:
    if isinstance(record, Undo) or ("!undo" in key and isinstance(record, Begin | Settle)):
        return f"undo's {type(record).__name__.lower()}" if not isinstance(record, Undo) else "undo"
    names = {Begin: "begin", Settle: "settle", Checkpoint: "checkpoint", Ended: "end"}
    return names.get(type(record), type(record).__name__.lower())


def _whose(key: str, record: Record) -> str:
    call = record.call if isinstance(record, Begin) else ""
    return f"of {call or key}" if call or key else ""
