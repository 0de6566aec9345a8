"""A store kept from each schema version opens, shows every run, and lets each go on to its end."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from tests.guarantees.colours import Hand
from tests.upgrade.program import BOUND, STATES, Asked
from yaoki import Receipt, Runner
from yaoki.journal._schema import migrations
from yaoki.records import State

HERE = Path(__file__).parent
KEPT = sorted(HERE.glob("v*.db"))
MINUTE_MS = 60_000


class Store:
    """A copy of a kept store, and a clock that stands where the store was left."""

    def __init__(self, kept: Path, directory: Path) -> None:
        self.path = directory / "s.db"
        shutil.copyfile(kept, self.path)
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        (left_ms,) = connection.execute("select max(changed_ms) from run").fetchall()[0]
        connection.close()
        self.clock = Hand(left_ms + MINUTE_MS)
        self.url = f"sqlite:///{self.path}"

    def verbs(self) -> Runner:
        return Runner(self.url, clock=self.clock, verbs_only=True)

    def run(self, name: str) -> Receipt:
        with Runner(self.url, clock=self.clock) as runner:
            return runner.run(BOUND[name], run_id=name)


@pytest.fixture(params=KEPT, ids=lambda path: path.stem)
def store(request, tmp_path) -> Store:
    Asked.calls = []
    return Store(request.param, tmp_path)


def test_a_store_is_kept_for_every_schema_version():
    assert [path.stem for path in KEPT] == [f"v{number}" for number, _ in migrations()]


def test_kept_stores_are_whole_small_and_of_their_version():
    for (number, _), path in zip(migrations(), KEPT, strict=True):
        connection = apsw.Connection(f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("pragma user_version").fetchall() == [(number,)]
        connection.close()
        assert path.stat().st_size < 100_000


def test_every_receipt_and_journal_can_be_read(store):
    with store.verbs() as runner:
        for name, state in STATES.items():
            receipt = runner.get(name)
            assert receipt.status is state, name
            assert receipt.to_json()
            assert bool(runner.journal(name)) == (name != "pending")
        assert {receipt.run_id for receipt in runner.list()} == set(STATES)
        assert runner.get("dead").failure.reason == "os.ECONNRESET"
        assert runner.get("waiting-person").asks[0].call == 'note(what="a")'
        assert runner.get("capped").partial == 3


ENDS = {
    "pending": (State.COMPLETED, ["note a", "", "a"]),
    "sleeping": (State.COMPLETED, "note anote b"),
    "waiting-code": (State.COMPLETED, "look newtry a"),
    "completed": (State.COMPLETED, ["note a", "", "a"]),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_needs_nobody_goes_on_to_its_end(store, name):
    receipt = store.run(name)
    assert (receipt.status, receipt.value) == ENDS[name]


def test_what_was_recorded_is_not_executed_again(store):
    for name in ENDS:
        store.run(name)
    assert [call.split()[0:2] for call in Asked.calls] == [
        ["note", "a"],  # pending, from its start
        ["charge", "a"],
        ["note", "b"],  # sleeping, after its sleep
        ["try", "a"],  # waiting-code, which was interrupted there
    ]


def test_a_run_left_by_a_killed_process_asks_about_its_open_attempt(store):
    receipt = store.run("running")
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    with store.verbs() as runner:
        runner.answer("running", None, "happened", "by hand")
    assert store.run("running").value == ["by hand", "note b", "note c"]


def test_an_open_question_can_be_answered(store):
    with store.verbs() as runner:
        runner.answer("waiting-person", None, "happened", "by hand")
    assert store.run("waiting-person").value == ["by hand", "", "a"]


def test_an_empty_budget_can_be_topped_up(store):
    with store.verbs() as runner:
        runner.top_up("waiting-budget", calls=1)
    assert store.run("waiting-budget").value == ["note a", "note b", "note c"]
    assert Asked.calls == ["note c"]


@pytest.mark.parametrize(("name", "value"), [("dead", 4), ("cancelled", 4)])
def test_a_dead_or_cancelled_run_can_be_redriven(store, name, value):
    assert store.run(name).status is STATES[name]
    with store.verbs() as runner:
        runner.redrive(name)
    receipt = store.run(name)
    assert (receipt.status, receipt.value) == (State.COMPLETED, value)


def test_a_capped_run_can_be_topped_up_and_redriven(store):
    assert store.run("capped").partial == 3
    with store.verbs() as runner:
        runner.top_up("capped", turns=1)
        runner.redrive("capped")
    receipt = store.run("capped")
    assert (receipt.status, receipt.partial, receipt.spent.turns) == (State.CAPPED, 4, 3)
