"""
A run that dies of a bug is redriven with other code, and killed at effect 1, 2, 3, … of either pass.

Whatever is killed where: no effect twice, one key for one action in every pass, the same value. The later code asks
for the same in another order, for more, and for less.
"""

from __future__ import annotations

import itertools
import shutil

import pytest

from tests.crash.matrix import Case, Ending, check_ending, run_to_its_end
from tests.crash.processes import run_processes

SOURCES = ("checkpoint", "start")
CASES = [Case("replanned", is_async, redrive=source) for source in SOURCES for is_async in (False, True)]
AT_ONCE = [Case("replanned", one.is_async, redrive=one.redrive, at_once=True) for one in CASES]
RESTARTED = [Case("replanned", one.is_async, redrive=one.redrive, restart=True) for one in CASES]
POINTS_MOST = 1_000
STRIDE = 11


def missed(ending: Ending) -> list[str]:
    """Return the calls of the first pass that the second one has not asked for."""
    return [line.partition(": ")[0] for line in ending.receipt.orphans]


def undisturbed(case: Case, directory) -> Ending:
    ending = run_to_its_end(case, directory / "undisturbed", iter(()))
    assert missed(ending) == ['charge(what="old")']
    done = ending.world.done()
    assert [ending.world.asked(tool) for tool in ("note", "mail")] == [5, 2], done
    assert ending.receipt.status == "completed", ending.receipt.text
    return ending


def check(case: Case, ending: Ending, expected: Ending) -> None:
    check_ending(case, ending, expected)
    orphans = missed(ending)
    assert orphans == ['charge(what="old")'] or (case.at_once and not orphans), ending.where
    assert len(set(ending.keys.values())) == len(ending.keys), (ending.where, ending.keys)


def interrupt_at(case: Case, tmp_path, lives_before: int, *, start: int, stride: int) -> None:
    """Kill the life after so many undisturbed ones at each point."""
    expected = undisturbed(case, tmp_path)
    for point in range(start, POINTS_MOST, stride):
        directory = tmp_path / f"killed-at-{point}"
        ending = run_to_its_end(case, directory, iter([*[0] * lives_before, point]))
        check(case, ending, expected)
        shutil.rmtree(directory)
        if not ending.crashes:
            return
    raise AssertionError(f"{case} has more than {POINTS_MOST} points")


@pytest.mark.parametrize("case", [*CASES, *AT_ONCE], ids=str)
def test_killed_before_the_redrive_no_effect_is_repeated_after_it(case, tmp_path):
    interrupt_at(case, tmp_path, 0, start=1 + CASES.index(case) % STRIDE if case in CASES else 3, stride=STRIDE)


@pytest.mark.parametrize("case", [*CASES, *RESTARTED], ids=str)
def test_killed_after_the_redrive_no_effect_is_repeated(case, tmp_path):
    interrupt_at(case, tmp_path, 1, start=2 + CASES.index(case) % STRIDE if case in CASES else 5, stride=STRIDE)


@pytest.mark.long
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("case", [*CASES, *AT_ONCE], ids=str)
def test_killed_at_each_point_of_either_pass_no_effect_is_repeated(case, before, tmp_path):
    interrupt_at(case, tmp_path, before, start=1, stride=1)


@pytest.mark.parametrize("case", [*CASES, *AT_ONCE], ids=str)
def test_killed_at_point_1_then_2_then_3_of_both_passes_no_effect_is_repeated(case, tmp_path):
    expected = undisturbed(case, tmp_path)
    ending = run_to_its_end(case, tmp_path / "killed", itertools.count(1))
    check(case, ending, expected)
    assert ending.crashes >= 4


@pytest.mark.parametrize("case", [CASES[1], AT_ONCE[2]], ids=str)
def test_processes_killed_ever_later_in_both_passes_repeat_no_effect(case, tmp_path):
    expected = undisturbed(case, tmp_path)
    ending = run_processes(case, tmp_path, itertools.count(5, 9))
    check(case, ending, expected)
    assert ending.crashes >= 3
