"""Fault plans: which call of a tool fails how, whether or not its effect came about."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from yaoki.errors import DeclarationError
from yaoki.testing._seam import attempts_watched
from yaoki.testing._world import append_line, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

    from yaoki.testing._seam import Attempt

__all__ = ["Fault", "Faults", "faults", "faults_kept_in", "lost", "ok", "refused", "reset", "timeout"]

_PLAN_MOST = 10_000


class Fault(Struct, frozen=True):
    """What becomes of one call. `after`: it is made, its effect comes about, and only the answer is lost."""

    name: str
    error: Callable[[], BaseException] | None = None
    after: bool = False


ok = Fault("ok")
"""The call is made, and answers."""
timeout = Fault("timeout", lambda: TimeoutError("timed out"))
"""Nothing is heard of the call: `executed` is `maybe`. In truth it did not arrive."""
reset = Fault("reset", lambda: ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
"""The connection is reset: `executed` is `maybe`. In truth the call did not arrive."""
refused = Fault("refused", lambda: ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))
"""Nobody listens: `executed` is `no`."""


def lost(fault: Fault | BaseException) -> Fault:
    """Return the fault with its call made beforehand: `lost(reset)` acts, then the connection is reset."""
    fault = _fault(fault)
    return Fault(f"lost {fault.name}", fault.error, after=True)


class Faults:
    """A plan at work, as `faults` makes it; a context manager."""

    def __init__(self, plan: Mapping[str, Sequence[Fault | BaseException]]) -> None:
        self._plan = {tool: [_fault(one) for one in given] for tool, given in plan.items()}
        for tool, given in self._plan.items():
            if len(given) > _PLAN_MOST:
                msg = f"faults: the plan for {tool} has {len(given):,} calls; {_PLAN_MOST:,} is the most"
                raise DeclarationError(msg)
        self._met: list[str] = []
        self._path: Path | None = None
        self._due: dict[tuple[str, int], Fault] = {}
        """Faults of calls that are under way and lose their answer."""
        self._watching: list[AbstractContextManager[None]] = []

    def __enter__(self) -> Self:
        """Disturb calls of this process from here on."""
        watching = attempts_watched(self)
        watching.__enter__()
        self._watching.append(watching)
        _ACTIVE.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let calls be."""
        _ACTIVE.remove(self)
        self._watching.pop().__exit__(kind, error, trace)

    @property
    def left(self) -> dict[str, int]:
        """How many entries of the plan no call has met yet, by tool; tools with none left out."""
        met = self._so_far()
        counts = {tool: len(given) - met.count(tool) for tool, given in self._plan.items()}
        return {tool: count for tool, count in counts.items() if count > 0}

    def before(self, attempt: Attempt) -> None:
        """Fail a call that the plan says fails before it is made."""
        if attempt.tool not in self._plan:
            return
        number = self._so_far().count(attempt.tool)
        self._note(attempt.tool)
        given = self._plan[attempt.tool]
        fault = given[number] if number < len(given) else ok
        if fault.after:
            self._due[attempt.step, attempt.number] = fault
        elif fault.error is not None:
            raise fault.error()

    def after(self, attempt: Attempt, value: object) -> None:  # noqa: ARG002 - the watcher's shape
        """Lose the answer of a call that the plan says is made and not heard of."""
        fault = self._due.pop((attempt.step, attempt.number), None)
        if fault is not None and fault.error is not None:
            raise fault.error()

    def raised(self, attempt: Attempt, error: BaseException) -> None:  # noqa: ARG002 - the watcher's shape
        """Forget what was due: the call failed by itself."""
        self._due.pop((attempt.step, attempt.number), None)

    def keep_in(self, folder: Path) -> None:
        """Count in a file of this folder from here on, so that the next process goes on where this one is killed."""
        self._path = folder / f"faults-{_ACTIVE.index(self)}.jsonl"

    def _so_far(self) -> list[str]:
        return self._met if self._path is None else read_lines(self._path)

    def _note(self, tool: str) -> None:
        if self._path is None:
            self._met.append(tool)
        else:
            append_line(self._path, tool)


_ACTIVE: list[Faults] = []


def faults(plan: Mapping[str, Sequence[Fault | BaseException]]) -> Faults:
    """
    Fail calls of runs by a plan, for a block.

    `with faults({"charge": [timeout, lost(reset), ok]}): …`: the first call of `charge` is not heard of, the second
    acts and its answer is lost, the third is made.

    By the tool's name, the first call made by this process meets the first entry, and so on; what comes after the
    plan's end is `ok`. An entry is a `Fault` or an exception of your own, raised as it is. Inside `crash_matrix` a
    plan counts the calls of all processes of a case. Calls that replay an outcome are not made, and meet nothing; nor
    do tools called outside a run.

    Raises:
        DeclarationError: An entry that is neither, or a plan of more than 10,000 calls.
    """
    return Faults(plan)


@contextmanager
def faults_kept_in(folder: Path) -> Generator[None, None, None]:
    """Let all plans at work count in a folder."""
    for one in _ACTIVE:
        one.keep_in(folder)
    yield


def _fault(given: Fault | BaseException) -> Fault:
    if isinstance(given, Fault):
        return given
    if isinstance(given, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance] - a plan is written by hand
        return Fault(type(given).__name__, lambda: given)
    msg = f"faults: {given!r} is no fault; give ok, timeout, reset, refused, lost(…) or an exception"
    raise DeclarationError(msg)
