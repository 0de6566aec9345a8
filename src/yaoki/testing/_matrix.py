"""The crash matrix: a run killed at each of its places, taken up again, and held against the undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from yaoki.errors import DeclarationError
from yaoki.runtime import Bound, Loop
from yaoki.testing._ending import Ending, differences
from yaoki.testing._life import ENDED, Plan
from yaoki.testing._workers import Case, bring_about, brought_about, each_in_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaoki.runtime import Ask
    from yaoki.testing._world import Outside

__all__ = ["CrashDifferences", "Difference", "Matrix", "crash_matrix"]

_POINTS_MOST = 10_000
_DEATHS_MOST = 3
_PROCESSES_MOST = 64
_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
_ROOM_BYTES = 512 << 20
_UNDISTURBED = "undisturbed"
_SHOWN_MOST = 20
_ALONE = (
    "with nobody killed, run a second time; so no place was tried "
    "(what differs from run to run is left out by same=… for values, by_key=False for arguments)"
)


class Difference(Struct, frozen=True):
    """A case whose end is not the undisturbed one."""

    point: int
    """The place of the (first) death, counted from 1; 0: nobody was killed, the run differs from itself."""
    where: tuple[str, ...]
    """Where its lives died, in order."""
    what: tuple[str, ...]
    """One line for each thing that differs."""
    folder: str
    """Where its store, its world and what it printed are kept."""

    def __str__(self) -> str:
        at = f"killed at place {self.point}" if self.point else _ALONE
        lines = [f"  {at}" + "".join(f"\n      {where}" for where in self.where)]
        lines += [f"    - {what}".replace("\n", "\n      ") for what in self.what]
        return "\n".join([*lines, f"    kept: {self.folder}"])


class Matrix(Struct, frozen=True, kw_only=True):
    """What a crash matrix found; `str()` of it is the report."""

    loop: str
    places: int
    """Places where the undisturbed run can die."""
    cases: int
    """Cases that were run, the one that is not killed included; those after the tenth that differs are left out."""
    deaths: int
    """Processes that were really killed."""
    kinds: dict[str, int]
    """How many of them at each kind of place."""
    differences: tuple[Difference, ...]
    seed: int

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        head = (
            f"crash matrix of {self.loop}: {self.cases} cases over {self.places} places, "
            f"{self.deaths} processes killed, {len(self.differences)} differ (seed {self.seed})"
        )
        shown = [str(one) for one in self.differences[:_SHOWN_MOST]]
        more = len(self.differences) - len(shown)
        return "\n".join([head, f"  killed: {kinds or 'nobody'}", *shown, *([f"  … {more} more"] if more else [])])


class CrashDifferences(AssertionError):  # noqa: N818 - it is an assertion, named by what it found
    """A run killed somewhere did not end as the undisturbed one did. `matrix` has all of them."""

    def __init__(self, matrix: Matrix) -> None:
        super().__init__(str(matrix))
        self.matrix = matrix


def crash_matrix(
    loop: Loop[..., Any] | Bound[Any],
    *,
    world: Outside | None = None,
    answer: Callable[[Ask], str | tuple[str, object] | None] | None = None,
    same: Callable[[Any], object] = lambda value: value,
    by_key: bool = True,
    ends: str = "completed",
    deaths: int = 1,
    points_max: int = 1_000,
    processes: int | None = None,
    seed: int = 7,
    restart_at_checkpoint: bool = False,
    always_replay: bool = False,
    folder: Path | str | None = None,
    life_s: int = 60,
) -> Matrix:
    """
    Run a loop once undisturbed, then again for each place where a process can die, and hold each end against the first.

    A place is: before and after each write of the journal (the begin, the settle, the checkpoint, the undo, the
    claim, the end), between begin and call, between call and settle, before and after each deed of a `World`, and each
    `point(…)` of your own. There the process, a forked child, sends itself SIGKILL. The next one takes the run up. At
    the end these must be equal: status, value, each effect by its key and how often it came about, and what people
    were asked. No budget may be refunded or overspent, and no key may change or be shared. Waits are skipped as by
    `no_waits`.

    What is asked is answered from what really happened: a doubt by whether the tool returned, or the `World` has its
    deed; an approval is given; a question gets its first option. What your loop writes elsewhere is seen by nobody: let
    it act on a `World`, or hand over a log of your own.

    It forks, so it needs Linux or macOS, and is best called from a thread that holds no locks. Nothing is sent anywhere
    that the loop does not send itself: let its tools act on the world, not on a vendor.

    Args:
        loop: A loop that needs no arguments, or a bound one.
        world: A `World` the tools act on, or anything with its `open` and `effects`. Each case has a log of its own.
        answer: Is given each open question first; a verdict (`"not-happened"`), a verdict and a value
            (`("value", "Rome")`), or None for the answer above.
        same: Applied to each value, as JSON, before it is compared; leaves out what may differ from run to run.
        by_key: Effects are compared by their keys. False: by tool and number, for arguments that differ from run to run
            (those that hold a time, a chance or a new id).
        ends: The status the undisturbed run is to end in (`completed`, `capped`, `dead`, `cancelled`, or `waiting`), so
            that a loop which does not get far in the test is not taken for one that survives.
        deaths: How often a run is killed, 1 to 3; the second death and the third fall at places drawn from the seed.
        points_max: The most places that are tried, 1 to 10,000; if there are more, they are drawn evenly, by the seed.
        processes: How many cases at once, 1 to 64; by default the machine's cores.
        seed: Of every choice made here.
        restart_at_checkpoint: Re-enter each turn from its decoded state.
        always_replay: Re-enter each step from the journal, as `always_replay` does; slower.
        folder: Where cases that differ are kept, in a folder of this matrix's own; by default among temporary files.
        life_s: A process that lives longer is killed, and its case differs.

    Raises:
        CrashDifferences: An AssertionError that says what differed, and where each process died.
        DeclarationError: An argument out of its bounds, or an undisturbed run that does not end as `ends` says.
    """
    if isinstance(loop, Loop):
        loop = loop.bind()
    count = processes or os.cpu_count() or 1
    for name, value, most in (
        ("deaths", deaths, _DEATHS_MOST),
        ("points_max", points_max, _POINTS_MOST),
        ("processes", count, _PROCESSES_MOST),
        ("life_s", life_s, 3_600),
    ):
        if not 1 <= value <= most:
            msg = f"crash_matrix: {name} is {value}; it lies between 1 and {most:,}"
            raise DeclarationError(msg)
    if not hasattr(os, "fork"):
        msg = "crash_matrix forks its processes, which this system cannot; run it on Linux or macOS"
        raise DeclarationError(msg)
    loop.loop.resolve()
    home = Path(tempfile.mkdtemp(prefix="yaoki-crash-matrix-", dir=_memory()))
    plan = Plan(
        bound=loop,
        world=world,
        answer=answer,
        restart_at_checkpoint=restart_at_checkpoint,
        always_replay=always_replay,
        life_s=life_s,
    )
    try:
        undisturbed = _undisturbed(plan, home, ends)
        cases = _cases(undisturbed, points_max=points_max, deaths=deaths, rng=random.Random(seed))  # noqa: S311 - a draw
        judge = partial(_judged, home, undisturbed=undisturbed, same=same, by_key=by_key)
        died = [brought_about(plan, home, cases[0], judge)]
        if not died[0].what:  # else every case would differ by that alone
            died += each_in_processes(plan, home, cases[1:], count, judge)
        differing = [(cases[one.index], one) for one in died if one.what]
        kept = _kept(home, folder, [case for case, _ in differing])
    finally:  # after Ctrl-C too
        shutil.rmtree(home, ignore_errors=True)
    matrix = Matrix(
        loop=loop.loop.name,
        places=len(undisturbed.trail),
        cases=len(died),
        deaths=sum(len(one.where) for one in died),
        kinds=dict(Counter(kind for one in died for kind in one.kinds)),
        differences=tuple(
            Difference(case.number, tuple(one.where), tuple(one.what), str(case.home(kept))) for case, one in differing
        ),
        seed=seed,
    )
    if matrix.differences:
        raise CrashDifferences(matrix)
    return matrix


def _memory() -> str | None:
    """Return a folder in memory, if there is room in one: no power is lost here, so nothing need be on a disk."""
    roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    return _MEMORY if roomy else None


def _kept(home: Path, folder: Path | str | None, differing: Sequence[Case]) -> Path:
    """Move what differs to where it is kept, the undisturbed run beside it; return that folder."""
    if not differing:
        return home
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    kept = Path(tempfile.mkdtemp(prefix="yaoki-crash-matrix-", dir=folder))
    for name in (_UNDISTURBED, *(case.name for case in differing)):
        if (home / name).exists():
            shutil.move(home / name, kept / name)
    return kept


def _undisturbed(plan: Plan, home: Path, ends: str) -> Ending:
    """Run it once with nobody killed: what every case is held against."""
    case = Case(index=0, number=0, kills=(), name=_UNDISTURBED)
    died = bring_about(plan, home, case)
    if died.what:
        msg = f"crash_matrix: {plan.bound.loop.name} does not end by itself, undisturbed: {'; '.join(died.what)}"
        raise DeclarationError(msg)
    ending = _read(case.home(home))
    if ending.status != ends:
        because = f": {ending.text}" if ending.text else ""
        msg = f"crash_matrix: {plan.bound.loop.name} ends {ending.status}, undisturbed, not {ends}{because}"
        raise DeclarationError(msg)
    if not ending.trail:
        msg = f"crash_matrix: {plan.bound.loop.name} came by no place where it could be killed; nothing was tested"
        raise DeclarationError(msg)
    return ending


def _cases(undisturbed: Ending, *, points_max: int, deaths: int, rng: random.Random) -> Sequence[Case]:
    """Return a case with nobody killed first, and one for each place, or for places drawn evenly over all."""
    places = len(undisturbed.trail)
    chosen = list(range(1, places + 1))
    if places > points_max:
        step = places / points_max
        chosen = sorted({min(places, 1 + int(step * (n + rng.random()))) for n in range(points_max)})
    kills = [(number, *(rng.randint(1, places) for _ in range(deaths - 1))) for number in chosen]
    cases = [Case(index=0, number=0, kills=(), name="again")]
    return cases + [Case(index=1 + i, number=one[0], kills=one, name=f"place-{one[0]}") for i, one in enumerate(kills)]


def _judged(home: Path, case: Case, *, undisturbed: Ending, same: Callable[[Any], object], by_key: bool) -> list[str]:
    """Return what differs in a case that came to its end; what is equal leaves nothing on disk."""
    found = differences(_read(case.home(home)), undisturbed, same=same, by_key=by_key)
    if not found:
        shutil.rmtree(case.home(home), ignore_errors=True)
    return found


def _read(home: Path) -> Ending:
    return msgspec.json.decode((home / ENDED).read_bytes(), type=Ending)
