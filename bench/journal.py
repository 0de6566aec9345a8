"""
What the journal costs beside its floors, in one run, as ratios.

    python bench/journal.py [--steps N] [--rounds N] [--directory DIR]

Floors: two autocommits a step in SQLite through apsw alone (WAL, synchronous=NORMAL, the same rows, encoded
beforehand); the same and one fdatasync of the `-wal`. Rounds alternate, so that a machine that changes pace
changes it for both; medians. Then a store of a fleet: wake-ups among 100,000 sleeping runs, and several
processes that write at once, for a few seconds, as fast as each can.
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


class Sleepers:
    """A store of runs that sleep and are due, over three loops, with as many pending runs of a loop nobody serves."""

    loops = ("first", "second", "third")
    insert = """
        insert into run (name, loop, state, wake_ms, created_ms, changed_ms, input)
        values (?, ?, ?, ?, ?, ?, zeroblob(200))"""

    def __init__(self, path: Path, count: int) -> None:
        self.journal = Journal.open(f"sqlite:///{path}", clock=SystemClock())
        now_ms = SystemClock().now_ms()
        rows = [(f"s{i}", self.loops[i % 3], "sleeping", now_ms - count + i, now_ms, now_ms) for i in range(count)]
        rows += [(f"p{i}", "other", "pending", 0, now_ms, now_ms) for i in range(count)]
        with self.journal._transaction("fill the store") as cursor:  # noqa: SLF001 - one by one it takes a minute
            cursor.executemany(self.insert, rows)

    def wake(self, count: int, *, batch: int, and_leave: bool) -> None:
        taken = 0
        while taken < count:
            claims = self.journal.claim_many(batch, loops=self.loops)
            taken += len(claims)
            for claim in claims if and_leave else ():
                row = claim.row
                self.journal.leave(row.id, row.epoch, 0, [], state=State.SLEEPING, wake_ms=2 * AT)

    def report(self, count: int) -> None:
        wakes = rate(count, lambda: self.wake(count, batch=20, and_leave=True))
        print(f"{'wake-ups, 20 to a batch, asleep again':<44}{wakes:>10,.0f}/s   among 100,000 sleeping runs")
        wakes = rate(count, lambda: self.wake(count, batch=20, and_leave=False))
        print(f"{'wake-ups alone':<44}{wakes:>10,.0f}/s")
        print(f"{'a look that finds nothing':<44}{rate(200, self.look):>10,.0f}/s")
        print(f"{'counts of 200,000 runs':<44}{1000 / rate(10, self.count):>10.1f} ms")
        self.journal.close()

    def look(self) -> None:
        for _ in range(200):
            self.journal.claim_many(20, loops=["nothing of it"])

    def count(self) -> None:
        for _ in range(10):
            self.journal.counts()


def several(path: Path, processes: int, seconds: float) -> tuple[list[float], float]:
    """Return the rate of each of several processes that write one store at once, and the worst wait in ms."""
    command = [sys.executable, __file__, "--child", str(path), "--seconds", str(seconds)]
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
    said = [child.communicate()[0].split() for child in children]
    return [float(rate) for rate, _ in said], max(float(worst_ms) for _, worst_ms in said)


def child(path: Path, name: str, seconds: float) -> None:
    """Be one of them; print the rate, and the worst wait of an append in milliseconds."""
    journal = Journal.open(f"sqlite:///{path}", clock=SystemClock())
    run = journal.create(name, loop="bench", input=b"").id
    epoch = journal.claim(run).row.epoch
    print("up", flush=True)
    sys.stdin.readline()
    worst_s, seq = 0.0, 0
    start_s = now_s = time.perf_counter()
    while now_s < start_s + seconds:
        for record in (BEGIN, SETTLE):
            journal.append(run, epoch, seq, [(KEY, record)])
            seq += 1
            last_s, now_s = now_s, time.perf_counter()
            worst_s = max(worst_s, now_s - last_s)
        journal.mark()
    print(seq / 2 / (now_s - start_s), worst_s * 1000)
    journal.close()


def report(name: str, ours: list[float], floor: list[float]) -> None:
    mine, least = statistics.median(ours), statistics.median(floor)
    print(f"{name:<44}{mine:>10,.0f}/s   floor {least:>8,.0f}/s   {mine / least:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="how long several processes write")
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.name, options.seconds)
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
        Sleepers(Path(name) / "sleepers.db", 100_000).report(20_000)
        single, _ = several(Path(name) / "one.db", 1, options.seconds)
        for processes, word in ((4, "four"), (10, "ten")):
            rates, worst_ms = several(Path(name) / f"{word}.db", processes, options.seconds)
            print(
                f"{f'{word} processes on one store, together':<44}{sum(rates):>10,.0f}/s   "
                f"one alone {sum(single):>8,.0f}/s   {sum(rates) / sum(single):.2f}   "
                f"slowest {min(rates) / statistics.mean(rates):.2f} of the mean   worst wait {worst_ms:.0f} ms"
            )


if __name__ == "__main__":
    main()
