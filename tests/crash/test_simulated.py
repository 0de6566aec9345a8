"""A run interrupted at effect 1, 2, 3, … until it finishes: every shape of loop, both colours, simulated deaths."""

from __future__ import annotations

import itertools
import shutil

import pytest

from tests.crash.matrix import Case, Ending, check_ending, run_to_its_end
from tests.crash.shapes import SHAPES, TURNING

CASES = [Case(shape, is_async) for shape in SHAPES for is_async in (False, True)]
CASES += [Case(shape, is_async, restart=True) for shape in TURNING for is_async in (False, True)]
POINTS_MOST = 1_000


def undisturbed(case: Case, directory) -> Ending:
    return run_to_its_end(case, directory / "undisturbed", iter(()))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_killed_once_at_a_point_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    """Every seventh point, from another start for each case; the long form takes every one."""
    interrupt_at(case, memory_path, start=1 + CASES.index(case) % 7, stride=7)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_killed_once_at_each_point_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    interrupt_at(case, memory_path, start=1, stride=1)


def interrupt_at(case: Case, memory_path, *, start: int, stride: int) -> None:
    expected = undisturbed(case, memory_path)
    for point in range(start, POINTS_MOST, stride):
        directory = memory_path / f"killed-at-{point}"
        ending = run_to_its_end(case, directory, iter([point]))
        check_ending(case, ending, expected)
        shutil.rmtree(directory)
        if not ending.crashes:
            return
    raise AssertionError(f"{case} has more than {POINTS_MOST} points")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_killed_at_point_1_then_2_then_3_a_run_ends_as_if_nothing_had_happened(case, memory_path):
    """Each life dies one point later than the last, until one of them ends the run."""
    expected = undisturbed(case, memory_path)
    ending = run_to_its_end(case, memory_path / "killed", itertools.count(1))
    check_ending(case, ending, expected)
    assert ending.crashes >= 4
