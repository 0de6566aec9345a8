"""The plan: the same seed is the same trouble, every kind comes up, and every ladder can heal."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import msgspec

from yaoki.demo._cases import CASES, case_of_ticket, effects_of
from yaoki.demo._plan import FaultKind, Plan, draw_plan

SEEDS = range(200)


def test_the_same_seed_draws_the_same_faults_and_kill_points():
    assert draw_plan(7) == draw_plan(7)
    assert len({msgspec.json.encode(draw_plan(seed)) for seed in SEEDS}) == len(SEEDS)


def test_a_seed_is_pinned_so_that_another_machine_or_python_draws_it_too():
    kills = [(kill.ticket, kill.tool, kill.number, kill.when) for kill in draw_plan(7).kills]
    assert kills[:3] == [
        ("ticket-05", "ask_model", 2, "before"),
        ("ticket-02", "refund", 1, "after"),
        ("ticket-07", "refund", 2, "after"),
    ]


def test_every_misbehaviour_comes_up_in_every_demo():
    for seed in SEEDS:
        plan = draw_plan(seed)
        assert {fault.kind for fault in plan.faults} == set(get_args(FaultKind))
        assert {slip.kind for slip in plan.slips} == {"malformed-json", "unknown-tool", "bad-arguments"}


def test_seven_workers_are_killed_at_least_and_most_between_an_effect_and_its_record():
    for seed in SEEDS:
        kills = draw_plan(seed).kills
        assert len(kills) >= 7
        assert Counter(kill.tool for kill in kills if kill.when == "after").keys() == {
            "refund",
            "send_mail",
            "append_ledger",
        }


def test_a_kill_is_bound_to_an_effect_the_ticket_has():
    for seed in SEEDS:
        for kill in draw_plan(seed).kills:
            case = case_of_ticket(kill.ticket)
            if kill.tool == "ask_model":
                assert 1 < kill.number <= len(case.stages) + 1
            else:
                assert effects_of(case)[kill.number - 1].tool == kill.tool


def test_no_endpoint_misbehaves_more_than_twice_towards_one_ticket():
    for seed in SEEDS:
        plan = draw_plan(seed)
        met = Counter((fault.ticket, fault.endpoint) for fault in plan.faults)
        assert max(met.values()) <= 2
        assert len({(f.ticket, f.endpoint, f.request) for f in plan.faults}) == len(plan.faults)


def test_the_vendor_reads_the_plan_it_is_given():
    plan = draw_plan(3)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_a_plan_answers_for_the_request_it_was_drawn_for_alone():
    fault = draw_plan(7).faults[0]
    plan = Plan(faults=(fault,))
    assert plan.fault(fault.ticket, fault.endpoint, fault.request) == fault.kind
    assert plan.fault(fault.ticket, fault.endpoint, fault.request + 1) is None


def test_a_dozen_tickets_have_effects_of_every_kind():
    assert len(CASES) == 12
    assert Counter(call.tool for case in CASES for call in effects_of(case)) == {
        "refund": 11,
        "send_mail": 12,
        "append_ledger": 9,
    }
