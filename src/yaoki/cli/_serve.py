"""
The worker process of `yaoki worker`: loads the files, serves their loops, says how it ended.

`python -m yaoki.cli._serve SUPERVISOR_PID REPORT_FD`; the service comes through stdin. As in `_worker`, its
stdout is stderr already, and it imports neither typer nor rich.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import json

from yaoki.cli._die_with import die_with
from yaoki.cli._exits import CommandError
from yaoki.cli._loading import loops_of
from yaoki.cli._pulse import Pulse
from yaoki.cli._report import Report, Service
from yaoki.cli._target import load_file
from yaoki.cli._worker import close_stdin, refusal, say
from yaoki.errors import Paused
from yaoki.records import Ended, Parked
from yaoki.runtime import Runner
from yaoki.runtime._async_runner import AsyncRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from yaoki.events import Event
    from yaoki.runtime import Loop

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Serve what stdin says and return the exit status; the report says what the status cannot."""
    parent, report_fd = int(argv[-2]), int(argv[-1])
    die_with(parent)
    os.set_inheritable(report_fd, False)  # noqa: FBT003 - os's own signature
    service = json.decode(sys.stdin.buffer.read(), type=Service)
    close_stdin()
    pulse = Pulse(report_fd, hung_after_s=service.hung_after_s)
    try:
        report = _serve(service, pulse)
    except (CommandError, Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - said in the report
        report = refusal(error, debug=service.debug)
    pulse.last(report)
    return report.exit_code


def _serve(service: Service, pulse: Pulse) -> Report:
    loops = _loops(service.files)
    with Runner(service.store, submits_only=True) as runner:  # a store that is refused is all there is to say
        brake = runner.store.paused()
    if service.notes:
        if brake is not None:
            say(str(Paused(brake.by, brake.at_ms)))
        _notes(loops)
    plain = [loop for loop in loops if not loop.is_async]
    coroutines = [loop for loop in loops if loop.is_async]
    crew = _Crew(service, pulse)
    pulse.start(*crew.runners)
    drained = crew.serve(coroutines, plain)
    return Report(end="drained" if drained else "done", left=pulse.left)


def _loops(files: list[str]) -> list[Loop[..., Any]]:
    """
    Return every loop of the files; one that several import is one.

    Raises:
        CommandError: A file cannot be loaded, has no loop, or two different loops have one name.
    """
    found: dict[str, Loop[..., Any]] = {}
    where: dict[str, str] = {}
    for file in files:
        mine: dict[str, Loop[..., Any]] = {}
        for loop in loops_of(load_file(Path(file))).values():
            other = mine.get(loop.name, found.get(loop.name, loop))
            if other.fn is not loop.fn:
                here = where.get(loop.name, file)
                both = f"{file} has two loops" if here == file else f"{here} and {file} both have a loop"
                raise CommandError("loop.twice", f"{both} called {loop.name}; @loop(name=…) tells them apart")
            mine[loop.name] = loop  # the last of its variants: the one with its Local parameters filled in
        if not mine:
            raise CommandError("loop.not_found", f"{file} has no loop; decorate one: @loop def my_loop(run, …)")
        for name, loop in mine.items():
            found.setdefault(name, loop)
            where.setdefault(name, file)
    return list(found.values())


def _notes(loops: list[Loop[..., Any]]) -> None:
    for loop in loops:
        for note in loop.preflight():
            say(f"{loop.name}: {note}")


class _Crew:
    """A sync runner for plain loops and an async one for the others, stopped together."""

    def __init__(self, service: Service, pulse: Pulse) -> None:
        observers = [pulse, *([_Teller()] if service.tell else [])]
        options: dict[str, Any] = {"drain_s": service.drain_s, "observers": observers, "notify": service.notify}
        self._drain_s = service.drain_s
        self._work: dict[str, Any] = {"until": service.until, "concurrency": service.concurrency}
        self._sync = Runner(service.store, **options)
        self._async = AsyncRunner(service.store, **options)
        self.runners = (self._sync, self._async)
        self._failed: BaseException | None = None
        self._drained = False

    def serve(self, coroutines: list[Loop[..., Any]], plain: list[Loop[..., Any]]) -> bool:
        """Serve both kinds until idle or told to stop; return whether it was told to."""
        if coroutines:
            asyncio.run(self._both(coroutines, plain))
        else:  # without an event loop: a plain tool may run one of its own
            signal.signal(signal.SIGTERM, self._interrupted)
            self._serve_plain(plain)
        if self._failed is not None:
            raise self._failed
        return self._drained

    async def _both(self, coroutines: list[Loop[..., Any]], plain: list[Loop[..., Any]]) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._drain)
        beside = asyncio.create_task(self._beside(plain)) if plain else None
        try:
            async with self._async as runner:
                await runner.work(*coroutines, **self._work)
        except BaseException:  # what the plain loops have in flight may settle
            self._sync.drain()
            if beside is not None:
                await asyncio.wait({beside}, timeout=self._drain_s)
            raise
        if beside is not None:
            await beside

    async def _beside(self, plain: list[Loop[..., Any]]) -> None:
        """Serve plain loops in a thread; should that end by an error, the coroutines end too."""
        await _in_thread(partial(self._serve_plain, plain))
        if self._failed is not None:
            self._async.drain()

    def _serve_plain(self, plain: list[Loop[..., Any]]) -> None:
        try:
            with self._sync as runner:
                runner.work(*plain, **self._work)
        except BaseException as error:  # noqa: BLE001 - raised where the crew is waited for
            self._failed = error

    def _drain(self) -> None:
        self._drained = True
        self._sync.drain()
        self._async.drain()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._drained = True
        self._sync.drain()


async def _in_thread(work: Callable[[], None]) -> None:
    """Wait for a thread that does not keep the process alive."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def run() -> None:
        work()
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="yaoki-plain", daemon=True).start()
    await done.wait()


class _Teller:
    """Writes a line for each run that ends or waits."""

    def __call__(self, event: Event) -> None:
        record = event.record
        if isinstance(record, Ended):
            why = record.failure.reason if record.failure is not None else record.stopped_by
            say(f"{event.run_id}  {event.loop}  {record.state}{f'  {why}' if why else ''}", fit=False)
        elif isinstance(record, Parked) and record.state == "waiting":
            say(f"{event.run_id}  {event.loop}  waiting for {record.waits_for}: {record.text}", fit=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
