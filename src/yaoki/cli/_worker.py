"""
The worker of `yaoki run`: loads the file, drives one run, says how it ended.

`python -m yaoki.cli._worker TARGET --run-id ID SUPERVISOR_PID REPORT_FD`; the job comes through stdin. Its
stdout is stderr already, so what user code prints never spoils the command's. It imports neither typer
nor rich, and holds the only connections a run is driven over.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import json

from yaoki.cli._die_with import die_with
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._loading import bound_of
from yaoki.cli._pulse import Pulse
from yaoki.cli._report import Job, Report
from yaoki.errors import (
    DeclarationError,
    EncodingError,
    InputMismatch,
    YaokiError,
)
from yaoki.records import Claimed, State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from yaoki.events import Event, Observer
    from yaoki.runtime import Bound

__all__ = ["close_stdin", "main", "refusal", "say"]

_USAGE = (DeclarationError, EncodingError, InputMismatch)


def main(argv: list[str]) -> int:
    """Do the job on stdin and return the exit status; the report says what the status cannot."""
    parent, report_fd = int(argv[-2]), int(argv[-1])
    die_with(parent)
    os.set_inheritable(report_fd, False)  # noqa: FBT003 - os's own signature
    job = json.decode(sys.stdin.buffer.read(), type=Job)
    close_stdin()
    pulse = Pulse(report_fd, hung_after_s=job.hung_after_s)
    report = _do(job, pulse)
    pulse.last(report)
    return report.exit_code


def close_stdin() -> None:
    """Nobody types to a worker: a tool that reads stdin gets its end."""
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)


def _do(job: Job, pulse: Pulse) -> Report:
    try:
        return _drive(job, bound_of(job.target, job.input, job.run_id, job.store), pulse)
    except (CommandError, YaokiError, SystemExit, KeyboardInterrupt) as error:
        return refusal(error, debug=job.debug)


def refusal(error: BaseException, *, debug: bool) -> Report:
    """
    Return what is said of an error that ended the work.

    One that nobody foresaw is raised: the process dies of it, with its traceback, as user code's own would.
    """
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, CommandError):
        return Report(end="refused", code=error.code, message=error.message, exit_code=error.exit_code)
    if isinstance(error, YaokiError):
        exit_code = Exit.USAGE if isinstance(error, _USAGE) else Exit.FAILED
        return Report(end="refused", code=error.code, message=str(error), exit_code=exit_code)
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        said = f"the loop ended its own process ({type(error).__name__}: {error}); the run is as it was, to go on with"
        return Report(end="refused", code="loop.exit", message=said, exit_code=Exit.FAILED)
    raise error


def _drive(job: Job, bound: Bound[Any], pulse: Pulse) -> Report:
    """Drive the run to its rest, or until a SIGTERM has let what is in flight settle."""
    observers: list[Observer] = [_Entering(job, bound), pulse]
    drive = _drive_async if bound.loop.is_async else _drive_sync
    status = drive(job, bound, observers, pulse)
    if status.final or status is State.WAITING:
        return Report(end="done")
    return Report(end="drained", exit_code=Exit.TERMINATED)


def _drive_sync(job: Job, bound: Bound[Any], observers: Sequence[Observer], pulse: Pulse) -> State:
    from yaoki.runtime import Runner

    runner = Runner(job.store, observers=observers, notify=job.notify, interactive=job.interactive)

    def drain(number: int, frame: FrameType | None) -> None:
        del number, frame
        runner.drain()

    signal.signal(signal.SIGTERM, drain)
    pulse.start(runner)
    with runner:
        return runner.run(bound, run_id=job.run_id).status


def _drive_async(job: Job, bound: Bound[Any], observers: Sequence[Observer], pulse: Pulse) -> State:
    import asyncio

    from yaoki.runtime._async_runner import AsyncRunner

    async def drive() -> State:
        runner = AsyncRunner(job.store, observers=observers, notify=job.notify, interactive=job.interactive)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.drain)
        pulse.start(runner)
        async with runner:
            return (await runner.run(bound, run_id=job.run_id)).status

    return asyncio.run(drive())


class _Entering:
    """Says what should be known before the run starts, once it is claimed: nothing refuses it any more."""

    def __init__(self, job: Job, bound: Bound[Any]) -> None:
        self._job = job
        self._bound = bound
        self._said = not job.notes

    def __call__(self, event: Event) -> None:
        if self._said or not isinstance(event.record, Claimed):
            return
        self._said = True
        job = self._job
        lines = [f"run {job.run_id}"] if job.name_it else []
        lines += self._bound.loop.preflight()
        for line in lines:
            say(line)


def say(text: str, *, fit: bool = True) -> None:
    """Write a line to stderr, if it can be written: no run depends on a log."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{_fitted(f'yaoki: {text}') if fit else f'yaoki: {text}'}\n")
        sys.stderr.flush()


def _fitted(text: str) -> str:
    """Return the text with its lines broken between words, where it is a terminal that shows it."""
    if not sys.stderr.isatty():
        return text
    import textwrap

    width = max(os.get_terminal_size(2).columns, 20)
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
