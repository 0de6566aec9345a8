"""`yaoki kill`: ends a worker that hangs; its runs are taken up by others."""

from __future__ import annotations

import os
import platform
import signal
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import open_store
from yaoki.cli._views_text import line, plural
from yaoki.clock import SystemClock
from yaoki.errors import JournalError, StoreCorrupt

if TYPE_CHECKING:
    from yaoki.cli._options import Session
    from yaoki.journal import Journal, WorkerRow

__all__ = ["kill"]

_GONE_S = 5.0
_DYING_S = 1.0
_NUMBER_MAX = 2**63 - 1


def kill(
    number: Annotated[
        int | None, typer.Argument(metavar="WORKER", help="Its number; left out, the workers are listed.")
    ] = None,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Kill a worker that hangs (SIGKILL); nothing is lost, its supervisor starts another. No crash is counted."""
    here = session(store, as_json=as_json)
    with open_store(here.store) as verbs:
        journal = verbs.store
        if number is None:
            workers = _processes(journal)
            if as_json:
                here.out.data([_shown(worker) for worker in workers])
            else:
                here.out.lines([line(_line(worker)) for worker in workers] or [line("no worker is alive")])
            return Exit.DONE
        worker = _living(journal, number)
        same = [one for one in journal.workers() if _process(one) == _process(worker)]
        runs = sum(one.runs for one in same)
        _order(journal, same, here)
        try:
            os.kill(worker.pid, signal.SIGKILL)
        except OSError as error:
            raise CommandError(
                "worker.out_of_reach", f"worker {number} (pid {worker.pid}): {error.strerror}"
            ) from error
        if not _gone(journal, number, _GONE_S):
            raise CommandError(
                "worker.lives",
                f"worker {number} still holds its lock {_GONE_S:g} s after SIGKILL to {worker.pid}",
                Exit.FAILED,
            )
    if as_json:
        here.out.data({**_shown(worker), "runs": runs, "killed": True})
    else:
        left = f"; others take up its {plural(runs, 'run')}" if runs else ""
        here.out.lines([line(f"worker {number} (pid {worker.pid}) is killed{left}")])
    return Exit.DONE


def _order(journal: Journal, workers: list[WorkerRow], here: Session) -> None:
    """
    Note that these are killed on an order, which makes it no crash.

    One that was stopped in the middle of a commit keeps the store locked, also for this note: it is killed all the
    same, and that death counts.
    """
    try:
        journal.stopping([one.id for one in workers])
    except StoreCorrupt:
        raise
    except JournalError as error:
        here.out.note(f"{error} It is killed all the same, and counted as a crash.")


def _process(worker: WorkerRow) -> tuple[str, int, str]:
    return worker.host, worker.pid, worker.mark


def _processes(journal: Journal) -> list[WorkerRow]:
    """Return the living workers, one for each process: one that drives runs in threads has a number for each."""
    found: dict[tuple[str, int, str], WorkerRow] = {}
    for worker in journal.workers():
        if worker.alive:
            first = found.setdefault(_process(worker), worker)
            if first is not worker:
                found[_process(worker)] = replace(first, runs=first.runs + worker.runs)
    return list(found.values())


def _living(journal: Journal, number: int) -> WorkerRow:
    """
    Return the worker to kill.

    Raises:
        CommandError: There is none, it is dead, or its process is not to be found here.
    """
    worker = journal.worker_row(number) if 0 < number <= _NUMBER_MAX else None
    if worker is None or not worker.alive:
        raise _dead(journal, number, known=worker is not None)
    if worker.host != platform.node():
        raise CommandError(
            "worker.out_of_reach", f"worker {number} runs on {worker.host}, this is {platform.node()}; kill it there"
        )
    if not journal.held_by(number, worker.pid):
        if _gone(journal, number, _DYING_S):  # killed a moment ago, it had its lock until its last thread had ended
            raise _dead(journal, number, known=True)
        raise CommandError(
            "worker.out_of_reach",
            f"worker {number} is alive, but process {worker.pid} here is not it: it runs in another container; "
            "kill it there",
        )
    return worker


def _dead(journal: Journal, number: int, *, known: bool) -> CommandError:
    there = ", ".join(str(one.id) for one in _processes(journal)) or "none"
    what = "is dead already" if known else "is not in this store"
    return CommandError("worker.not_alive", f"worker {number} {what}; alive: {there}")


def _gone(journal: Journal, number: int, wait_s: float) -> bool:
    """Return whether the worker has let go of its lock, or does within that time."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + wait_s
    while (row := journal.worker_row(number)) is not None and row.alive:
        if clock.monotonic_s() > until_s:
            return False
        clock.sleep(0.01)
    return True


def _shown(worker: WorkerRow) -> dict[str, object]:
    return {"worker": worker.id, "pid": worker.pid, "host": worker.host, "runs": worker.runs}


def _line(worker: WorkerRow) -> str:
    return f"{worker.id:>6}  pid {worker.pid}  {worker.host}  {plural(worker.runs, 'run')}"
