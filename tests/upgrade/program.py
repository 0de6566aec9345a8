"""
The loops behind the kept stores, and what makes such a store: a run in every state.

Their code may change only so that runs of every kept store still replay. To keep a new schema version:

    python -m tests.upgrade.program tests/upgrade/vN.db
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import ClassVar

import apsw

from yaoki import INJECTED, Budget, Effect, Retry, Run, Runner, loop, tool
from yaoki.records import State

__all__ = ["BOUND", "STATES", "Asked", "outside"]

ONCE = Retry(attempts_max=1)


class Asked:
    """What the outside does: fails while `down`; kills the process while `deadly`."""

    down = False
    deadly = False
    calls: ClassVar[list[str]] = []


def outside(name: str) -> str:
    Asked.calls.append(name)
    if Asked.deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    if Asked.down:
        raise ConnectionResetError(104, "reset")
    return name


@tool(effect=Effect.READ_ONLY, retry=ONCE)
def look(what: str) -> str:
    return outside(f"look {what}")


@tool(effect=Effect.READ_ONLY)
def try_hard(what: str) -> str:
    return outside(f"try {what}")


@tool(effect=Effect.KEYED, retry=ONCE)
def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
    return outside(f"charge {what} {idempotency_key}").split()[1]


@tool
def note(what: str) -> str:
    return outside(f"note {what}")


@loop
def plain(run: Run) -> list[str]:
    return [note("a"), str(run.uuid())[:0], charge("a")]


@loop
def later(run: Run) -> str:
    first = note("a")
    run.sleep(3600)
    return first + note("b")


@loop(budget=Budget(calls=2))
def budgeted(run: Run) -> list[str]:
    return [note("a"), note("b"), note("c")]


@loop(budget=Budget(turns=2))
def turning(run: Run) -> int:
    seen = 0
    start = note("prelude")
    for lines in run.turns([start]):
        lines.append(charge(f"turn {len(lines)}"))
        seen = len(lines)
    return seen


@loop
def endless(run: Run) -> int:
    """Take turns that a cancel or a death ends; without either, the fourth does."""
    for lines in run.turns(["start"]):
        lines.append(look(f"turn {len(lines)}"))
        if len(lines) == 4:
            return len(lines)
    return 0


@loop
def drifting(run: Run) -> str:
    return look("old" if Asked.down else "new") + try_hard("a")


@loop
def fanning(run: Run) -> list[str]:
    return [one.value for one in run.map(note, ["a", "b", "c"], limit=1)]


BOUND = {
    "pending": plain.bind(),
    "running": fanning.bind(),
    "sleeping": later.bind(),
    "waiting-person": plain.bind(),
    "waiting-budget": budgeted.bind(),
    "waiting-code": drifting.bind(),
    "completed": plain.bind(),
    "capped": turning.bind(),
    "dead": endless.bind(),
    "cancelled": endless.bind(),
}
STATES = {name: State(name.partition("-")[0]) for name in BOUND}


class Away(BaseException):
    """Ends a process's life with a run at a moment of our choice."""


class Impatient:
    """A clock on which nobody sleeps: to sleep is to leave."""

    def __init__(self) -> None:
        from yaoki.clock import SystemClock

        self._clock = SystemClock()
        self.now_ms, self.monotonic_s = self._clock.now_ms, self._clock.monotonic_s
        self.rng, self.new_id = self._clock.rng, self._clock.new_id

    def sleep(self, delay_s: float) -> None:
        raise Away


def run_until_it_leaves(url: str, name: str) -> None:
    with Runner(url, clock=Impatient()) as runner:
        try:
            runner.run(BOUND[name], run_id=name)
        except Away:
            return


def make(path: Path) -> None:
    """Make the store, one run after another, and fold its `-wal` into it."""
    url = f"sqlite:///{path}"
    with Runner(url) as runner:
        bound = BOUND["pending"]
        runner.store.create("pending", loop=bound.loop.name, input=bound.data, file="loops.py")
    for name in ("completed", "capped", "sleeping", "waiting-budget"):
        run_until_it_leaves(url, name)
    Asked.down = True
    for name in ("waiting-person", "dead"):
        run_until_it_leaves(url, name)
    Asked.down = False
    with Runner(url) as runner:
        bound = BOUND["cancelled"]
        runner.store.create("cancelled", loop=bound.loop.name, input=bound.data, file="loops.py")
        runner.cancel("cancelled", by="the maker")
    run_until_it_leaves(url, "cancelled")
    _drift(url)
    _die(url)
    _tidy(path)


def _drift(url: str) -> None:
    """Leave a run whose code has changed since its first step."""
    original = try_hard.fn
    try_hard.fn = _interrupted
    try:
        Asked.down = False
        with Runner(url) as runner:
            runner.run(drifting.bind(), run_id="waiting-code")
    except KeyboardInterrupt:
        pass
    finally:
        try_hard.fn = original
    Asked.down = True
    run_until_it_leaves(url, "waiting-code")
    Asked.down = False


def _interrupted(what: str) -> str:
    raise KeyboardInterrupt


def _die(url: str) -> None:
    """Leave a run `running`: its process is killed in its first step."""
    pid = os.fork()
    if not pid:
        Asked.deadly = True
        run_until_it_leaves(url, "running")
        os._exit(0)
    os.waitpid(pid, 0)


def _tidy(path: Path) -> None:
    """One file, without paths and process names of the machine it was made on."""
    connection = apsw.Connection(str(path))
    connection.execute("update run set file = 'loops.py'")
    connection.execute("update worker set host = 'host'")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.execute("vacuum")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    for name in ("-wal", "-shm", "-lock"):
        path.with_name(path.name + name).unlink(missing_ok=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
