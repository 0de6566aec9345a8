"""Bounds that hold for every failure and every ladder, one decision at a time and over whole ladders."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.policy.strategies import (
    HAS_EFFECT,
    MAY_REPEAT,
    NOW_MS,
    X,
    failures,
    hurts,
    ladders,
    long_ladders,
    many,
    rngs,
    some,
)
from yaoki.policy import Budget, Ladder, admit, decide, end_of_ladder
from yaoki.records import Decision, Effect, Executed, Failure, FailureKind, Spent, strongest

ANSWERS_DOUBT = {"ask", "tell", "check"}
CALLS = {"retry", "repair"}


def in_doubt(ladder: Ladder) -> bool:
    """Whether a person would have to be asked, said without the code under test."""
    return ladder.effect in HAS_EFFECT and (ladder.executed is not X.NO or ladder.thread_alive)


@many
@given(failures, ladders, rngs)
def test_one_decision_keeps_every_bound(failure: Failure, ladder: Ladder, rng):
    decision = decide(failure, ladder, now_ms=NOW_MS, rng=rng)

    if decision.do in CALLS:
        assert MAY_REPEAT[ladder.effect, ladder.executed]
        assert not (ladder.thread_alive and ladder.effect in HAS_EFFECT)
        assert ladder.attempts < ladder.attempts_max
        assert not ladder.deadline_ms or decision.next_at < ladder.deadline_ms
        assert ladder.retries_left >= 1
        assert decision.wait_ms / 1000 <= ladder.retry_wait_left_s
        assert decision.next_at == NOW_MS + decision.wait_ms
    elif decision.do == "check":
        assert ladder.effect is Effect.CHECKED
        assert decision.next_at >= NOW_MS + ladder.check_after_s * 1000
        assert decision.wait_ms == 0
    else:
        assert decision.next_at == decision.wait_ms == 0
    assert decision.do != "pass"
    assert decision.why


@many
@given(failures, ladders, rngs)
def test_no_doubt_ends_silently(failure: Failure, ladder: Ladder, rng):
    decision = decide(failure, ladder, now_ms=NOW_MS, rng=rng)

    if in_doubt(ladder):
        assert decision.do in ANSWERS_DOUBT | CALLS
    else:
        assert decision.do not in ANSWERS_DOUBT


@some
@given(failures, ladders, rngs)
def test_a_wait_is_the_server_s_hint_at_least_and_the_longer_of_hint_and_ceiling_at_most(failure, ladder, rng):
    decision = decide(failure, ladder, now_ms=NOW_MS, rng=rng)

    if decision.do in CALLS:
        hint_s = failure.retry_after_s or 0
        hint_s = 0 if math.isnan(hint_s) else hint_s
        factor = 10 if failure.kind is FailureKind.OVERLOADED else 1
        ceiling_s = min(ladder.cap_s, ladder.base_s * factor * 2 ** (ladder.attempts - 1))
        if decision.do == "repair":
            ceiling_s = 0
        assert hint_s * 1000 <= decision.wait_ms <= max(math.ceil(hint_s * 1000), ceiling_s * 1000)


@some
@given(failures, ladders, rngs)
def test_only_what_can_heal_is_called_again(failure: Failure, ladder: Ladder, rng):
    do = decide(failure, ladder, now_ms=NOW_MS, rng=rng).do

    if do == "retry":
        assert failure.kind in {"transient", "rate_limited", "overloaded", "unknown"}
        assert failure.kind != "unknown" or ladder.attempts < ladder.unknown_attempts
    if do == "repair":
        assert failure.kind == "semantic"
    if do == "pause":
        assert failure.kind == "budget"
    if do == "end":
        assert failure.kind == "fatal"


# ------------------------------------------------- a whole ladder as a process


@dataclass
class World:
    """What an engine keeps between decisions, and what a receiver would see."""

    effect: Effect
    executed: Executed = Executed.NO
    now_ms: int = NOW_MS
    attempts: int = 0
    semantic: int = 0
    same_error: int = 0
    last: str = ""
    spent: Spent = field(default_factory=Spent)
    known_before: list[Executed] = field(default_factory=list)
    """What was known about the action as each attempt began."""
    waits_end: list[int] = field(default_factory=list)
    ended: Decision | None = None


events = st.tuples(
    hurts | hurts | hurts | failures,
    st.integers(0, 20_000),  # how long the attempt took, ms
    st.sampled_from(["happened", "not-happened"]),  # what a check would say
    st.integers(0, 3_000),  # how late a wait ends
)


def live(world: World, template: Ladder, budget: Budget, story: list, rng) -> World:
    """Run one ladder to its end, as an engine would: admit, begin, fail, decide, wait."""
    deadline_ms = template.deadline_ms
    for failure, took_ms, verdict, late_ms in story:
        admission = admit(
            budget=budget,
            spent=world.spent,
            elapsed_wall_s=0,
            cancelled=False,
            first=world.attempts == 0,
            deadline_ms=deadline_ms,
            now_ms=world.now_ms,
        )
        ladder = replace(
            template,
            effect=world.effect,
            executed=world.executed,
            attempts=world.attempts,
            thread_alive=False,
            retries_left=budget.left(world.spent, "retries"),
            retry_wait_left_s=budget.left(world.spent, "retry_wait_s"),
        )
        if not admission.go:
            world.ended = end_of_ladder(ladder, admission.text)
            return world
        world.known_before.append(world.executed)
        world.spent.retries += world.attempts > 0
        world.attempts += 1
        world.now_ms += took_ms
        world.executed = strongest(world.executed, failure.executed)
        world.semantic += failure.kind is FailureKind.SEMANTIC
        world.same_error = world.same_error + 1 if failure.reason == world.last else 1
        world.last = failure.reason
        ladder = replace(
            ladder,
            executed=world.executed,
            attempts=world.attempts,
            semantic=world.semantic,
            same_error=world.same_error,
            retries_left=budget.left(world.spent, "retries"),
        )
        decision = decide(failure, ladder, now_ms=world.now_ms, rng=rng)
        if decision.do == "check":
            world.now_ms = decision.next_at + late_ms
            if verdict == "happened":
                world.ended = decision
                return world
            world.executed = Executed.NO
            decision = decide(failure, replace(ladder, executed=Executed.NO), now_ms=world.now_ms, rng=rng)
        if decision.do not in CALLS:
            world.ended = decision
            return world
        world.spent.retry_wait_s += decision.wait_ms / 1000
        world.waits_end.append(decision.next_at)
        world.now_ms = decision.next_at + late_ms
    return world


budgets = st.builds(Budget, retries=st.none() | st.integers(0, 6), retry_wait_s=st.none() | st.floats(0, 200))


@many
@given(st.sampled_from(Effect), ladders | long_ladders, budgets, st.lists(events, min_size=12, max_size=12), rngs)
def test_a_whole_ladder_keeps_its_bounds_and_ends_in_one_designed_outcome(effect, template, budget, story, rng):
    world = live(World(effect), template, budget, story, rng)

    assert world.ended is not None, "twelve failures outlast any ladder of ten attempts"
    assert 1 <= world.attempts <= template.attempts_max
    assert world.spent.retries == world.attempts - 1
    assert budget.retries is None or world.spent.retries <= budget.retries
    assert budget.retry_wait_s is None or world.spent.retry_wait_s <= budget.retry_wait_s + 1e-6
    assert all(not template.deadline_ms or end < template.deadline_ms for end in world.waits_end)
    assert all(MAY_REPEAT[effect, known] for known in world.known_before)
    if effect in HAS_EFFECT and world.executed is not X.NO:
        assert world.ended.do in ANSWERS_DOUBT
    else:
        assert world.ended.do in {"rung", "end", "pause"}


@some
@given(long_ladders, budgets, st.lists(events, min_size=12, max_size=12), rngs)
def test_an_at_most_once_effect_is_never_started_while_it_may_have_happened(template, budget, story, rng):
    world = live(World(Effect.AT_MOST_ONCE), template, budget, story, rng)

    assert set(world.known_before) == {Executed.NO}


@some
@given(st.sampled_from(Effect), long_ladders, st.lists(events, min_size=12, max_size=12), rngs)
def test_no_more_repairs_are_made_than_the_tool_allows(effect, template, story, rng):
    only_semantic = [(replace_kind(failure, FailureKind.SEMANTIC), *rest) for failure, *rest in story]
    world = live(World(effect), template, Budget(), only_semantic, rng)

    assert world.attempts <= 1 + template.repairs_max


@pytest.mark.parametrize("attempts_max", [1, 2, 4, 8])
@pytest.mark.parametrize("effect", [Effect.READ_ONLY, Effect.IDEMPOTENT, Effect.KEYED])
def test_a_process_that_dies_in_every_attempt_makes_exactly_attempts_max_of_them(attempts_max, effect):
    died = Failure(kind=FailureKind.TRANSIENT, reason="process.died", executed=Executed.MAYBE)
    template = Ladder(
        effect=effect, executed=X.NO, attempts=0, attempts_max=attempts_max, deadline_ms=0, base_s=0, cap_s=0
    )
    world = live(World(effect), template, Budget(), [(died, 1, "happened", 0)] * 20, Random(1))

    assert world.attempts == attempts_max
    assert world.ended is not None
    assert world.ended.do == ("ask" if effect is Effect.KEYED else "rung")


def replace_kind(failure: Failure, kind: FailureKind) -> Failure:
    return Failure(kind=kind, reason=failure.reason, executed=failure.executed, retry_after_s=failure.retry_after_s)


def test_the_stories_told_here_reach_ladders_of_many_attempts():
    find(
        st.tuples(st.sampled_from(Effect), long_ladders, st.lists(events, min_size=12, max_size=12)),
        lambda told: live(World(told[0]), told[1], Budget(), told[2], Random(1)).attempts >= 5,
        settings=settings(max_examples=2_000, deadline=None, database=None, phases=[Phase.generate]),
        random=Random(1),
    )
