"""A loop that may try another way: a new pass by itself, in place of a dead letter."""

from __future__ import annotations

import pytest

from tests.runtime.errors import not_found
from tests.runtime.house import got
from yaoki import INJECTED, DeclarationError, Effect, FailureKind, Retry, loop
from yaoki.escalate import compensate, dead_letter
from yaoki.records import Redrive, State

ONCE = Retry(attempts_max=1)


def trip(house, *, escalate=None, error=not_found, **policy):
    """Return a loop that books a train, and if that cannot be, the next pass books a bus."""

    @house.tool(effect=Effect.KEYED, undo=house.check(lambda result, what: house.note(f"undo {what}")))
    def seat(what: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(f"seat {what}")
        return what

    @house.tool(retry=ONCE, escalate=escalate)
    def book(what: str) -> str:
        house.note(f"book {what}")
        if what != "bus":
            raise error()
        return f"went by {what}"

    @house.loop(**policy)
    async def travel(run) -> str:
        ways = ["train", "plane", "bus"]
        await got(seat("one"))
        return await got(book(ways[min(len(run.replanned), 2)]))

    return travel


def test_a_failed_pass_is_followed_by_another_that_knows_why(house):
    receipt = house.run(trip(house, replans_max=2).bind())
    assert receipt.value == "went by bus"
    assert house.done == ["seat one", "book train", "book plane", "book bus"]
    first, second = house.records(Redrive)
    assert (first.source, first.pass_, second.pass_) == ("start", 2, 3)
    assert first.failure.kind is FailureKind.PERMANENT


def test_after_the_last_one_the_run_is_dead(house):
    receipt = house.run(trip(house, replans_max=1).bind())
    assert (receipt.status, receipt.step.rpartition("/")[2]) == (State.DEAD, "book#0")
    assert house.done == ["seat one", "book train", "book plane"]


def test_by_default_nothing_is_planned_anew(house):
    assert house.run(trip(house).bind()).status is State.DEAD
    assert house.done == ["seat one", "book train"]


def test_a_dead_letter_is_planned_anew_too(house):
    assert house.run(trip(house, replans_max=2, escalate=[dead_letter()]).bind()).value == "went by bus"


def test_a_bug_is_not(house):
    receipt = house.run(trip(house, replans_max=2, error=lambda: TypeError("a bug")).bind())
    assert receipt.status is not State.COMPLETED
    assert house.done == ["seat one", "book train"]


def test_what_was_undone_is_done_again_by_the_next_pass(house):
    receipt = house.run(trip(house, replans_max=2, escalate=[compensate()]).bind())
    assert receipt.value == "went by bus"
    assert house.done[:5] == ["seat one", "book train", "undo one", "seat one", "book plane"]


def test_from_a_checkpoint_the_saved_turns_stay(house):
    @house.tool(effect=Effect.READ_ONLY, retry=ONCE)
    def look(what: str) -> str:
        house.note(what)
        if what == "bad":
            raise not_found()
        return what

    @house.loop(replans_max=1)
    async def work(run) -> list[str]:
        async for seen in house.turns(run, ["start"]):
            if len(seen) == 3:
                return [*seen, await got(look("good" if run.replanned else "bad"))]
            seen.append(await got(look(f"{len(seen)}")))
        return []

    assert house.run(work.bind()).value == ["start", "1", "2", "good"]
    assert house.done == ["1", "2", "bad", "good"]


def test_killed_in_its_second_pass_it_goes_on_there(house):
    @house.tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=3, base_s=0.001, cap_s=0.002))
    def look(what: str) -> str:
        if house.note(what) == 1 and what == "second":
            house.kill()
        if what == "first":
            raise not_found()
        return what

    @house.loop(replans_max=1)
    async def work(run) -> str:
        return await got(look("second" if run.replanned else "first"))

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).value == "second"
    assert house.done == ["first", "second", "second"]


def test_bounds_that_cannot_work_are_refused():
    with pytest.raises(DeclarationError, match="between 0 and 100"):

        @loop(replans_max=101)
        def work(run) -> None: ...
