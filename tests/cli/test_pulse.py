from __future__ import annotations

import os
from types import SimpleNamespace

import msgspec
import pytest

from yaoki import Runner
from yaoki.cli._child import Child
from yaoki.cli._pulse import Pulse
from yaoki.cli._report import Beat, Report
from yaoki.events import Event
from yaoki.records import Begin, Claimed, Decision, Ended, Gap, Hold, Parked, Settle


class Watch:
    def __init__(self) -> None:
        self.s = 100.0

    def monotonic_s(self) -> float:
        return self.s


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


@pytest.fixture
def pulse(pipe):
    made = Pulse(pipe[1], hung_after_s=240)
    made._clock = Watch()
    made._runners = (Runner(),)
    drives(made, "r")
    return made


def drives(pulse: Pulse, *runs: str) -> None:
    pulse._runners[0]._stop.lives = [
        SimpleNamespace(name=run, asked=set(), history=SimpleNamespace(seq=0)) for run in runs
    ]


def tell(pulse: Pulse, record, key: str = "1.0//s#0", run_id: str = "r") -> None:
    pulse(Event(run_id=run_id, loop="l", key=key, record=record))


def later(pulse: Pulse, seconds: float) -> Beat:
    pulse._clock.s += seconds
    return pulse.beat()


def claimed(pulse: Pulse, run_id: str = "r") -> None:
    tell(pulse, Claimed(at=1, epoch=1, worker=1), key="", run_id=run_id)


def test_an_attempt_past_twice_its_timeout_hangs_its_worker(pulse):
    claimed(pulse)
    tell(pulse, Begin(at=1, call="hang()", timeout_ms=1_000))
    assert later(pulse, 1.9).hung == ""
    assert later(pulse, 0.1).hung == "hang() has run 2 s, twice its timeout, and cannot be interrupted"


def test_a_retry_counts_from_its_own_begin(pulse):
    claimed(pulse)
    tell(pulse, Begin(at=1, timeout_ms=1_000))
    later(pulse, 1.5)
    tell(pulse, Settle(at=2))
    tell(pulse, Begin(at=3, attempt=2, timeout_ms=1_000))
    assert later(pulse, 1.5).hung == ""
    assert later(pulse, 0.6).hung


def test_an_attempt_without_a_timeout_hangs_nothing(pulse):
    claimed(pulse)
    tell(pulse, Begin(at=1, timeout_ms=0))
    assert later(pulse, 1e6).hung == ""


def test_a_worker_may_be_silent_as_long_as_its_longest_attempt_may_run(pulse):
    assert pulse.beat().patience_s == 240
    claimed(pulse)
    tell(pulse, Begin(at=1, timeout_ms=600_000))
    assert later(pulse, 100).patience_s == 1_100


def test_a_run_that_does_nothing_between_two_steps_hangs_its_worker(pulse):
    claimed(pulse)
    assert later(pulse, 239).hung == ""
    tell(pulse, Gap(at=1, text="x"), key="")
    assert later(pulse, 239).hung == ""
    assert later(pulse, 2).hung == "run r has done nothing for 240 s between two steps"


def test_a_run_that_waits_as_it_should_hangs_nothing(pulse):
    claimed(pulse)
    tell(pulse, Hold(at=0, since=0, until=300_000, reason="sleep"), key="1.0//run.sleep#0")
    tell(pulse, Gap(at=1, text="another branch goes on"), key="")
    assert later(pulse, 500).hung == ""
    assert later(pulse, 50).hung


def test_a_run_that_waits_for_its_next_attempt_hangs_nothing(pulse):
    claimed(pulse)
    retry = Decision(do="retry", next_at=300_000, wait_ms=300_000)
    tell(pulse, Begin(at=0, timeout_ms=1_000))
    tell(pulse, Settle(at=0, outcome="failed", decision=retry))
    assert later(pulse, 500).hung == ""
    assert later(pulse, 50).hung


def test_a_replay_is_no_idleness(pulse):
    (live,) = pulse._runners[0]._stop.lives
    claimed(pulse)
    for step in "abcde":
        live.asked.add(step)
        assert later(pulse, 200).hung == ""
    assert later(pulse, 241).hung


def test_a_run_that_was_left_hangs_nothing_and_is_counted(pulse):
    for run_id, record in [
        ("a", Ended(at=2, state="completed")),
        ("b", Parked(at=2, state="sleeping", waits_for="time")),
        ("c", Ended(at=2, state="completed")),
    ]:
        claimed(pulse, run_id)
        tell(pulse, record, key="", run_id=run_id)
    drives(pulse)
    beat = later(pulse, 1e6)
    assert (beat.hung, beat.active, beat.left) == ("", 0, {"completed": 2, "sleeping": 1})


def test_a_run_that_was_taken_away_hangs_nothing(pulse):
    claimed(pulse)
    tell(pulse, Begin(at=1, timeout_ms=1_000))
    assert later(pulse, 3).hung
    drives(pulse)
    assert (pulse.beat().hung, pulse.beat().active) == ("", 0)


def test_the_last_word_is_the_report_and_no_beat_comes_after_it(pulse, pipe):
    pulse.start()
    pulse.last(Report(end="done", left={"completed": 1}))
    lines = os.read(pipe[0], 65_536).splitlines()
    assert msgspec.json.decode(lines[-1], type=Beat | Report) == Report(end="done", left={"completed": 1})
    assert all(isinstance(msgspec.json.decode(line, type=Beat | Report), Beat) for line in lines[:-1])


SCRIPT = """
import os, sys, time
fd = int(sys.argv[-1])
os.write(fd, b'{"type":"beat","patience_s":%s,"settled":3}\\n{"type":"be')
time.sleep(60)
"""


def test_a_worker_is_hung_once_it_is_silent_for_longer_than_it_said(tmp_path, monkeypatch):
    (tmp_path / "silent.py").write_text(SCRIPT % "0.01")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = Child("silent", [], b"{}")
    try:
        while child.beat is None:
            child.listen()
        assert child.beat.settled == 3
        while not child.hung():
            pass
        assert "no sign of life" in child.hung()
        assert child.report() is None
    finally:
        child.kill()
        child.close()
