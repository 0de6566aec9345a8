"""
Yaoki beside its floors, in one run, as ratios.

    python bench/steps.py [--rounds N] [--only WORD] [--directory DIR] [--json] [--check]

Rounds alternate ours and the floor, so that a machine that changes pace changes it for both; every figure is a
median, every ratio the median of the rounds' ratios. `least` is what a release must reach, `goal` what is aimed
at; `--check` exits 1 below `least`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import floors
import msgspec

from yaoki import AsyncRun, AsyncRunner, Effect, Retry, Run, Runner, loop, retry, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS, RUNS, EACH = 1000, 50, 100
CALLS = 100_000
_LOAD_MOST = 0.5
"""A machine with more to do than this before the bench begins is not measured well."""


# ---------------------------------------------------------------- what is measured


@tool(effect=Effect.READ_ONLY)
def read(i: int) -> int:
    return i


@tool(effect=Effect.AT_MOST_ONCE)
def act(i: int) -> int:
    return i


@tool(effect=Effect.READ_ONLY)
async def read_async(i: int) -> int:
    return i


@tool(effect=Effect.AT_MOST_ONCE)
async def act_async(i: int) -> int:
    return i


@tool(effect=Effect.READ_ONLY)
async def read_yielding(i: int) -> int:
    await asyncio.sleep(0)
    return i


@tool(effect=Effect.AT_MOST_ONCE)
async def act_yielding(i: int) -> int:
    await asyncio.sleep(0)
    return i


BY_NAME = {one.name: one for one in (read, act, read_async, act_async, read_yielding, act_yielding)}


@loop
def steps(_run: Run, name: str, n: int) -> int:
    one = BY_NAME[name]
    for i in range(n):
        one(i)
    return n


@loop
async def steps_async(_run: AsyncRun, name: str, n: int) -> int:
    one = BY_NAME[name]
    for i in range(n):
        await one(i)
    return n


def store(directory: str) -> str:
    return f"sqlite:///{tempfile.mkdtemp(dir=directory)}/yaoki.db"


def one_run(directory: str, name: str) -> float:
    with Runner(store(directory)) as runner:
        start_s = time.perf_counter()
        runner.run(steps.bind(name, STEPS)).unwrap()
        return STEPS / (time.perf_counter() - start_s)


def one_run_async(directory: str, name: str) -> float:
    async def measured() -> float:
        async with AsyncRunner(store(directory)) as runner:
            start_s = time.perf_counter()
            (await runner.run(steps_async.bind(name, STEPS))).unwrap()
            return STEPS / (time.perf_counter() - start_s)

    return asyncio.run(measured())


def many_runs(directory: str, name: str) -> float:
    async def measured() -> float:
        async with AsyncRunner(store(directory)) as runner:
            start_s = time.perf_counter()
            receipts = await asyncio.gather(*(runner.run(steps_async.bind(name, EACH)) for _ in range(RUNS)))
            took_s = time.perf_counter() - start_s
            assert all(receipt.unwrap() == EACH for receipt in receipts)
            return RUNS * EACH / took_s

    return asyncio.run(measured())


# ---------------------------------------------------------------- resume


@tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=1000, base_s=0))
def next_step(started_s: float) -> None:
    """Say how long the way here was, then die as a killed process does, in the middle of the step."""
    del started_s
    print((time.monotonic() - ENTERED_S) * 1000, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


ENTERED_S = 0.0


@loop(crashes_max=1000)
def resumed(_run: Run, n: int) -> None:
    for i in range(n):
        read(i)
    next_step(0.0)


@loop(crashes_max=1000)
def resumed_turns(run: Run, n: int) -> None:
    for done in run.turns([0]):
        if done[0] == n:
            next_step(0.0)
        read(done[0])
        done[0] += 1


RESUMED = {"replay": resumed, "checkpoint": resumed_turns}


def resume_child(url: str, which: str) -> None:
    """Be the process that takes the run up and is killed in step 1,001."""
    global ENTERED_S  # noqa: PLW0603 - read by the step this process dies in
    with Runner(url) as runner:
        ENTERED_S = time.monotonic()
        runner.run(RESUMED[which].bind(STEPS if which == "replay" else 150), run_id="resume")


def resume_ms(url: str, which: str) -> tuple[float, float]:
    """Return ms from process start to step 1,001, and of these the ms since `runner.run` was called."""
    start_s = time.perf_counter()
    command = [sys.executable, __file__, "--child", url, "--which", which]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        took_ms = (time.perf_counter() - start_s) * 1000
        child.wait(timeout=60)
    if child.returncode != -signal.SIGKILL:
        raise SystemExit(f"the resumed process ended by itself, code {child.returncode}")
    return took_ms, float(line)


# ---------------------------------------------------------------- wrappers


def bare(i: int) -> int:
    return i


async def bare_async(i: int) -> int:
    return i


def per_call_us(fn: Callable[[int], object]) -> float:
    start_s = time.perf_counter()
    for _ in range(CALLS):
        fn(1)
    return (time.perf_counter() - start_s) / CALLS * 1e6


def per_call_async_us(fn: Callable[[int], object]) -> float:
    async def measured() -> float:
        start_s = time.perf_counter()
        for _ in range(CALLS):
            await fn(1)  # type: ignore[misc]
        return (time.perf_counter() - start_s) / CALLS * 1e6

    return asyncio.run(measured())


def tenacity_of(fn: Callable[[int], object]) -> Callable[[int], object] | None:
    if importlib.util.find_spec("tenacity") is None:
        return None
    import tenacity

    return tenacity.retry(stop=tenacity.stop_after_attempt(8), wait=tenacity.wait_random_exponential(max=60))(fn)


# ---------------------------------------------------------------- rows


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table; `ours` and `floor` in `unit`, `ratio` ours over floor."""

    what: str
    unit: str
    ours: float
    floor: float
    floor_name: str
    ratio: float
    least: str = ""
    goal: str = ""
    reached: bool = True
    """At or past `least`."""


def compared(
    what: str, unit: str, ours: Callable[[], float], floor: Callable[[], float], *, floor_name: str, rounds: int
) -> Row:
    """Measure both by turns; a machine that changes pace changes it for both."""
    pairs = [(ours(), floor()) for _ in range(rounds)]
    return Row(
        what=what,
        unit=unit,
        ours=statistics.median(a for a, _ in pairs),
        floor=statistics.median(b for _, b in pairs),
        floor_name=floor_name,
        ratio=statistics.median(a / b for a, b in pairs),
    )


def judged(row: Row, *, least: float | None, goal: float | None, by_ratio: bool = False) -> Row:
    """Return the row with its goals; more is better for a rate and a ratio of rates, less for a time."""
    rate = row.unit == "steps/s"
    measured = row.ratio if by_ratio else row.ours
    reached = least is None or (measured >= least if rate else measured <= least)
    sign = ">=" if rate else "<="

    def shown(value: float | None) -> str:
        if value is None:
            return ""
        return f"{sign} {value:g} of floor" if by_ratio else f"{sign} {value:,g}"

    return Row(**{**asdict(row), "least": shown(least), "goal": shown(goal), "reached": reached})


def rate_rows(directory: str, rounds: int) -> Iterator[Row]:
    def written() -> float:
        return floors.one_run(directory, 4 * STEPS, sync=False)  # long enough to time

    def synced() -> float:
        return floors.one_run(directory, STEPS, sync=True)

    for style, measure, suffix in (("sync", one_run, ""), ("async", one_run_async, "_async")):
        row = compared(
            f"one run x 1,000, READ_ONLY, {style}",
            "steps/s",
            lambda m=measure, s=suffix: m(directory, f"read{s}"),
            written,
            floor_name="2 commits",
            rounds=rounds,
        )
        yield judged(row, least=10_000, goal=18_000)
        row = compared(
            f"one run x 1,000, AT_MOST_ONCE, {style}",
            "steps/s",
            lambda m=measure, s=suffix: m(directory, f"act{s}"),
            synced,
            floor_name="fdatasync + 2 commits",
            rounds=rounds,
        )
        yield judged(row, least=0.45, goal=0.7 if style == "sync" else 0.55, by_ratio=True)
    for kind, name, sync, goal in (("READ_ONLY", "read", False, 25_000), ("AT_MOST_ONCE", "act", True, 20_000)):
        row = compared(
            f"50 runs x 100, {kind}, async",
            "steps/s",
            lambda n=name: many_runs(directory, f"{n}_yielding"),
            lambda s=sync: floors.grouped(directory, RUNS, EACH, sync=s),
            floor_name="group commit, synced" if sync else "group commit",
            rounds=rounds,
        )
        yield judged(row, least=10_000, goal=goal)


def resume_rows(directory: str, rounds: int) -> Iterator[Row]:
    for which, what, after in (
        ("replay", "resume: process start -> step 1,001", "1,000 steps"),
        ("checkpoint", "resume: the same, after 150 turns", "checkpoint"),
    ):
        url = store(directory)
        resume_ms(url, which)  # makes the run, and dies in the step that the others come back to
        inner: list[float] = []

        def ours(url: str = url, which: str = which, inner: list[float] = inner) -> float:
            took_ms, replay_ms = resume_ms(url, which)
            inner.append(replay_ms)
            return took_ms

        row = compared(
            what,
            "ms",
            ours,
            lambda: floors.process_ms("import apsw, msgspec"),
            floor_name="import apsw, msgspec",
            rounds=rounds,
        )
        yield judged(row, least=150, goal=100)
        replay_ms = statistics.median(inner)
        row = Row(
            what=f"  of it: claim, load, replay ({after})",
            unit="ms",
            ours=replay_ms,
            floor=row.ours,
            floor_name="the whole",
            ratio=replay_ms / row.ours,
        )
        yield judged(row, least=None, goal=10 if which == "replay" else None)


def wrapper_rows(_directory: str, rounds: int) -> Iterator[Row]:
    plain, plain_async = retry(bare), retry(bare_async)
    subjects: list[tuple[str, Callable[[int], object] | None, bool, float | None, float | None]] = [
        ("@retry, success path, sync", plain, False, 1.0, 0.3),
        ("@retry, success path, async", plain_async, True, 1.0, 0.4),
        ("@tool outside a run, sync", read, False, None, 0.3),
        ("@tool outside a run, async (timed)", read_async, True, None, 1.0),
        ("tenacity, success path, sync", tenacity_of(bare), False, None, None),
        ("tenacity, success path, async", tenacity_of(bare_async), True, None, None),
    ]
    for what, fn, is_async, least, goal in subjects:
        if fn is None:
            continue
        measure, floor = (per_call_async_us, bare_async) if is_async else (per_call_us, bare)
        row = compared(
            what,
            "us/call",
            lambda m=measure, f=fn: m(f),
            lambda m=measure, f=floor: m(f),
            floor_name="bare call",
            rounds=rounds,
        )
        yield judged(row, least=least, goal=goal)


def import_rows(_directory: str, rounds: int) -> Iterator[Row]:
    def above(code: str) -> float:
        return max(0.1, floors.process_ms(code) - floors.process_ms("pass"))

    rounds = max(rounds, 5)
    row = compared(
        "import yaoki, above python -c pass",
        "ms",
        lambda: above("import yaoki"),
        lambda: above("import apsw, msgspec"),
        floor_name="import apsw, msgspec",
        rounds=rounds,
    )
    yield judged(row, least=80, goal=60)


PARTS = {"rate": rate_rows, "resume": resume_rows, "wrapper": wrapper_rows, "import": import_rows}


def settings(directory: str, rounds: int) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "apsw": apsw.apsw_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "msgspec": msgspec.__version__,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "directory": directory,
        "rounds": rounds,
        "python_c_pass_ms": round(statistics.median(floors.process_ms("pass") for _ in range(rounds)), 1),
        "tenacity": "installed" if tenacity_of(bare) else "not installed: its rows are left out",
    }


def shown(value: float) -> str:
    """Return three figures, or all of a whole number's."""
    decimals = 2 - math.floor(math.log10(abs(value) or 1))
    return f"{value:,.{min(2, max(0, decimals))}f}"


def line(row: Row) -> str:
    mark = "" if row.reached else "  BELOW LEAST"
    return (
        f"{row.what:<40}{shown(row.ours):>9} {row.unit:<8}{shown(row.floor):>9} {row.floor_name:<22}"
        f"{row.ratio:>6.2f}  {row.least:<17}{row.goal:<17}{mark}"
    ).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="3 to 100; medians are taken")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part instead of all")
    parser.add_argument("--directory", default=None, help="where the stores are made; a disk, for real syncs")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--check", action="store_true", help="exit 1 if a row is below `least`")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--which", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        resume_child(options.child, options.which)
        return 0
    rounds = min(100, max(3, options.rounds))
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="yaoki-bench-") as directory:
        # Imports are measured as installed: from bytecode, whatever this shell says about writing it.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{directory}/bytecode"
        floors.process_ms("import yaoki, asyncio")
        said = settings(str(Path(directory).parent), rounds)
        rows: list[Row] = []
        if not options.json:
            print("  ".join(f"{name}={value}" for name, value in said.items()), end="\n\n")
            if os.getloadavg()[0] > _LOAD_MOST:
                print("The machine is busy with something else: rates are low and times long, ours and the floors'.\n")
            print(f"{'':<40}{'ours':>9} {'':<8}{'floor':>9} {'':<22}{'ratio':>6}  {'least':<17}{'goal':<17}".rstrip())
        for name, part in PARTS.items():
            if options.only in (None, name):
                for row in part(directory, rounds):
                    rows.append(row)
                    if not options.json:
                        print(line(row), flush=True)
    if options.json:
        print(json.dumps({"settings": said, "rows": [asdict(row) for row in rows]}, indent=2))
    return int(options.check and not all(row.reached for row in rows))


if __name__ == "__main__":
    sys.exit(main())
