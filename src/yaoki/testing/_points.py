"""The places where a process can die, counted, and one of them at which it does: by SIGKILL, of itself."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from yaoki.journal import Journal
from yaoki.records import Begin, Ended, Settle
from yaoki.runtime import _context

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

    Of what kind that was, and where, stands in the file `died.txt` of `home` beforehand.
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
                (self._home / DIED).write_text(f"{kind}\n{where}", encoding="utf-8")
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
    kind = "inside the call" if isinstance(_context.here(), _context.InAttempt) else "between steps"
    for points in _here:
        points.reach(kind, f"{kind}: {where}")


def journal_pointed(points: Points) -> None:
    """Make each write of the journal a place, before and after, in this process for good: it is one that dies."""
    _here.append(points)
    for name in _WRITES:
        setattr(Journal, name, _pointed(name, getattr(Journal, name), points))


_WRITES = ("create", "claim", "append", "append_if", "append_ruled", "append_batch", "leave")
"""By these the process that drives a run writes."""


def _pointed(name: str, method: Callable[..., Any], points: Points) -> Callable[..., Any]:
    def written(self: Journal, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the method's own
        kind, what = _what(name, _given(name, args))
        points.reach(f"before {kind}", f"before {what}")
        value = method(self, *args, **kwargs)
        points.reach(f"after {kind}", f"after {what}")
        return value

    return written


def _given(name: str, args: tuple[Any, ...]) -> list[tuple[str, Record]]:
    """Return the records that a call of the method is given."""
    match name:
        case "create" | "claim":
            return []
        case "append_if":
            _, _, _, key, record = args
            return [(key, record)]
        case "append_batch":
            return [item for _, _, _, items in args[0] for item in items]
        case _:
            return list(args[3])


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
    whose = "undo's " if "!undo" in key and isinstance(record, Begin | Settle) else ""
    match record:
        case Ended():
            return "end"
        case _:
            return f"{whose}{type(record).__name__.lower()}"


def _whose(key: str, record: Record) -> str:
    call = record.call if isinstance(record, Begin) else ""
    return f"of {call or key}" if call or key else ""
