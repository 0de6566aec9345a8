"""Many workers on one store, killed at random: every run ends, and no two processes ever wrote one run."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter

import pytest

from tests.crash.fleet import append_waits, check_one_writer, plain
from tests.crash.processes import Life
from tests.crash.world import World
from yaoki import Runner
from yaoki.records import State

PATIENCE_S = 45
LONG_S = 180


class Fleet:
    """So many workers on one store; whoever dies is replaced."""

    def __init__(self, directory, workers: int) -> None:
        self.url, self.outside = f"sqlite:///{directory / 's.db'}", directory / "world.jsonl"
        self.killed = 0
        self._started = itertools.count()
        self._workers = workers
        self.lives: list[Life] = []

    def submit(self, runs: int, *, turns: int, steps: int, pause_ms: int) -> None:
        with Runner(self.url, submits_only=True) as runner:
            for n in range(runs):
                runner.submit(plain.bind(turns, steps, pause_ms), run_id=f"r{n}")

    def start(self) -> None:
        self.lives = [self._start(slot) for slot in range(self._workers)]

    def _start(self, slot: int) -> Life:
        colour = "async" if slot % 2 else "sync"
        return Life("tests.crash.fleet", self.url, str(self.outside), str(slot), colour, bound_s=2 * LONG_S)

    def kill(self, slot: int) -> None:
        """Kill one and start another in its place."""
        self.lives[slot].send(signal.SIGKILL)
        self._ended(self.lives[slot], -signal.SIGKILL)
        self.killed += 1
        self.lives[slot] = self._start(slot)

    def _ended(self, life: Life, code: int) -> None:
        assert life.end() == code, life.err
        for word in ("Traceback", "locked", "corrupt"):
            assert word not in life.err, life.err

    def kill_as_they_work(self, kills: int) -> None:
        """One after the other, each once a few more calls have reached the world."""
        rng = random.Random(11)
        for number in range(kills):
            self._wait_for_calls(rng.randint(1, 20))  # far fewer in all than there are to make
            self.kill(number % self._workers)

    def _wait_for_calls(self, more: int) -> None:
        until_s, before = time.monotonic() + PATIENCE_S, self._calls()
        while self._calls() < before + more:
            assert time.monotonic() < until_s, "no call reaches the world"
            time.sleep(0.002)

    def _calls(self) -> int:
        return self.outside.read_bytes().count(b"\n") if self.outside.exists() else 0

    def kill_at_random(self, seconds: float, every_s: float) -> None:
        """Everybody equally often, at any moment."""
        rng = random.Random(11)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for slot in rng.sample(range(self._workers), self._workers):
                time.sleep(rng.uniform(0, 2 * every_s))
                if time.monotonic() < until_s:
                    self.kill(slot)

    def left(self) -> int:
        """How many runs have not ended."""
        with Runner.verbs(self.url) as runner:
            return sum(count for (_, state), count in runner.store.counts().items() if not state.final)

    def finish(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until every run has ended, then tell the workers to stop."""
        until_s = time.monotonic() + patience_s
        while left := self.left():
            assert time.monotonic() < until_s, left
            time.sleep(0.05)
        for life in self.lives:
            life.send(signal.SIGTERM)
        for life in self.lives:
            self._ended(life, 0)

    def check(self, runs: int, *, calls: int, turns: int) -> int:
        """Hold that all ended well, each record written by who had the run; return the claims of the most disturbed."""
        world, claims = World(self.outside), []
        with Runner.verbs(self.url) as runner:
            for n in range(runs):
                receipt = runner.get(f"r{n}")
                assert (receipt.status, receipt.value) == (State.COMPLETED, turns), receipt
                claims.append(check_one_writer(runner.journal(f"r{n}")))
        asked: dict[str, list[list[int]]] = {}
        for _, run_id, _, value in world.events:
            asked.setdefault(run_id, []).append(value)
        for run_id, made in asked.items():
            assert {n for n, _ in made} == set(range(calls)), run_id
            drivers = [pid for pid, _ in itertools.groupby(pid for _, pid in made)]
            assert len(drivers) == len(set(drivers)), f"{run_id}: one process drove it before and after another"
        return max(claims)

    def steps(self) -> Counter[str]:
        """How many calls each place in the fleet has made so far."""
        return Counter(slot for _, _, slot, _ in World(self.outside).events)


def test_workers_killed_at_random_end_every_run_and_no_two_write_one(tmp_path):
    fleet = Fleet(tmp_path, 4)
    fleet.start()
    fleet.submit(32, turns=4, steps=6, pause_ms=4)
    fleet.kill_as_they_work(16)
    fleet.finish()
    assert fleet.check(32, calls=24, turns=4) > 1


@pytest.mark.long
@pytest.mark.timeout(2 * LONG_S)
def test_ten_workers_200_runs_killed_at_random_for_60_s(tmp_path):
    """The share of each, and how long appends wait for their turn to write, while workers are being killed."""
    fleet = Fleet(tmp_path, 10)
    fleet.start()
    fleet.submit(200, turns=20, steps=11, pause_ms=14)
    fleet.kill_at_random(60, 0.25)
    shares = fleet.steps()
    assert sum(shares.values()) < 200 * 20 * 11, "they had work all the time"
    fleet.finish(LONG_S)
    assert fleet.check(200, calls=220, turns=20) > 2
    assert fleet.killed > 100
    assert len(shares) == 10
    assert min(shares.values()) >= 0.5 * sum(shares.values()) / 10, shares
    waits = append_waits(fleet.outside)
    assert sum(count for count, _ in waits) > 40_000
    assert max(worst for _, worst in waits) <= 250, sorted(worst for _, worst in waits)[-20:]
