"""A run's effects undone, newest first: by a rung, and by a cancel that asks for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import not_found, refused, reset
from tests.runtime.house import House, got
from yaoki import INJECTED, AnswerRefused, Budget, DeclarationError, Effect, Local, Retry, StepFailed, tool
from yaoki.escalate import ask, compensate
from yaoki.records import Begin, State, Undo

TWICE = Retry(attempts_max=2, base_s=0.001, cap_s=0.002)
MOST_ONCE = {"A": 1}


class Trip:
    """Books things, and cannot pay for them."""

    def __init__(self, house: House, *, undo_fails: str = "", rungs=None, pay=refused, **budget) -> None:
        @house.tool(effect=Effect.KEYED, retry=TWICE)
        def unbook(booking: str, what: str, *, idempotency_key: str = INJECTED) -> None:
            house.note(f"undo {what} ({booking}) {idempotency_key}")
            if what == undo_fails:
                raise not_found()

        @house.tool(effect=Effect.KEYED, retry=TWICE, undo=unbook)
        def book(what: str, *, idempotency_key: str = INJECTED) -> str:
            house.note(f"book {what} {idempotency_key}")
            return f"b-{what}"

        @house.tool(effect=Effect.IDEMPOTENT, retry=TWICE)
        def tell(what: str) -> None:
            house.note(f"tell {what}")

        @house.tool(effect=Effect.KEYED, retry=TWICE, escalate=rungs or [compensate()])
        def charge(cents: int, *, idempotency_key: str = INJECTED) -> str:
            house.note("charge")
            raise pay()

        @house.loop(budget=Budget(**budget))
        async def trip(run) -> str:
            await got(book("train"))
            await got(book("hotel"))
            try:
                return await got(charge(100))
            except StepFailed as error:
                return f"not paid: {error.failure.reason}"

        self.book, self.tell, self.charge, self.loop, self.house = book, tell, charge, trip, house

    def undone(self) -> list[str]:
        return [line.split()[1] for line in self.house.done if line.startswith("undo")]


def test_completed_effects_are_undone_newest_first_with_their_results_and_a_key_of_their_own(house):
    trip = Trip(house)
    receipt = house.run(trip.loop.bind())
    assert receipt.value == "not paid: os.ECONNREFUSED"
    assert trip.undone() == ["hotel", "train"]
    keys = [line.split()[-1] for line in house.done if line.startswith(("book", "undo"))]
    assert len(set(keys)) == 4
    assert "(b-hotel)" in house.done[4]
    assert [one.outcome for one in house.records(Undo)] == ["done", "done"]


def test_an_undo_that_fails_does_not_stop_the_others_and_leaves_a_dead_letter_that_lists_it(house):
    trip = Trip(house, undo_fails="hotel")
    receipt = house.run(trip.loop.bind())
    assert receipt.status is State.DEAD
    assert trip.undone() == ["hotel", "train"]
    assert 'Still to be undone by hand: book(what="hotel")' in receipt.text
    assert "http.404" in receipt.text
    assert [gap.split(":")[0] for gap in receipt.gaps] == ["still to be undone by hand"]
    with pytest.raises(AnswerRefused, match="--from start"):
        house.redrive()


def test_a_person_asked_next_is_told_what_is_left_to_undo(house):
    trip = Trip(house, undo_fails="hotel", rungs=[compensate(), ask("What now?")])
    receipt = house.run(trip.loop.bind())
    assert receipt.waits_for == "person"
    assert "hotel" in receipt.asks[0].note


def test_an_undo_is_retried_like_any_call(house):
    @house.tool(effect=Effect.IDEMPOTENT, retry=TWICE)
    def unbook(booking: str, what: str) -> None:
        if house.note(f"undo {what}") == 1:
            raise refused()

    @house.tool(effect=Effect.IDEMPOTENT, undo=unbook)
    def book(what: str) -> str:
        return what

    @house.tool(retry=TWICE, escalate=[compensate()])
    def charge() -> None:
        raise refused()

    @house.loop
    async def trip(run) -> None:
        await got(book("train"))
        await got(charge())

    receipt = house.run(trip.bind())
    assert receipt.status is State.DEAD
    assert house.done == ["undo train"] * 2
    assert "by hand" not in receipt.text


def test_effects_without_an_undo_are_gaps(house):
    trip = Trip(house)

    @house.loop
    async def work(run) -> None:
        await got(trip.tell("us"))
        await got(trip.charge(1))

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.gaps == ['not undone: tell(what="us") (undo.impossible: tell has no undo=)']


def test_what_is_in_doubt_is_asked_about_first_and_undone_if_it_happened(house):
    @house.tool(retry=TWICE)
    def erase(number: int, line: str) -> None:
        house.note(f"erase {line} {number}")

    @house.tool(undo=erase)
    def write(line: str) -> int:
        house.note(f"write {line}")
        raise reset()

    @house.tool(retry=TWICE, escalate=[compensate()])
    def charge() -> None:
        raise refused()

    @house.loop
    async def work(run) -> str:
        async def one(_: int) -> None:
            await got(write("x"))

        async def other(_: int) -> None:
            await got(charge())

        found = await got(
            run.map(house.fn(lambda n: one(n) if n else other(n)), [1, 0], limit=1 if not house.is_async else 2)
        )
        return str([settled.ok for settled in found])

    receipt = house.run(work.bind())
    assert receipt.waits_for == "person"
    assert house.done == ["write x"]
    house.answer("happened", 7)
    receipt = house.run(work.bind())
    assert house.done == ["write x", "erase x 7"]
    assert receipt.value == "[True, False]"


def test_effects_of_earlier_turns_are_undone_by_what_was_journaled_of_them(house):
    @house.tool(effect=Effect.IDEMPOTENT)
    def unbook(booking: str, what: dict[str, int], client: Local[object]) -> None:
        house.note(f"undo {booking} {what} {type(client).__name__}")

    @house.tool(effect=Effect.IDEMPOTENT, undo=unbook)
    def book(what: dict[str, int], client: Local[object]) -> str:
        return f"b{what['n']}"

    @house.tool(retry=TWICE, escalate=[compensate()])
    def charge() -> None:
        if house.note("charge") == 1:
            house.kill()
        raise refused()

    @house.loop
    async def work(run, client: Local[object]) -> None:
        async for done in house.turns(run, [0]):
            if len(done) == 3:
                await got(charge())
            done.append(len(await got(book({"n": len(done)}, client))))

    bound = work.with_locals(client=object()).bind()
    assert house.die(bound) == -9
    house.run(bound)
    assert house.done == ["charge", "charge"] or house.get().waits_for == "person"
    if house.get().waits_for == "person":
        house.answer("not-happened")
        house.run(bound)
    assert [line for line in house.done if line.startswith("undo")] == [
        "undo b2 {'n': 2} object",
        "undo b1 {'n': 1} object",
    ]


def test_undoing_goes_on_where_a_death_left_it(house):
    @house.tool(effect=Effect.KEYED, retry=TWICE)
    def unbook(booking: str, what: str, *, idempotency_key: str = INJECTED) -> None:
        house.note(f"undo {what}")
        if what == "hotel" and house.done.count("undo hotel") == 1:
            house.kill()

    @house.tool(effect=Effect.KEYED, undo=unbook)
    def book(what: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(f"book {what}")
        return what

    @house.tool(retry=TWICE, escalate=[compensate()])
    def charge() -> None:
        house.note("charge")
        raise refused()

    @house.loop
    async def trip(run) -> None:
        for what in ("train", "hotel", "car"):
            await got(book(what))
        await got(charge())

    assert house.die(trip.bind()) == -9
    assert house.run(trip.bind()).status is State.DEAD
    assert house.done[5:] == ["undo car", "undo hotel", "undo hotel", "undo train"]
    assert house.done.count("charge") == 2


def test_an_undone_slot_is_closed_and_an_equal_call_is_a_new_action(house):
    trip = Trip(house)

    @house.loop
    async def work(run) -> None:
        await got(trip.book("train"))
        try:
            await got(trip.charge(1))
        except StepFailed:
            await got(trip.book("train"))

    house.run(work.bind())
    booked = [line.split()[-1] for line in house.done if line.startswith("book")]
    assert len(set(booked)) == 2
    assert [one.slot for one in house.records(Begin) if one.call.startswith("book")] == [0, 1]


def test_an_empty_budget_does_not_keep_a_run_from_undoing(house):
    trip = Trip(house, calls=4, on_empty="cap")
    house.run(trip.loop.bind())
    assert trip.undone() == ["hotel", "train"]


# --- a cancel that undoes


def stopped(house: House, *, compensates: bool):
    trip = Trip(house)

    @house.tool(retry=TWICE)
    def cancelled() -> None:
        house.note("cancelled")
        house.outside(lambda verbs: verbs.cancel("r", compensate=compensates))

    @house.loop
    async def work(run) -> None:
        await got(trip.book("train"))
        await got(trip.book("hotel"))
        await got(cancelled())
        await got(run.sleep(5))
        house.note("went on")

    return trip, work


def test_a_cancel_undoes_only_if_asked(house):
    trip, work = stopped(house, compensates=False)
    assert house.run(work.bind()).status is State.CANCELLED
    assert trip.undone() == []


def test_a_cancel_that_asks_for_it_undoes_and_ends_cancelled(house):
    trip, work = stopped(house, compensates=True)
    receipt = house.run(work.bind())
    assert receipt.status is State.CANCELLED, receipt.text
    assert trip.undone() == ["hotel", "train"]
    assert "went on" not in house.done
    with pytest.raises(AnswerRefused, match="--from start"):
        house.redrive()


# --- declarations


def reads(what: str) -> str:
    return what


@pytest.mark.parametrize(
    ("undo", "policy", "said"),
    [
        (lambda result: None, {}, "its result first"),
        (lambda what: None, {}, "its result first"),
        (lambda result, other: None, {}, "its result first"),
        (lambda result, what: None, {"effect": Effect.READ_ONLY}, "nothing to undo"),
    ],
)
def test_an_undo_that_cannot_work_is_refused(undo, policy, said):
    with pytest.raises(DeclarationError, match=said):
        tool(undo=undo, **policy)(reads)


def test_an_async_undo_of_a_plain_tool_is_refused():
    async def undo(result, what) -> None: ...

    with pytest.raises(DeclarationError, match="make them alike"):
        tool(undo=undo)(reads)


@pytest.mark.parametrize("took_ms", [50, 100, 1000])
def test_what_ends_in_the_very_moment_of_a_compensation_is_undone(async_house, took_ms):
    house = async_house

    async def unbook(result: str, n: int) -> None:
        house.note(f"undo {n}")

    @tool(undo=unbook)
    async def book(n: int) -> str:
        house.note(f"book {n}")
        await asyncio.sleep(took_ms / 1000)
        return "b"

    @tool(effect=Effect.READ_ONLY, escalate=[compensate()])
    async def bad(n: int) -> str:
        raise not_found()

    @house.loop
    async def work(run) -> list[object]:
        return [one.value for one in await run.map(lambda n: bad(n) if n else book(n), [0, 1])]

    house.run(work.bind())
    assert house.done == ["book 0", "undo 0"]
