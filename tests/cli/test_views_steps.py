from __future__ import annotations

import pytest

from tests.cli.made import DIED, OVERLOADED, at, doubt_entries
from yaoki.cli._views_steps import Identity, identity, rows
from yaoki.records import (
    Adopt,
    Answer,
    Begin,
    Cancel,
    Cause,
    Decision,
    Entry,
    Gap,
    Hold,
    Question,
    Redrive,
    Refused,
    Settle,
    Signal,
    TopUp,
)

STEP = "1.1//charge#0"


def story(*records):
    """Return the rows of records of one step, a second apart."""
    return rows([Entry(i + 1, STEP, record) for i, record in enumerate(records)])


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("1.3//charge#0", Identity(turn=3, name="charge")),
        ("1.0/map#0[doc-7]/fetch#2", Identity(turn=0, branch="map#0[doc-7]", name="fetch", n=2)),
        ("2.3//charge#0!check.1", Identity(pass_=2, turn=3, name="charge", role="check")),
        ("1.0/map#0[a/b]/x#0[c]/fetch#1", Identity(turn=0, branch="map#0[a/b]/x#0[c]", name="fetch", n=1)),
        ("", Identity(name="")),
        ("odd", Identity(name="odd")),
        ("1.2/x", Identity(turn=2, name="x")),
    ],
)
def test_a_key_is_taken_apart(key, parts):
    assert identity(key) == parts


def test_a_step_that_healed_says_after_how_many_retries_and_how_long_a_wait():
    asked, found, charged = rows(doubt_entries())
    assert (asked.outcome, asked.attempts, asked.took_ms, asked.waited_ms) == ("ok", 2, 3_100, 4_200)
    assert asked.reasons == ["http.529"]
    assert (found.outcome, found.took_ms) == ("ok", 200)
    assert (charged.outcome, charged.took_ms, charged.note) == ("UNKNOWN", -1, "process.died")


def test_an_attempt_without_an_end_is_running():
    (row,) = story(Begin(at=1, call="charge()"))
    assert row.outcome == "running"
    assert row.took_ms == -1


def test_a_failure_that_will_be_retried_waits():
    (row,) = story(
        Begin(at=1),
        Settle(at=2, outcome="failed", failure=OVERLOADED, decision=Decision(do="retry", wait_ms=7)),
    )
    assert (row.outcome, row.waited_ms) == ("waiting", 7)


def test_a_failure_that_did_not_happen_is_no_doubt():
    (row,) = story(Begin(at=1), Settle(at=2, outcome="failed", failure=OVERLOADED, decision=Decision(do="ask")))
    assert row.outcome == "failed"


def test_a_ladder_that_ended_failed():
    (row,) = story(Begin(at=1), Settle(at=2, outcome="failed", failure=DIED, decision=Decision(do="rung")))
    assert row.outcome == "failed"


def test_a_cancelled_attempt_says_by_whom():
    (row,) = story(Begin(at=1), Settle(at=2, outcome="cancelled", cause=Cause.RUNNER))
    assert (row.outcome, row.note) == ("cancelled", "runner")


def test_a_step_answered_from_a_record_was_adopted():
    (row,) = story(Adopt(at=1, source="q1", call="charge(5)"))
    assert (row.what, row.outcome, row.note) == ("charge(5)", "adopted", "from q1")
    (row,) = story(Adopt(at=1, source="q1", failure=DIED))
    assert (row.outcome, row.note) == ("failed", "process.died")


def test_a_step_that_waits_before_its_first_attempt_says_for_what():
    (row,) = story(Hold(at=1, since=1, reason="budget", call="charge()"))
    assert (row.outcome, row.note) == ("waiting", "for budget")
    (row,) = story(Hold(at=1, since=1, reason="sleep"))
    assert row.note == "asleep"


def test_a_question_before_any_attempt_is_asked():
    (row,) = story(Question(at=1, id="q2", why="approve", text="may it?"))
    assert (row.outcome, row.note) == ("asked", "q2")


def test_a_models_impossible_call_is_refused():
    (row,) = story(Refused(at=1, failure=OVERLOADED, call="no_such_tool()"))
    assert (row.what, row.outcome, row.note) == ("no_such_tool()", "refused", "http.529")


def test_a_check_is_named_after_its_step():
    (row,) = rows([Entry(1, f"{STEP}!check.0", Begin(at=1))])
    assert row.what == "check of charge"


def test_what_a_person_did_stands_in_the_story_with_their_name():
    acts = [
        Entry(2**31, "", Answer(at=at("02:00:00"), question="q1", verdict="skip", by="ana")),
        Entry(2**31 + 1, "", Redrive(at=at("02:00:01"), source="step", by="ana")),
        Entry(2**31 + 2, "", Cancel(at=at("02:00:02"))),
        Entry(2**31 + 3, "", TopUp(at=at("02:00:03"), add={"calls": 5.0})),
        Entry(2**31 + 4, "", Signal(at=at("02:00:04"), name="go")),
        Entry(7, "", Gap(at=at("01:00:00"), text="page 3 unread")),
    ]
    shown = rows(acts)
    assert [row.what for row in shown] == [
        "gap: page 3 unread",
        "q1 answered: skip",
        "redriven from step",
        "cancel ordered",
        "topped up: calls +5",
        "signal go",
    ]
    assert [row.note for row in shown] == ["", "by ana", "by ana", "", "", ""]


def test_a_doubt_that_was_answered_is_no_longer_unknown():
    unknown = Settle(at=2, outcome="failed", failure=DIED, decision=Decision(do="ask"))
    asked = [Begin(at=1), unknown, Question(at=2, id="q1", why="doubt", text="did it?")]
    row, act = story(*asked, Answer(at=3, question="q1", verdict="happened"))
    assert (row.outcome, row.note) == ("answered", "happened")
    assert act.what == "q1 answered: happened"


def test_an_answer_to_an_earlier_question_of_a_step_says_nothing_of_the_later_one():
    unknown = Settle(at=2, outcome="failed", failure=DIED, decision=Decision(do="ask"))
    first = [Begin(at=1), unknown, Question(at=2, id="q1", why="doubt", text="did it?")]
    second = [Begin(at=4, attempt=2), unknown, Question(at=5, id="q2", why="doubt", text="did it?")]
    row, _ = story(*first, *second, Answer(at=3, question="q1", verdict="not-happened"))
    assert row.outcome == "UNKNOWN"
