"""
The supervisor of `yaoki run`: keeps one worker alive until its run is final or waits for somebody.

It imports no user code, so nothing in a loop can take it down, and it only reads the store, over a
connection of its own. Correctness does not depend on it: when it dies, the kernel kills its worker, and
the same command typed again goes on. It restarts a worker that died, kills one whose attempt is past
twice its timeout, and passes a signal on and waits for the attempt in flight to settle.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from yaoki.cli._child import Child, Wakeup, signal_name
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._progress import Reader
from yaoki.cli._restarts import Restarts
from yaoki.cli._views_text import plural

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from yaoki.cli._options import Session
    from yaoki.cli._report import Job, Report

__all__ = ["Interrupted", "supervise"]

_DRAIN_S = 5.0
_INSISTED = 2
"""The second signal does not wait for what is in flight."""
_LOOK_S = 1.0
"""How often the store is read while a worker runs; where reading is slow, less often."""
_LOOK_SHARE = 20
"""Reading takes at most one part in this many of the time."""


class Interrupted(Exception):  # noqa: N818 - an ending, not an error
    """A signal ended the command before the run was final; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def supervise(job: Job, here: Session) -> None:
    """
    Drive the run until it is final or waits for somebody; its receipt is then in the store.

    Raises:
        CommandError: The worker refused (its own code and message), or died again and again.
        Interrupted: A signal came; the worker has ended, the run goes on with the same command.
    """
    with ExitStack() as stack:
        wakeup = Wakeup()
        stack.callback(wakeup.close)
        reader = Reader(job.run_id, here)
        stack.callback(reader.close)
        reader.look(tell=False)
        _Supervisor(job, here, wakeup, reader, stack.enter_context(_signals())).run()


class _Stop:
    """The signals that came: the first one asks, the second one insists."""

    def __init__(self) -> None:
        self.number = 0
        self.count = 0

    def take(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = self.number or number
        self.count += 1


@contextmanager
def _signals() -> Generator[_Stop, None, None]:
    stop = _Stop()
    taken = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # What was ignored stays ignored: nohup, and commands a script put into the background.
    heeded = [number for number in taken if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop.take) for number in heeded}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Supervisor:
    def __init__(self, job: Job, here: Session, wakeup: Wakeup, reader: Reader, stop: _Stop) -> None:
        self._job = job
        self._here = here
        self._wakeup = wakeup
        self._reader = reader
        self._stop = stop
        self._restarts = Restarts()

    def run(self) -> None:
        while True:
            child = Child(self._job, notes=self._restarts.total == 0)
            try:
                self._attend(child)
                report = child.report()
            finally:
                child.kill()
                child.close()
            if self._over(child, report):
                return

    def _attend(self, child: Child) -> None:
        """Return when the worker has ended: by itself, or because it had to be."""
        clock = self._here.clock
        look_at_s = clock.monotonic_s() + _LOOK_S
        while not child.wait(look_at_s - clock.monotonic_s(), self._wakeup):
            if self._stop.count:
                self._drain(child)
                return
            began_s = clock.monotonic_s()
            if began_s < look_at_s:
                continue
            self._reader.look()
            overdue = self._reader.watch.overdue(child.pid, began_s)
            if overdue is not None:
                self._here.out.note(
                    f"{overdue.call} has run {2 * overdue.timeout_ms / 1_000:g} s, twice its timeout, and cannot be "
                    f"interrupted: killing the worker (pid {child.pid})",
                )
                child.kill()
                return
            ended_s = clock.monotonic_s()
            look_at_s = ended_s + max(_LOOK_S, _LOOK_SHARE * (ended_s - began_s))

    def _drain(self, child: Child) -> None:
        """Pass the signal on, and wait for what is in flight: 5 s at most, or until somebody insists."""
        clock = self._here.clock
        child.signal(signal.SIGTERM)
        self._here.out.note(f"stopping: what is in flight has {_DRAIN_S:g} s to settle; again kills it now")
        until_s = clock.monotonic_s() + _DRAIN_S
        while clock.monotonic_s() < until_s and self._stop.count < _INSISTED:
            if child.wait(until_s - clock.monotonic_s(), self._wakeup):
                return
        child.kill()

    def _over(self, child: Child, report: Report | None) -> bool:
        """Return whether the run has come to rest; if it has not, wait as long as the next worker must."""
        self._reader.look()
        if report is not None and report.end == "done":
            return True
        if report is not None and report.end == "refused":
            raise CommandError(report.code, report.message, report.exit_code or Exit.FAILED)
        if self._reader.at_rest():
            return True
        if self._stop.count:
            raise Interrupted(self._stop.number)
        self._after_death(child)
        return False

    def _after_death(self, child: Child) -> None:
        watch = self._reader.watch
        how = signal_name(child.returncode or 0)
        claimed = watch.claim is not None and watch.claim.pid == child.pid
        delay_s = self._restarts.after_death(claimed=claimed, settled=watch.settled)
        if delay_s is None:
            deaths = plural(self._restarts.unclaimed or self._restarts.stuck, "time")
            when = "before it could take the run" if self._restarts.unclaimed else "without settling a step"
            raise CommandError(
                "worker.died",
                f"the worker died {deaths} in a row {when} (last: {how}); "
                f"import {self._job.target.rpartition(':')[0] or self._job.target} by hand to see why",
                Exit.FAILED,
            )
        self._here.out.note(f"worker (pid {child.pid}) died, {how}; starting another in {delay_s:g} s")
        until_s = self._here.clock.monotonic_s() + delay_s
        while not self._stop.count and (left_s := until_s - self._here.clock.monotonic_s()) > 0:
            self._wakeup.wait(left_s)
        if self._stop.count:
            raise Interrupted(self._stop.number)
