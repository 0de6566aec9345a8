from __future__ import annotations

import pytest

from tests.journal.store import begun, kill, note, open_at, start, texts, wait_said
from yaoki.errors import Fenced
from yaoki.records import State


@pytest.fixture
def journal(tmp_path):
    journal = open_at(tmp_path / "s.db")
    yield journal
    journal.close()


def test_one_record_under_an_older_epoch_is_refused(journal):
    run, epoch = begun(journal)
    for wrong in (epoch - 1, epoch + 1):
        with pytest.raises(Fenced, match=f"no longer held under epoch {wrong}"):
            journal.append(run, wrong, 0, [note()])
    assert texts(journal, run) == []
    assert journal.failed is None, "being fenced is no failure of the store"


def test_many_records_under_an_older_epoch_are_refused_as_one(journal):
    run, epoch = begun(journal)
    with pytest.raises(Fenced):
        journal.append(run, epoch - 1, 0, [note("a"), note("b")])
    assert texts(journal, run) == []


def test_a_run_that_was_left_takes_no_more_records_under_its_epoch(journal):
    run, epoch = begun(journal)
    journal.leave(run, epoch, 0, [note("last")], state=State.COMPLETED)
    with pytest.raises(Fenced):
        journal.append(run, epoch, 1, [note("late")])
    with pytest.raises(Fenced):
        journal.leave(run, epoch, 1, [note("late")], state=State.DEAD)
    assert (texts(journal, run), journal.get("run-1").state) == (["last"], State.COMPLETED)


def test_leaving_under_an_older_epoch_changes_nothing(journal):
    run, epoch = begun(journal)
    before = journal.get("run-1")
    for items in ([], [note()]):
        with pytest.raises(Fenced):
            journal.leave(run, epoch - 1, 0, items, state=State.COMPLETED)
    assert (journal.get("run-1"), texts(journal, run)) == (before, [])


def test_no_such_run_is_fenced_too(journal):
    with pytest.raises(Fenced):
        journal.append(404, 1, 0, [note()])


def test_in_a_batch_a_fenced_run_spoils_no_other(journal):
    (a, a_epoch), (b, b_epoch), (c, c_epoch) = (begun(journal, name) for name in "abc")
    results = journal.append_batch(
        [
            (a, a_epoch, 0, [note("a0"), note("a1")]),
            (b, b_epoch - 1, 0, [note("b0"), note("b1")]),
            (c, c_epoch, 0, [note("c0")]),
        ]
    )
    assert [type(result) for result in results] == [type(None), Fenced, type(None)]
    assert [texts(journal, run) for run in (a, b, c)] == [["a0", "a1"], [], ["c0"]]


def test_an_empty_batch_and_an_append_of_nothing_do_nothing(journal):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [])
    assert (journal.append_batch([]), texts(journal, run)) == ([], [])


def test_a_worker_that_was_stopped_while_another_took_its_run_cannot_write_to_it(tmp_path, journal):
    """A run is only taken from the dead; that it was, is made so here by its owner closing its lock alone."""
    path = tmp_path / "s.db"
    late = start(
        "j = open_at(path); run, epoch = begun(j); j.append(run, epoch, 0, [note('early')])\n"
        "j._locks.close(); print('up', flush=True); sys.stdin.readline()\n"
        "try: j.append(run, epoch, 1, [note('late')])\n"
        "except Fenced: print('fenced', flush=True)\n"
        "sys.stdin.read()",
        path,
    )
    wait_said(late, "up")
    claim = journal.claim(journal.get("run-1").id)
    late.stdin.write("go\n")
    late.stdin.flush()
    wait_said(late, "fenced")
    kill(late)
    journal.append(claim.row.id, claim.row.epoch, 1, [note("taken over")])
    assert texts(journal, claim.row.id) == ["early", "taken over"]
