from __future__ import annotations

import pytest

from tests.cli.made import (
    COMMANDS,
    DIED,
    NOW,
    OVERLOADED,
    REVOKED,
    at,
    doubt,
    doubt_entries,
    met,
    receipt,
    text,
)
from tests.cli.test_views_runs import picture
from yaoki.cli._views_journal import journal_data, journal_lines
from yaoki.cli._views_next import Around
from yaoki.cli._views_runs import runs_lines
from yaoki.cli._views_show import show_lines
from yaoki.cli._views_steps import rows
from yaoki.cli._views_text import Commands
from yaoki.cli._views_timeline import timeline_lines, waiting_text
from yaoki.records import (
    Answer,
    Begin,
    Cancel,
    Claimed,
    Decision,
    Effect,
    Entry,
    Executed,
    Failure,
    FailureKind,
    Settle,
    Spent,
    State,
)
from yaoki.runtime._moves import example_of
from yaoki.runtime._receipt import Ask


def shown(run, entries=(), **options):
    return text(show_lines(run, list(entries), NOW, COMMANDS, **options))


def test_a_question_in_doubt_says_what_is_known_and_what_to_type():
    assert (
        shown(doubt(), doubt_entries())
        == """\
ticket-17 · refund_agent · WAITING for you since 02:14:08 (51m) · agents.py

Did this happen?   charge(order_id="A-1009", cents=4200)            ask q1
  Attempt 1 was sent 02:14:07; the worker (pid 4127) died before it recorded an answer (found 02:14:08).
  charge is AT_MOST_ONCE (undeclared), so it is not sent again unless you say so.
  Takes a key, or only reads? Declare it, @tool(effect=…), and this question goes away.

Look in the receiving system for A-1009 near 02:14:07, then one of:
  yaoki answer ticket-17 q1 happened '"…"'  go on with this result (str)
  yaoki answer ticket-17 q1 not-happened    send it again (attempt 2 of 8)
  yaoki answer ticket-17 q1 skip            the loop gets None: charge is declared -> str
  yaoki answer ticket-17 q1 abort           raise StepFailed in the loop
Unanswered, it is a dead letter on 7 Dec 02:14.

Spent   $0.41/2.00 · 3/50 retries · turn 6/40 · 4 attempts · 1 restart
02:13:50  turn 6  ask_model([…])              ok       3.1 s  after 1 retry (http.529, waited 4.2 s)
02:14:07          c[0]  find_order(A-1009)    ok       0.2 s
02:14:07          c[1]  charge(A-1009, 4200)  UNKNOWN         process.died
All: yaoki show ticket-17 --journal"""
    )


def test_an_answered_question_is_not_asked_again():
    run = doubt()
    run.asks[0].verdict = "skip"
    assert "Did this happen?" not in shown(run, doubt_entries())


def test_every_command_reaches_a_store_that_had_to_be_given():
    lines = text(show_lines(doubt(), doubt_entries(), NOW, Commands(store="sqlite:///other.db")))
    commands = [line for line in lines.splitlines() if "yaoki " in line]
    assert len(commands) == 5
    assert all("--store sqlite:///other.db" in line for line in commands)


def test_the_last_attempt_allowed_says_that_one_is_added():
    run = doubt()
    run.asks[0].attempt = run.asks[0].attempts_max = 4
    assert "send it once more (attempt 5; 4 were allowed)" in shown(run, doubt_entries())


def doubt_of(effect: Effect, settle: Settle | None, **begin: object) -> str:
    step = "1.1//charge#0"
    entries = [
        Entry(1, "", Claimed(at=at("02:00:00"), epoch=1, worker=1, pid=4127)),
        Entry(2, step, Begin(at=at("02:14:07"), call="charge(5)", effect=effect, key="key-of-it", **begin)),
    ]
    if settle is not None:
        entries.append(Entry(3, step, settle))
    run = doubt()
    run.asks[0].step = step
    return shown(run, entries)


def test_a_timeout_in_doubt_says_how_long_it_took_and_what_was_said():
    timeout = Failure(kind=FailureKind.TRANSIENT, reason="http.timeout", message="no answer in 2 s")
    lines = doubt_of(Effect.KEYED, Settle(at=at("02:14:09"), outcome="failed", failure=timeout))
    assert "sent 02:14:07; it failed after 2.0 s: http.timeout\n    no answer in 2 s" in lines
    assert "charge is KEYED: every attempt carried the key key-of-it; the attempts are used up." in lines


def test_an_answer_that_could_not_be_kept_is_said_to_be_lost():
    bad = Failure(kind=FailureKind.PROGRAMMING, reason="encoding", executed=Executed.YES)
    lines = doubt_of(Effect.CHECKED, Settle(at=at("02:14:09"), outcome="failed", failure=bad, value_lost=True))
    assert "it answered after 2.0 s, but the answer was lost: encoding" in lines
    assert "charge is CHECKED, so it is not sent again until somebody knows" in lines


def test_an_attempt_nobody_has_decided_about_yet_names_its_worker():
    assert "the worker (pid 4127) died before it recorded an answer." in doubt_of(Effect.AT_MOST_ONCE, None)


def test_a_check_that_could_not_say_is_mentioned():
    entries = doubt_entries()
    entries.append(Entry(13, "1.6/c[1]/charge#0!check.0", Settle(at=at("02:14:20"))))
    assert "Its check was asked 1 time and could not say." in shown(doubt(), entries)


def test_a_question_without_its_journal_still_has_its_text_and_its_answers():
    lines = shown(doubt())
    assert "did charge(A-1009, 4200) happen?" in lines
    assert "yaoki answer ticket-17 q1 not-happened" in lines


def test_a_question_of_choice_lists_its_options():
    ask = Ask(id="q2", why="ask", text="Pay 900?", step="", call="pay(900)", options=["yes", "no"], note="Over 500.")
    lines = shown(doubt(asks=[ask]))
    assert "Question   pay(900)" in lines
    assert "Pay 900?" in lines
    assert "Over 500." in lines
    assert "yaoki answer ticket-17 q2 '\"yes\"'" in lines
    assert "It waits until it is answered." in lines


def test_an_approval_says_what_each_answer_does():
    ask = Ask(id="q2", why="approve", text="May pay(900) be done?", step="", call="pay(900)")
    lines = shown(doubt(asks=[ask]))
    assert "May this be done?   pay(900)" in lines
    assert "yaoki answer ticket-17 q2 approve" in lines
    assert "yaoki answer ticket-17 q2 refuse 'because …'  it is not done; the model is told, and why" in lines


def test_a_question_with_a_default_says_what_stands_when_nobody_answers():
    ask = Ask(id="q2", why="ask", text="Which?", step="", has_default=True, default="a", expires_at=at("03:14:08"))
    assert 'Unanswered, "a" stands on 03:14.' in shown(doubt(asks=[ask]))


def test_an_open_question_shows_the_shape_of_its_answer():
    ask = Ask(id="q3", why="ask", text="Which order?", step="", type="int", schema={"type": "integer"})
    lines = shown(doubt(asks=[ask]))
    assert "Question   Which order?" in lines
    assert "yaoki answer ticket-17 q3 0      your answer (int)" in lines


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"type": "string"}, '"…"'),
        ({"type": "integer"}, "0"),
        ({"type": "null"}, "null"),
        ({"type": "array"}, "[]"),
        ({"enum": ["a", "b"]}, '"a"'),
        ({"const": 7}, "7"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true"),
        (None, '"…"'),
        (
            {
                "$ref": "#/$defs/Paid",
                "$defs": {
                    "Paid": {
                        "type": "object",
                        "properties": {"id": {"type": "string"}, "n": {"type": "number"}, "note": {}},
                        "required": ["id", "n"],
                    }
                },
            },
            '{"id": "…", "n": 0.0}',
        ),
        ({"type": "object", "properties": {"x": {"type": "null"}}}, '{"x": null}'),
        ({"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}, "null"),
    ],
)
def test_the_example_of_an_answer_has_the_shape_of_its_schema(schema, example):
    assert example_of(Ask(id="q1", why="ask", text="", step="", schema=schema)) == example


def test_a_completed_run_shows_its_result_and_what_healed():
    run = receipt(
        "r",
        State.COMPLETED,
        value={"a": 1},
        failures=[met("s", 1, OVERLOADED, "retry", healed=True), met("s", 2, OVERLOADED, "retry", healed=True)],
        gaps=["page 3 unread"],
        orphans=["charge(5)"],
    )
    lines = shown(run)
    assert "r · refund_agent · COMPLETED 02:31:00 after 31m" in lines
    assert 'Result\n  {\n    "a": 1\n  }' in lines
    assert "Gap  page 3 unread\nOrphan  charge(5)" in lines
    assert "2 failures, all healed (http.529 x2)" in lines
    assert "Next" not in lines


def test_a_text_result_is_shown_as_text_and_a_long_one_is_cut():
    assert "Result\n  first\n  second\n" in shown(receipt("r", State.COMPLETED, value="first\nsecond"))
    assert "… 3,000 more characters: --json" in shown(receipt("r", State.COMPLETED, value="x" * 5_000))


def test_nothing_in_a_result_steers_the_terminal():
    assert "\x1b" not in shown(receipt("r", State.COMPLETED, value="\x1b[2J"))


def test_a_capped_run_says_by_what_and_shows_its_partial_result():
    run = receipt("r", State.CAPPED, partial="half", stopped_by="budget.turns", text="40 of 40 turns used")
    assert "CAPPED" in shown(run)
    assert "Ended by budget.turns: 40 of 40 turns used" in shown(run)
    assert "Partial result\n  half" in shown(run)


def test_a_dead_run_says_where_why_what_was_tried_and_what_to_type():
    step = "1.3//ask_model#0"
    run = receipt(
        "ticket-88",
        State.DEAD,
        failure=REVOKED,
        step=step,
        failures=[met("other", 1, OVERLOADED, "retry"), met(step, 1, REVOKED, "rung")],
        next_action="yaoki redrive ticket-88",
    )
    lines = shown(run)
    assert "Ended at ask_model([…]): http.401  key revoked\n  Give it another key.\nTried:\n" in lines
    assert "  attempt 1  02:30:01  http.401  executed no  gave up\n" in lines
    assert "Next, one of:\n  yaoki redrive ticket-88  tries that step again, same key; fix the cause first" in lines


def test_a_dead_run_without_a_failure_says_what_ended_it():
    lines = shown(receipt("r", State.DEAD, step="1.3//charge#0", text="8 processes died", failure=None))
    assert "Ended at charge: 8 processes died" in lines


def test_a_run_killed_by_its_loop_names_the_loop():
    failure = Failure(kind=FailureKind.PROGRAMMING, reason="ZeroDivisionError", message="division by zero")
    assert "Ended at refund_agent: ZeroDivisionError  division by zero" in shown(
        receipt("r", State.DEAD, failure=failure)
    )


def test_a_running_run_names_its_process():
    lines = shown(receipt("r", State.RUNNING), doubt_entries()[:5])
    assert "RUNNING since 02:10:00 (55m), by pid 4127" in lines
    assert "running" in lines
    assert "RUNNING since 02:00:00" in shown(receipt("r", State.RUNNING))


def test_a_run_whose_process_died_says_so_and_how_it_goes_on():
    lines = shown(receipt("r", State.RUNNING, file="/srv/agents.py"), doubt_entries()[:5], around=Around(left=True))
    assert "RUNNING since 02:10:00, but its process (pid 4127) died: nothing drives it" in lines
    assert "\n  yaoki run /srv/agents.py:refund_agent --run-id r   this run alone\n" in lines


def test_a_sleeping_run_says_until_when_and_why():
    lines = shown(receipt("r", State.SLEEPING, wake_at=at("03:09:30"), text="anthropic cools down"))
    assert "SLEEPING until 03:09:30 (4m 22s to go)" in lines
    assert "anthropic cools down" in lines
    assert "If no process waits with it:   yaoki run FILE:refund_agent --run-id r" in lines


def test_a_run_waiting_for_code_shows_the_difference():
    run = receipt(
        "r",
        State.WAITING,
        waits_for="code",
        waiting_since=at("03:00:00"),
        text="turn 3 asks for another step",
        diff="- charge(5)\n+ refund(5)",
        file="/srv/agents.py",
    )
    lines = shown(run)
    assert "WAITING for code since 03:00:00 (5m 8s)" in lines
    assert "turn 3 asks for another step\n  - charge(5)\n  + refund(5)\n\nNothing was executed." in lines
    assert "  yaoki run /srv/agents.py:refund_agent --run-id r\n" in lines


def test_a_run_waiting_for_a_budget_shows_what_is_used_up():
    run = receipt(
        "r",
        State.WAITING,
        waits_for="budget",
        waiting_since=at("03:00:00"),
        text="calls: 100 of 100",
        next_action="yaoki top-up r --calls 100",
        spent=Spent(calls=100, tokens=7),
        budget={"calls": 100},
    )
    assert "calls: 100 of 100" in shown(run)
    assert "Next   yaoki top-up r --calls 100   or however much more" in shown(run)
    assert "Spent   7 tokens · 100/100 calls · 0 retries" in shown(run)


def test_a_pending_run_says_that_nobody_drives_it():
    lines = text(show_lines(receipt("r", State.PENDING, file="/srv/agents.py"), [], NOW, Commands(cwd="/srv")))
    assert "PENDING since 02:00:00 · agents.py\n\nNothing drives it, and no worker lives:\n" in lines
    assert "  yaoki run agents.py:refund_agent --run-id r   this run alone" in lines


def test_a_cancelled_run_says_so():
    assert "CANCELLED 02:31:00" in shown(receipt("r", State.CANCELLED, text="by ana"))
    assert "by ana" in shown(receipt("r", State.CANCELLED, text="by ana"))


def test_the_end_of_run_leaves_the_steps_out():
    assert "turn 6  " not in shown(doubt(), doubt_entries(), steps=False)


def test_the_timeline_is_bounded_and_says_what_it_leaves_out():
    lines = text(timeline_lines(long_story(), NOW, rows_max=12)).splitlines()
    assert lines[0] == "… 18 earlier"
    assert len(lines) == 13
    assert "turn 30" in lines[-1]


def long_story(*failed: int) -> list[Entry]:
    entries = []
    for i in range(1, 31):
        key, begun = f"1.{i}//t#0", at("02:00:00") + i
        entries.append(Entry(2 * i, key, Begin(at=begun, call=f"t({i})")))
        settle = Settle(at=begun, outcome="failed", failure=DIED) if i in failed else Settle(at=begun)
        entries.append(Entry(2 * i + 1, key, settle))
    return entries


def test_a_step_that_failed_is_in_the_timeline_however_long_ago_it_was():
    lines = text(timeline_lines(long_story(3, 4, 9), NOW, rows_max=12)).splitlines()
    assert lines[0] == "… 2 earlier"
    assert "t(3)" in lines[1]
    assert "t(4)" in lines[2]
    assert lines[3] == "… 4 more"
    assert "t(9)" in lines[4]
    assert lines[5] == "… 9 more"
    assert len(lines) == 6 + 12


def retried() -> list[Entry]:
    step = "1.1//charge#0"
    said = Failure(kind=FailureKind.TRANSIENT, reason="http.503", message="come back later")
    decided = Decision(do="retry", next_at=at("03:06:00"), wait_ms=9_000)
    return [
        Entry(1, step, Begin(at=at("03:05:00"), call="charge(5)", attempts_max=8)),
        Entry(2, step, Settle(at=at("03:05:01"), outcome="failed", failure=said, decision=decided)),
    ]


def test_a_step_between_two_attempts_says_which_comes_next_and_when():
    assert "waiting  1.0 s  attempt 2 of 8 at 03:06:00 (http.503)" in text(timeline_lines(retried(), NOW, rows_max=5))
    (row,) = rows(retried())
    said = "charge(5) waits 52 s: attempt 2 of 8 at 03:06:00 (http.503): come back later"
    assert waiting_text(row, NOW) == said


def test_a_run_asleep_until_an_attempt_says_which_and_what_the_last_one_said():
    lines = shown(receipt("r", State.SLEEPING, wake_at=at("03:06:00"), text="retry"), retried())
    assert "charge(5): attempt 2 of 8 at 03:06:00 (http.503)\n  come back later" in lines
    assert "\nretry\n" not in lines


def test_a_run_that_nobody_woke_says_so():
    lines = shown(receipt("r", State.SLEEPING, wake_at=at("03:03:45")))
    assert "SLEEPING until 03:03:45, 1m 23s ago: nothing drives it" in lines


def test_an_answered_question_of_a_pending_run_is_shown_as_answered():
    run = doubt(status=State.PENDING)
    run.asks[0].verdict = "skip"
    answer = Entry(2**31, "", Answer(at=at("03:00:00"), question="q1", verdict="skip", by="ana"))
    lines = shown(run, [*doubt_entries(), answer], steps=False)
    assert "q1 answered: skip by ana" in lines
    assert "did charge(A-1009, 4200) happen?" not in lines


def test_a_run_told_to_stop_says_what_its_next_run_does():
    run = doubt(status=State.PENDING, asks=[])
    lines = shown(run, [*doubt_entries(), Entry(2**31, "", Cancel(at=at("03:00:00"), by="ana"))], steps=False)
    assert "cancel ordered by ana\nThe next run of it ends it as cancelled." in lines


def test_a_lost_result_is_asked_for_and_nothing_is_offered_that_does_not_fit():
    bad = Failure(kind=FailureKind.PROGRAMMING, reason="value.lost", executed=Executed.YES)
    entries = doubt_entries()[:9]
    entries.append(Entry(10, "1.6/c[1]/charge#0", Settle(at=at("02:14:08"), outcome="failed", failure=bad)))
    run = doubt()
    run.asks[0].executed = Executed.YES
    lines = shown(run, entries)
    assert "What was its result?   charge(" in lines
    assert "charge happened, so it is not sent again." in lines
    assert "q1 happened" in lines
    assert "not-happened" not in lines
    assert "Declare it" not in lines


def test_a_question_left_open_by_a_run_that_ended_is_shown_with_what_can_still_be_said():
    lines = shown(doubt(status=State.CANCELLED), doubt_entries())
    assert "Did this happen?" in lines
    assert "The run has ended: your answer is recorded, and nothing is sent." in lines
    assert "q1 not-happened" in lines
    assert "q1 skip" not in lines


def test_a_question_nobody_answered_in_time_is_not_asked_any_more():
    run = doubt()
    run.asks[0].expires_at = at("03:00:00")
    assert "Did this happen?" not in shown(run, doubt_entries())


def test_skip_is_offered_without_a_warning_where_the_step_may_return_none():
    run = doubt()
    run.asks[0].schema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert "go on with None; a gap is noted" in shown(run, doubt_entries())


def test_a_death_without_a_step_says_to_change_the_loop():
    lines = shown(receipt("r", State.DEAD, failure=DIED))
    assert "  yaoki redrive r  no step was at fault: change the loop first, then run it again" in lines


def test_a_file_that_is_gone_is_said_to_be():
    lines = shown(receipt("r", State.PENDING, file="/srv/old.py"), around=Around(gone=True))
    assert "yaoki run FILE:refund_agent --run-id r   old.py is not there any more" in lines


def test_a_step_that_gave_up_says_after_how_many_attempts():
    step = "1.1//t#0"
    entries = [
        Entry(1, step, Begin(at=at("02:00:00"), call="t()")),
        Entry(2, step, Settle(at=at("02:00:01"), outcome="failed", failure=DIED)),
        Entry(3, step, Begin(at=at("02:00:02"), attempt=2)),
        Entry(4, step, Settle(at=at("02:00:03"), attempt=2, outcome="failed", failure=OVERLOADED)),
    ]
    assert "failed  1.0 s  http.529 (attempt 2)" in text(timeline_lines(entries, NOW, rows_max=5))


def test_the_journal_is_one_line_a_record():
    lines = text(journal_lines(doubt_entries(), NOW)).splitlines()
    assert len(lines) == len(doubt_entries())
    assert lines[3].startswith("4   02:13:51  settle      1.6//ask_model#0")
    assert '"reason":"http.529"' in lines[3]


def test_a_long_record_is_cut_in_the_view_and_whole_as_data():
    entry = Entry(2**31 + 3, "k", Begin(at=at("02:00:00"), call="c" * 900))
    (line,) = text(journal_lines([entry], NOW)).splitlines()
    assert line.startswith("+3  ")
    assert len(line) < 600
    assert "characters)" in line
    (data,) = journal_data([entry])
    assert data["name"] == "begin"
    assert data["kind"] == 2
    assert data["record"]["call"] == "c" * 900


SECRET = "sk-ant-abc1234567890def"


def test_no_secret_among_arguments_and_results_is_shown():
    call = f'login(user="ana", key="{SECRET}")'
    step = "1.1//login#0"
    entries = [
        Entry(1, "", Claimed(at=at("02:00:00"), epoch=1, worker=1, pid=1)),
        Entry(2, step, Begin(at=at("02:00:00"), call=call)),
        Entry(3, step, Settle(at=at("02:00:01"), outcome="failed", failure=DIED)),
    ]
    ask = Ask(id="q1", why="doubt", text=f"did {call} happen?", step=step, call=call)
    views = [
        shown(doubt(asks=[ask]), entries),
        shown(doubt(asks=[ask])),
        shown(receipt("r", State.COMPLETED, value={"key": SECRET}, gaps=[call]), entries),
        shown(receipt("r", State.WAITING, waits_for="code", text=call, diff=f"- {call}")),
        shown(receipt("r", State.CANCELLED, text=call)),
        text(journal_lines(entries, NOW)),
        text(runs_lines(picture([doubt(text=f"did {call} happen?")]), NOW, COMMANDS)),
    ]
    for view in views:
        assert SECRET not in view
        assert "[redacted]" in view


def test_a_run_id_that_looks_like_a_secret_stays_typable():
    lines = shown(doubt(run_id="sk-customer-12345678"), doubt_entries())
    assert "yaoki answer sk-customer-12345678 q1 skip" in lines
