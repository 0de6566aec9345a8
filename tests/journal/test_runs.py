from __future__ import annotations

import pytest

from tests.journal.store import START_MS, StillClock, begun, note, open_at, texts
from yaoki.errors import DeclarationError, EncodingError, JournalError
from yaoki.journal import RunRow
from yaoki.records import Gap, State


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def journal(tmp_path, clock):
    journal = open_at(tmp_path / "s.db", clock=clock)
    yield journal
    journal.close()


def test_a_new_run_is_pending_and_keeps_what_it_was_given(journal):
    row = journal.create("ticket-17", loop="agents.py:refund", input=b'{"a":1}', file="agents.py", group="night")
    assert row == RunRow(
        id=1, name="ticket-17", loop="agents.py:refund", state=State.PENDING, wake_ms=0, epoch=0, owner=0, deaths=0,
        input=b'{"a":1}', value=None, note="", waits_for="", file="agents.py", group="night", created_ms=START_MS,
        started_ms=0, ended_ms=0, changed_ms=START_MS,
    )  # fmt: skip
    assert journal.get("ticket-17") == row


def test_a_run_of_that_name_is_returned_and_never_overwritten(journal):
    first = journal.create("a", loop="l", input=b"1")
    assert journal.create("a", loop="other", input=b"2", file="f", group="g") == first
    assert journal.list() == [first]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\0", "\x1b[31m", "\ud800"])
def test_a_run_id_is_one_to_two_hundred_printable_characters(journal, name):
    with pytest.raises(DeclarationError, match="1 to 200 printable characters"):
        journal.create(name, loop="l", input=b"")
    assert journal.list() == []


@pytest.mark.parametrize("group", ["x" * 201, "a\nb", "\x1b[31m"])
def test_a_group_is_at_most_two_hundred_printable_characters(journal, group):
    with pytest.raises(DeclarationError, match="at most 200 printable characters"):
        journal.create("a", loop="l", input=b"", group=group)
    assert journal.list() == []


def test_an_input_has_a_bound(journal):
    journal.create("a", loop="l", input=b"1" * (16 << 20))
    with pytest.raises(EncodingError, match=r"run b: its input has 16,777,217 bytes; 16,777,216 is the most"):
        journal.create("b", loop="l", input=b"1" * ((16 << 20) + 1))
    assert journal.get("b") is None


def test_a_run_id_may_be_long_and_in_any_script(journal):
    for name in ("x" * 200, "七転び八起き", "a b/c:d"):
        assert journal.create(name, loop="l", input=b"").name == name


def test_no_run_of_a_name_is_none(journal):
    assert journal.get("nobody") is None


def test_runs_are_listed_as_created_by_state_and_up_to_a_limit(journal):
    for name in "abcd":
        journal.create(name, loop="l", input=b"")
    run, epoch = journal.get("b").id, journal.claim(journal.get("b").id).row.epoch
    journal.claim(journal.get("c").id)
    journal.leave(run, epoch, 0, [], state=State.COMPLETED)
    names = lambda **query: "".join(row.name for row in journal.list(**query))  # noqa: E731
    assert (names(), names(limit=2)) == ("abcd", "ab")
    assert names(states={State.PENDING}) == "ad"
    assert names(states={State.RUNNING, State.COMPLETED}) == "bc"
    assert names(states=[State.DEAD]) == ""


def test_runs_are_listed_in_pages_by_loop_and_newest_first(journal):
    for name in "abcdef":
        journal.create(name, loop="even" if name in "bdf" else "odd", input=b"")
    names = lambda **query: "".join(row.name for row in journal.list(**query))  # noqa: E731
    second = journal.get("b").id
    assert (names(after=second, limit=2), names(loop="even"), names(loop="even", after=second)) == ("cd", "bdf", "df")
    assert (names(newest=True, limit=3), names(loop="odd", newest=True)) == ("fed", "eca")
    assert names(states={State.PENDING}, after=second, limit=3) == "cde"


def test_runs_are_counted_by_loop_and_state(journal):
    for name in "abc":
        journal.create(name, loop="l", input=b"")
    journal.create("d", loop="other", input=b"")
    journal.claim(journal.get("a").id)
    assert journal.counts() == {("l", State.PENDING): 2, ("l", State.RUNNING): 1, ("other", State.PENDING): 1}


def test_a_reader_is_given_only_what_is_new(journal):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note("one"), note("two")])
    journal.post(run, Gap(at=1, text="posted"))
    first = journal.load_since(run, -1, 0)
    assert [entry.record.text for entry in first] == ["one", "two", "posted"]
    assert journal.load_since(run, first[1].seq, first[2].seq) == []
    journal.append(run, epoch, 2, [note("three")])
    assert [entry.record.text for entry in journal.load_since(run, first[1].seq, first[2].seq)] == ["three"]


def test_a_claim_ends_a_sleep(journal):
    run, epoch = begun(journal)
    journal.leave(run, epoch, 0, [], state=State.SLEEPING, wake_ms=5, waits_for="time")
    row = journal.claim(run).row
    assert (row.state, row.wake_ms, row.waits_for) == (State.RUNNING, 0, "")


def test_leaving_says_where_the_run_is_and_why(journal, clock):
    run, epoch = begun(journal)
    clock.ms += 70
    journal.leave(run, epoch, 0, [note()], state=State.WAITING, waits_for="person", note="did it happen?")
    row = journal.get("run-1")
    assert (row.state, row.owner, row.waits_for, row.note, row.ended_ms, row.changed_ms) == (
        State.WAITING, 0, "person", "did it happen?", 0, START_MS + 70,
    )  # fmt: skip
    assert texts(journal, run) == ["x"]


@pytest.mark.parametrize("state", [s for s in State if s.final])
def test_a_final_run_has_its_end_and_its_value(journal, clock, state):
    run, epoch = begun(journal)
    clock.ms += 9
    journal.leave(run, epoch, 0, [], state=state, value=b"42")
    row = journal.get("run-1")
    assert (row.state, row.value, row.started_ms, row.ended_ms) == (state, b"42", START_MS, START_MS + 9)


def test_a_run_starts_once(journal, clock):
    run, epoch = begun(journal)
    journal.leave(run, epoch, 0, [], state=State.PENDING)
    clock.ms += 5
    row = journal.claim(run).row
    assert (row.started_ms, row.changed_ms) == (START_MS, START_MS + 5)


def test_records_come_back_in_order_each_run_its_own(journal):
    (a, a_epoch), (b, b_epoch) = begun(journal, "a"), begun(journal, "b")
    journal.append(a, a_epoch, 1, [note("a1"), note("a2")])
    journal.append(b, b_epoch, 0, [note("b0")])
    journal.append(a, a_epoch, 0, [note("a0")])
    assert (texts(journal, a), texts(journal, b)) == (["a0", "a1", "a2"], ["b0"])
    assert [entry.seq for entry in journal.load(a)] == [0, 1, 2]


def test_a_change_by_another_connection_is_seen_once_and_ones_own_records_are_none(tmp_path, journal):
    other = open_at(tmp_path / "s.db", worker=False)
    run, epoch = begun(journal)
    assert (journal.changed(), journal.changed()) == (True, False), "a new run counts, whoever made it"
    journal.append(run, epoch, 0, [note()])
    assert journal.changed() is False
    other.create("b", loop="l", input=b"")
    assert (journal.changed(), journal.changed()) == (True, False)
    other.close()


def test_a_place_in_the_journal_taken_twice_is_an_error_and_the_end(journal):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note("first")])
    with pytest.raises(JournalError, match="a record's place is already taken"):
        journal.append(run, epoch, 0, [note("second")])
    with pytest.raises(JournalError, match="already taken"):
        journal.append(run, epoch, 1, [note("third")])
    assert texts(journal, run) == ["first"]


def test_a_closed_journal_says_so_and_closes_twice(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    journal.close()
    journal.close()
    for use in (
        lambda: journal.append(run, epoch, 0, [note()]),
        lambda: journal.get("a"),
        journal.sync,
        lambda: journal.sync_async(1),
    ):
        with pytest.raises(JournalError, match="this journal was closed"):
            use()


def test_a_store_left_by_everybody_is_one_file_and_its_locks(tmp_path):
    open_at(tmp_path / "s.db").close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s.db", "s.db-lock"]
