"""
Cases in processes: a worker forks one child for each life of a case, and waits for its end.

A worker is forked from the caller and has one thread; it opens no store. So its children inherit the loop and the
tools as they are, closures included, and nothing that a fork would break.
"""

from __future__ import annotations

import os
import signal
import struct
import traceback
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from yaoki.testing._life import SAID, Plan, live
from yaoki.testing._points import DIED
from yaoki.testing._world import append_line, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Case", "Died", "bring_about", "brought_about", "each_in_processes"]

_SAID_MOST = 2_000
_NUMBER = struct.Struct("<I")
_DIFFERING_MOST = 10
_ENOUGH = "enough"
"""A file that says to the workers that no more cases are needed."""


class Case(Struct, frozen=True, kw_only=True):
    """A run to be killed at some places, one in each of its first lives."""

    index: int
    number: int
    """The place of its first death; 0: nobody is killed."""
    kills: tuple[int, ...]
    name: str

    def home(self, folder: Path) -> Path:
        """Return its own folder: store, world, what its lives said."""
        return folder / self.name


class Died(Struct):
    """What became of a case."""

    index: int
    where: list[str]
    """Where its lives died."""
    kinds: list[str]
    """Of what kind those places are."""
    what: list[str]
    """What is wrong with its end; nothing if it is the undisturbed one."""


def bring_about(plan: Plan, folder: Path, case: Case) -> Died:
    """Let one life after the other take the run up until one ends it; only the first ones are killed."""
    home = case.home(folder)
    home.mkdir()
    where: list[str] = []
    kinds: list[str] = []
    for kill_at in (*case.kills, 0):
        code = _one_life(plan, home, kill_at)
        if code == 0:
            return Died(case.index, where, kinds, [])
        if code == -signal.SIGKILL and (home / DIED).exists():
            kind, _, place = (home / DIED).read_text(encoding="utf-8").partition("\n")
            kinds.append(kind)
            where.append(place)
            (home / DIED).unlink()
            continue
        return Died(case.index, where, kinds, [_trouble(plan, home, code)])
    return Died(case.index, where, kinds, ["the life that nobody kills was killed"])


def _one_life(plan: Plan, home: Path, kill_at: int) -> int:
    with warnings.catch_warnings():
        # Python warns of threads of the caller's (a test runner's): the child uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        live(plan, home, kill_at)
    try:
        _, status = os.waitpid(pid, 0)
    except BaseException:  # Ctrl-C: it is our child, and not yet reaped
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return os.waitstatus_to_exitcode(status)


def _trouble(plan: Plan, home: Path, code: int) -> str:
    said = (home / SAID).read_text(encoding="utf-8", errors="replace") if (home / SAID).exists() else ""
    last = said.strip()[-_SAID_MOST:]
    if code == -signal.SIGALRM:
        return f"a process did not come to an end within {plan.life_s} s\n{last}"
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return f"a process ended {how}\n{last}"


def each_in_processes(
    plan: Plan, folder: Path, cases: Sequence[Case], count: int, judge: Callable[[Case], list[str]]
) -> list[Died]:
    """
    Bring all cases about, `count` at once, and return what became of each, in order.

    Once a worker has found ten that differ, the cases not yet begun are left out.
    """
    reads, writes = os.pipe()
    workers: list[int] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # as for a life
            for number in range(min(count, len(cases))):
                pid = os.fork()
                if pid == 0:
                    os.close(writes)
                    _work(plan, folder, cases, judge, reads=reads, results=folder / f"worker-{number}.jsonl")
                workers.append(pid)
                with suppress(OSError):  # it may have done so itself, and be gone
                    os.setpgid(pid, pid)
        os.close(reads)
        reads = -1
        with suppress(BrokenPipeError):  # all workers have found enough
            for place in range(len(cases)):
                os.write(writes, _NUMBER.pack(place))
        os.close(writes)
        writes = -1
        while workers:
            os.waitpid(workers[0], 0)
            workers.pop(0)
    finally:
        for fd in (reads, writes):
            if fd >= 0:
                os.close(fd)
        for pid in workers:  # only after Ctrl-C: each leads a group of its own, with the life it waits for
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    died = [msgspec.convert(line, Died) for path in sorted(folder.glob("worker-*.jsonl")) for line in read_lines(path)]
    if not (folder / _ENOUGH).exists():
        lost = {case.index for case in cases} - {one.index for one in died}
        died += [Died(index, [], [], ["its worker ended before it did"]) for index in lost]
    return sorted(died, key=lambda one: one.index)


def brought_about(plan: Plan, folder: Path, case: Case, judge: Callable[[Case], list[str]]) -> Died:
    """Bring a case about and judge it; what is raised (by the user's `same`, by a full disk) is said of the case."""
    try:
        died = bring_about(plan, folder, case)
        if not died.what:
            died.what = judge(case)
    except Exception:  # noqa: BLE001 - said in the report
        return Died(case.index, [], [], [f"its end could not be judged\n{traceback.format_exc()[-_SAID_MOST:]}"])
    return died


def _work(
    plan: Plan, folder: Path, cases: Sequence[Case], judge: Callable[[Case], list[str]], *, reads: int, results: Path
) -> None:
    """Take cases from the pipe until it is empty, then leave the process."""
    code = 1
    try:
        with suppress(OSError):  # its parent may have done so
            os.setpgid(0, 0)
        differing = 0
        while not (folder / _ENOUGH).exists() and (data := os.read(reads, _NUMBER.size)):
            died = brought_about(plan, folder, cases[int(_NUMBER.unpack(data)[0])], judge)
            append_line(results, msgspec.to_builtins(died))
            differing += bool(died.what)
            if differing == _DIFFERING_MOST:
                (folder / _ENOUGH).touch()
        code = 0
    finally:
        os._exit(code)
