"""A check may ask for the key of the action it is about, and an effect function may leave the check aside."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House, got
from yaoki import INJECTED, DeclarationError, Effect, Feedback, Happened, NotHappened, Retry, tool
from yaoki.records import Begin, State
from yaoki.testing import no_waits


def keyed(house: House, *, dies: bool = False):
    """Make a tool that sends under its key and meets an error the first time, and a check that is told a key."""

    def sent(to: str, *, idempotency_key: str = INJECTED) -> Happened[str] | NotHappened:
        house.note(f"check {idempotency_key}")
        return Happened("found") if house.done.count(f"send {idempotency_key}") else NotHappened()

    def send(to: str, *, idempotency_key: str = INJECTED) -> str:
        if house.note(f"send {idempotency_key}") == 1:
            if dies:
                house.kill()
            raise reset()
        return "sent"

    return house.tool(check=house.check(sent), check_after_s=0, name="mail")(send)


def begun(house: House) -> list[Begin]:
    return [entry.record for entry in house.journal() if isinstance(entry.record, Begin)]


def test_a_check_is_told_the_key_of_the_action_it_is_about(house):
    mail = keyed(house)

    @house.loop
    async def work(run) -> list[str]:
        return [await got(mail("a")), await got(mail("a"))]

    assert house.run(work.bind()).unwrap() == ["found", "found"]
    keys = [record.key for record in begun(house) if record.effect is Effect.CHECKED]
    assert keys[0] != keys[1]
    assert house.done == [f"{what} {key}" for key in keys for what in ("send", "check")]


def test_after_a_death_too(house):
    mail = keyed(house, dies=True)

    @house.loop
    async def work(run) -> str:
        return await got(mail("a"))

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == "found"
    key = begun(house)[0].key
    assert house.done == [f"send {key}", f"check {key}"]


def test_a_check_of_an_orphan_is_told_the_orphans_key(house):
    mail = keyed(house, dies=True)

    @house.loop
    async def work(run) -> str:
        return await got(mail("a"))

    assert house.die(work.bind()) == -9
    house.cancel()
    assert house.run(work.bind()).status is State.CANCELLED
    house.later(8 * 86_400)
    house.outside(lambda verbs: verbs.redrive("r", "start"))
    assert house.run(work.bind()).unwrap() == "found"
    key = begun(house)[0].key
    assert house.done == [f"send {key}", f"check {key}"]


def test_a_check_is_told_its_own_timeout(house):
    told = []

    def sent(to: str, *, timeout_s: float = INJECTED) -> Happened[str] | NotHappened:
        told.append(timeout_s)
        return Happened("found")

    def send(to: str) -> str:
        raise reset()

    mail = house.tool(check=house.check(sent), timeout_s=7)(send)

    @house.loop
    async def work(run) -> str:
        return await got(mail("a"))

    assert house.run(work.bind()).unwrap() == "found"
    assert told == [7]


def test_a_check_that_is_a_method_is_told_the_key_beside_its_self(house):
    class Desk:
        name = "desk"

        def sent(self, to: str, *, idempotency_key: str = INJECTED) -> Happened[str] | NotHappened:
            house.note(f"check {idempotency_key}")
            return Happened(self.name)

        @tool(check=sent, key="to")
        def mail(self, to: str) -> str:
            raise reset()

    desk = Desk()

    @house.loop
    async def work(run) -> str:
        return await got(desk.mail("a"))

    assert house.run(work.bind()).unwrap() == "desk"
    assert house.done == [f"check {begun(house)[0].key}"]


def test_outside_a_run_the_check_is_told_the_key_of_the_call(house):
    mail = keyed(house)
    with no_waits():
        found = asyncio.run(mail("a")) if house.is_async else mail("a")
    assert found == "found"
    sent, checked = (line.split()[1] for line in house.done)
    assert sent == checked


def test_a_check_is_injected_nothing_else():
    def sent(to: str, *, feedback: Feedback | None = INJECTED) -> Happened[str] | NotHappened:
        return NotHappened()

    with pytest.raises(DeclarationError, match="nothing is injected into check=sent as 'feedback'"):

        @tool(check=sent)
        def mail(to: str) -> str:
            return to


def test_an_effect_function_says_which_calls_the_check_is_for(house):
    def sent(to: str) -> Happened[str] | NotHappened:
        house.note(f"check {to}")
        return Happened("found")

    def kind(to: str) -> Effect:
        return {"reads": Effect.READ_ONLY, "acts": Effect.CHECKED}.get(to, Effect.AT_MOST_ONCE)

    def send(to: str) -> str:
        if house.note(to) == 1:
            raise reset()
        return "sent"

    mail = house.tool(check=house.check(sent), effect=kind, name="mail")(send)

    @house.loop
    async def work(run) -> list[str]:
        return [await got(mail("reads")), await got(mail("acts")), await got(mail("once"))]

    assert house.run(work.bind()).status is State.WAITING
    assert house.done == ["reads", "reads", "acts", "check acts", "once"]
    assert [record.effect.value for record in begun(house)] == [
        "read_only",
        "read_only",
        "checked",
        "read_only",
        "at_most_once",
    ]


def test_an_effect_function_that_says_checked_needs_a_check(house):
    mail = house.tool(effect=lambda to: Effect.CHECKED, retry=Retry.never, name="mail")(lambda to: to)

    @house.loop
    async def work(run) -> str:
        return await got(mail("a"))

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "effect= returned CHECKED, but it has no check=" in receipt.failure.message
