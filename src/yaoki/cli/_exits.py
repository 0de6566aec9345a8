"""How the command ends: exit codes, and the one error every bad input becomes."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaoki.records import State

__all__ = ["CommandError", "Exit", "exit_for"]


class Exit(IntEnum):
    """Exit codes of every verb. Persisted in people's scripts: never renumbered."""

    DONE = 0
    DEAD = 1
    USAGE = 2
    WAITING = 3
    CAPPED = 4
    CANCELLED = 5
    FAILED = 70
    """The command itself failed, or the run is busy (`EX_SOFTWARE` of sysexits.h)."""
    INTERRUPTED = 130
    """128 + SIGINT, as shells report it."""
    TERMINATED = 143
    """128 + SIGTERM."""


_BY_STATE = {
    "completed": Exit.DONE,
    "dead": Exit.DEAD,
    "capped": Exit.CAPPED,
    "cancelled": Exit.CANCELLED,
    "waiting": Exit.WAITING,
}
"""By the states' persisted words: the record vocabulary is too much to load for a `--help`."""


def exit_for(status: State) -> Exit:
    """Return how `yaoki run` exits for a run in that state; a run that still moves is `FAILED`."""
    return _BY_STATE.get(status.value, Exit.FAILED)


class CommandError(Exception):
    """
    Bad input, or a command that cannot do its work: one line on stderr and an exit code.

    `code` is stable and stands in `--json` output; `message` says what, where and what next.
    """

    def __init__(self, code: str, message: str, exit_code: int = Exit.USAGE) -> None:
        super().__init__(code, message, exit_code)
        self.code = code
        self.message = message
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message
