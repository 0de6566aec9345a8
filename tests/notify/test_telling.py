"""What is told, once, by whom; and what a death, a failing address and a storm make of it."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.notify.station import Inbox
from yaoki.journal import POSTS
from yaoki.notify._plan import ATTEMPTS_MAX
from yaoki.records import Circuit, Question, State, Value


@pytest.mark.parametrize(
    ("state", "waits_for", "title"),
    [
        (State.WAITING, "budget", "r has used up its budget: calls: 2 of 2"),
        (State.WAITING, "signal", "r waits for a signal: calls: 2 of 2"),
        (State.WAITING, "code", "r waits for new code: calls: 2 of 2"),
        (State.DEAD, "", "r is dead: calls: 2 of 2"),
        (State.CAPPED, "", "r was capped: calls: 2 of 2"),
    ],
)
def test_what_needs_somebody_is_told_once(station, state, waits_for, title):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", state, waits_for=waits_for, note="calls: 2 of 2")
    station.all_of(teller)
    station.all_of(teller)
    assert inbox.titles == [title]
    assert "yaoki show r --store sqlite:////" in inbox.came[0].text
    assert f"id: {inbox.came[0].id}" in inbox.came[0].text


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED, State.PENDING])
def test_what_needs_nobody_is_not_told(station, state):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", state)
    station.all_of(teller)
    assert inbox.came == []


def test_nothing_is_kept_where_nobody_wants_to_be_told(station):
    station.leave("r", State.DEAD)
    assert station.journal.notable(0, 10) == []


def test_the_first_address_of_a_store_is_told_of_what_waits_and_not_of_old_deaths(station):
    station.leave("old", State.DEAD)
    station.leave("open", State.WAITING, waits_for="budget", note="calls: 1 of 1")
    inbox = Inbox()
    station.all_of(station.teller(inbox))
    assert inbox.titles == ["open has used up its budget: calls: 1 of 1"]


def test_a_second_address_is_told_of_what_still_stands(station):
    first, second = Inbox(), Inbox()
    station.all_of(station.teller(first))
    station.leave("r", State.DEAD)
    station.all_of(station.teller(second.__call__))
    assert len(second.came) == 1


def test_what_somebody_has_acted_on_already_is_not_told(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", State.WAITING, waits_for="budget")
    station.leave("r", State.COMPLETED)
    station.all_of(teller)
    assert inbox.came == []


def test_a_run_that_new_workers_try_in_vain_is_told_once(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    for _ in range(3):
        station.leave("r", State.WAITING, waits_for="code", note="the code asks for b where the journal has a")
        station.all_of(teller)
    assert len(inbox.came) == 1


def test_a_run_that_dies_again_is_told_again(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", State.DEAD)
    station.all_of(teller)
    station.journal.reopen(station.journal.get("r").id, [])
    station.leave("r", State.DEAD)
    station.all_of(teller)
    assert len({notice.id for notice in inbox.came}) == 2


def ask(station, name: str, number: int) -> None:
    """Let a run that is driven ask something, and go on."""
    row = station.journal.create(name, loop="work", input=b"{}")
    claim = station.journal.claim(row.id)
    question = Question(at=station.clock.now_ms(), id=f"q{number}", why="doubt", text="did a() happen?", call="a()")
    station.journal.append(row.id, claim.row.epoch, station.journal._next_seq(row.id), [("1.0//a#0", question)])


def test_a_question_is_told_once_whether_its_run_goes_on_or_waits_or_moves_and_waits_again(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    ask(station, "r", 1)
    row = station.journal.get("r")
    station.journal.note("asks", run=row.id, epoch=row.epoch, subject="1.1", quiet_ms=1)
    station.all_of(teller)
    for state in (State.WAITING, State.SLEEPING, State.WAITING):
        row = station.journal.get("r")
        seq = station.journal._next_seq(row.id)
        station.journal.leave(row.id, row.epoch, seq, [], state=state, waits_for="person", note="did a() happen?")
        station.all_of(teller)
        station.journal.claim(row.id)
    assert inbox.titles == ["r waits for you: did a() happen?"]
    assert "yaoki answer r q1 not-happened --store sqlite:////" in inbox.came[0].text


def test_each_question_of_a_run_is_told(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    for number in (1, 2):
        ask(station, "r", number)
        row = station.journal.get("r")
        seq = station.journal._next_seq(row.id)
        station.journal.leave(row.id, row.epoch, seq, [], state=State.WAITING, waits_for="person")
        station.all_of(teller)
    assert [notice.id.split(".")[1] for notice in inbox.came] == ["q1", "q2"]


def test_secrets_are_not_told(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", State.DEAD, note="http.401 sk-ant-abcdefghijklmnop was refused")
    station.all_of(teller)
    assert "sk-ant" not in inbox.came[0].text + inbox.came[0].title


# --- by whom


def test_of_two_workers_one_tells(station):
    inbox = Inbox()
    tellers = [station.teller(inbox), station.teller(inbox)]
    station.all_of(tellers[0])
    station.leave("r", State.DEAD)
    for teller in reversed(tellers):
        station.all_of(teller)
    assert len(inbox.came) == 1


def test_while_one_worker_sends_another_does_not(station):
    came: list[str] = []

    def note(notice) -> None:
        came.append(notice.id)
        if len(came) == 1:
            other.round()

    teller, other = station.teller(note), station.teller(note)
    station.all_of(teller)
    station.leave("r", State.DEAD)
    station.all_of(teller)
    assert len(came) == 1


def test_a_dead_teller_is_taken_over_at_once_and_a_hung_one_after_a_minute(station):
    inbox = Inbox()
    journals = [station.open() for _ in range(3)]
    tellers = [station.teller(inbox, journal) for journal in journals]
    station.all_of(tellers[0])
    station.leave("a", State.DEAD)
    journals[0].close()
    station.all_of(tellers[1])
    assert len(inbox.came) == 1
    station.leave("b", State.DEAD)
    station.all_of(tellers[2])
    assert len(inbox.came) == 1
    station.clock.advance(61)
    station.all_of(tellers[2])
    assert len(inbox.came) == 2


# --- a death


@pytest.mark.parametrize("runs", [1, 5])
def test_a_death_between_sending_and_its_record_sends_it_again_with_the_same_id(station, tmp_path, runs):
    log = tmp_path / "sent.log"
    station.all_of(station.teller(Inbox().__call__))  # from now on the outbox is kept
    for number in range(runs):
        station.leave(f"r{number}", State.DEAD)

    def note(notice) -> None:
        with log.open("a") as file:
            file.write(f"{notice.id} {notice.id in notice.text}\n")
        if len(log.read_text().splitlines()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    url, clock = station.url, station.clock
    pid = os.fork()
    if pid == 0:
        try:
            from yaoki.journal import Journal
            from yaoki.notify import sink_of
            from yaoki.runtime._telling import Teller

            journal = Journal.open(url, clock=clock)
            teller = Teller(journal, sink_of(note), journal.worker, clock=clock)
            while not teller.round():
                pass
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    station.all_of(station.teller(note))
    first, again = log.read_text().splitlines()
    assert first == again
    assert first.endswith("True")


# --- an address that fails


def test_a_failing_address_is_tried_within_bounds_then_noted_and_told_of_what_comes_later(station):
    inbox = Inbox()
    inbox.wrong = ConnectionRefusedError(111, "refused")
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", State.DEAD)
    tries = 0
    while not station.journal.targets()[0].lost:
        teller.round()
        station.clock.advance(61)
        tries += 1
        assert tries <= ATTEMPTS_MAX
    (target,) = station.journal.targets()
    assert tries == ATTEMPTS_MAX
    assert (target.lost, target.error) == (1, "ConnectionRefusedError: [Errno 111] refused")
    inbox.wrong = None
    station.leave("later", State.DEAD)
    station.all_of(teller)
    assert inbox.titles == ["later is dead: "]
    assert station.journal.targets()[0].failing_ms == 0


def test_the_waits_between_attempts_are_kept(station):
    inbox = Inbox()
    inbox.wrong = ConnectionRefusedError(111, "refused")
    teller = station.teller(inbox)
    station.all_of(teller)
    station.leave("r", State.DEAD)
    for _ in range(20):
        teller.round()
    assert station.journal.targets()[0].failures == 1


def test_an_address_that_hangs_holds_up_nothing_and_is_called_again_only_once_it_let_go(station):
    let_go = threading.Event()
    calls: list[str] = []

    def hang(notice) -> None:
        calls.append(notice.id)
        let_go.wait(30)

    teller = station.teller(hang, timeout_s=0.01)
    station.all_of(teller)
    station.leave("r", State.DEAD)
    for _ in range(3):
        teller.round()
        station.clock.advance(61)
    assert len(calls) == 1
    assert station.journal.targets()[0].error == "the attempt before still hangs"
    let_go.set()
    teller._sending.join()
    teller._timeout_s = 30
    station.all_of(teller)
    assert calls == [calls[0]] * 2
    assert station.journal.targets()[0].failing_ms == 0


# --- a storm


def test_a_thousand_runs_that_end_at_once_are_a_handful_of_messages_a_minute(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    for number in range(1_000):
        station.leave(f"r{number}", State.DEAD if number % 4 else State.CAPPED)
        if number % 100 == 0:
            teller.round()
    station.all_of(teller)
    assert len(inbox.came) <= 6
    station.clock.advance(60)
    station.all_of(teller)
    assert len(inbox.came) <= 7
    told = sum(1 if n.kind != "digest" else int(n.title.split()[0].replace(",", "")) for n in inbox.came)
    assert told == 1_000
    digest = inbox.came[-1]
    assert digest.kind == "digest"
    assert "yaoki runs --store sqlite:////" in digest.text
    assert len(digest.text) <= 3_500


def test_up_to_three_are_told_one_by_one(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    for number in range(3):
        station.leave(f"r{number}", State.DEAD, note="x")
    station.all_of(teller)
    assert inbox.titles == ["r0 is dead: x", "r1 is dead: x", "r2 is dead: x"]


def test_the_outbox_forgets_after_thirty_days(station):
    inbox = Inbox()
    station.all_of(station.teller(inbox))
    station.leave("r", State.DEAD)
    station.clock.advance(31 * 86_400)
    station.all_of(station.teller(Inbox().__call__))
    assert station.journal.notable(0, 10) == []


def test_posts_are_no_questions(station):
    """The count of a run's questions reads the driver's records alone."""
    ask(station, "r", 1)
    row = station.journal.get("r")
    assert station.journal.asked(row.id) == 1
    assert POSTS == 1 << 31


def turn(station, *circuits: Circuit) -> None:
    """Let a run's record change what is known of scopes."""
    row = station.journal.get("r") or station.journal.create("r", loop="work", input=b"{}")
    if not row.epoch:
        row = station.journal.claim(row.id).row
    seq = station.journal._next_seq(row.id)
    value = Value(at=station.clock.now_ms(), value=Raw(b"1"))
    station.journal.append_ruled(row.id, row.epoch, seq, [(f"p{seq}", value)], change=lambda _: circuits)


def opened(station, *, failures: int = 5, scope: str = "vendor/model") -> Circuit:
    now_ms = station.clock.now_ms()
    return Circuit(scope=scope, failures=failures, opened_ms=now_ms, until_ms=now_ms + 30_000, reason="os.ECONNRESET")


def test_an_opened_breaker_is_told_once_with_what_to_type_and_its_failed_probes_are_not(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    first = opened(station)
    turn(station, first)
    station.all_of(teller)
    station.clock.advance(31)
    turn(station, replace(first, failures=6, until_ms=first.until_ms + 30_000))
    station.all_of(teller)
    (one,) = inbox.came
    assert (one.kind, one.run_id) == ("breaker", "")
    assert one.title == "vendor/model is open: 5 failures in a row, the last: os.ECONNRESET"
    assert "yaoki breakers --reset vendor/model --store sqlite:////" in one.text


def test_a_breaker_that_opens_again_and_again_is_told_once_in_ten_minutes_and_another_at_once(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    for _ in range(5):
        turn(station, opened(station))
        station.all_of(teller)
        turn(station, Circuit(scope="vendor/model"))
        station.clock.advance(100)
    assert len(inbox.came) == 1
    turn(station, opened(station, scope="other"))
    station.clock.advance(110)
    turn(station, opened(station))
    station.all_of(teller)
    assert [one.title.partition(" ")[0] for one in inbox.came] == ["vendor/model", "other", "vendor/model"]


def test_a_breaker_that_has_closed_before_anybody_was_told_is_no_news(station):
    inbox = Inbox()
    teller = station.teller(inbox)
    station.all_of(teller)
    turn(station, opened(station))
    station.journal.reset_scope("vendor/model")
    station.all_of(teller)
    assert inbox.came == []
    assert len(station.journal.notable(0, 10)) == 1


def test_of_a_breaker_nothing_is_kept_where_nobody_wants_to_be_told(station):
    turn(station, opened(station))
    assert station.journal.notable(0, 10) == []
