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

if TYPE_CHECKING:
    from yaoki.journal import Journal, WorkerRow

__all__ = ["kill"]

_GONE_S = 5.0


def kill(
    number: Annotated[
        int | None, typer.Argument(metavar="[WORKER]", help="Its number; left out, the workers are listed.")
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
        journal.stopping([one.id for one in same])
        try:
            os.kill(worker.pid, signal.SIGKILL)
        except OSError as error:
            raise CommandError(
                "worker.out_of_reach", f"worker {number} (pid {worker.pid}): {error.strerror}"
            ) from error
        _wait_gone(journal, number, worker.pid)
    if as_json:
        here.out.data({**_shown(worker), "runs": runs, "killed": True})
    else:
        left = f"; others take up its {plural(runs, 'run')}" if runs else ""
        here.out.lines([line(f"worker {number} (pid {worker.pid}) is killed{left}")])
    return Exit.DONE


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
    worker = journal.worker_row(number)
    if worker is None or not worker.alive:
        there = ", ".join(str(one.id) for one in journal.workers() if one.alive) or "none"
        what = "is dead already" if worker is not None else "is not in this store"
        raise CommandError("worker.not_alive", f"worker {number} {what}; alive: {there}")
    if worker.host != platform.node():
        raise CommandError(
            "worker.out_of_reach", f"worker {number} runs on {worker.host}, this is {platform.node()}; kill it there"
        )
    if not journal.held_by(number, worker.pid):
        raise CommandError(
            "worker.out_of_reach",
            f"worker {number} is alive, but process {worker.pid} here is not it: it runs in another container; "
            "kill it there",
        )
    return worker


def _wait_gone(journal: Journal, number: int, pid: int) -> None:
    clock = SystemClock()
    until_s = clock.monotonic_s() + _GONE_S
    while (row := journal.worker_row(number)) is not None and row.alive:
        if clock.monotonic_s() > until_s:
            raise CommandError(
                "worker.lives",
                f"worker {number} still holds its lock {_GONE_S:g} s after SIGKILL to {pid}",
                Exit.FAILED,
            )
        clock.sleep(0.01)


def _shown(worker: WorkerRow) -> dict[str, object]:
    return {"worker": worker.id, "pid": worker.pid, "host": worker.host, "runs": worker.runs}


def _line(worker: WorkerRow) -> str:
    return f"{worker.id:>6}  pid {worker.pid}  {worker.host}  {plural(worker.runs, 'run')}"
