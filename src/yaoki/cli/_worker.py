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
from inspect import Parameter
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, json

from yaoki.cli._bind import arguments_of, missing_of
from yaoki.cli._die_with import die_with
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._report import Job, Report
from yaoki.cli._target import find_loop_name, load_file, split_target
from yaoki.errors import (
    DeclarationError,
    EncodingError,
    InputMismatch,
    JournalError,
    YaokiError,
)
from yaoki.records import Claimed, State

if TYPE_CHECKING:
    from inspect import Signature
    from types import FrameType, ModuleType

    from yaoki.events import Event
    from yaoki.runtime import Bound, Loop

__all__ = ["main"]

_USAGE = (DeclarationError, EncodingError, InputMismatch)


def main(argv: list[str]) -> int:
    """Do the job on stdin and return the exit status; the report says what the status cannot."""
    parent, report_fd = int(argv[-2]), int(argv[-1])
    die_with(parent)
    os.set_inheritable(report_fd, False)  # noqa: FBT003 - os's own signature
    job = json.decode(sys.stdin.buffer.read(), type=Job)
    _close_stdin()
    report = _do(job)
    os.write(report_fd, json.encode(report) + b"\n")
    return report.exit_code


def _close_stdin() -> None:
    """Nobody types to a worker: a tool that reads stdin gets its end."""
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)


def _do(job: Job) -> Report:
    try:
        return _drive(job, _bound(job))
    except CommandError as error:
        _traceback(job)
        return Report(end="refused", code=error.code, message=error.message, exit_code=error.exit_code)
    except (SystemExit, KeyboardInterrupt) as error:
        _traceback(job)
        said = f"the loop ended its own process ({type(error).__name__}: {error}); the run is as it was, to go on with"
        return Report(end="refused", code="loop.exit", message=said, exit_code=Exit.FAILED)
    except YaokiError as error:
        _traceback(job)
        exit_code = Exit.USAGE if isinstance(error, _USAGE) else Exit.FAILED
        return Report(end="refused", code=error.code, message=str(error), exit_code=exit_code)


def _traceback(job: Job) -> None:
    if job.debug:
        import traceback

        traceback.print_exc()


def _bound(job: Job) -> Bound[Any]:
    """Return the loop with its arguments: those given, else those the run has, else none."""
    path, name = split_target(job.target)
    module = load_file(path)
    loops = _loops(module)
    loop = loops[find_loop_name(name, sorted(loops), str(path))]
    if job.input is UNSET:
        stored = _stored_input(job)
        if stored is not None:
            return loop.bind_data(stored)
        args, kwargs = missing_of(_spoken(loop), loop.name)
    else:
        args, kwargs = arguments_of(_spoken(loop), json.decode(job.input), loop.name)
    try:
        bound: Bound[Any] = loop.bind(*args, **kwargs)
    except (EncodingError, TypeError) as error:
        raise CommandError("input.mismatch", f"--input does not fit {loop.name}: {error}") from error
    return bound


def _drive(job: Job, bound: Bound[Any]) -> Report:
    """Drive the run to its rest, or until a SIGTERM has let what is in flight settle."""
    status = _drive_async(job, bound) if bound.loop.is_async else _drive_sync(job, bound)
    if status.final or status is State.WAITING:
        return Report(end="done")
    return Report(end="drained", exit_code=Exit.TERMINATED)


def _drive_sync(job: Job, bound: Bound[Any]) -> State:
    from yaoki.runtime import Runner

    runner = Runner(job.store, observers=[_Entering(job, bound)])

    def drain(number: int, frame: FrameType | None) -> None:
        del number, frame
        runner.drain()

    signal.signal(signal.SIGTERM, drain)
    with runner:
        return runner.run(bound, run_id=job.run_id).status


def _drive_async(job: Job, bound: Bound[Any]) -> State:
    import asyncio

    from yaoki.runtime._async_runner import AsyncRunner

    async def drive() -> State:
        runner = AsyncRunner(job.store, observers=[_Entering(job, bound)])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.drain)
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
        sys.stderr.writelines(f"{_fitted(f'yaoki: {line}')}\n" for line in lines)


def _fitted(text: str) -> str:
    """Return the text with its lines broken between words, where it is a terminal that shows it."""
    if not sys.stderr.isatty():
        return text
    import textwrap

    width = max(os.get_terminal_size(2).columns, 20)
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _loops(module: ModuleType) -> dict[str, Loop[..., Any]]:
    """Return the module's loops by the name they have there, and by their own where that is another."""
    from yaoki.runtime import Loop

    found: dict[str, Loop[..., Any]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Loop):
            loop = cast("Loop[..., Any]", value)
            found.setdefault(loop.name, loop)
            found[name] = loop
    return found


def _spoken(loop: Loop[..., Any]) -> Signature:
    """
    Return what a person can say to a loop: its parameters without the Local ones, which its file fills in.

    Raises:
        CommandError: One is not filled in.
    """
    local = loop.params.local
    parameters = loop.signature.parameters
    missing = [name for name in sorted(local - loop.locals.keys()) if parameters[name].default is Parameter.empty]
    if missing:
        raise CommandError(
            "loop.locals",
            f"{loop.name} needs {', '.join(missing)}, which no input can give; "
            f"name one in the file: served = {loop.name}.with_locals({missing[0]}=…)",
        )
    return loop.signature.replace(parameters=[p for name, p in parameters.items() if name not in local])


def _stored_input(job: Job) -> bytes | None:
    """Return the arguments the run has already, or `None`: there is no such run, or no store yet."""
    from yaoki.clock import SystemClock
    from yaoki.journal import Journal

    try:
        journal = Journal.open(job.store, clock=SystemClock(), create=False, worker=False)
    except JournalError:
        return None
    try:
        row = journal.get(job.run_id)
    finally:
        journal.close()
    return None if row is None else row.input


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
