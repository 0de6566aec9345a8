from __future__ import annotations

from tests.cli.made import DIED
from yaoki.cli._exits import Exit, exit_for
from yaoki.cli._restarts import UNCLAIMED_MAX, Restarts
from yaoki.cli._watch import Watch
from yaoki.records import Begin, Claimed, Entry, Settle, State

PID = 41


def claim(epoch: int = 1, pid: int = PID) -> Claimed:
    return Claimed(at=1, epoch=epoch, worker=epoch, pid=pid)


def watch(*records: tuple[str, object], at_s: float = 0.0) -> Watch:
    seen = Watch()
    seen.feed([Entry(i + 1, key, record) for i, (key, record) in enumerate(records)], at_s)
    return seen


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


def test_an_attempt_past_twice_its_timeout_is_overdue():
    seen = watch(("", claim()), ("s", Begin(at=1, call="hang()", timeout_ms=1_000)))
    assert seen.overdue(PID, 1.9) is None
    found = seen.overdue(PID, 2.0)
    assert found is not None
    assert (found.call, found.timeout_ms) == ("hang()", 1_000)


def test_a_settled_attempt_is_not_overdue():
    seen = watch(("", claim()), ("s", Begin(at=1, timeout_ms=1_000)), ("s", Settle(at=2)))
    assert seen.overdue(PID, 99.0) is None
    assert seen.settled == 1


def test_an_attempt_without_a_timeout_is_never_overdue():
    assert watch(("", claim()), ("s", Begin(at=1))).overdue(PID, 1e9) is None


def test_an_attempt_of_an_earlier_worker_kills_nobody():
    seen = watch(("", claim()), ("s", Begin(at=1, timeout_ms=1_000)), ("", claim(2, PID + 1)))
    assert seen.overdue(PID, 99.0) is None
    assert seen.overdue(PID + 1, 99.0) is None


def test_another_process_is_never_judged():
    assert watch(("", claim(pid=7)), ("s", Begin(at=1, timeout_ms=1_000))).overdue(PID, 99.0) is None
    assert Watch().overdue(PID, 99.0) is None


def test_a_retry_counts_from_its_own_begin():
    seen = watch(("", claim()), ("s", Begin(at=1, timeout_ms=1_000)))
    seen.feed([Entry(3, "s", Settle(at=2)), Entry(4, "s", Begin(at=3, attempt=2, timeout_ms=1_000))], 10.0)
    assert seen.overdue(PID, 11.0) is None
    assert seen.overdue(PID, 12.0) is not None


def test_a_death_that_was_settled_later_is_no_progress():
    assert watch(("s", Begin(at=1)), ("s", Settle(at=2, outcome="failed", failure=DIED))).settled == 0


def test_every_state_has_its_exit_code():
    assert [int(exit_for(state)) for state in State] == [70, 70, 70, 3, 0, 4, 1, 5]
    assert [int(code) for code in Exit] == [0, 1, 2, 3, 4, 5, 70, 130, 143]
