"""SIGTERM at effect 1, 2, 3, …: a drain lets what was begun settle, so no attempt is lost and no crash is counted."""

from __future__ import annotations

import asyncio
import shutil
import signal

import pytest

from tests.crash.matrix import RUN, Case, Ending, answer_truthfully, check_ending, url_of, watch
from tests.crash.shapes import SHAPES, bound
from tests.crash.test_cancelled import Disturbed
from tests.crash.world import STAGE, World
from yaoki import AsyncRunner, Runner
from yaoki.records import Begin, Claimed, State
from yaoki.testing import no_waits

CASES = [Case(shape, is_async) for shape in SHAPES for is_async in (False, True)]
UNCOUNTED = ("timeouts", "hedge")
"""How many calls it makes depends on time; or on whether it is told to stop, when no second call is made."""
LIVES_MOST = 20
POINTS_MOST = 1_000


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def live(case: Case, url: str, points: Disturbed) -> None:
    """One worker's life: until nothing can go on, or until it was told to stop."""
    STAGE.points = points
    if case.is_async:
        asyncio.run(live_async(case, url, points))
        return
    runner = Runner(url)
    before = signal.signal(signal.SIGTERM, lambda *_: runner.drain())
    try:
        with runner:
            watch(runner.store, points)
            runner.work(SHAPES[case.shape][False], until="idle")
    finally:
        signal.signal(signal.SIGTERM, before)


async def live_async(case: Case, url: str, points: Disturbed) -> None:
    runner = AsyncRunner(url)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, runner.drain)
    try:
        async with runner:
            watch(runner.store, points)
            await runner.work(SHAPES[case.shape][True], until="idle")
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def terminated_at(case: Case, directory, point: int) -> Ending:
    """Told to stop at that point of its first life, then left alone; what is asked is answered."""
    directory.mkdir()
    url = url_of(directory / "s.db")
    world = STAGE.world = World()
    points = Disturbed(point, terminate)
    with Runner(url, submits_only=True) as runner:
        runner.submit(bound(case.shape, is_async=case.is_async), run_id=RUN)
    with no_waits():
        for _ in range(LIVES_MOST):
            live(case, url, points)
            points.at = 0
            with Runner.verbs(url) as runner:
                receipt, records = runner.get(RUN), [record for _, _, record in runner.journal(RUN)]
            if receipt.status is State.WAITING:
                answer_truthfully(url, RUN, receipt, world)
            elif receipt.status.final:
                receipt.budget = {"calls": 400, "retries": 300}  # a verb does not have the loop's
                assert [record.deaths for record in records if isinstance(record, Claimed) and record.deaths] == []
                begun = sum(1 for record in records if isinstance(record, Begin))
                return Ending(receipt, world, begun, int(points.disturbed), [points.where], points.trail)
    raise AssertionError(f"{case}: not final after {LIVES_MOST} lives; disturbed {points.where}")


def terminate_at(case: Case, memory_path, *, start: int, stride: int) -> None:
    expected = terminated_at(case, memory_path / "undisturbed", 0)
    for point in range(start, POINTS_MOST, stride):
        directory = memory_path / f"at-{point}"
        ending = terminated_at(case, directory, point)
        check_ending(case, ending, expected)
        if case.shape not in UNCOUNTED:
            assert ending.begun == expected.begun, ending.where
            assert ending.world.calls == expected.world.calls, ending.where
            assert len(ending.receipt.failures) == len(expected.receipt.failures), ending.where
        shutil.rmtree(directory)
        if not ending.crashes:
            return
    raise AssertionError(f"{case} has more than {POINTS_MOST} points")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_told_to_stop_at_a_point_a_worker_burns_no_attempt(case, memory_path):
    """Every eleventh point, from another start for each case; the long form takes every one."""
    terminate_at(case, memory_path, start=1 + CASES.index(case) % 11, stride=11)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_told_to_stop_at_each_point_a_worker_burns_no_attempt(case, memory_path):
    terminate_at(case, memory_path, start=1, stride=1)
