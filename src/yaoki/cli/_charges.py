"""What a supervisor keeps its worker at: one run, or every run of some files' loops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from yaoki.cli._child import Child
from yaoki.cli._progress import Reader

if TYPE_CHECKING:
    from yaoki.cli._options import Session
    from yaoki.cli._report import Job, Service

__all__ = ["ManyRuns", "OneRun"]


class OneRun:
    """The run of `yaoki run`: until it is final or waits for somebody."""

    def __init__(self, job: Job, here: Session, *, again: bool = False) -> None:
        self._job = job
        self._again = again
        self._reader = Reader(job.run_id, here)
        self._reader.look(tell=False)

    def start(self, *, first: bool) -> Child:
        """Start a worker; the first one says what should be known."""
        job = msgspec.structs.replace(self._job, notes=first and not self._again)
        return Child("yaoki.cli._worker", [job.target, "--run-id", job.run_id], msgspec.json.encode(job))

    def look(self, child: Child) -> None:
        """Read the journal."""
        child.listen()
        self._reader.look()

    def took_up(self, child: Child) -> bool:
        """Whether it claimed the run."""
        claim = self._reader.watch.claim
        return claim is not None and claim.pid == child.pid

    def settled(self) -> int:
        """Return the attempts settled in this run."""
        return self._reader.watch.settled

    def at_rest(self) -> bool:
        """Whether the run is final or waits."""
        return self._reader.at_rest()

    def hint(self) -> str:
        """Name what to import by hand."""
        return f"import {self._job.target.rpartition(':')[0] or self._job.target} by hand to see why"

    def close(self) -> None:
        """Close the connection it reads over."""
        self._reader.close()


class ManyRuns:
    """The runs of `yaoki worker`; what dead workers have left counts on."""

    def __init__(self, service: Service, here: Session) -> None:
        self._service = service
        self._here = here
        self._before: Counter[str] = Counter()
        self._settled_before = 0
        self._child: Child | None = None
        self._shown = ""

    def start(self, *, first: bool) -> Child:
        """Start a worker; the first one says what should be known."""
        if self._child is not None and self._child.beat is not None:
            self._before.update(self._child.beat.left)
            self._settled_before += self._child.beat.settled
        service = msgspec.structs.replace(self._service, notes=first)
        self._child = Child("yaoki.cli._serve", service.files, msgspec.json.encode(service))
        return self._child

    def look(self, child: Child) -> None:
        """Show how far it is, where somebody watches."""
        child.listen()
        beat = child.beat
        if beat is None or not self._here.out.watched:
            return
        left = self.left()
        ended = " · ".join(f"{left[state]} {state}" for state in left if left[state])
        shown = f"{beat.active} running{f' · {ended}' if ended else ''}"
        if shown != self._shown:
            self._shown = shown
            self._here.out.note(shown)

    def left(self) -> Counter[str]:
        """Return how many runs were left, by where, by all workers so far."""
        found = Counter(self._before)
        if self._child is not None and self._child.beat is not None:
            report = self._child.report()
            found.update(report.left if report is not None and report.left else self._child.beat.left)
        return found

    def took_up(self, child: Child) -> bool:
        """Whether it got as far as serving."""
        return child.beat is not None

    def settled(self) -> int:
        """Return the attempts settled by all workers so far."""
        beat = self._child.beat if self._child is not None else None
        return self._settled_before + (beat.settled if beat is not None else 0)

    def at_rest(self) -> bool:
        """Return that it is not: a worker that died has something to do, or will have."""
        return False

    def hint(self) -> str:
        """Name what to import by hand."""
        return f"import {self._service.files[0]} by hand to see why"
