from __future__ import annotations

import pytest

from tests.journal.store import START_MS, StillClock, begun, kill, note, open_at, raw, start, texts, wait_said
from yaoki.errors import AnswerRefused, JournalError, RunBusy, RunNotFound
from yaoki.journal import POSTS, _outside
from yaoki.records import Answer, Cancel, Redrive, Signal, State


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def journal(tmp_path, clock):
    journal = open_at(tmp_path / "s.db", clock=clock)
    yield journal
    journal.close()


def signal(name="s") -> Signal:
    return Signal(at=START_MS, name=name)


def names(journal, run, after_seq=0):
    return [entry.record.name for entry in journal.posts(run, after_seq)]


def left(journal, state, **columns) -> int:
    run, epoch = begun(journal)
    journal.leave(run, epoch, 0, [note()], state=state, **columns)
    return run


def test_posts_follow_the_drivers_records_and_are_read_from_a_seq_on(journal):
    run, epoch = begun(journal)
    first, second = journal.post(run, signal("a"), key="k"), journal.post(run, signal("b"))
    journal.append(run, epoch, 0, [note("driver")])
    assert (first.seq, first.key, first.record.name, second.seq) == (POSTS, "k", "a", POSTS + 1)
    assert [entry.seq for entry in journal.load(run)] == [0, POSTS, POSTS + 1]
    assert (names(journal, run), names(journal, run, first.seq), names(journal, run, second.seq)) == (
        ["a", "b"],
        ["b"],
        [],
    )


@pytest.mark.parametrize("state", [State.WAITING, State.SLEEPING])
def test_a_post_makes_a_run_that_waits_or_sleeps_pending(journal, clock, state):
    run = left(journal, state, wake_ms=START_MS + 9, waits_for="person")
    clock.ms += 3
    journal.post(run, signal())
    row = journal.get("run-1")
    assert (row.state, row.wake_ms, row.changed_ms, row.owner, row.epoch) == (State.PENDING, 0, START_MS + 3, 0, 1)


@pytest.mark.parametrize("state", [State.RUNNING, State.COMPLETED, State.DEAD])
def test_a_post_leaves_any_other_run_where_it_is(journal, state):
    run = begun(journal)[0] if state is State.RUNNING else left(journal, state)
    before = journal.get("run-1")
    journal.post(run, Cancel(at=START_MS))
    assert journal.get("run-1") == before


def test_a_post_to_no_run_is_refused(journal):
    with pytest.raises(RunNotFound):
        journal.post(404, signal())
    with pytest.raises(RunNotFound):
        journal.reopen(404, [])
    assert journal._one("select count(*) from journal") == 0


def test_a_guard_sees_all_records_and_can_refuse_the_first_answer_wins(journal):
    run = left(journal, State.WAITING)

    def unanswered(entries):
        if any(isinstance(entry.record, Answer) for entry in entries):
            raise AnswerRefused("already answered")

    answer = Answer(at=START_MS, question="q1", verdict="happened", value=raw(b'"ch_123"'))
    journal.post(run, answer, guard=unanswered)
    with pytest.raises(AnswerRefused, match="already answered"):
        journal.post(run, answer, guard=unanswered)
    assert [type(entry.record).__name__ for entry in journal.load(run)] == ["Gap", "Answer"]
    assert journal.failed is None


def guarded(journal, way: str, run: int, guard):
    return journal.post(run, signal(), guard=guard) if way == "post" else journal.reopen(run, [note()], guard=guard)


@pytest.mark.parametrize("way", ["post", "reopen"])
def test_a_guard_is_asked_while_others_may_write_and_once_if_none_did(journal, way):
    run = left(journal, State.WAITING)
    journal.post(run, signal())
    asked = []

    def guard(entries):
        asked.append((len(entries), journal._connection.in_transaction))

    guarded(journal, way, run, guard)
    assert asked == [(2, False)]


@pytest.mark.parametrize("way", ["post", "reopen"])
@pytest.mark.parametrize("meanwhile", ["a record", "a post", "a change of the run alone"])
def test_a_guard_is_asked_again_about_all_that_came_before_the_lock_was_had(tmp_path, journal, way, meanwhile):
    run = left(journal, State.WAITING)
    journal.post(run, signal())
    other = open_at(tmp_path / "s.db")
    asked = []

    def guard(entries):
        asked.append([entry.seq for entry in entries])
        if len(asked) > 1:
            assert journal._connection.in_transaction
            raise AnswerRefused("late")
        epoch = other.claim(run).row.epoch
        if meanwhile == "a post":
            other.post(run, signal())
        items = [note()] if meanwhile == "a record" else []
        other.leave(run, epoch, 1, items, state=State.DEAD)

    with pytest.raises(AnswerRefused, match="late"):
        guarded(journal, way, run, guard)
    fresh = {"a record": [0, 1, POSTS], "a post": [0, POSTS, POSTS + 1]}.get(meanwhile, [0, POSTS])
    assert asked == [[0, POSTS], fresh]
    assert len(journal.load(run)) == len(fresh), "nothing was written"
    other.close()


def test_of_two_processes_that_answer_at_once_one_wins(tmp_path, journal):
    run = left(journal, State.WAITING)
    script = (
        "j = open_at(path, worker=False)\n"
        "def guard(entries):\n"
        "    if any(isinstance(e.record, Answer) for e in entries): raise AnswerRefused('late')\n"
        "print('up', flush=True); sys.stdin.readline()\n"
        "try: j.post(1, Answer(at=1, question='q1', verdict='skip'), guard=guard); print('won', flush=True)\n"
        "except AnswerRefused: print('late', flush=True)\n"
        "j.close()"
    )
    processes = [start(script, tmp_path / "s.db", str(i)) for i in range(2)]
    for process in processes:
        wait_said(process, "up")
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0].strip() for process in processes) == ["late", "won"]
    assert len(journal.posts(run, 0)) == 1


def test_a_post_is_synced_when_it_returns(tmp_path):
    seen = []
    journal = open_at(tmp_path / "s.db", sync=lambda fd: seen.append(journal._one("select count(*) from journal")))
    run = left(journal, State.WAITING)
    assert seen == []
    journal.post(run, signal())
    assert seen == [2]
    journal.reopen(run, [note()])
    assert seen == [2, 3]
    journal.close()


@pytest.mark.parametrize("state", [State.WAITING, State.SLEEPING])
def test_a_post_that_came_before_the_run_was_left_is_not_slept_over(journal, state):
    run, epoch = begun(journal)
    journal.post(run, signal())
    journal.leave(run, epoch, 0, [], state=state, wake_ms=START_MS + 9, waits_for="signal")
    row = journal.get("run-1")
    assert (row.state, row.wake_ms) == (State.PENDING, 0)


def test_posts_the_driver_has_seen_do_not_keep_the_run_awake(journal):
    run, epoch = begun(journal)
    seen = journal.post(run, signal()).seq
    journal.leave(run, epoch, 0, [], state=State.WAITING, seen=seen)
    assert journal.get("run-1").state is State.WAITING
    journal.post(run, signal())
    epoch = journal.claim(run).row.epoch
    journal.leave(run, epoch, 0, [], state=State.WAITING)
    assert journal.get("run-1").state is State.WAITING, "what was there at the claim was loaded"


def test_a_post_does_not_hold_a_run_back_from_its_end(journal):
    run, epoch = begun(journal)
    journal.post(run, signal())
    journal.leave(run, epoch, 0, [], state=State.COMPLETED)
    assert journal.get("run-1").state is State.COMPLETED


def test_ones_own_post_is_a_change_too(journal):
    run, _ = begun(journal)
    journal.changed()
    journal.post(run, signal())
    assert (journal.changed(), journal.changed()) == (True, False)
    journal.reopen(left_again(journal, run), [])
    assert (journal.changed(), journal.changed()) == (True, False)


def left_again(journal, run):
    journal.leave(run, 1, 0, [], state=State.DEAD)
    return run


def test_a_driver_sees_the_posts_of_another_process(tmp_path, journal):
    run, epoch = begun(journal)
    journal.changed()
    verb = start(
        "j = open_at(path, worker=False); j.post(1, Signal(at=1, name='from outside')); j.close()", tmp_path / "s.db"
    )
    assert verb.wait(30) == 0
    verb.communicate()
    assert journal.changed()
    assert names(journal, run) == ["from outside"]
    journal.append(run, epoch, 0, [note()])


def test_posts_and_the_drivers_records_of_two_processes_do_not_meet(tmp_path, journal):
    run, epoch = begun(journal)
    script = (
        "j = open_at(path, worker=False); print('up', flush=True); sys.stdin.readline()\n"
        "for i in range(100): j.post(1, Signal(at=1, name=str(i)))\n"
        "j.close()"
    )
    verb = start(script, tmp_path / "s.db")
    wait_said(verb, "up")
    verb.stdin.write("go\n")
    verb.stdin.flush()
    count = 0
    while verb.poll() is None or count < 500:
        journal.append(run, epoch, count, [note(str(count))])
        count += 1
    verb.communicate()
    assert texts(journal, run) == [str(i) for i in range(count)]
    assert names(journal, run) == [str(i) for i in range(100)]


def test_a_redrive_opens_a_final_run_again_under_a_new_epoch(journal, clock):
    run = left(journal, State.DEAD, value=b"1", note="gave up")
    journal.post(run, Cancel(at=START_MS))
    clock.ms += 4
    row = journal.reopen(run, [("", Redrive(at=START_MS, source="step")), note("b")])
    assert row == journal.get("run-1")
    assert (row.state, row.epoch, row.owner, row.value, row.note, row.ended_ms, row.changed_ms) == (
        State.PENDING, 2, 0, None, "", 0, START_MS + 4,
    )  # fmt: skip
    assert [entry.seq for entry in journal.load(run)] == [0, 1, 2, POSTS]
    assert journal.claim(run).row.epoch == 3


def test_a_redrive_of_a_run_without_records_starts_at_nought(journal):
    run = journal.create("a", loop="l", input=b"").id
    journal.reopen(run, [note()])
    assert [entry.seq for entry in journal.load(run)] == [0]


def test_a_redrive_can_be_refused_by_its_guard(journal):
    run = left(journal, State.DEAD)
    before = journal.get("run-1")

    def refuse(entries):
        raise AnswerRefused(f"{len(entries)} records")

    with pytest.raises(AnswerRefused, match="1 records"):
        journal.reopen(run, [note()], guard=refuse)
    assert (journal.get("run-1"), len(journal.load(run))) == (before, 1)


def test_a_run_that_is_driven_cannot_be_redriven_and_one_left_by_a_death_can(tmp_path, journal):
    owner = start("j = open_at(path); begun(j); print('up', flush=True); sys.stdin.read()", tmp_path / "s.db")
    wait_said(owner, "up")
    with pytest.raises(RunBusy, match=rf"pid {owner.pid}"):
        journal.reopen(1, [note()])
    assert journal.load(1) == []
    kill(owner)
    row = journal.reopen(1, [note()])
    assert (row.state, row.owner, row.deaths) == (State.PENDING, 0, 1)


def test_a_run_takes_no_more_posts_than_its_range_holds(journal, monkeypatch):
    run, _ = begun(journal)
    monkeypatch.setattr(_outside, "SEQ_MASK", POSTS)
    journal.post(run, signal())
    with pytest.raises(JournalError, match="can take no more posts"):
        journal.post(run, signal())
    assert len(journal.posts(run, 0)) == 1
