from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from tests.journal.store import START_MS, StillClock, begun, note, open_at, start, step
from yaoki.errors import AnswerRefused, InputMismatch, RunBusy, RunNotFound
from yaoki.journal import _discarding
from yaoki.records import State


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def journal(tmp_path, clock):
    journal = open_at(tmp_path / "s.db", clock=clock)
    yield journal
    journal.close()


def ended(journal, name: str, state: State = State.COMPLETED, records: int = 1) -> int:
    run, epoch = begun(journal, name)
    journal.append(run, epoch, 0, [note(str(i)) for i in range(records)])
    journal.leave(run, epoch, records, [], state=state)
    return run


def records_of(journal, run: int) -> int:
    return len(journal.load(run))


def test_a_discarded_run_is_gone_with_its_records_and_its_id_is_never_used_again(journal):
    run = ended(journal, "a", State.DEAD, records=2_500)
    other = ended(journal, "b", records=3)
    tombstone = journal.discard("a", by="ana")
    assert (tombstone.name, tombstone.state, tombstone.by) == ("a", State.DEAD, "ana")
    assert journal.tombstone("a") == tombstone
    assert journal.get("a") is None
    assert (records_of(journal, run), records_of(journal, other)) == (0, 3)
    with pytest.raises(InputMismatch, match="run a was discarded; ids are never reused"):
        journal.create("a", loop="l", input=b"")


def test_only_a_final_run_is_discarded(journal):
    begun(journal, "mine")
    with pytest.raises(RunBusy):
        journal.discard("mine")
    run, epoch = begun(journal, "waits")
    journal.leave(run, epoch, 0, [], state=State.WAITING, waits_for="person")
    with pytest.raises(AnswerRefused, match="run waits is waiting: only a final run is discarded"):
        journal.discard("waits")
    with pytest.raises(RunNotFound):
        journal.discard("nobody")
    assert journal.tombstone("waits") is None


def test_pruning_deletes_final_runs_that_ended_before_a_time_oldest_first(journal, clock):
    for name in ("old", "older", "dead"):
        ended(journal, name, State.DEAD if name == "dead" else State.COMPLETED)
        clock.ms += 1
    begun(journal, "running")
    clock.ms += 100
    ended(journal, "new")
    assert journal.prune(START_MS + 50, by="cron", limit=1) == 1
    assert journal.get("old") is None
    assert journal.prune(START_MS + 50, states=[State.COMPLETED]) == 1
    assert journal.prune(START_MS + 50, states=[State.COMPLETED]) == 0
    assert [row.name for row in journal.list()] == ["dead", "running", "new"]
    assert journal.prune(START_MS + 50) == 1
    assert journal.tombstone("old").by == "cron"


def test_many_runs_are_pruned_a_bounded_number_at_a_time(journal, clock):
    for i in range(130):
        ended(journal, f"r{i}")
    clock.ms += 1
    assert [journal.prune(clock.ms, limit=100) for _ in range(3)] == [100, 30, 0]


def test_what_is_kept_is_not_gone_through_again_and_again(journal, clock):
    for i in range(20):
        ended(journal, f"dead-{i}", State.DEAD)
    ended(journal, "completed")
    clock.ms += 1
    seen = []
    read = journal._read
    journal._read = lambda sql, *more: seen.append(sql) or read(sql, *more)
    assert journal.prune(clock.ms, states=[State.COMPLETED], limit=1) == 1
    assert journal.get("completed") is None
    assert seen.count(_discarding.OLD) == 1
    assert len(journal.list(states=[State.DEAD])) == 20


def test_a_run_redriven_while_it_was_being_pruned_is_kept(journal, clock):
    run = ended(journal, "a", State.DEAD)
    ended(journal, "b", State.DEAD)
    clock.ms += 1
    batches = journal._transaction

    @contextmanager
    def late(doing):
        journal._transaction = batches
        journal.reopen(run, [note("again")])
        with batches(doing) as cursor:
            yield cursor

    journal._transaction = late
    assert journal.prune(clock.ms) == 1
    assert journal.get("a").state is State.PENDING
    assert (journal.tombstone("a"), journal.get("b")) == (None, None)
    assert records_of(journal, run) == 2


def spans(journal) -> list[float]:
    """Collect how long each transaction of the journal holds the lock, in seconds."""
    found, whole = [], journal._transaction

    @contextmanager
    def timed(doing):
        with whole(doing) as cursor:
            began_s = time.perf_counter()
            yield cursor
            found.append(time.perf_counter() - began_s)

    journal._transaction = timed
    return found


def test_large_records_go_a_few_megabytes_at_a_time(journal):
    run, epoch = begun(journal)
    for i in range(12):
        journal.append(run, epoch, 2 * i, step(i, b'"' + b"x" * (3 << 20) + b'"'))
    journal.leave(run, epoch, 24, [], state=State.COMPLETED)
    held = spans(journal)
    journal.discard("run-1")
    assert len(held) == 1 + 6 + 1, "buried, two large results at a time, cleared"
    assert records_of(journal, run) == 0


class Work:
    """A machine on which each look at the time is 2 ms later than the last."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def monotonic_s(self) -> float:
        self.now_s += 0.002
        return self.now_s

    def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)


@pytest.mark.parametrize("how", ["discard", "prune"])
def test_who_deletes_leaves_the_store_to_others_for_half_of_the_time(journal, clock, monkeypatch, how):
    work = Work()
    monkeypatch.setattr(_discarding, "_MACHINE", work)
    if how == "discard":
        ended(journal, "a", records=12_000)
        journal.discard("a")
    else:
        for i in range(600):
            ended(journal, f"r{i}", records=0)
        clock.ms += 1
        journal.prune(clock.ms, limit=600)
    assert len(work.slept) == 4, "twelve transactions"
    assert sum(work.slept) >= 0.4 * work.now_s


def test_the_log_is_copied_back_while_a_large_run_goes(journal, monkeypatch):
    marks = []
    run = ended(journal, "a", records=5_000)
    monkeypatch.setattr(journal._barrier, "mark", lambda: marks.append(1))
    journal.discard("a")
    assert len(marks) == 5, "a sync, and with it a look at the -wal, is asked for after each chunk"
    assert records_of(journal, run) == 0


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_death_while_a_run_is_discarded_leaves_it_discarded_and_the_rest_is_swept(tmp_path, journal, stop):
    run = ended(journal, "a", State.DEAD, records=2_500)
    script = """
import os
journal = open_at(path); stop = int(sys.argv[2]); seen = [0]
whole = journal._transaction
def transaction(doing):
    seen[0] += 1
    if seen[0] > stop:
        os.kill(os.getpid(), 9)
    return whole(doing)
journal._transaction = transaction
journal.discard("a")
"""
    worker = start(script, tmp_path / "s.db", str(stop))
    assert worker.wait() == -9
    worker.stdin.close()
    worker.stdout.close()
    assert journal.get("a") is None
    assert journal.tombstone("a") is not None
    with pytest.raises(InputMismatch):
        journal.create("a", loop="l", input=b"")
    journal.prune(0)
    assert records_of(journal, run) == 0


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_death_while_runs_are_pruned_leaves_each_whole_or_gone(tmp_path, journal, clock, stop):
    runs = {f"r{i}": ended(journal, f"r{i}", records=3) for i in range(60)}
    clock.ms += 1
    script = f"""
import os
journal = open_at(path); stop = int(sys.argv[2]); seen = [0]
whole = journal._transaction
def transaction(doing):
    seen[0] += 1
    if seen[0] > stop:
        os.kill(os.getpid(), 9)
    return whole(doing)
journal._transaction = transaction
journal.prune({clock.ms})
"""
    worker = start(script, tmp_path / "s.db", str(stop))
    assert worker.wait() == -9
    worker.stdin.close()
    worker.stdout.close()
    left = {row.name for row in journal.list()}
    assert len(left) == (10 if stop == 1 else 0)
    for name, run in runs.items():
        assert (journal.tombstone(name) is None) == (name in left)
        assert name not in left or records_of(journal, run) == 3
    assert journal.prune(clock.ms) == len(left)
    assert sum(records_of(journal, run) for run in runs.values()) == 0
