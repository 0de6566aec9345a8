"""A run ended at effect 1, 2, 3, … by a person or by a failure, redriven as a new pass, and killed in that pass too."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator

import pytest

from tests.crash.matrix import (
    RUN,
    Case,
    Ending,
    Store,
    check_ending,
    heeding_at_once,
    live_on,
    reside,
    run_to_its_end,
    url_of,
)
from tests.crash.shapes import BY_COUNT, SHAPES
from tests.crash.world import STAGE, Points, World
from yaoki import Runner, TerminalError
from yaoki.errors import AnswerRefused
from yaoki.records import Adopt, State
from yaoki.testing import no_waits

# What a run recorded of time and chance is recorded anew by a pass, so one of BY_COUNT asks for other effects there.
SAME_AGAIN = [shape for shape in SHAPES if shape not in BY_COUNT]
CASES = [Case(shape, is_async) for shape in SAME_AGAIN for is_async in (False, True)]
SOURCES = ["checkpoint", "start"]
WAYS = ["cancelled", "dead"]
POINTS_MOST = 1_000


class Ended(Points):
    """At one point a person cancels the run, or the first call after it fails for good. The process lives on."""

    def __init__(self, at: int, way: str, store: Store) -> None:
        super().__init__(0, store.die)
        self.at = at
        self.way = way
        self.store = store
        self.did = False

    def reach(self, where: str) -> None:
        with self.lock:
            self.count += 1
            self.trail.append(where)
            if self.did or self.count < self.at or (self.way == "dead" and not where.endswith(" called")):
                return
            self.did = True
            self.where = where
        if self.way == "dead":
            raise TerminalError(f"nothing can be done at {where}")
        thread = threading.Thread(target=self.cancel)  # the run's own connection may be in a transaction
        thread.start()
        thread.join()

    def cancel(self) -> None:
        with Runner.verbs(url_of(self.store.path)) as runner:
            if any(receipt.run_id == RUN for receipt in runner.list()):
                runner.cancel(RUN)


def passes(case: Case, directory, at: int, way: str, source: str, kills: Iterator[int]) -> Ending | None:
    """End the first pass at a point, order another one, and live on with deaths; None if there is no such point."""
    STAGE.world = World()
    store = Store(directory)
    ended = Ended(at, way, store)
    with no_waits(), heeding_at_once():
        reside(case, store, ended)
    if not ended.did:
        return None
    with Runner.verbs(url_of(store.path)) as runner:
        state = runner.get(RUN).status
        if state in (State.CANCELLED, State.DEAD):
            order(runner, case, source)
    ending = live_on(case, store, kills if state in (State.CANCELLED, State.DEAD) else iter(()))
    ending.where[:0] = [f"{state.value} at {ended.where} ({at})"]
    return ending


def order(runner, case: Case, source: str) -> None:
    """
    Order a new pass; one that was ended while it undid what it had done goes on from nowhere but its start.

    The turns of a pass from the start are new ones: as many are added as were used, so that it ends alike.
    """
    used = runner.get(RUN).spent.turns
    if case.shape == "capped" and source == "start" and used:
        runner.top_up(RUN, turns=used)
    try:
        runner.redrive(RUN, source)
    except AnswerRefused:
        if case.shape != "saga":
            raise
        runner.redrive(RUN, "start")


def told_the_model(way: str, ending: Ending) -> bool:
    """Whether the failure was a result for the model, which went on without that effect: there was no second pass."""
    return way == "dead" and ending.where[0].startswith("completed at ")


def adopted(directory) -> int:
    """How many effects of the first pass the second one took over."""
    newest = max(directory.glob("life-*"), key=lambda path: int(path.name.partition("-")[2]))
    with Runner.verbs(url_of(newest / "s.db")) as runner:
        return sum(isinstance(record, Adopt) for _, _, record in runner.journal(RUN))


def end_at(case: Case, memory_path, way: str, source: str, points: Iterator[int], kills=iter) -> None:
    """End the first pass at each of these points, the second undisturbed or killed as `kills` says."""
    expected = run_to_its_end(case, memory_path / "undisturbed", iter(()))
    for at in points:
        directory = memory_path / f"{way}-at-{at}"
        ending = passes(case, directory, at, way, source, kills(()))
        if ending is None:
            return
        if not told_the_model(way, ending):
            check_ending(case, ending, expected)
        shutil.rmtree(directory)
    raise AssertionError(f"{case} has more than {POINTS_MOST} points")


def kill_in_second(case: Case, memory_path, way: str, source: str, at: int, kills: Iterator[int]) -> None:
    """End the first pass at one point, and die once at each of these points of the second, each time from anew."""
    expected = run_to_its_end(case, memory_path / "undisturbed", iter(()))
    for point in kills:
        directory = memory_path / f"{way}-{at}-killed-{point}"
        ending = passes(case, directory, at, way, source, iter([point]))
        assert ending is not None
        if not told_the_model(way, ending):
            check_ending(case, ending, expected)
        shutil.rmtree(directory)
        if not ending.crashes:
            return
    raise AssertionError(f"{case} has more than {POINTS_MOST} points")


def middle(case: Case, memory_path) -> int:
    """Return a point by which the run has done about two thirds of what it does."""
    return len(run_to_its_end(case, memory_path / "length", iter(())).trail) * 2 // 3


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_redriven_as_a_new_pass_a_run_ends_as_if_nothing_had_happened(case, way, source, memory_path):
    end_at(case, memory_path, way, source, itertools.count(4 + CASES.index(case) % 31, 31))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_killed_ever_later_in_its_second_pass_a_run_ends_as_if_nothing_had_happened(case, source, memory_path):
    """Each life of the second pass dies a few points later than the last, until one of them ends the run."""
    at = middle(case, memory_path)
    end_at(case, memory_path, "cancelled", source, iter([at, POINTS_MOST]), lambda _: itertools.count(2, 3))


@pytest.mark.parametrize("case", [Case("straight", is_async) for is_async in (False, True)], ids=str)
def test_a_second_pass_takes_over_what_the_first_one_did(case, memory_path):
    ending = passes(case, memory_path / "p", middle(case, memory_path), "cancelled", "start", iter(()))
    assert ending is not None
    assert adopted(memory_path / "p") >= 2, ending.where


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ended_anywhere_and_redriven_as_a_new_pass_a_run_ends_as_if_nothing_had_happened(
    case, way, source, memory_path
):
    end_at(case, memory_path, way, source, itertools.count(1))


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_killed_anywhere_in_its_second_pass_a_run_ends_as_if_nothing_had_happened(case, way, source, memory_path):
    at = middle(case, memory_path)
    for number, first in enumerate((at // 3, at)):
        kill_in_second(case, memory_path / str(number), way, source, max(1, first), itertools.count(1))
