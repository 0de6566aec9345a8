"""
How a child process ended: exit status and signals, from subprocess, asyncio or a shell that passes them on.

Statuses 64-78 are sysexits.h (BSD); 124, 126 and 127 timeout(1)'s and the shell's; 128 + n says that signal
n ended the child. Any other status is the program's own word, which its caller, often a model, can read
and act upon: `semantic`. A process that ran may have acted, whatever it said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yaoki.classify._patterns import pattern
from yaoki.classify._rule import Rule
from yaoki.records import Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "failure_of_exit"]

_K = FailureKind
_STATUSES: Final = {
    64: _K.PROGRAMMING,
    **dict.fromkeys((65, 66, 67, 68, 70, 72, 73, 76, 77, 78, 126, 127), _K.PERMANENT),
    **dict.fromkeys((69, 71, 74, 75, 124), _K.TRANSIENT),
}
_SIGNALS: Final = {
    "SIGTERM": _K.TRANSIENT,
    "SIGHUP": _K.TRANSIENT,
    "SIGPIPE": _K.TRANSIENT,
    "SIGALRM": _K.TRANSIENT,
    "SIGKILL": _K.OVERLOADED,
}
"""SIGKILL is the out-of-memory killer's; SIGINT a person's; a crash (SIGSEGV, SIGABRT, …) comes again."""

_BY_SIGNAL, _SIGNAL_MAX = 128, 64


def failure_of_exit(status: int) -> Failure:
    """Return the failure of an exit status; negative is a signal, as subprocess writes it."""
    if status < 0 or _BY_SIGNAL < status <= _BY_SIGNAL + _SIGNAL_MAX:
        number = -status if status < 0 else status - _BY_SIGNAL
        import signal  # whoever met an exit status has loaded it, with subprocess or asyncio

        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"SIG{number}"
        return Failure(
            kind=_SIGNALS.get(name, _K.PERMANENT),
            reason=f"signal.{name}",
            scope=Scope.REQUEST,
            evidence="exit.status",
            hint="Often the machine was out of memory." if name == "SIGKILL" else "",
        )
    return Failure(kind=_STATUSES.get(status, _K.SEMANTIC), reason=f"exit.{status}", evidence="exit.status")


_MESSAGE = pattern(r"returned non-zero exit status (\d{1,3})\.$|died with <Signals\.SIG\w+: (\d{1,2})>\.$", re.ASCII)


def _judge(evidence: Evidence) -> Failure | None:
    if evidence.is_a("subprocess.TimeoutExpired"):
        return Failure(kind=_K.TRANSIENT, reason="timeout.process", evidence="class")
    if not evidence.is_a("subprocess.CalledProcessError"):
        return None
    status = evidence.get("returncode")
    if isinstance(status, int):
        return failure_of_exit(status)
    # Carried across a process boundary, only its text is left.
    said = _MESSAGE.search(evidence.message)
    return failure_of_exit(int(said[1]) if said[1] else -int(said[2])) if said else None


RULES = (Rule(name="exit.status", stage="code", judge=_judge),)
