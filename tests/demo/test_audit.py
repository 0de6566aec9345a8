"""The audit can fail: whatever is planted in a whole world, it finds."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import msgspec
import pytest

from yaoki.demo._audit import Asked, Audit, Evidence, Killed, RunSeen, audit
from yaoki.demo._cases import CASES, case_of_ticket, effects_of
from yaoki.demo._plan import Kill, Plan
from yaoki.demo._report import audit_lines, write_lines
from yaoki.demo._shop import Event
from yaoki.demo._steps import read_steps, tool_of
from yaoki.records import (
    Adopt,
    Answer,
    Begin,
    Claimed,
    Decision,
    Entry,
    Executed,
    Failure,
    FailureKind,
    Question,
    Settle,
    step_key,
)


def whole_run(case) -> RunSeen:
    records = [("", Claimed(at=1, epoch=1, worker=1, pid=2))]
    for n, call in enumerate(effects_of(case)):
        key = step_key(1, n, "call_tools#0[0]", call.tool, 0)
        records.append((key, Begin(at=1, key=f"{case.ticket}-{n}", call=f"{call.tool}(…)")))
        records.append((key, Settle(at=2)))
    entries = tuple(Entry(seq, key, record) for seq, (key, record) in enumerate(records, start=1))
    return RunSeen(ticket=case.ticket, status="completed", final=True, entries=entries)


def whole_world() -> Evidence:
    vendor, ledger = [], []
    for case in CASES:
        for n, call in enumerate(effects_of(case)):
            if call.tool == "append_ledger":
                ledger.append(call.args["line"])
            else:
                key = f"{case.ticket}-{n}" if call.tool == "refund" else ""
                vendor.append(Event(event="effect", ticket=case.ticket, tool=call.tool, key=key, args=call.args))
    runs = [whole_run(case) for case in CASES]
    return Evidence(
        plan=Plan(seed=1), cases=CASES, vendor=vendor, ledger=ledger, runs=runs, kills=[], asked=[], took_s=1.0
    )


def seen(world: Evidence, ticket: str) -> tuple[int, RunSeen]:
    return next((i, run) for i, run in enumerate(world.runs) if run.ticket == ticket)


def with_records(world: Evidence, ticket: str, *records: tuple[str, object]) -> None:
    i, run = seen(world, ticket)
    more = (Entry(100 + n, key, record) for n, (key, record) in enumerate(records))
    world.runs[i] = replace(run, entries=(*run.entries, *more))


def test_a_whole_world_passes():
    found = audit(whole_world())
    assert found.ok
    assert found.problems == []
    refunds = found.effects["refund"]
    assert (refunds.wanted, refunds.done, refunds.journaled, refunds.duplicated, refunds.lost) == (11, 11, 11, 0, 0)


def test_a_refund_done_twice_is_found():
    world = whole_world()
    twice = next(event for event in world.vendor if event.tool == "refund")
    world.vendor.append(msgspec.structs.replace(twice, key="another"))
    found = audit(world)
    assert found.effects["refund"].duplicated == 1
    assert not found.ok


def test_the_third_of_two_equal_refunds_is_found():
    world = whole_world()
    equal = [event for event in world.vendor if event.ticket == "ticket-07" and event.tool == "refund"]
    assert len(equal) == 2
    world.vendor.append(msgspec.structs.replace(equal[0], key="third"))
    assert audit(world).effects["refund"].duplicated == 1


def test_a_mail_sent_twice_is_found():
    world = whole_world()
    world.vendor.append(next(event for event in world.vendor if event.tool == "send_mail"))
    found = audit(world)
    assert found.effects["send_mail"].duplicated == 1
    assert "send_mail: 1 duplicated" in found.problems


def test_a_ledger_line_written_twice_is_found():
    world = whole_world()
    world.ledger.append(world.ledger[0])
    assert audit(world).effects["append_ledger"].duplicated == 1


@pytest.mark.parametrize("tool", ["refund", "send_mail"])
def test_an_effect_that_never_happened_is_lost_whatever_the_journal_believes(tool):
    world = whole_world()
    world.vendor.remove(next(event for event in world.vendor if event.tool == tool))
    found = audit(world)
    assert found.effects[tool].lost == 1
    assert not found.ok


def test_a_missing_ledger_line_is_lost():
    world = whole_world()
    world.ledger.pop()
    assert "append_ledger: 1 lost" in audit(world).problems


def test_an_effect_nobody_called_for_is_found():
    world = whole_world()
    world.ledger.append("A-1001 refunded 9999 just so")
    found = audit(world)
    assert found.effects["append_ledger"].unwanted == 1
    assert not found.ok


def test_an_effect_lost_and_another_duplicated_do_not_cancel_out():
    world = whole_world()
    world.ledger.pop()
    world.ledger.append(world.ledger[0])
    tally = audit(world).effects["append_ledger"]
    assert (tally.done, tally.lost, tally.duplicated) == (tally.wanted, 1, 1)


def test_a_run_that_waits_is_not_ended():
    world = whole_world()
    i, run = seen(world, "ticket-05")
    world.runs[i] = replace(run, status="waiting", final=False)
    assert audit(world).problems == ["ticket-05 is waiting; it did not end"]


def test_a_run_that_died_or_was_never_made_is_found():
    world = whole_world()
    i, run = seen(world, "ticket-05")
    world.runs[i] = replace(run, status="dead")
    assert audit(world).problems == ["ticket-05 ended dead"]
    world.runs.pop(i)
    assert "ticket-05 never ran" in audit(world).problems


def test_a_journal_that_misses_what_the_world_has_is_found():
    world = whole_world()
    i, run = seen(world, "ticket-01")
    world.runs[i] = replace(run, entries=run.entries[:-1])
    assert audit(world).problems == ["ticket-01: the journal has 0 append_ledger, the world 1"]


def test_a_key_the_journal_does_not_know_is_found():
    world = whole_world()
    i = next(i for i, event in enumerate(world.vendor) if event.tool == "refund")
    world.vendor[i] = msgspec.structs.replace(world.vendor[i], key="made up")
    assert audit(world).problems == ["refund keys differ: 1 only in the journal, 1 only at the vendor"]


def test_a_demo_that_could_not_kill_is_no_demo():
    kills = tuple(Kill(ticket="ticket-01", tool="ask_model", number=n, when="before") for n in range(9))
    world = replace(whole_world(), plan=Plan(kills=kills))
    struck = [Killed(kill=kill, pid=n, at_s=1.0) for n, kill in enumerate(kills)]
    assert audit(replace(world, kills=struck[:6])).problems == ["only 6 workers could be killed; 7 at least were to be"]
    assert audit(replace(world, kills=struck[:7])).ok


def test_a_step_executed_again_after_it_was_on_record_is_found():
    world = whole_world()
    _, run = seen(world, "ticket-01")
    key = next(entry.key for entry in run.entries if isinstance(entry.record, Begin))
    with_records(world, "ticket-01", (key, Begin(at=3, call="refund(…)", attempt=2)))
    assert audit(world).problems == ["ticket-01: refund(…) was executed again after it was on record"]


def test_retries_restarts_and_reused_steps_are_counted_from_the_records():
    world = whole_world()
    failure = Failure(kind=FailureKind.OVERLOADED, reason="http.529")
    died = Failure(kind=FailureKind.TRANSIENT, reason="process.died", executed=Executed.MAYBE)
    model = "1.9//ask_model#0"
    with_records(
        world,
        "ticket-12",
        (model, Begin(at=3)),
        (model, Settle(at=4, outcome="failed", failure=failure, decision=Decision(do="retry"))),
        (model, Begin(at=5, attempt=2)),
        ("", Claimed(at=6, epoch=2, worker=2, pid=3)),
        (model, Settle(at=6, attempt=2, outcome="failed", failure=died, decision=Decision(do="retry"))),
        (model, Begin(at=7, attempt=3)),
        (model, Settle(at=8, attempt=3)),
    )
    found = audit(world)
    assert found.ok
    assert found.retries == {"overloaded": 1, "process died": 1}
    assert found.failures == {"http.529": 1, "process.died": 1}
    assert (found.restarts, found.steps_reused) == (1, 1)


def test_a_step_answered_by_a_check_or_a_person_is_complete_and_the_check_itself_is_no_step():
    key = "1.3/call_tools#0[1]/send_mail#0"
    records = [(f"{key}!check.0", Begin(at=1)), (f"{key}!check.0", Settle(at=2)), (key, Adopt(at=3, source="check"))]
    run = read_steps(Entry(n, k, record) for n, (k, record) in enumerate(records))
    assert run.done == {"send_mail": 1}


def test_a_step_a_person_vouched_for_is_complete_from_the_answer_on():
    key = "1.4/call#0[0]/append_ledger#0"
    answer = Answer(at=5, question="q1", verdict="happened", value=msgspec.Raw(b"null"))
    entries = [
        Entry(1, "", Claimed(at=1, epoch=1, worker=1)),
        Entry(2, key, Begin(at=2)),
        Entry(3, "", Claimed(at=3, epoch=2, worker=2)),
        Entry(4, key, Question(at=4, id="q1", why="doubt", text="?")),
        Entry(5, "", Claimed(at=6, epoch=3, worker=3)),
        Entry(2**31, "", answer),
    ]
    run = read_steps(entries)
    assert run.done == {"append_ledger": 1}
    assert (run.claims, run.reused) == (3, 1)
    not_happened = msgspec.structs.replace(answer, verdict="not-happened")
    assert read_steps([*entries[:-1], Entry(2**31, "", not_happened)]).done == {}


def test_a_tools_name_is_read_from_any_identity():
    assert tool_of("1.3//charge#0") == "charge"
    assert tool_of("1.0/map#0[doc-7]/fetch#12") == "fetch"


def test_people_are_told_of_every_problem_and_of_what_was_asked():
    world = whole_world()
    world.ledger.pop()
    kill = Kill(ticket="ticket-01", tool="append_ledger", number=3, when="after")
    world.kills.append(Killed(kill=kill, pid=4, at_s=1.0))
    world.asked.append(
        Asked(run="ticket-01", ask="q1", call="append_ledger(…)", looked="the ledger", verdict="happened")
    )
    found = audit(world)
    out = StringIO()
    write_lines(audit_lines(found), out)
    text = out.getvalue()
    assert all(problem in text for problem in found.problems)
    assert "ticket-01 q1: did append_ledger(…) happen?" in text
    assert "1 of 0 by SIGKILL, 1 between an effect and its record" in text
    assert "Nothing done twice" not in text


def test_the_audit_is_json_and_comes_back_whole():
    found = audit(whole_world())
    assert msgspec.json.decode(msgspec.json.encode(found), type=Audit) == found


def test_every_case_has_a_name_of_its_own():
    assert {case_of_ticket(case.ticket).email for case in CASES} == {case.email for case in CASES}
