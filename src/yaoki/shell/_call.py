"""One use of the shell, without its waits: what is decided before, between and after them, sync and async alike."""

from __future__ import annotations

from subprocess import TimeoutExpired
from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.clock import SystemClock
from yaoki.errors import RetryableError, TerminalError
from yaoki.runtime import Happened, NotHappened, around
from yaoki.shell._files import Done, Files, Who, folder_beside, folder_of_nobody
from yaoki.shell._start import Started, argv_of, end_earlier
from yaoki.shell._tidy import note_learned, tidy
from yaoki.shell._watch import GRACE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["LOOK_S", "Call", "Question", "ShellResult"]

LOOK_S = 0.05
"""How often it is looked whether a command that nobody here has started still runs."""
_EARLIER_S = GRACE_S + 3
_TAIL_CHARS = 500


class ShellResult(Struct, frozen=True):
    """How a command ended, and what it said on stdout and stderr together, as it came."""

    exit_code: int
    """As a shell says it: 0 is success, 128 + n ended by signal n, 127 not found, 126 found and not executable."""
    output: str
    """The end of it, if it was long; then the first line says how much is left out."""
    cut_bytes: int = 0
    """How much was left out."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.exit_code == 0


class _Place:
    """The files of an action, and who asks."""

    def __init__(self, key: str) -> None:
        here = around() if key else None
        self.journal = None if here is None else here.journal
        self.who = Who() if here is None else Who(here.run, here.step)
        self.folder = folder_of_nobody() if here is None else folder_beside(here.journal.path)
        self.key = key or SystemClock().new_id()
        self.files = Files(self.folder, self.key)

    def learned(self, done: Done, *, repeatable: bool = False) -> ShellResult:
        """Return a command's result; its files go once that is in the journal, or at once where none keeps it."""
        if self.journal is None or repeatable:
            self.files.remove()
        else:
            note_learned(self.folder, self.key, self.journal)
        lead = f"[the first {done.cut_bytes:,} bytes are left out]\n" if done.cut_bytes else ""
        return ShellResult(done.exit_code, lead + done.output, done.cut_bytes)


class Call:
    """
    A command, from the decision to start it to its result.

    Args:
        command: For the shell, or a program and its arguments.
        key: The action's; empty where nothing is journaled.
        timeout_s: How long it may run.
        keep: How many bytes of output are kept.
        repeatable: Whether nothing need be learned after a crash, since it may be started again.
    """

    def __init__(
        self, command: str | Sequence[str], key: str, *, timeout_s: float, keep: int, repeatable: bool
    ) -> None:
        self._argv = argv_of(command)
        self._command = command if isinstance(command, str) else self._argv
        self._timeout_s = timeout_s
        self._keep = keep
        self._repeatable = repeatable
        self._place = _Place(key)
        self._lock = -1
        if self._place.journal is not None:
            tidy(self._place.folder, self._place.journal)

    def pauses(self) -> Iterator[float]:
        """
        Take the command's lock; yield the seconds to wait while an earlier start of it is being ended.

        There is one only if it may be repeated, or a person ordered it to be started again.

        Raises:
            RetryableError: It does not end.
        """
        clock, files = SystemClock(), self._place.files
        until_s = clock.monotonic_s() + _EARLIER_S
        while (lock := files.take(self._place.who)) is None:
            if clock.monotonic_s() > until_s:
                msg = f"an earlier start of this command does not end (watched by pid {files.watcher()})"
                raise RetryableError(msg)
            end_earlier(files)
            yield LOOK_S
        self._lock = lock

    def start(self, cwd: str | None, env: Mapping[str, str] | None) -> Started:
        """Start it; `pauses` has come to its end."""
        return Started(
            self._place.files,
            self._lock,
            self._argv,
            folder=cwd,
            env=env,
            timeout_s=self._timeout_s,
            keep=self._keep,
        )

    def result(self) -> ShellResult:
        """
        Return what came of it.

        Raises:
            TimeoutExpired: It ran too long, and was killed.
            RetryableError: It was stopped, or its watcher died.
        """
        done = self._place.files.done()
        if done is None:
            msg = "the command's watcher ended without saying how the command did"
            raise RetryableError(msg)
        if done.how == "exited":
            return self._place.learned(done, repeatable=self._repeatable)
        if self._repeatable:
            self._place.files.remove()
        if done.how == "timeout":
            raise TimeoutExpired(self._command, self._timeout_s, output=done.output)
        msg = f"the command was stopped before its end{_said(done)}"
        raise RetryableError(msg)


class Question:
    """What became of a command: asked after a crash, or after an attempt that could not say."""

    def __init__(self, key: str) -> None:
        self._place = _Place(key)

    def open(self) -> bool:
        """Whether the command still runs, so that the answer is to come."""
        return self._place.files.under_way()

    def answer(self) -> Happened[ShellResult] | NotHappened:
        """
        Return its result, or that it was never started.

        Raises:
            TerminalError: It was started, and what it has done nobody but a person can say.
        """
        files = self._place.files
        done, started = files.done(), files.started
        if done is not None and done.how == "exited":
            return Happened(self._place.learned(done))
        if self._place.journal is None:  # nobody will ask again
            files.remove()
        if done is not None:
            ended = "ran too long and was killed" if done.how == "timeout" else "was stopped before its end"
            msg = f"the command was started, and {ended}: what it did until then is unknown{_said(done)}"
            raise TerminalError(msg)
        if started:
            msg = (
                "the command was started, and nobody has written how it ended: the machine went down, or its watcher "
                "was killed. What it did until then is unknown."
            )
            raise TerminalError(msg)
        return NotHappened()


def _said(done: Done) -> str:
    text = done.output.strip()
    return f". It said last: {text[-_TAIL_CHARS:]}" if text else ". It said nothing."
