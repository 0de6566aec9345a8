"""The same with processes and SIGKILL."""

from __future__ import annotations

import itertools
import random
import signal
import time

import pytest

from tests.crash.matrix import Case, check_ending, run_to_its_end
from tests.crash.processes import Life, run_processes
from tests.crash.shapes import SCARCE, SHAPES
from tests.crash.world import World
from yaoki import Runner
from yaoki.records import Begin, Parked, Settle, State

# A verb sees no budget of the loop's, so what the one that runs out of calls had left is not compared here.
ONES_COMPARED = [name for name in SHAPES if name not in SCARCE]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_processes_killed_ever_later_end_a_run_as_if_nothing_had_happened(is_async, tmp_path):
    case = Case("straight", is_async)
    expected = run_to_its_end(case, tmp_path / "undisturbed", iter(()))
    ending = run_processes(case, tmp_path, itertools.count(6, 7))
    check_ending(case, ending, expected)
    assert ending.crashes >= 3


@pytest.mark.long
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("shape", ONES_COMPARED)
def test_processes_killed_at_1_2_3_end_a_run_as_if_nothing_had_happened(shape, is_async, tmp_path):
    case = Case(shape, is_async)
    expected = run_to_its_end(case, tmp_path / "undisturbed", iter(()))
    check_ending(case, run_processes(case, tmp_path, itertools.count(1)), expected)


def test_a_fan_out_killed_now_and_then_stores_every_document_once(tmp_path):
    fan_out(tmp_path, documents=30, kills=4)


@pytest.mark.long
def test_a_fan_out_of_100_documents_killed_20_times_stores_every_document_once(tmp_path):
    fan_out(tmp_path, documents=100, kills=20)


def fan_out(tmp_path, *, documents: int, kills: int) -> None:
    """Kill each process once a few more calls have reached the world than the last one saw."""
    url, outside = f"sqlite:///{tmp_path / 's.db'}", tmp_path / "world.jsonl"
    rng = random.Random(7)
    killed, out = 0, ""
    for number in range(kills + 1):
        life = Life("tests.crash.fan_out", url, str(outside), str(documents), str(number))
        if number < kills:
            wait_for_calls(outside, rng.randint(1, max(1, documents // kills)))
            life.send(signal.SIGKILL)
        killed += life.end() == -signal.SIGKILL
        out = life.out
    assert out.split()[0] == "completed"
    world = World(outside)
    assert sorted(world.done().values()) == [1] * documents
    with Runner.verbs(url) as runner:
        receipt, records = runner.get("fan-out"), [record for _, _, record in runner.journal("fan-out")]
    assert receipt.status is State.COMPLETED
    assert not [record for record in records if isinstance(record, Parked)], "a replay did not fit"
    assert sum(1 for r in records if isinstance(r, Settle) and r.outcome == "ok") == 2 * documents, "a step ran twice"
    assert receipt.spent.calls == sum(1 for r in records if isinstance(r, Begin)) >= world.calls
    assert killed == kills


def wait_for_calls(outside, more: int) -> None:
    """Return once that many more calls have reached the world."""
    before = len(outside.read_text().splitlines()) if outside.exists() else 0
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        if outside.exists() and len(outside.read_text().splitlines()) >= before + more:
            return
        time.sleep(0.002)
    raise AssertionError("no call reached the world in 30 s")
