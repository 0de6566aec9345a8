"""Many `yaoki worker` on one store, their workers killed at random: every run ends, and no two drive one."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.cli.command import Place
from yaoki import Runner
from yaoki.records import Answer, Claimed, Settle, State

if TYPE_CHECKING:
    from yaoki.records import Entry

FLEET = Path(__file__).with_name("fleet.txt").read_text(encoding="utf-8")
POSTS_FROM = 1 << 31


class Fleet(Place):
    """Workers on one store, the runs they are given, and the one who kills them."""

    def __init__(self, folder: Path, *, runs: int, looks: int, busy_s: float) -> None:
        super().__init__(folder)
        self.write("fleet.py", FLEET)
        self.names = [f"r{n}" for n in range(runs)]
        self.rng = random.Random(11)
        self.killed = 0
        self.waits_s: list[float] = []
        with Runner(self.url, submits_only=True) as runner:
            for n, name in enumerate(self.names):
                data = msgspec.json.encode({"name": name, "looks": looks, "busy_s": busy_s})
                runner.store.create(name, loop="aerrand" if n % 2 else "errand", input=data, file="fleet.py")
            runner.store.sync()

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'yaoki.db'}"

    def serve(self, workers: int, concurrency: int, *, every: int, most_s: float) -> None:
        """Let so many workers serve until every run has ended; kill one each time `every` more effects are seen."""
        started = [self.start("worker", "fleet.py", "--concurrency", str(concurrency)) for _ in range(workers)]
        end_s = time.monotonic() + most_s
        with Runner.verbs(self.url) as runner:
            kill_at = every
            while (left := self.left(runner)) and time.monotonic() < end_s:
                if len(self.effects) >= kill_at and self.kill_one(runner):
                    kill_at = len(self.effects) + every
                self.answer(runner)
                self.measure(runner)
                time.sleep(0.02)
            assert not left, f"not ended after {most_s} s: {left}"
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            ended = self.end(process)
            assert ended.code == 0, ended.err
            assert "locked" not in ended.err
            assert "Traceback" not in ended.err, ended.err

    def left(self, runner: Runner) -> dict[str, int]:
        counts = runner.store.counts()
        return {state.value: n for (loop, state), n in counts.items() if not state.final and loop != "probe"}

    def kill_one(self, runner: Runner) -> bool:
        """Kill a worker that drives something, any of them."""
        busy = [one.pid for one in runner.store.workers() if one.alive and one.runs]
        if not busy:
            return False
        with suppress(ProcessLookupError):  # its lock outlives it by a moment
            os.kill(self.rng.choice(busy), signal.SIGKILL)
            self.killed += 1
        return True

    def answer(self, runner: Runner) -> None:
        """Answer what is in doubt as somebody would who looked at what was done."""
        for waiting in runner.list("waiting"):
            for ask in runner.get(waiting.run_id).asks:
                assert ask.why == "doubt", ask
                if ask.verdict:
                    continue
                if f"charge {waiting.run_id}" in self.effects:
                    runner.answer(waiting.run_id, ask.id, "happened", f"charged {waiting.run_id}")
                else:
                    runner.answer(waiting.run_id, ask.id, "not-happened")

    def measure(self, runner: Runner) -> None:
        """Write something beside them all, and note how long that had to wait."""
        began_s = time.monotonic()
        runner.store.create(f"probe-{len(self.waits_s)}", loop="probe", input=b"{}", file="")
        self.waits_s.append(time.monotonic() - began_s)


def check(fleet: Fleet) -> Counter[int]:
    """Hold each journal against what one driver at a time writes; return how often each process claimed a run."""
    claims: Counter[int] = Counter()
    with Runner.verbs(fleet.url) as runner:
        for name in fleet.names:
            receipt, entries = runner.get(name), runner.journal(name)
            assert (receipt.status, receipt.value) == (State.COMPLETED, f"charged {name}"), receipt
            check_run(name, entries)
            claims.update(record.pid for _, _, record in entries if isinstance(record, Claimed))
    charges = Counter(line for line in fleet.effects if line.startswith("charge"))
    assert charges == Counter(f"charge {name}" for name in fleet.names), "each is made once, whoever is killed"
    return claims


def check_run(name: str, entries: list[Entry]) -> None:
    seqs = [seq for seq, _, _ in entries if seq < POSTS_FROM]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), f"{name}: a driver's record is missing or there twice"
    epochs = [record.epoch for _, _, record in entries if isinstance(record, Claimed)]
    assert all(a < b for a, b in itertools.pairwise(epochs)), f"{name}: {epochs}"
    oks = Counter(key for _, key, record in entries if isinstance(record, Settle) and record.outcome == "ok")
    assert set(oks.values()) <= {1}, f"{name}: a settled step was executed again"
    answered = [record for _, _, record in entries if isinstance(record, Answer)]
    begun = Counter(key for _, key, record in entries if type(record).__name__ == "Begin" and "charge" in key)
    assert sum(begun.values()) <= 1 + len(answered), f"{name}: an effect was sent again unasked"


@pytest.fixture
def fleet_of(tmp_path):
    made: list[Fleet] = []

    def make(**options) -> Fleet:
        made.append(Fleet(tmp_path, **options))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


def test_three_workers_killed_at_random_end_every_run(fleet_of):
    fleet = fleet_of(runs=40, looks=3, busy_s=0.1)
    fleet.serve(3, 4, every=20, most_s=45)
    check(fleet)
    assert fleet.killed >= 4


@pytest.mark.long
def test_ten_workers_killed_at_random_end_every_run_and_share_them(fleet_of, capsys):
    fleet = fleet_of(runs=200, looks=30, busy_s=0.5)
    fleet.serve(10, 8, every=100, most_s=600)
    claims = check(fleet)
    assert fleet.killed >= 20
    with capsys.disabled():
        print(f"\n{fleet.killed} kills; claims by process: {sorted(claims.values(), reverse=True)}")
        print(f"a write beside them waited {max(fleet.waits_s) * 1000:.0f} ms at worst of {len(fleet.waits_s):,}")
    assert max(claims.values()) <= len(fleet.names), "one worker took them all"
    assert max(fleet.waits_s) < 5
