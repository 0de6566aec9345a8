"""A doubt that an earlier pass left about a CHECKED effect: the receiver is asked before any person is."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House, got
from yaoki import Effect, Happened, NotHappened, Retry
from yaoki.records import Adopt, Begin, State


class Post:
    """A mail whose first sending is in doubt while its check is down, and what the check says later."""

    def __init__(self, house: House, *, twice: bool = False) -> None:
        self.house = house
        self.verdict: object = KeyError("no such box")
        self.checks = 0
        """A check waits with its answer until so many were asked in all."""

        def send(to: str) -> str:
            house.note("send")
            if house.done.count("send") == 1:
                raise reset()
            return "sent"

        mail = house.tool(check=self.check(), name="mail", retry=Retry(attempts_max=3))(send)

        @house.loop(name="posts")
        async def posts(run) -> list[str | None]:
            if twice and "redriven" in house.done:
                return [one.value for one in await got(run.map(mail, ["a@b", "a@b"], key=lambda _: next(self.keys)))]
            return [await got(mail("a@b"))]

        self.keys = iter("xy" * 9)
        self.loop = posts

    def check(self):
        house = self.house

        def verdict() -> object:
            if isinstance(self.verdict, Exception):
                raise self.verdict
            return self.verdict

        def sent(to: str) -> object:
            house.note("check")
            while house.done.count("check") < self.checks:
                time.sleep(0.001)
            return verdict()

        async def sent_async(to: str) -> object:
            house.note("check")
            while house.done.count("check") < self.checks:  # noqa: ASYNC110 - the world is a file
                await asyncio.sleep(0)
            return verdict()

        return sent_async if house.is_async else sent

    def run(self):
        return self.house.run(self.loop.bind(), "r")

    def in_doubt_and_redriven(self, source: str) -> None:
        assert self.run().status is State.WAITING
        self.house.cancel("r")
        assert self.run().status is State.CANCELLED
        self.house.outside(lambda verbs: verbs.redrive("r", source))
        self.house.note("redriven")

    @property
    def done(self) -> list[str]:
        """What was done in the new pass."""
        return self.house.done[self.house.done.index("redriven") + 1 :]


@pytest.fixture(params=["sync", "async"])
def post(request, tmp_path):
    return Post(House(request.param, tmp_path))


@pytest.mark.parametrize("source", ["checkpoint", "start"])
def test_what_the_receiver_says_happened_is_adopted_and_nobody_is_asked(post, source):
    post.in_doubt_and_redriven(source)
    post.verdict = Happened("found")
    receipt = post.run()
    assert (receipt.status, receipt.value) == (State.COMPLETED, ["found"])
    assert post.done == ["check"]
    assert receipt.asks == []
    assert receipt.orphans == []
    assert [record.source for record in post.house.records(Adopt)] == ["1.0//mail#0"]


def test_what_the_receiver_says_did_not_happen_is_sent_with_the_same_key_and_nobody_is_asked(post):
    post.in_doubt_and_redriven("checkpoint")
    post.verdict = NotHappened()
    receipt = post.run()
    assert (receipt.status, receipt.value, receipt.asks) == (State.COMPLETED, ["sent"], [])
    assert post.done == ["check", "send"]
    begins = [record for record in post.house.records(Begin) if record.effect is Effect.CHECKED]
    assert len(begins) == 2
    assert len({(begin.key, begin.slot) for begin in begins}) == 1


def test_where_the_check_still_fails_the_question_stands(post):
    post.in_doubt_and_redriven("checkpoint")
    receipt = post.run()
    assert receipt.status is State.WAITING
    assert [ask.verdict for ask in receipt.asks] == [""]
    assert post.run().status is State.WAITING
    assert post.done == ["check"], "a failure of it is recorded, as any other"
    post.house.answer("happened", "told")
    assert post.run().value == ["told"]


def test_what_a_person_has_said_is_not_checked(post):
    assert post.run().status is State.WAITING
    post.house.cancel("r")
    post.run()
    post.house.answer("skip")
    post.house.outside(lambda verbs: verbs.redrive("r", "start"))
    post.verdict = Happened("found")
    checks = post.house.done.count("check")
    assert post.run().value == [None]
    assert post.house.done.count("check") == checks


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(("verdict", "sent"), [(Happened("found"), 1), (NotHappened(), 2)])
def test_of_two_equal_calls_side_by_side_one_takes_over_and_the_other_is_its_own(tmp_path, colour, verdict, sent):
    post = Post(House(colour, tmp_path), twice=True)
    post.in_doubt_and_redriven("start")
    post.verdict = verdict
    receipt = post.run()
    assert receipt.status is State.COMPLETED
    assert post.done.count("send") == sent
    begins = [record for record in post.house.records(Begin) if record.effect is Effect.CHECKED]
    assert {begin.slot for begin in begins} == {0, 1}


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_of_two_equal_calls_that_ask_the_receiver_at_once_only_one_takes_over(tmp_path, colour):
    """Both are told that it happened: that was one mail, and the other is still to be sent."""
    post = Post(House(colour, tmp_path), twice=True)
    post.in_doubt_and_redriven("start")
    post.checks = post.house.done.count("check") + 2
    post.verdict = Happened("found")
    receipt = post.run()
    assert (receipt.status, sorted(receipt.value)) == (State.COMPLETED, ["found", "sent"])
    assert post.done.count("send") == 1
