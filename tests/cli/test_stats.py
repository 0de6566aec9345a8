"""`yaoki stats`: attempts, first failures and final outcomes, tool by tool, however many runs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.cli.command import Place
from tests.cli.made import text
from tests.cli.stocked import DAY_MS, Stock, failure
from yaoki.cli._tally import Durations, Tally
from yaoki.cli._views_stats import stats_lines
from yaoki.records import Adopt, Begin, Decision, Entry, Executed, Failure, FailureKind, Settle, State

BUSY = Failure(kind=FailureKind.OVERLOADED, reason="http.529", executed=Executed.NO)


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    yield here
    here.close()


@pytest.fixture
def stock(place):
    made = Stock(place.folder / "yaoki.db")
    yield made
    made.close()


def healed(stock, name: str, *, ago_ms: int = 0, **options) -> None:
    run, epoch = stock.begun(name, ago_ms=ago_ms)
    stock.journal.leave(run, epoch, 0, stock.steps(BUSY, BUSY, **options), state=State.COMPLETED)


def test_a_first_attempt_that_fails_stands_beside_how_it_ended(place, stock, capfd):
    healed(stock, "h-1")
    stock.ended("c-1", State.COMPLETED)
    stock.ended("c-2", State.COMPLETED)
    stock.died("d-1", "http.401", "key revoked")
    said = place.call(capfd, "stats", "--json")
    (tool,) = said.json["tools"]
    assert (tool["tool"], tool["steps"], tool["attempts"]) == ("ask_model", 4, 6)
    assert (tool["first_attempt_failures"], tool["ok"], tool["failed"], tool["open"]) == (2, 3, 1, 0)
    assert tool["waited_ms"] == 1_000
    assert tool["reasons"] == {"http.529": 2, "http.401": 1}
    (loop,) = said.json["loops"]
    assert loop["runs"] == {"completed": 3, "dead": 1}
    assert (loop["looked_at"], loop["attempts"]) == (4, 6)
    lines = place.call(capfd, "stats").out.splitlines()
    assert lines[0].split()[:4] == ["TOOL", "steps", "ok", "failed"]
    assert lines[1].split()[:6] == ["ask_model", "4", "75.0", "%", "25.0", "%"]
    assert lines[1].endswith("http.529 x2, http.401 x1")


def test_time_tool_and_loop_narrow_it(place, stock, capfd):
    healed(stock, "old", ago_ms=3 * DAY_MS)
    run, epoch = stock.begun("new", loop="triage")
    stock.journal.leave(run, epoch, 0, stock.steps(tool="look"), state=State.COMPLETED)
    assert [t["tool"] for t in place.call(capfd, "stats", "--json").json["tools"]] == ["ask_model", "look"]
    assert [t["tool"] for t in place.call(capfd, "stats", "--since", "1h", "--json").json["tools"]] == ["look"]
    assert [t["tool"] for t in place.call(capfd, "stats", "--tool", "look", "--json").json["tools"]] == ["look"]
    assert [t["tool"] for t in place.call(capfd, "stats", "--loop", "refund", "--json").json["tools"]] == ["ask_model"]
    said = place.call(capfd, "stats", "--tool", "loko")
    assert said.code == 2
    assert said.last == "yaoki: no step of a tool loko in sqlite:///yaoki.db; did you mean look?"


def test_what_was_spent_is_added_up_by_loop(place, stock, capfd):
    stock.spent("a", 1.25)
    stock.spent("b", 0.5)
    (loop,) = place.call(capfd, "stats", "--json").json["loops"]
    assert (loop["cost_usd"], loop["tokens"]) == (1.75, 20)
    assert "$1.75 · 20 tokens" in place.call(capfd, "stats").out


def test_an_empty_store_says_so(place, stock, capfd):
    assert place.call(capfd, "stats").out == "No runs in sqlite:///yaoki.db.\n"


def test_percentiles_are_right_to_a_twelfth_and_take_no_more_memory_for_more_of_them():
    durations, rng = Durations.empty(), random.Random(5)
    drawn = sorted(int(rng.lognormvariate(6, 1.5)) for _ in range(20_000))
    for ms in drawn:
        durations.add(ms)
    for share in (0.5, 0.95):
        true = drawn[int(len(drawn) * share)]
        assert abs(durations.percentile(share) - true) <= true / 12 + 1
    assert len(durations.buckets) < 200
    assert Durations.empty().percentile(0.5) == -1


def test_reasons_are_bounded():
    tally = Tally()
    for n in range(500):
        key = f"1.0//ask#{n}"
        tally.add(
            "l", [Entry(1, key, Begin(at=1)), Entry(2, key, Settle(at=2, outcome="failed", failure=failure(f"r.{n}")))]
        )
    reasons = tally.tools["ask"].reasons
    assert len(reasons) == 101
    assert reasons["other"] == 400


def test_doubts_are_open_checks_are_no_steps_and_adopted_ones_no_attempts():
    key = "1.0//charge#0"
    ask = Decision(do="ask")
    tally = Tally()
    tally.add(
        "l",
        [
            Entry(1, key, Begin(at=1, tool="")),
            Entry(2, key, Settle(at=2, outcome="failed", failure=BUSY, decision=ask)),
            Entry(3, f"{key}!check.0", Begin(at=3)),
            Entry(4, f"{key}!check.0", Settle(at=4)),
            Entry(5, "1.0//look#0", Adopt(at=5, source="x")),
        ],
    )
    assert set(tally.tools) == {"charge"}
    assert (tally.tools["charge"].open, tally.tools["charge"].steps) == (1, 1)


def test_a_process_that_died_is_no_duration():
    died = Failure(kind=FailureKind.TRANSIENT, reason="process.died")
    key = "1.0//look#0"
    tally = Tally()
    tally.add("l", [Entry(1, key, Begin(at=1)), Entry(2, key, Settle(at=9_000, outcome="failed", failure=died))])
    assert tally.tools["look"].durations.percentile(0.5) == -1


def test_a_table_without_steps_has_the_loops_alone():
    tally = Tally()
    tally.states = {"a": Counter({State.PENDING: 1_200}), "b": Counter({State.DEAD: 1})}
    assert text(stats_lines(tally)).splitlines() == [
        "LOOP  pending  dead",
        "a       1,200",
        "b              1",
    ]


def test_second_calls_are_no_attempts_and_what_they_cost_is_counted():
    tally = Tally()
    begin = Begin(at=1_000, reserved={"tokens": 10})
    tally.add(
        "work",
        [
            Entry(0, "1.0//a#0", begin),
            Entry(1, "1.0//a#0!hedge.1", begin),
            Entry(2, "1.0//a#0", Settle(at=2_000, used={"tokens": 3})),
            Entry(3, "1.0//a#0!hedge.1", Settle(at=2_000, outcome="cancelled", executed=Executed.MAYBE)),
        ],
    )
    one = tally.tools["a"]
    assert (one.steps, one.attempts, one.hedged, one.ok, one.tokens) == (1, 1, 1, 1, 13)
    assert tally.loops["work"].tokens == 13
