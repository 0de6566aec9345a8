"""A store that is copied, pruned and thinned out while workers on it are being killed: nothing is lost by that."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.fleet import check_one_writer
from tests.crash.test_fleet import LONG_S, Fleet
from tests.crash.world import World
from yaoki import Runner
from yaoki.clock import SystemClock
from yaoki.records import Entry, State


class Keeper:
    """Who copies the store again and again, and deletes what has ended: half of it by id, half by age."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self._fleet = fleet
        self._directory = directory
        self._rng = random.Random(5)
        self.copies: list[Path] = []
        self.discarded: list[str] = []
        self.pruned = 0

    def tidy(self) -> None:
        with Runner.verbs(self._fleet.url) as runner:
            self.copies.append(self._directory / f"copy-{len(self.copies)}.db")
            runner.store.backup(str(self.copies[-1]))
            ended = [receipt.run_id for receipt in runner.list("completed")]
            for run_id in self._rng.sample(ended, (len(ended) + 1) // 2):
                runner.discard(run_id)
                self.discarded.append(run_id)
            self.pruned += runner.store.prune(SystemClock().now_ms() + 1, by="keeper", limit=max(1, len(ended) // 4))

    def check(self, runs: int, *, calls: int) -> None:
        """Hold that each run has ended with all its calls made, and stands in no copy otherwise than it was."""
        asked: dict[str, set[int]] = {}
        for _, run_id, _, (n, _) in World(self._fleet.outside).events:
            asked.setdefault(run_id, set()).add(n)
        names = [f"r{n}" for n in range(runs)]
        gone = 0
        whole: dict[str, list[Entry]] = {}
        with Runner.verbs(self._fleet.url) as runner:
            for name in names:
                stone = runner.store.tombstone(name)
                gone += stone is not None
                if stone is not None:
                    assert (stone.state, runner.store.get(name)) == (State.COMPLETED, None), name
                else:
                    assert runner.get(name).status is State.COMPLETED, name
                    whole[name] = runner.journal(name)
                    check_one_writer(whole[name])
                assert asked[name] == set(range(calls)), name
        assert gone == len(self.discarded) + self.pruned
        for copy in self.copies:
            for name, entries in _runs_of(copy):
                assert entries == whole.get(name, entries)[: len(entries)], (copy, name)


def _runs_of(copy: Path) -> Iterator[tuple[str, list[Entry]]]:
    with Runner.verbs(f"sqlite:///{copy}") as runner:
        for receipt in runner.list():
            entries = runner.journal(receipt.run_id)
            check_one_writer(entries)
            yield receipt.run_id, entries


def keep_house(directory: Path, *, workers: int, runs: int, kills: int, turns: int, steps: int) -> None:
    fleet = Fleet(directory, workers)
    keeper = Keeper(fleet, directory)
    fleet.start()
    fleet.submit(runs, turns=turns, steps=steps, pause_ms=4)
    while (fleet.killed < kills or not (keeper.pruned and keeper.discarded)) and fleet.left():
        fleet.kill(fleet.killed % workers)
        keeper.tidy()
    assert fleet.killed >= kills
    assert keeper.discarded, "while they worked"
    assert keeper.pruned, "while they worked"
    fleet.finish(LONG_S)
    keeper.tidy()
    keeper.check(runs, calls=turns * steps)


def test_a_store_is_copied_and_thinned_out_while_its_workers_are_killed_and_no_run_loses_a_call(tmp_path):
    keep_house(tmp_path, workers=3, runs=60, kills=8, turns=3, steps=4)


@pytest.mark.long
@pytest.mark.timeout(2 * LONG_S)
def test_ten_workers_200_runs_60_deaths_and_as_many_copies(tmp_path):
    keep_house(tmp_path, workers=10, runs=200, kills=60, turns=10, steps=8)
