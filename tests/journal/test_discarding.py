from __future__ import annotations

import stat

import pytest

from tests.journal.store import START_MS, StillClock, begun, note, open_at, start, texts
from yaoki.errors import AnswerRefused, InputMismatch, JournalError, RunBusy, RunNotFound
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


def test_a_backup_is_a_store_of_its_own_with_everything_written_before(tmp_path, journal):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note(f"{i}") for i in range(5_000)])
    steps = []
    size = journal.backup(str(tmp_path / "copy.db"), lambda done, total: steps.append((done, total)))
    journal.append(run, epoch, 5_000, [note("later")])
    assert size == (tmp_path / "copy.db").stat().st_size
    assert steps[-1][0] == steps[-1][1] > 1
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    copy = open_at(tmp_path / "copy.db")
    assert len(texts(copy, run)) == 5_000
    assert copy.claim(run).died, "in the copy its process has died"
    copy.close()
    assert not list(tmp_path.glob("*.partial*"))


def test_a_backup_overwrites_nothing(tmp_path, journal):
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(JournalError, match=r"copy\.db exists; nothing is overwritten"):
        journal.backup(str(tmp_path / "copy.db"))
    with pytest.raises(JournalError, match="exists"):
        journal.backup(str(tmp_path / "s.db"))
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_backup_to_nowhere_says_so_and_leaves_nothing(tmp_path, journal):
    with pytest.raises(JournalError, match=r"cannot write .*No such file or directory"):
        journal.backup(str(tmp_path / "no" / "copy.db"))
    assert not (tmp_path / "no").exists()


WRITE = """
journal = open_at(path); run, epoch = begun(journal, 'busy'); print('up', flush=True)
i = 0
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    journal.append(run, epoch, i, [note(str(i))]); i += 1
journal.close()
"""


def test_a_backup_ends_while_others_write_and_is_one_moment_of_the_store(tmp_path, journal):
    for i in range(20):
        ended(journal, f"r{i}", records=500)
    writer = start(WRITE, tmp_path / "s.db")
    try:
        assert writer.stdout.readline() == "up\n"
        journal.backup(str(tmp_path / "copy.db"))
    finally:
        writer.stdin.write("stop\n")
        writer.stdin.close()
        writer.wait()
        writer.stdout.close()
    copy = open_at(tmp_path / "copy.db", worker=False)
    run = copy.get("busy").id
    said = texts(copy, run)
    assert said == [str(i) for i in range(len(said))]
    assert copy._one("pragma integrity_check") == "ok"
    copy.close()
