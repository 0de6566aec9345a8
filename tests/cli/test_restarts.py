from __future__ import annotations

from tests.cli.made import DIED
from yaoki.cli._exits import Exit, exit_for
from yaoki.cli._restarts import UNCLAIMED_MAX, Restarts
from yaoki.cli._watch import Watch
from yaoki.records import Claimed, Entry, Settle, State

PID = 41


def test_what_was_settled_and_who_claimed_last_is_read_from_the_journal():
    seen = Watch()
    died = Settle(at=3, outcome="failed", failure=DIED)
    records = [Claimed(at=1, epoch=1, worker=1, pid=PID), Settle(at=2), Claimed(at=3, epoch=2, worker=2, pid=7), died]
    seen.feed([Entry(i, "", record) for i, record in enumerate(records)])
    assert seen.claim is not None
    assert (seen.claim.pid, seen.settled) == (7, 1)


def test_the_wait_doubles_to_two_seconds_over_deaths_that_settle_nothing():
    restarts = Restarts()
    waits = [restarts.after_death(claimed=True, settled=0) for _ in range(9)]
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_a_settled_step_starts_the_wait_anew():
    restarts = Restarts()
    for _ in range(5):
        restarts.after_death(claimed=True, settled=3)
    assert restarts.after_death(claimed=True, settled=4) == 0.05
    assert restarts.after_death(claimed=True, settled=4) == 0.1


def test_a_worker_that_never_takes_the_run_is_given_up_after_eight():
    restarts = Restarts()
    waits = [restarts.after_death(claimed=False, settled=0) for _ in range(UNCLAIMED_MAX)]
    assert waits[-1] is None
    assert None not in waits[:-1]


def test_a_claim_starts_that_count_anew():
    restarts = Restarts()
    for _ in range(UNCLAIMED_MAX - 1):
        restarts.after_death(claimed=False, settled=0)
    assert restarts.after_death(claimed=True, settled=0) is not None
    assert restarts.after_death(claimed=False, settled=0) is not None


def test_deaths_without_end_end():
    restarts = Restarts()
    waits = [restarts.after_death(claimed=True, settled=0) for _ in range(1_000)]
    assert waits[-1] is None


def test_every_state_has_its_exit_code():
    assert [int(exit_for(state)) for state in State] == [70, 70, 70, 3, 0, 4, 1, 5]
    assert [int(code) for code in Exit] == [0, 1, 2, 3, 4, 5, 70, 130, 143]
