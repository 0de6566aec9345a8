"""Reads of a whole store: in the order promised, narrowed by loop, and none of them in the order of all runs."""

from __future__ import annotations

import pytest

from tests.journal.store import START_MS, StillClock, begun, note, open_at
from yaoki.journal import _surveying as sql
from yaoki.records import State

LOOP = "agents.py:loop"


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def journal(tmp_path, clock):
    journal = open_at(tmp_path / "s.db", clock=clock)
    yield journal
    journal.close()


def left(journal, clock, name: str, state: State, *, after_ms: int = 0, **how) -> None:
    run, epoch = begun(journal, name)
    clock.ms = START_MS + after_ms
    journal.leave(run, epoch, 0, [note(name)], state=state, **how)
    clock.ms = START_MS


def names(rows) -> list[str]:
    return [row.name for row in rows]


def test_waiting_runs_come_longest_first(journal, clock):
    left(journal, clock, "later", State.WAITING, after_ms=9, waits_for="person")
    left(journal, clock, "first", State.WAITING, after_ms=1, waits_for="person")
    left(journal, clock, "ended", State.COMPLETED)
    assert names(journal.longest_waiting(10)) == ["first", "later"]
    assert names(journal.longest_waiting(1)) == ["first"]
    assert journal.longest_waiting(10, loop="other") == []


def test_sleeping_runs_of_which_a_branch_waits_for_somebody_are_found(journal, clock):
    left(journal, clock, "asks", State.SLEEPING, waits_for="person", wake_ms=START_MS + 5)
    left(journal, clock, "sleeps", State.SLEEPING, waits_for="time", wake_ms=START_MS + 5)
    assert names(journal.asleep_for_somebody(10)) == ["asks"]


def test_overdue_runs_are_counted_all_and_listed_longest_first(journal, clock):
    for i in range(5):
        left(journal, clock, f"r{i}", State.SLEEPING, waits_for="time", wake_ms=START_MS - i)
    left(journal, clock, "expires", State.WAITING, waits_for="person", wake_ms=START_MS - 50)
    left(journal, clock, "later", State.SLEEPING, waits_for="time", wake_ms=START_MS + 50)
    count, rows = journal.overdue(START_MS + 1, 2)
    assert (count, names(rows)) == (5, ["r4", "r3"])
    assert journal.first_asleep(START_MS + 1).name == "later"
    assert journal.first_asleep(START_MS + 99) is None


def test_ended_runs_come_latest_first(journal, clock):
    left(journal, clock, "a", State.DEAD, after_ms=1)
    left(journal, clock, "b", State.DEAD, after_ms=3)
    left(journal, clock, "c", State.CAPPED, after_ms=2)
    assert names(journal.latest_ended((State.DEAD, State.CAPPED), 10)) == ["b", "c", "a"]
    assert names(journal.latest_ended((State.DEAD,), 1)) == ["b"]


def test_changes_come_in_their_order(journal, clock):
    left(journal, clock, "a", State.DEAD, after_ms=9)
    left(journal, clock, "b", State.DEAD, after_ms=3)
    assert names(journal.changed_since(START_MS + 3, 10)) == ["b", "a"]
    assert names(journal.changed_since(START_MS + 4, 10)) == ["a"]


def test_all_runs_are_paged_without_their_inputs(journal, clock):
    for name in "abc":
        left(journal, clock, name, State.COMPLETED)
    first = journal.briefs(limit=2)
    assert names(first) == ["a", "b"]
    assert first[0].state is State.COMPLETED
    assert names(journal.briefs(after=first[-1].id)) == ["c"]


def test_the_newest_record_of_the_driver_is_read_alone(journal, clock):
    left(journal, clock, "a", State.COMPLETED)
    row = journal.get("a")
    journal.post(row.id, note("from outside")[1])
    assert journal.last_driven(row.id).record.text == "a"
    assert journal.last_driven(99) is None


@pytest.mark.parametrize(
    ("query", "bindings", "index"),
    [
        (sql.OVERDUE, ("l", 1, 1), "run_wake"),
        (sql.COUNT_OVERDUE, ("l", 1), "run_wake"),
        (sql.FIRST_ASLEEP, ("l", 1), "run_wake"),
        (sql.LATEST_ENDED, ("", "dead", 1), "run_ended"),
        (sql.WAITING, ("", 1), "run_state"),
        (sql.ASLEEP_FOR, ("", 1), "run_state"),
        (sql.BRIEFS, (0, 1), "INTEGER PRIMARY KEY"),
    ],
)
def test_each_read_goes_by_an_index(journal, query, bindings, index):
    plan = journal._connection.execute(f"explain query plan {query}", bindings).fetchall()
    assert index in plan[0][3]
