from __future__ import annotations

import os
import re
import sys
import threading

import pytest

from tests.journal.store import StillClock, begun, edit, kill, note, open_at, start, texts, wait_said
from yaoki.errors import JournalError, RunBusy, RunNotFound
from yaoki.journal import _journal
from yaoki.journal._alive import ByteLocks, FileLocks, liveness
from yaoki.records import State

HOLD = "j = open_at(path); begun(j); j.sync(); print('up', flush=True); sys.stdin.read()"


@pytest.fixture(params=[ByteLocks, FileLocks], autouse=True)
def locks(request, monkeypatch):
    """Every promise here holds with both kinds of lock; other processes take the system's own, see `hold`."""
    monkeypatch.setattr(_journal, "liveness", request.param)
    return request.param


def hold(path, locks):
    """Start a process that drives `run-1`."""
    chosen = f"from yaoki.journal import _journal, _alive; _journal.liveness = _alive.{locks.__name__}\n"
    process = start(chosen + HOLD, path)
    wait_said(process, "up")
    return process


def test_a_run_is_claimed_by_raising_its_epoch(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run = journal.create("a", loop="l", input=b"").id
    claim = journal.claim(run)
    assert (claim.died, claim.row) == (False, journal.get("a"))
    assert (claim.row.state, claim.row.epoch, claim.row.owner) == (State.RUNNING, 1, journal.worker)
    journal.leave(run, 1, 0, [], state=State.PENDING)
    assert journal.claim(run).row.epoch == 2
    journal.close()


def test_a_run_of_a_living_worker_is_busy_and_the_error_names_it(tmp_path, locks):
    path = tmp_path / "s.db"
    owner = hold(path, locks)
    clock = StillClock()
    clock.ms += 51_000
    journal = open_at(path, clock=clock)
    row = journal.get("run-1")
    with pytest.raises(RunBusy, match=rf"run run-1: driven by worker {row.owner} \(pid {owner.pid}\) for 51 s") as busy:
        journal.claim(row.id)
    assert busy.value.run_id == "run-1"
    assert journal.driven(row)
    assert journal.get("run-1") == row, "nothing was changed"
    kill(owner)
    journal.close()


def test_ones_own_run_is_busy_too(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, _ = begun(journal)
    with pytest.raises(RunBusy, match=rf"pid {os.getpid()}"):
        journal.claim(run)
    journal.close()


def test_two_journals_of_one_process_are_two_workers(tmp_path):
    a, b = open_at(tmp_path / "s.db"), open_at(tmp_path / "s.db")
    run, _ = begun(a)
    assert a.worker != b.worker
    with pytest.raises(RunBusy):
        b.claim(run)
    a.close()
    assert b.claim(run).died
    b.close()


def test_a_run_of_a_killed_worker_is_taken_over_and_the_death_counted(tmp_path, locks):
    path = tmp_path / "s.db"
    journal = open_at(path)
    for deaths in (1, 2, 3):
        kill(hold(path, locks))
        row = journal.get("run-1")
        assert (row.state, journal.driven(row)) == (State.RUNNING, False)
        claim = journal.claim(row.id)
        assert (claim.died, claim.row.deaths, claim.row.owner) == (True, deaths, journal.worker)
        journal.leave(row.id, claim.row.epoch, 0, [], state=State.PENDING)
    assert journal.claim(row.id).died is False, "what was left in order is no death"
    journal.close()


def test_a_stopped_worker_is_alive(tmp_path, locks):
    import signal

    owner = hold(tmp_path / "s.db", locks)
    os.kill(owner.pid, signal.SIGSTOP)
    journal = open_at(tmp_path / "s.db")
    with pytest.raises(RunBusy):
        journal.claim(1)
    kill(owner)
    assert journal.claim(1).died
    journal.close()


def test_a_run_whose_owner_closed_without_leaving_it_was_left_by_a_death(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, _ = begun(journal)
    journal.close()
    journal = open_at(tmp_path / "s.db")
    assert (journal.claim(run).died, journal.get("run-1").deaths) == (True, 1)
    journal.close()


def test_a_final_run_and_no_run_cannot_be_claimed(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    journal.leave(run, epoch, 0, [], state=State.DEAD)
    with pytest.raises(ValueError, match="run run-1 is dead: only a redrive"):
        journal.claim(run)
    with pytest.raises(RunNotFound, match="no run number 404"):
        journal.claim(404)
    assert journal.failed is None
    journal.close()


def test_a_verb_holds_no_lock_and_claims_nothing(tmp_path, locks):
    journal = open_at(tmp_path / "s.db", worker=False)
    run = journal.create("a", loop="l", input=b"").id
    with pytest.raises(ValueError, match="worker=False cannot claim"):
        journal.claim(run)
    assert journal.worker == 0
    assert journal._one("select count(*) from worker") == 0
    journal.close()


def test_a_verb_sees_who_is_alive(tmp_path, locks):
    owner = hold(tmp_path / "s.db", locks)
    verb = open_at(tmp_path / "s.db", worker=False)
    assert verb.driven(verb.get("run-1"))
    kill(owner)
    assert not verb.driven(verb.get("run-1"))
    verb.close()


def test_a_worker_number_is_never_used_again(tmp_path, locks):
    path = tmp_path / "s.db"
    numbers = []
    for _ in range(3):
        journal = open_at(path)
        numbers.append(journal.worker)
        journal.close()
    edit(path, "delete from worker")
    journal = open_at(path)
    assert [*numbers, journal.worker] == [1, 2, 3, 4]
    journal.close()


def test_the_dead_are_forgotten_unless_a_run_names_them(tmp_path, locks):
    path = tmp_path / "s.db"
    kill(hold(path, locks))
    for _ in range(3):
        open_at(path).close()
    journal = open_at(path)
    assert [row[0] for row in journal._read("select id from worker order by id")] == [1, journal.worker]
    journal.claim(1)
    other = open_at(path)
    rows = other._read("select id from worker order by id")
    assert [row[0] for row in rows] == [journal.worker, other.worker]
    other.close()
    journal.close()


def test_of_many_who_claim_at_once_one_gets_the_run(tmp_path):
    journals = [open_at(tmp_path / "s.db") for _ in range(4)]
    run = journals[0].create("a", loop="l", input=b"").id
    taken, gate = [], threading.Barrier(4)

    def take(journal):
        gate.wait()
        try:
            taken.append(journal.claim(run).row.owner)
        except RunBusy as busy:
            taken.append(str(busy))

    threads = [threading.Thread(target=take, args=(journal,)) for journal in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [each for each in taken if isinstance(each, int)]
    assert len(winners) == 1
    assert all(re.search(f"worker {winners[0]} ", each) for each in taken if isinstance(each, str))
    for journal in journals:
        journal.close()


def test_a_lock_that_cannot_be_taken_refuses_the_worker(tmp_path, locks):
    path = tmp_path / "s.db"
    open_at(path, worker=False).close()
    thief = locks(str(path))
    thief.hold(1)
    with pytest.raises(JournalError, match="cannot open it"):
        open_at(path)
    thief.close()
    journal = open_at(path)
    assert journal.worker == 1
    journal.close()


def test_linux_has_one_lock_file_however_many_workers(tmp_path):
    if sys.platform == "linux":
        assert isinstance(liveness(str(tmp_path / "s.db")), ByteLocks)


def test_who_never_held_a_lock_is_dead(tmp_path, locks):
    held = locks(str(tmp_path / "s.db"))
    assert held.alive(7) is False
    held.close()
    held.close()


def test_a_run_is_driven_by_records_in_the_order_of_its_owners(tmp_path, locks):
    path = tmp_path / "s.db"
    kill(hold(path, locks))
    journal = open_at(path)
    claim = journal.claim(1)
    journal.append(1, claim.row.epoch, 0, [note("second owner")])
    assert texts(journal, 1) == ["second owner"]
    journal.close()
