"""
Every exception a caller can meet, and the three signals that pass through a loop.

    Exception
    └── YaokiError                 code, fields, a message that says what, where, what next
        ├── StepFailed             a step's ladder is over; carries the failure as journaled
        ├── RunFailed              unwrap() of a dead or cancelled run
        ├── RunWaiting             unwrap() of a run that waits for somebody
        ├── RunBusy                another living process drives the run
        ├── InputMismatch          the run id exists with other input or another loop
        ├── RunNotFound            no run of that id in the store
        ├── Paused                 the brake is on: nothing is taken up until `yaoki unpause`
        ├── OutsideRun             an effect called without a run while this process drives one
        ├── OutsideBranch          a step called from a task, thread or attempt its run did not start
        ├── DeclarationError       a decorator, loop or budget that cannot work; raised before anything runs
        ├── EncodingError          a value that JSON and its annotation cannot carry
        ├── StateError             misuse of `turns`: immutable or rebound state, open steps, a second one
        ├── AnswerRefused          no such question, already answered, or of another type
        ├── TerminalError          raised by a tool: do not retry
        ├── RetryableError         raised by a tool: retry, after `delay_s` if given
        └── JournalError           the store cannot be opened, read or written
            ├── StoreRefused       … and nothing was changed: too new, foreign, network file system, old SQLite
            └── StoreCorrupt       … its content contradicts itself
    BaseException
    └── Passing                    not for user code: raised again at the next step if swallowed
        ├── Park                   this branch waits; the run may leave memory
        ├── Fenced                 this process no longer owns the run
        └── Stopped                the run was cancelled

Each carries a stable `code`, is picklable, and never shadows a builtin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from yaoki.records import Failure

__all__ = [
    "AnswerRefused",
    "DeclarationError",
    "EncodingError",
    "Fenced",
    "InputMismatch",
    "JournalError",
    "OutsideBranch",
    "OutsideRun",
    "Park",
    "Passing",
    "Paused",
    "RetryableError",
    "RunBusy",
    "RunFailed",
    "RunNotFound",
    "RunWaiting",
    "StateError",
    "StepFailed",
    "Stopped",
    "StoreCorrupt",
    "StoreRefused",
    "StreamBroken",
    "TerminalError",
    "Unverified",
    "YaokiError",
]


class YaokiError(Exception):
    """Base of every error Yaoki raises. `code` is stable; the message is for people."""

    code: ClassVar[str] = "yaoki"


class StepFailed(YaokiError):  # noqa: N818 - the contract's name
    """
    A step's ladder is over without a value.

    Carries the failure as it stands in the journal, so that a replay raises an equal one. It has no
    `__cause__`: the original exception exists only in the process that met it.
    """

    code: ClassVar[str] = "step.failed"

    def __init__(self, message: str, *, failure: Failure, run_id: str = "", step: str = "", attempts: int = 0) -> None:
        super().__init__(message)
        self.failure = failure
        self.run_id = run_id
        self.step = step
        self.attempts = attempts

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the fields."""
        return _rebuild_step_failed, (self.args[0], self.failure, self.run_id, self.step, self.attempts)


def _rebuild_step_failed(message: str, failure: Failure, run_id: str, step: str, attempts: int) -> StepFailed:
    return StepFailed(message, failure=failure, run_id=run_id, step=step, attempts=attempts)


class Unverified(YaokiError):  # noqa: N818 - the contract's words
    """
    A result that its verifier does not accept. Raised out of a loop, its run ends `capped`, or makes a new pass.

    `@loop(verify=)` raises it; a loop with a verifier of its own may. `value` is the run's partial value then.
    """

    code: ClassVar[str] = "output.unverified"

    def __init__(self, message: str, evidence: str = "", value: object = None) -> None:
        super().__init__(message, evidence, value)
        self.message = message
        self.evidence = evidence
        self.value = value

    def __str__(self) -> str:
        return self.message


class StreamBroken(YaokiError):  # noqa: N818 - what it is
    """
    A model's answer that did not come whole: it is no answer, however much of it there is.

    `why` is `first` (nothing came in time), `silent` (nothing more did), `total`, `cut` or `malformed`; `partial` is
    the text that had come. Raised from the vendor's error where there is one, and treated as that.
    """

    code: ClassVar[str] = "stream.broken"

    def __init__(self, message: str, why: str = "cut", partial: str = "") -> None:
        super().__init__(message, why, partial)
        self.message = message
        self.why = why
        self.partial = partial

    def __str__(self) -> str:
        return self.message


class _RunError(YaokiError):
    """An error about one run."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message, run_id)
        self.message = message
        self.run_id = run_id

    def __str__(self) -> str:
        return self.message


class RunFailed(_RunError):  # noqa: N818 - the contract's name
    """The run ended `dead` or `cancelled`; its receipt says why."""

    code: ClassVar[str] = "run.failed"


class RunWaiting(_RunError):  # noqa: N818 - the contract's name
    """The run waits for a person, a budget, a signal or new code; its receipt says for what."""

    code: ClassVar[str] = "run.waiting"


class RunBusy(_RunError):  # noqa: N818 - the contract's name
    """A living process drives the run; the message names it. Nothing was changed."""

    code: ClassVar[str] = "run.busy"


class InputMismatch(_RunError):  # noqa: N818 - the contract's name
    """The run id is taken by another input or another loop. Nothing was changed."""

    code: ClassVar[str] = "run.input_mismatch"


class RunNotFound(_RunError):  # noqa: N818 - reads as what it says
    """The store has no run of that id."""

    code: ClassVar[str] = "run.not_found"


class Paused(YaokiError):  # noqa: N818 - reads as what it says
    """The brake is on, put there by `by` at `at_ms`: no run is taken up. Nothing was changed."""

    code: ClassVar[str] = "paused"

    def __init__(self, by: str = "", at_ms: int = 0) -> None:
        super().__init__(by, at_ms)
        self.by = by
        self.at_ms = at_ms

    def __str__(self) -> str:
        """Return what a person reads: who, and what to type."""
        who = f" by {self.by}" if self.by else ""
        return f"the store is paused{who}: nothing begins. To go on: yaoki unpause"


class OutsideRun(YaokiError):  # noqa: N818 - the contract's name
    """An effect was called without a run while this process drives one; nothing was executed."""

    code: ClassVar[str] = "outside.run"


class OutsideBranch(YaokiError):  # noqa: N818 - the contract's name
    """A step was called from a task, thread or attempt its run did not start; nothing was executed."""

    code: ClassVar[str] = "outside.branch"


class DeclarationError(YaokiError):
    """A decorator, loop, budget or toolbox that cannot work; raised before anything runs."""

    code: ClassVar[str] = "declaration"


class EncodingError(YaokiError):
    """A value that JSON and its annotation cannot carry."""

    code: ClassVar[str] = "encoding"


class StateError(YaokiError):
    """`run.turns` used in a way that would lose state."""

    code: ClassVar[str] = "state"


class AnswerRefused(YaokiError):  # noqa: N818 - reads as what it says
    """The answer was not taken: no such question, already answered, expired, or of another type."""

    code: ClassVar[str] = "answer.refused"


class TerminalError(YaokiError):
    """
    Raise it in a tool to say: do not retry this, whatever it looks like.

    `happened=False` says that the action did not take place (refused before anything was sent), True that it did; None
    leaves that to what it was raised from, else it may have happened.
    """

    code: ClassVar[str] = "terminal"

    def __init__(self, message: str = "", *, happened: bool | None = None) -> None:
        super().__init__(message)
        self.happened = happened

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with what is known of the action."""
        return _rebuild_terminal, (self.args[0], self.happened)


def _rebuild_terminal(message: str, happened: bool | None) -> TerminalError:  # noqa: FBT001 - as pickled
    return TerminalError(message, happened=happened)


class RetryableError(YaokiError):
    """
    Raise it in a tool to say: this can heal. `delay_s` is the least wait before the next attempt.

    `happened` as for `TerminalError`.
    """

    code: ClassVar[str] = "retryable"

    def __init__(self, message: str = "", *, delay_s: float | None = None, happened: bool | None = None) -> None:
        super().__init__(message)
        self.delay_s = delay_s
        self.happened = happened

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the delay, and what is known of the action."""
        return _rebuild_retryable, (self.args[0], self.delay_s, self.happened)


def _rebuild_retryable(message: str, delay_s: float | None, happened: bool | None = None) -> RetryableError:  # noqa: FBT001
    return RetryableError(message, delay_s=delay_s, happened=happened)


class JournalError(YaokiError):
    """The store cannot be opened, read or written. Nothing more is promised; the run stays as it was."""

    code: ClassVar[str] = "journal"


class StoreRefused(JournalError):  # noqa: N818 - reads as what it says
    """The store was refused before anything was changed."""

    code: ClassVar[str] = "journal.refused"


class StoreCorrupt(JournalError):  # noqa: N818 - reads as what it says
    """The store's content contradicts itself, or is no database."""

    code: ClassVar[str] = "journal.corrupt"


class Passing(BaseException):
    """Yaoki's own control flow. Do not catch it: it is raised again at the next step."""


class Park(Passing):
    """This branch cannot go on in this process now; the journal knows why."""


class Fenced(Passing):
    """This process no longer owns the run, or the runner has let go of it. Nothing more is recorded."""


class Stopped(Passing):
    """The run was cancelled: nothing new begins."""
