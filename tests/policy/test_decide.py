"""`decide`, rule by rule: the contract's sections 2, 3 and 7 as sentences."""

from __future__ import annotations

import math
from random import Random

import pytest

from tests.policy.strategies import HAS_EFFECT, HEALING, MAY_REPEAT, NOW_MS, E, Highest, Lowest, X, failure, ladder
from yaoki.policy import Admission, Ladder, decide, end_of_ladder
from yaoki.records import Decision, Failure, FailureKind

K = FailureKind


def decided(fail: Failure, rung, *, rng: Random | None = None, **kwargs) -> Decision:
    return decide(fail, rung, now_ms=NOW_MS, rng=rng or Highest(), **kwargs)


# ------------------------------------------------- section 2: the default treatment of each kind


def test_transient_is_retried_with_jitter_from_half_a_second():
    assert decided(failure(K.TRANSIENT), ladder(attempts=1)) == Decision(
        do="retry", why="attempt 2 of 8", next_at=NOW_MS + 500, wait_ms=500
    )
    assert decided(failure(K.TRANSIENT), ladder(attempts=3)).wait_ms == 2000


def test_rate_limited_waits_what_the_server_says():
    decision = decided(failure(K.RATE_LIMITED, retry_after_s=17.25), ladder())

    assert (decision.do, decision.wait_ms, decision.next_at) == ("retry", 17_250, NOW_MS + 17_250)


def test_overloaded_is_retried_with_jitter_from_five_seconds():
    assert decided(failure(K.OVERLOADED), ladder(attempts=1)).wait_ms == 5_000
    assert decided(failure(K.OVERLOADED), ladder(attempts=7)).wait_ms == 60_000


@pytest.mark.parametrize("kind", [K.PERMANENT, K.PROGRAMMING, K.CAPABILITY])
def test_what_cannot_heal_is_never_retried_but_escalated_at_once(kind):
    assert decided(failure(kind, retry_after_s=1), ladder()) == Decision(
        do="rung", why=f"{kind.value} failures are not retried"
    )


def test_budget_pauses_where_no_other_vendor_follows():
    assert decided(failure(K.BUDGET), ladder(has_rung=True)) == Decision(do="pause", why="budget used up")


def test_semantic_is_asked_again_with_the_error_at_once():
    assert decided(failure(K.SEMANTIC), ladder(semantic=1, repairable=True)) == Decision(
        do="repair", why="attempt 2 of 8", next_at=NOW_MS
    )


def test_fatal_ends_the_run():
    assert decided(failure(K.FATAL), ladder(has_rung=True)) == Decision(do="end", why="fatal")


def test_unknown_is_treated_as_permanent_unless_the_policy_allows_attempts():
    assert decided(failure(K.UNKNOWN), ladder(attempts=1)) == Decision(do="rung", why="unknown failure")
    assert decided(failure(K.UNKNOWN), ladder(attempts=2, unknown_attempts=3)).do == "retry"
    assert decided(failure(K.UNKNOWN), ladder(attempts=3, unknown_attempts=3)) == Decision(
        do="rung", why="attempts 3 of 3 for unknown failures"
    )
    assert decided(failure(K.UNKNOWN), ladder(attempts=2, unknown_attempts=2)).why.startswith("attempts 2 of 2")


# ------------------------------------------------- rule 1: control flow


@pytest.mark.parametrize("kind", FailureKind)
@pytest.mark.parametrize(("effect", "executed"), MAY_REPEAT)
def test_live_control_flow_passes_through_whatever_else_is_true(kind, effect, executed):
    rung = ladder(effect, executed, attempts=8, has_check=True, thread_alive=True)

    assert decided(failure(kind), rung, live_control_flow=True) == Decision(do="pass", why="control flow")


def test_control_flow_on_resume_is_decided_like_a_death():
    died = failure(K.TRANSIENT, reason="process.died")

    assert decided(died, ladder(E.READ_ONLY, X.MAYBE)).do == "retry"
    assert decided(died, ladder(E.AT_MOST_ONCE, X.MAYBE)).do == "ask"


# ------------------------------------------------- rule 2: the gate


@pytest.mark.parametrize("kind", FailureKind)
@pytest.mark.parametrize(
    ("effect", "executed", "why"),
    [
        (E.AT_MOST_ONCE, X.MAYBE, "it may have happened"),
        (E.AT_MOST_ONCE, X.YES, "it happened, its result is lost"),
        (E.CHECKED, X.YES, "it happened, its result is lost"),
        (E.KEYED, X.YES, "it happened, its result is lost"),
    ],
)
def test_an_effect_that_may_not_be_repeated_is_asked_about_before_anything_else(kind, effect, executed, why):
    rung = ladder(effect, executed, has_rung=True, has_check=True, repairable=True, semantic=1, has_other_scope=True)

    assert decided(failure(kind), rung) == Decision(do="ask", why=why)


@pytest.mark.parametrize("kind", FailureKind)
def test_a_tool_marked_tell_lets_the_model_be_told_instead_of_a_person_asked(kind):
    assert decided(failure(kind), ladder(E.AT_MOST_ONCE, X.MAYBE, unsure="tell")).do == "tell"


@pytest.mark.parametrize("kind", FailureKind)
@pytest.mark.parametrize("unsure", ["ask", "tell"])
def test_a_checked_effect_that_may_have_happened_is_checked_not_before_its_time(kind, unsure):
    rung = ladder(E.CHECKED, X.MAYBE, has_check=True, check_after_s=5, unsure=unsure)

    assert decided(failure(kind), rung) == Decision(do="check", why="it may have happened", next_at=NOW_MS + 5_000)


def test_a_check_is_no_attempt_so_no_bound_of_the_ladder_stops_it():
    rung = ladder(
        E.CHECKED,
        X.MAYBE,
        has_check=True,
        attempts=8,
        deadline_ms=NOW_MS - 1,
        retries_left=0,
        retry_wait_left_s=0,
    )
    decision = decided(failure(), rung)

    assert (decision.do, decision.wait_ms) == ("check", 0)


def test_a_check_that_says_it_did_not_happen_lets_the_ladder_go_on():
    assert decided(failure(executed=X.MAYBE), ladder(E.CHECKED, X.NO, has_check=True)).do == "retry"


def test_a_checked_tool_without_its_check_asks():
    assert decided(failure(), ladder(E.CHECKED, X.MAYBE, has_check=False)).do == "ask"


@pytest.mark.parametrize("effect", HAS_EFFECT)
def test_what_is_known_not_to_have_happened_is_retried_whatever_its_kind(effect):
    assert decided(failure(executed=X.MAYBE), ladder(effect, X.NO)).do == "retry"


@pytest.mark.parametrize("effect", [E.READ_ONLY, E.IDEMPOTENT])
@pytest.mark.parametrize("executed", X)
def test_what_may_be_repeated_freely_is_retried_whatever_happened(effect, executed):
    assert decided(failure(), ladder(effect, executed)).do == "retry"


def test_a_keyed_effect_that_may_have_happened_is_sent_again_with_its_key():
    assert decided(failure(), ladder(E.KEYED, X.MAYBE)).do == "retry"


def test_the_doubt_belongs_to_the_action_so_a_later_refusal_does_not_lift_it():
    refused = failure(K.TRANSIENT, executed=X.NO)

    assert decided(refused, ladder(E.AT_MOST_ONCE, X.MAYBE, attempts=2)).do == "ask"


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (K.FATAL, {}, "fatal"),
        (K.PERMANENT, {}, "permanent failures are not retried"),
        (K.PROGRAMMING, {}, "programming failures are not retried"),
        (K.CAPABILITY, {}, "capability failures are not retried"),
        (K.UNKNOWN, {}, "unknown failure"),
        (K.BUDGET, {}, "budget used up"),
        (K.BUDGET, {"has_other_scope": True}, "budget used up; another scope follows"),
        (K.SEMANTIC, {}, "the tool takes no feedback"),
        (K.TRANSIENT, {"attempts": 8}, "attempts 8 of 8"),
        (K.TRANSIENT, {"deadline_ms": NOW_MS}, "deadline"),
        (K.TRANSIENT, {"retries_left": 0}, "retry budget used up"),
        (K.TRANSIENT, {"retry_wait_left_s": 0.1}, "retry wait budget used up"),
    ],
)
@pytest.mark.parametrize("unsure", ["ask", "tell"])
def test_a_keyed_ladder_that_cannot_go_on_in_doubt_asks_before_any_rung(kind, fields, why, unsure):
    rung = ladder(E.KEYED, X.MAYBE, has_rung=True, unsure=unsure, **fields)

    assert decided(failure(kind), rung) == Decision(do=unsure, why=f"{why}; it may have happened")


def test_in_doubt_the_same_error_again_leaves_no_ladder_that_can_still_go_on():
    assert decided(failure(), ladder(E.KEYED, X.MAYBE, same_error=5, has_rung=True)).do == "retry"


@pytest.mark.parametrize("effect", HAS_EFFECT)
@pytest.mark.parametrize("executed", X)
@pytest.mark.parametrize("kind", FailureKind)
def test_an_effect_whose_thread_still_runs_is_neither_repeated_nor_checked_but_asked_about(effect, executed, kind):
    decision = decided(failure(kind), ladder(effect, executed, thread_alive=True, has_check=True, repairable=True))

    assert decision.do == "ask"
    assert decision.why.startswith("its thread still runs; it ")


def test_a_thread_that_still_runs_does_not_make_unhappened_what_has_happened():
    rung = ladder(E.KEYED, X.YES, thread_alive=True)

    assert decided(failure(), rung).why == "its thread still runs; it happened, its result is lost"


@pytest.mark.parametrize("effect", [E.READ_ONLY, E.IDEMPOTENT])
def test_what_may_be_repeated_freely_does_not_wait_for_a_thread(effect):
    assert decided(failure(), ladder(effect, X.MAYBE, thread_alive=True)).do == "retry"


# ------------------------------------------------- rules 3 and 4 are in the table above; rule 5: budget


def test_a_used_up_budget_goes_to_a_rung_with_another_scope_if_there_is_one():
    assert decided(failure(K.BUDGET), ladder(has_rung=True, has_other_scope=True)) == Decision(
        do="rung", why="budget used up; another scope follows"
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"attempts": 8}, "attempts 8 of 8"),
        ({"deadline_ms": NOW_MS}, "deadline"),
        ({"retries_left": 0}, "retry budget used up"),
    ],
)
def test_nobody_waits_for_a_top_up_that_no_attempt_is_left_to_use(fields, why):
    assert decided(failure(K.BUDGET), ladder(**fields)) == Decision(do="rung", why=why)


def test_a_pause_needs_no_time_left_but_some():
    assert decided(failure(K.BUDGET), ladder(deadline_ms=NOW_MS + 1)).do == "pause"


# ------------------------------------------------- rule 6: semantic


@pytest.mark.parametrize(("semantic", "do"), [(1, "repair"), (2, "repair"), (3, "rung")])
def test_a_repair_is_made_while_repairs_are_left(semantic, do):
    assert decided(failure(K.SEMANTIC), ladder(semantic=semantic, repairs_max=2, repairable=True)).do == do


def test_two_identical_outputs_end_the_repairs():
    rung = ladder(semantic=2, repairable=True, output_changed=False)

    assert decided(failure(K.SEMANTIC), rung) == Decision(do="rung", why="the same output again")


def test_a_tool_that_cannot_be_told_is_not_repaired():
    assert decided(failure(K.SEMANTIC), ladder(semantic=1)) == Decision(do="rung", why="the tool takes no feedback")


def test_repairs_used_up_say_how_many_there_were():
    rung = ladder(semantic=3, repairs_max=2, repairable=True)

    assert decided(failure(K.SEMANTIC), rung).why == "repairs 2 of 2"


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"attempts": 8}, "attempts 8 of 8"), ({"deadline_ms": NOW_MS}, "deadline"), ({"retries_left": 0}, "retry")],
)
def test_a_repair_is_an_attempt_and_bounded_as_one(fields, why):
    decision = decided(failure(K.SEMANTIC), ladder(semantic=1, repairable=True, **fields))

    assert decision.do == "rung"
    assert decision.why.startswith(why)


def test_a_repair_waits_when_the_server_says_so():
    decision = decided(failure(K.SEMANTIC, retry_after_s=3), ladder(semantic=1, repairable=True))

    assert (decision.do, decision.wait_ms, decision.next_at) == ("repair", 3000, NOW_MS + 3000)


# ------------------------------------------------- rule 7: what can heal


@pytest.mark.parametrize("kind", HEALING)
def test_the_last_attempt_ends_the_ladder(kind):
    assert decided(failure(kind), ladder(attempts=7)).do == "retry"
    assert decided(failure(kind), ladder(attempts=8)) == Decision(do="rung", why="attempts 8 of 8")


@pytest.mark.parametrize("kind", HEALING)
def test_one_attempt_is_never_retried(kind):
    assert decided(failure(kind), ladder(attempts_max=1)).do == "rung"


def test_a_wait_that_would_end_at_the_deadline_or_past_it_is_not_begun():
    assert decided(failure(), ladder(deadline_ms=NOW_MS + 501)).next_at == NOW_MS + 500
    assert decided(failure(), ladder(deadline_ms=NOW_MS + 500)) == Decision(
        do="rung", why="deadline: 0.5 s left, wait 0.5 s"
    )


def test_a_hint_past_the_deadline_ends_the_ladder_at_once():
    assert decided(failure(K.RATE_LIMITED, retry_after_s=1200), ladder()) == Decision(
        do="rung", why="deadline: 900.0 s left, wait 1200.0 s"
    )


def test_without_a_deadline_a_long_hint_is_waited_for():
    assert decided(failure(K.RATE_LIMITED, retry_after_s=3600), ladder(deadline_ms=0)).wait_ms == 3_600_000


def test_a_year_is_the_longest_hint_that_is_waited_for():
    assert decided(failure(retry_after_s=366 * 86_400), ladder(deadline_ms=0)).do == "retry"


@pytest.mark.parametrize("hint_s", [math.inf, 1e300, 366 * 86_400 + 0.001])
def test_a_hint_that_is_no_time_ends_the_ladder_whatever_the_deadline(hint_s):
    assert decided(failure(retry_after_s=hint_s), ladder(deadline_ms=0)) == Decision(
        do="rung", why="the server names no time to come back"
    )


@pytest.mark.parametrize("hint_s", [math.nan, -5.0, 0.0, None])
def test_a_hint_that_says_nothing_leaves_the_jitter(hint_s):
    assert decided(failure(retry_after_s=hint_s), ladder()).wait_ms == 500


def test_a_hint_shorter_than_the_jitter_does_not_shorten_it():
    assert decided(failure(retry_after_s=0.1), ladder(attempts=4)).wait_ms == 4000


def test_a_hint_is_rounded_up_never_down():
    assert decided(failure(retry_after_s=0.0001), ladder(), rng=Lowest()).wait_ms == 1


def test_a_hint_may_exceed_the_cap_of_our_own_waits():
    assert decided(failure(retry_after_s=90), ladder(cap_s=60)).wait_ms == 90_000


def test_the_run_s_last_retry_ends_every_ladder():
    assert decided(failure(), ladder(retries_left=1)).do == "retry"
    assert decided(failure(), ladder(retries_left=0)) == Decision(do="rung", why="retry budget used up")


def test_a_wait_the_run_cannot_pay_for_ends_the_ladder():
    assert decided(failure(), ladder(retry_wait_left_s=0.5)).do == "retry"
    assert decided(failure(), ladder(retry_wait_left_s=0.499)) == Decision(do="rung", why="retry wait budget used up")


def test_the_same_error_three_times_goes_to_the_next_rung_if_there_is_one():
    assert decided(failure(), ladder(attempts=2, same_error=2, has_rung=True)).do == "retry"
    assert decided(failure(), ladder(attempts=3, same_error=3, has_rung=True)) == Decision(
        do="rung", why="the same error 3 times"
    )
    assert decided(failure(), ladder(attempts=3, same_error=3, has_rung=False)).do == "retry"


def test_the_same_seed_decides_the_same():
    one, two = (decided(failure(), ladder(attempts=5), rng=Random(11)) for _ in range(2))

    assert one == two
    assert one.wait_ms > 0


# ------------------------------------------------- leaving a ladder without a failure


def test_a_ladder_ended_from_outside_asks_first_when_its_action_is_in_doubt():
    assert end_of_ladder(ladder(E.KEYED, X.MAYBE), "deadline") == Decision(
        do="ask", why="deadline; it may have happened"
    )
    assert end_of_ladder(ladder(E.KEYED, X.NO), "deadline") == Decision(do="rung", why="deadline")
    assert end_of_ladder(ladder(E.READ_ONLY, X.MAYBE), "fatal", do="end") == Decision(do="end", why="fatal")


def test_a_position_left_unsaid_is_that_of_a_first_failure_of_a_tool_that_takes_no_feedback_and_has_no_check():
    rung = Ladder(effect=E.READ_ONLY, executed=X.NO, attempts=1, attempts_max=8, deadline_ms=0, base_s=0.5, cap_s=60)

    assert (rung.same_error, rung.same_error_limit, rung.unknown_attempts) == (1, 3, 1)
    assert (rung.semantic, rung.repairs_max, rung.repairable, rung.output_changed) == (0, 2, False, True)
    assert (rung.has_check, rung.check_after_s, rung.unsure) == (False, 5, "ask")
    assert (rung.has_rung, rung.has_other_scope, rung.thread_alive) == (False, False, False)
    assert rung.retries_left == rung.retry_wait_left_s == math.inf


@pytest.mark.parametrize(("value", "name"), [(ladder(), "attempts_max"), (Admission(go=True), "go")])
def test_what_a_decision_looks_at_and_answers_cannot_be_changed_nor_given_by_position(value, name):
    with pytest.raises(AttributeError):
        setattr(value, name, 99)
    with pytest.raises(TypeError, match="positional"):
        type(value)(True)
