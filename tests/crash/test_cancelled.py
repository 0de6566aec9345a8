"""A run stopped gently at effect 1, 2, 3, …: its runner cancelled, Ctrl-C, or cancelled by a person and redriven."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable

import pytest

from tests.crash.matrix import (
    RUN,
    Case,
    Ending,
    answer_truthfully,
    check_ending,
    heeding_at_once,
    run_to_its_end,
    url_of,
    watch,
)
from tests.crash.shapes import SHAPES, bound
from tests.crash.world import STAGE, Points, World
from yaoki import AsyncRunner, Receipt, Runner
from yaoki.errors import AnswerRefused
from yaoki.records import Begin, State
from yaoki.testing import no_waits

SYNC = [Case(shape, is_async=False) for shape in SHAPES]
ASYNC = [Case(shape, is_async=True) for shape in SHAPES]
LIVES_MOST = 50
POINTS_MOST = 1_000


class Disturbed(Points):
    """Something happens at one point; the process lives on."""

    def __init__(self, at: int, disturb: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.at = at
        self.disturb = disturb
        self.disturbed = False

    def reach(self, where: str) -> None:
        with self.lock:
            self.count += 1
            self.trail.append(where)
            if self.count != self.at:
                return
            self.disturbed = True
            self.where = where
        self.disturb()


def interrupt() -> None:
    raise KeyboardInterrupt


def live(case: Case, url: str, points: Disturbed, *, cancelling: bool) -> Receipt | None:
    """One life; None if it was stopped."""
    STAGE.points = points
    try:
        if not case.is_async:
            with Runner(url) as runner:
                watch(runner.store, points)
                return runner.run(bound(case.shape, is_async=False), run_id=RUN)
        return asyncio.run(live_async(case, url, points, cancelling=cancelling))
    except (KeyboardInterrupt, asyncio.CancelledError):
        assert points.disturbed
        return None


async def live_async(case: Case, url: str, points: Disturbed, *, cancelling: bool) -> Receipt:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    if cancelling:
        points.disturb = lambda: task.cancel() and None
    loop.set_exception_handler(lambda *_: None)
    async with AsyncRunner(url, drain_s=0.05) as runner:
        watch(runner.store, points)
        return await runner.run(bound(case.shape, is_async=True), run_id=RUN)


def run_disturbed(case: Case, directory, points: Disturbed, *, cancelling: bool = False) -> Ending:
    """Disturbed in its first life, then left alone, asked and answered, and redriven if a person had cancelled it."""
    directory.mkdir()
    url, world = url_of(directory / "s.db"), World()
    STAGE.world = world
    with no_waits(), heeding_at_once():
        for _ in range(LIVES_MOST):
            receipt = live(case, url, points, cancelling=cancelling)
            points.at = 0
            if receipt is None:
                continue
            if receipt.status is State.WAITING:
                assert receipt.waits_for == "person", (points.where, receipt.text, receipt.diff)
                answer_truthfully(url, RUN, receipt, world)
                continue
            with Runner.verbs(url) as runner:
                if receipt.status is State.CANCELLED:
                    try:
                        runner.redrive(RUN)
                    except AnswerRefused:  # it was undoing what it had done: there is nothing to go on from
                        if case.shape != "saga":
                            raise
                        runner.redrive(RUN, "start")
                    continue
                begun = sum(1 for _, _, record in runner.journal(RUN) if isinstance(record, Begin))
            return Ending(receipt, world, begun, int(points.disturbed), [points.where], points.trail)
    raise AssertionError(f"{case}: not final after {LIVES_MOST} lives; disturbed {points.where}")


def at_every_point(case: Case, memory_path, make: Callable[[int, object], Disturbed], stride: int, **options) -> None:
    expected = run_to_its_end(case, memory_path / "undisturbed", iter(()))
    for point in range(1 + (SYNC + ASYNC).index(case) % stride, POINTS_MOST, stride):
        directory = memory_path / f"at-{point}"
        ending = run_disturbed(case, directory, make(point, directory), **options)
        check_ending(case, ending, expected)
        shutil.rmtree(directory)
        if not ending.crashes:
            return
    raise AssertionError(f"{case} has more than {POINTS_MOST} points")


def ctrl_c(point: int, directory: object) -> Disturbed:
    return Disturbed(point, interrupt)


def by_a_person(point: int, directory) -> Disturbed:
    """Order it from another connection, in another thread: the run's own may hold a lock."""

    def cancel() -> None:
        def post() -> None:
            with Runner.verbs(url_of(directory / "s.db")) as runner:
                if any(receipt.run_id == RUN for receipt in runner.list()):
                    runner.cancel(RUN)

        thread = threading.Thread(target=post)
        thread.start()
        thread.join()

    return Disturbed(point, cancel)


@pytest.mark.parametrize("case", SYNC + ASYNC, ids=str)
def test_after_ctrl_c_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    at_every_point(case, memory_path, ctrl_c, stride=17)


@pytest.mark.parametrize("shape", ["fan", "turns"])
@pytest.mark.parametrize("where", ["before append_batch", "after append_batch"])
def test_ctrl_c_around_a_shared_transaction_leaves_no_record_without_its_begin(shape, where, memory_path):
    """What several branches wrote in one tick is in the store together, or not at all; and nothing builds on it."""
    case = Case(shape, is_async=True)
    expected = run_to_its_end(case, memory_path / "undisturbed", iter(()))
    for point, reached in enumerate(expected.trail, 1):
        if reached == where:
            directory = memory_path / f"at-{point}"
            check_ending(case, run_disturbed(case, directory, ctrl_c(point, directory)), expected)


@pytest.mark.parametrize("case", ASYNC, ids=str)
def test_after_its_runner_was_cancelled_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    at_every_point(case, memory_path, lambda point, _: Disturbed(point), stride=11, cancelling=True)


@pytest.mark.parametrize("case", SYNC + ASYNC, ids=str)
def test_cancelled_by_a_person_and_redriven_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    at_every_point(case, memory_path, by_a_person, stride=19)


@pytest.mark.long
@pytest.mark.parametrize("case", SYNC + ASYNC, ids=str)
def test_after_ctrl_c_anywhere_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    at_every_point(case, memory_path, ctrl_c, stride=1)


@pytest.mark.long
@pytest.mark.parametrize("case", ASYNC, ids=str)
def test_after_its_runner_was_cancelled_anywhere_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    at_every_point(case, memory_path, lambda point, _: Disturbed(point), stride=1, cancelling=True)


@pytest.mark.long
@pytest.mark.parametrize("case", SYNC + ASYNC, ids=str)
def test_cancelled_by_a_person_anywhere_and_redriven_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    at_every_point(case, memory_path, by_a_person, stride=1)
