"""
What the journal costs beside its floors, in one run, as ratios.

    python bench/journal.py [--steps N] [--rounds N] [--directory DIR]

Floors: two autocommits a step in SQLite through apsw alone (WAL, synchronous=NORMAL, the same rows, encoded
beforehand); the same and one fdatasync of the `-wal`. Rounds alternate, so that a machine that changes pace
changes it for both; medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from msgspec import Raw

from yaoki.clock import SystemClock
from yaoki.journal import Journal
from yaoki.journal._codec import encode
from yaoki.records import Begin, Effect, Record, Settle, State, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

AT = 1_700_000_000_000
KEY = "1.3//ask_model#0"
BEGIN = Begin(at=AT, key="k" * 32, action="a" * 32, effect=Effect.READ_ONLY, deadline_at=AT + 900_000)
SETTLE = Settle(at=AT, value=Raw(b'"' + b"x" * 300 + b'"'))


def rate(count: int, work: Callable[[], object]) -> float:
    """Return `count` per second of `work`."""
    start_s = time.perf_counter()
    work()
    return count / (time.perf_counter() - start_s)


class Floor:
    """SQLite through apsw, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        for pragma in ("journal_mode = wal", "synchronous = normal", "wal_autocheckpoint = 0"):
            self.connection.execute(f"pragma {pragma}").fetchall()
        self.connection.execute(
            "create table journal (id integer primary key, kind integer not null, key text not null,"
            " body blob not null) strict"
        )
        self.cursor = self.connection.cursor()
        self.seq = 0
        self.wal = os.open(f"{path}-wal", os.O_RDONLY)

    def steps(self, count: int, *, sync: bool = False) -> None:
        begin, settle = (kind_of(BEGIN), KEY, encode(BEGIN)), (kind_of(SETTLE), KEY, encode(SETTLE))
        execute = self.cursor.execute
        for _ in range(count):
            execute("insert into journal values (?, ?, ?, ?)", (self.seq, *begin))
            if sync:
                os.fdatasync(self.wal)
            execute("insert into journal values (?, ?, ?, ?)", (self.seq + 1, *settle))
            self.seq += 2
        self.connection.wal_checkpoint()

    def close(self) -> None:
        os.close(self.wal)
        self.connection.close()


class Ours:
    """The journal, driving one run."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal.open(f"sqlite:///{path}", clock=SystemClock())
        self.run = self.journal.create("bench", loop="bench", input=b"").id
        self.epoch = self.journal.claim(self.run).row.epoch
        self.seq = 0

    def steps(self, count: int, *, sync: bool = False) -> None:
        append, run, epoch = self.journal.append, self.run, self.epoch
        for _ in range(count):
            append(run, epoch, self.seq, [(KEY, BEGIN)])
            if sync:
                self.journal.sync()
            append(run, epoch, self.seq + 1, [(KEY, SETTLE)])
            self.journal.mark()
            self.seq += 2

    def batches(self, count: int, runs: int) -> None:
        items: list[tuple[str, Record]] = [(KEY, BEGIN), (KEY, SETTLE)]
        held = []
        for i in range(runs):
            run = self.journal.create(f"batch-{i}-{self.seq}", loop="bench", input=b"").id
            held.append((run, self.journal.claim(run).row.epoch))
        for n in range(count // runs):
            self.journal.append_batch([(run, epoch, 2 * n, items) for run, epoch in held])

    def wakes(self, count: int) -> None:
        run = self.journal.create(f"wakes-{self.seq}", loop="bench", input=b"").id
        for _ in range(count):
            epoch = self.journal.claim(run).row.epoch
            self.journal.leave(run, epoch, 0, [], state=State.SLEEPING, wake_ms=1)

    def close(self) -> None:
        self.journal.close()


def several(path: Path, processes: int, steps: int) -> list[float]:
    """Return the rate of each of several processes that write one store at once."""
    command = [sys.executable, __file__, "--child", str(path), "--steps", str(steps)]
    children = [
        subprocess.Popen([*command, "--name", str(i)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for i in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return [float(child.communicate()[0]) for child in children]


def child(path: Path, name: str, steps: int) -> None:
    """Be one of them; print the rate, and the worst wait on stderr."""
    journal = Journal.open(f"sqlite:///{path}", clock=SystemClock())
    run = journal.create(name, loop="bench", input=b"").id
    epoch = journal.claim(run).row.epoch
    print("up", flush=True)
    sys.stdin.readline()
    worst_s = 0.0
    start_s = last_s = time.perf_counter()
    for seq in range(0, 2 * steps, 2):
        journal.append(run, epoch, seq, [(KEY, BEGIN)])
        journal.append(run, epoch, seq + 1, [(KEY, SETTLE)])
        journal.mark()
        now_s = time.perf_counter()
        worst_s, last_s = max(worst_s, now_s - last_s), now_s
    print(steps / (time.perf_counter() - start_s))
    print(f"  process {name}: worst step {worst_s * 1000:.0f} ms", file=sys.stderr)
    journal.close()


def report(name: str, ours: list[float], floor: list[float]) -> None:
    mine, least = statistics.median(ours), statistics.median(floor)
    print(f"{name:<44}{mine:>10,.0f}/s   floor {least:>8,.0f}/s   {mine / least:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.name, options.steps)
        return
    steps, rounds = options.steps, range(options.rounds)
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        ours, floor = Ours(Path(name) / "ours.db"), Floor(Path(name) / "floor.db")
        ours.steps(200)
        floor.steps(200)
        written = [(rate(steps, lambda: ours.steps(steps)), rate(steps, lambda: floor.steps(steps))) for _ in rounds]
        few = max(1, steps // 10)
        synced = [
            (rate(few, lambda: ours.steps(few, sync=True)), rate(few, lambda: floor.steps(few, sync=True)))
            for _ in rounds
        ]
        report("steps written (begin + settle)", *map(list, zip(*written, strict=True)))
        report("steps, the begin synced", *map(list, zip(*synced, strict=True)))
        print(f"{'steps, 32 runs to a transaction':<44}{rate(steps, lambda: ours.batches(steps, 32)):>10,.0f}/s")
        print(f"{'claim and leave':<44}{rate(few, lambda: ours.wakes(few)):>10,.0f}/s")
        loaded = len(ours.journal.load(ours.run))
        print(f"{'records loaded':<44}{rate(loaded, lambda: ours.journal.load(ours.run)):>10,.0f}/s")
        ours.close()
        floor.close()
        single = several(Path(name) / "one.db", 1, steps)
        four = several(Path(name) / "four.db", 4, steps)
        print(
            f"{'four processes on one store, together':<44}{sum(four):>10,.0f}/s   one alone {sum(single):>8,.0f}/s   "
            f"{sum(four) / sum(single):.2f}   slowest {min(four) / statistics.mean(four):.2f} of the mean"
        )


if __name__ == "__main__":
    main()
