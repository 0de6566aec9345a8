from __future__ import annotations

import os
import sys

import pytest

from tests.journal.store import START_MS, StillClock, begun, kill, note, open_at, start, texts, wait_said
from yaoki.errors import Fenced, Paused, RunBusy
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


def names(claims) -> list[str]:
    return [claim.row.name for claim in claims]


def sleeping(journal, name: str, wake_ms: int, *, state=State.SLEEPING, waits_for="time") -> int:
    run, epoch = begun(journal, name)
    journal.leave(run, epoch, 0, [], state=state, wake_ms=wake_ms, waits_for=waits_for)
    return run


def pending(journal, name: str, loop: str = LOOP) -> int:
    return journal.create(name, loop=loop, input=b"").id


def test_a_batch_takes_what_is_due_longest_first_then_what_is_pending_oldest_first(journal):
    sleeping(journal, "late", START_MS - 1)
    sleeping(journal, "early", START_MS - 9)
    sleeping(journal, "not yet", START_MS + 1)
    sleeping(journal, "a question expired", START_MS - 5, state=State.WAITING, waits_for="person")
    sleeping(journal, "for somebody", 0, state=State.WAITING, waits_for="person")
    pending(journal, "a")
    pending(journal, "b")
    pending(journal, "of another loop", loop="other")
    claims = journal.claim_many(10, loops=[LOOP])
    assert names(claims) == ["early", "a question expired", "late", "a", "b"]
    assert all((claim.row.state, claim.row.owner) == (State.RUNNING, journal.worker) for claim in claims)
    assert not any(claim.died for claim in claims)
    assert journal.claim_many(10, loops=[LOOP]) == []


def test_a_batch_is_no_larger_than_asked_for(journal):
    for name in "abc":
        pending(journal, name)
    assert names(journal.claim_many(2, loops=[LOOP])) == ["a", "b"]
    assert journal.claim_many(0, loops=[LOOP]) == []


def test_several_loops_are_served_at_once(journal):
    pending(journal, "one", loop="x")
    pending(journal, "two", loop="y")
    assert sorted(names(journal.claim_many(5, loops=["x", "y"]))) == ["one", "two"]


def test_runs_that_wait_for_code_are_no_part_of_a_batch_and_found_apart(journal):
    drifted = sleeping(journal, "drifted", 0, state=State.WAITING, waits_for="code")
    sleeping(journal, "asks", 0, state=State.WAITING, waits_for="person")
    assert journal.claim_many(5, loops=[LOOP]) == []
    assert (journal.waiting_for_code([LOOP]), journal.waiting_for_code(["other"])) == ([drifted], [])


def test_a_run_that_could_not_be_driven_is_left_to_others(journal):
    first, _ = pending(journal, "a"), pending(journal, "b")
    assert names(journal.claim_many(1, loops=[LOOP], without={first})) == ["b"]


def test_a_run_let_go_of_unseen_is_pending_again_and_its_writer_fenced(journal):
    run, epoch = begun(journal)
    journal.release(run, epoch, note="cannot be read")
    row = journal.get("run-1")
    assert (row.state, row.owner, row.note) == (State.PENDING, 0, "cannot be read")
    with pytest.raises(Fenced):
        journal.append(run, epoch, 0, [note()])
    again = journal.claim(run).row.epoch
    journal.release(run, epoch, note="too late")
    assert journal.get("run-1").epoch == again, "another claim is not touched"
    assert journal.get("run-1").state is State.RUNNING


def test_nothing_to_take_locks_nothing(tmp_path, journal):
    other = open_at(tmp_path / "s.db")
    with other._transaction("hold the write lock"):
        assert journal.claim_many(5, loops=[LOOP]) == []
    other.close()


@pytest.mark.parametrize("meanwhile", ["paused", "taken", "discarded", "taken and ended"])
def test_what_changed_between_the_look_and_the_lock_is_seen(tmp_path, journal, meanwhile):
    run = pending(journal, "a")
    pending(journal, "b")
    other = open_at(tmp_path / "s.db")
    look = journal._candidates

    def late(*arguments):
        found = look(*arguments)
        if meanwhile == "paused":
            other.pause("ana")
        else:
            epoch = other.claim(run).row.epoch
        if meanwhile in ("discarded", "taken and ended"):
            other.leave(run, epoch, 0, [], state=State.DEAD)
        if meanwhile == "discarded":
            other.discard("a")
        return found

    journal._candidates = late
    assert names(journal.claim_many(5, loops=[LOOP])) == ([] if meanwhile == "paused" else ["b"])
    other.close()


def test_what_a_death_left_is_taken_by_whoever_serves_its_loop(tmp_path, journal):
    owner = start(
        "j = open_at(path); [j.claim(j.create(n, loop=n, input=b'').id) for n in 'xy']; print('up', flush=True)\n"
        "sys.stdin.read()",
        tmp_path / "s.db",
    )
    wait_said(owner, "up")
    kill(owner)
    assert names(journal.claim_many(5, loops=["y"])) == ["y"]
    assert journal.claim_many(5, loops=["y"]) == []
    assert names(journal.claim_many(5, loops=["x", "y"])) == ["x"]


def test_what_a_living_worker_drives_is_not_taken_and_what_a_death_left_is(tmp_path, journal):
    owner = start(
        f"j = open_at(path); [j.create(n, loop={LOOP!r}, input=b'') for n in 'ab']\n"
        f"[print(c.row.name, flush=True) for c in j.claim_many(5, loops=[{LOOP!r}])]; sys.stdin.read()",
        tmp_path / "s.db",
    )
    wait_said(owner, "a")
    wait_said(owner, "b")
    assert journal.claim_many(5, loops=[LOOP]) == []
    kill(owner)
    claims = journal.claim_many(5, loops=[LOOP])
    assert names(claims) == ["a", "b"]
    assert [(claim.died, claim.row.deaths) for claim in claims] == [(True, 1)] * 2


@pytest.mark.parametrize("how", ["one", "many"])
def test_a_worker_that_was_ordered_to_stop_and_then_killed_did_not_crash(tmp_path, journal, how):
    owner = start("j = open_at(path); begun(j); print(j.worker, flush=True); sys.stdin.read()", tmp_path / "s.db")
    number = int(owner.stdout.readline())
    journal.stopping([number])
    with pytest.raises(RunBusy):
        journal.claim(1)
    assert journal.claim_many(5, loops=[LOOP]) == [], "ordered to stop, it still lives"
    kill(owner)
    claim = journal.claim(1) if how == "one" else journal.claim_many(5, loops=[LOOP])[0]
    assert (claim.died, claim.row.deaths) == (False, 0)


def test_the_next_wake_is_the_earliest_of_the_loops(journal):
    assert journal.next_wake([LOOP]) == 0
    sleeping(journal, "b", 700)
    sleeping(journal, "a", 500, state=State.WAITING, waits_for="person")
    assert (journal.next_wake([LOOP]), journal.next_wake(["other"])) == (500, 0)


def test_a_brake_lets_nothing_be_taken_until_it_is_released(tmp_path, journal, clock):
    run = pending(journal, "a")
    other = open_at(tmp_path / "s.db")
    other.changed()
    journal.pause("ana")
    clock.ms += 5
    journal.pause("ben")
    assert other.changed(), "others learn of it"
    assert (other.paused().by, other.paused().at_ms) == ("ana", START_MS)
    with pytest.raises(Paused, match=r"paused by ana: nothing begins\. To go on: yaoki unpause"):
        other.claim(run)
    assert other.claim_many(5, loops=[LOOP]) == []
    assert journal.unpause()
    assert not journal.unpause()
    assert other.paused() is None
    assert names(other.claim_many(5, loops=[LOOP])) == ["a"]
    other.close()


def test_a_run_that_is_driven_may_be_left_under_the_brake(journal):
    run, epoch = begun(journal)
    journal.pause()
    journal.append(run, epoch, 0, [note()])
    journal.leave(run, epoch, 1, [], state=State.PENDING)
    assert texts(journal, run) == ["x"]


def test_workers_are_listed_alive_or_dead_with_what_they_drive(tmp_path, journal, monkeypatch):
    monkeypatch.setenv("YAOKI_MARK", "m1")
    owner = start("j = open_at(path); begun(j); print(j.worker, flush=True); sys.stdin.read()", tmp_path / "s.db")
    number = int(owner.stdout.readline())
    mine, theirs = journal.workers()
    assert (mine.id, mine.pid, mine.alive, mine.runs) == (journal.worker, os.getpid(), True, 0)
    assert (theirs.id, theirs.pid, theirs.mark, theirs.alive, theirs.runs) == (number, owner.pid, "m1", True, 1)
    assert journal.owner(journal.get("run-1")) == theirs
    kill(owner)
    assert journal.worker_row(number).alive is False
    assert journal.worker_row(number + 9) is None
    journal.claim(1)
    assert journal.owner(journal.get("run-1")) == journal.worker_row(journal.worker)


def test_a_verbs_journal_takes_no_batch(tmp_path, journal):
    verb = open_at(tmp_path / "s.db", worker=False)
    with pytest.raises(ValueError, match="worker=False"):
        verb.claim_many(1, loops=[LOOP])
    verb.close()


FIGHT = """
import random
clock = StillClock(); rng = random.Random(int(sys.argv[2])); journal = open_at(path, clock=clock)
print('up', flush=True)
done = 0
while True:
    claims = journal.claim_many(rng.randint(1, 5), loops=['agents.py:loop'])
    if not claims and not journal.counts().get(('agents.py:loop', State.PENDING)):
        break
    for claim in claims:
        row = claim.row
        journal.append(row.id, row.epoch, row.epoch * 10, [note(f'{journal.worker}')])
        journal.leave(row.id, row.epoch, row.epoch * 10 + 1, [], state=State.COMPLETED)
        done += 1
journal.close()
print(done, flush=True)
"""


def test_four_workers_share_the_runs_and_each_is_taken_once(tmp_path, journal):
    for i in range(200):
        pending(journal, f"r{i}")
    workers = [start(FIGHT, tmp_path / "s.db", str(seed)) for seed in range(4)]
    for worker in workers:
        wait_said(worker, "up")
    done = [int(worker.stdout.readline()) for worker in workers]
    for worker in workers:
        assert worker.wait() == 0
        worker.stdin.close()
        worker.stdout.close()
    assert sum(done) == 200
    assert all(len(texts(journal, row.id)) == 1 and row.epoch == 1 for row in journal.list())


def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(tmp_path, journal):
    for i in range(40):
        pending(journal, f"r{i}")
    script = """
import os
journal = open_at(path); stop = int(sys.argv[2]); seen = [0]
whole = journal._take
def take(cursor, row):
    seen[0] += 1
    if seen[0] == stop:
        os.kill(os.getpid(), 9)
    return whole(cursor, row)
journal._take = take
journal.claim_many(30, loops=['agents.py:loop'])
"""
    for stop in (1, 2, 15, 30):
        worker = start(script, tmp_path / "s.db", str(stop))
        assert worker.wait() == -9
        worker.stdin.close()
        worker.stdout.close()
    assert {row.state for row in journal.list()} == {State.PENDING}
    assert len(journal.claim_many(100, loops=[LOOP])) == 40


def test_a_late_writer_is_fenced_once_its_run_was_taken(tmp_path):
    a, b = open_at(tmp_path / "s.db"), open_at(tmp_path / "s.db")
    run, epoch = begun(a)
    a._locks.close()  # as the kernel frees it
    assert b.claim_many(1, loops=[LOOP])[0].died
    with pytest.raises(Fenced):
        a.append(run, epoch, 0, [note()])
    b.close()
    assert sys.getrefcount(a) > 0
