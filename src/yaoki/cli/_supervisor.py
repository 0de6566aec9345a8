"""
The supervisor of `yaoki run` and `yaoki worker`: keeps one worker process alive until its work is done.

It imports no user code, so nothing in a loop can take it down; of the store it only reads, and notes there that
it ordered a worker to stop. Correctness does not depend on it: when it dies, the kernel kills its worker, and
the same command typed again goes on. It restarts a worker that died, kills one that hangs, passes a signal on
and waits for what is in flight to settle, ends what a dead worker has left running, and as process 1 of a
container reaps what others have left.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from yaoki.cli._child import Wakeup, signal_name
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._orphans import is_reaper, reap_others
from yaoki.cli._restarts import Restarts
from yaoki.cli._store import open_store
from yaoki.cli._views_text import plural
from yaoki.errors import RunBusy, YaokiError

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from yaoki.cli._child import Child
    from yaoki.cli._options import Session
    from yaoki.cli._report import Report

__all__ = ["DRAIN_S", "Charge", "Interrupted", "supervise"]

DRAIN_S = 5.0
_INSISTED = 2
"""The second signal does not wait for what is in flight."""
_LOOK_S = 1.0
"""How often the store is read while a worker runs; where reading is slow, less often."""
_LOOK_SHARE = 20
"""Reading takes at most one part in this many of the time."""


class Interrupted(Exception):  # noqa: N818 - an ending, not an error
    """A signal ended the command before its work was done; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def supervise(charge: Charge, here: Session, *, drain_s: float = DRAIN_S) -> Report | None:
    """
    Keep a worker at its charge until that is done; return its report, `None` if it died with nothing left to do.

    Raises:
        CommandError: The worker refused (its own code and message), or died again and again.
        Interrupted: A signal came; the worker has ended, its runs go on with the same command.
    """
    with ExitStack() as stack:
        wakeup = Wakeup()
        stack.callback(wakeup.close)
        return _Supervisor(charge, here, wakeup, stack.enter_context(_signals()), drain_s).run()


class Charge(Protocol):
    """What a worker is kept at."""

    def start(self, *, first: bool) -> Child:
        """Start a worker."""
        ...

    def look(self, child: Child) -> None:
        """Take in what is new, and tell who watches."""
        ...

    def took_up(self, child: Child) -> bool:
        """Whether that worker got as far as its work."""
        ...

    def settled(self) -> int:
        """Return how many attempts were settled so far, by all workers."""
        ...

    def at_rest(self) -> bool:
        """Whether nothing is left to do."""
        ...

    def hint(self) -> str:
        """Return what to type about a worker that dies before it gets to work."""
        ...


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
    def __init__(self, charge: Charge, here: Session, wakeup: Wakeup, stop: _Stop, drain_s: float) -> None:
        self._charge = charge
        self._here = here
        self._wakeup = wakeup
        self._stop = stop
        self._drain_s = drain_s
        self._restarts = Restarts()
        self._last = ""
        self._reaps = is_reaper()

    def run(self) -> Report | None:
        while True:
            child = self._charge.start(first=self._restarts.total == 0)
            try:
                self._attend(child)
                report = child.report()
            finally:
                child.kill()
                child.close()
            if self._over(child, report):
                return report

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
            if self._reaps:
                reap_others(child.pid)
            self._charge.look(child)
            hung = child.hung()
            if hung:
                self._here.out.note(f"{hung}: killing the worker (pid {child.pid})")
                child.kill()
                return
            ended_s = clock.monotonic_s()
            look_at_s = ended_s + max(_LOOK_S, _LOOK_SHARE * (ended_s - began_s))

    def _drain(self, child: Child) -> None:
        """Pass the signal on, and wait for what is in flight: a few seconds at most, or until somebody insists."""
        clock = self._here.clock
        note_stop(self._here.store, child.mark)  # killed by whomever from now on, it did not crash
        child.signal(signal.SIGTERM)
        self._here.out.note(f"stopping: what is in flight has {self._drain_s:g} s to settle; again kills it now")
        until_s = clock.monotonic_s() + self._drain_s
        while clock.monotonic_s() < until_s and self._stop.count < _INSISTED:
            if child.wait(until_s - clock.monotonic_s(), self._wakeup):
                return
        child.kill()

    def _over(self, child: Child, report: Report | None) -> bool:
        """Return whether the work is done; if it is not, wait as long as the next worker must."""
        self._charge.look(child)
        if report is not None and report.end == "done":
            return True
        if report is not None and report.end == "refused" and not self._lingers(report):
            raise CommandError(report.code, report.message, report.exit_code or Exit.FAILED)
        if self._charge.at_rest():
            return True
        if self._stop.count:
            raise Interrupted(self._stop.number)
        self._after_death(child)
        return False

    def _lingers(self, report: Report) -> bool:
        """
        Whether the run is said to be driven by the very worker that has just died.

        A program that worker was about to start may hold its lock until its exec, a moment after the death.
        """
        return report.code == RunBusy.code and bool(self._last) and f"(pid {self._last})" in report.message

    def _after_death(self, child: Child) -> None:
        how = signal_name(child.returncode or 0)
        took_up = self._charge.took_up(child)
        self._last = str(child.pid) if took_up else self._last
        delay_s = self._restarts.after_death(claimed=took_up, settled=self._charge.settled())
        if delay_s is None:
            deaths = plural(self._restarts.unclaimed or self._restarts.stuck, "time")
            when = "before it got to work" if self._restarts.unclaimed else "without settling a step"
            raise CommandError(
                "worker.died",
                f"the worker died {deaths} in a row {when} (last: {how}); {self._charge.hint()}",
                Exit.FAILED,
            )
        self._here.out.note(f"worker (pid {child.pid}) died, {how}; starting another in {delay_s:g} s")
        until_s = self._here.clock.monotonic_s() + delay_s
        while not self._stop.count and (left_s := until_s - self._here.clock.monotonic_s()) > 0:
            self._wakeup.wait(left_s)
        if self._stop.count:
            raise Interrupted(self._stop.number)


def note_stop(store: str, mark: str) -> None:
    """Note in the store that the workers of a process were ordered to stop; a store that cannot be had is not told."""
    with suppress(YaokiError), open_store(store) as verbs:
        journal = verbs.store
        journal.stopping([worker.id for worker in journal.workers() if worker.mark == mark])
