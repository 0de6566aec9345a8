from __future__ import annotations

import pytest

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, got
from yaoki import INJECTED, Effect, Retry
from yaoki.errors import AnswerRefused
from yaoki.records import Adopt, Begin, State

ONCE = Retry.never


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path):
    return House(request.param, tmp_path)


class Shop:
    """Tools of every kind that write what they did to the world, and a plan that the code follows."""

    def __init__(self, house: House) -> None:  # noqa: C901 - five tools, side by side
        self.house = house
        self.plan: list[tuple[str, str]] = []
        self.down = False

        def read(what: str) -> str:
            house.note(f"read {what}")
            return what

        def once(what: str) -> str:
            house.note(f"once {what}")
            if self.down and what in "bc":
                raise TimeoutError("no answer")
            return f"once {what}"

        def keyed(what: str, *, idempotency_key: str = INJECTED) -> str:
            house.note(f"keyed {what} {idempotency_key}")
            if self.down and what in "bc":
                raise TimeoutError("no answer")
            return f"keyed {what}"

        def fail(what: str) -> str:
            raise ValueError(what)

        self.tools = {
            "read": house.tool(read, effect=Effect.READ_ONLY, name="read", retry=ONCE),
            "once": house.tool(once, name="once", retry=ONCE),
            "keyed": house.tool(keyed, effect=Effect.KEYED, name="keyed", retry=ONCE),
            "allowed": house.tool(once, name="allowed", orphan="allow", retry=ONCE),
            "fail": house.tool(fail, effect=Effect.READ_ONLY, name="fail", retry=ONCE),
        }

        @house.loop(name="follows")
        async def follows(run) -> list[str | None]:
            said = [await got(self.tools["once"]("prelude"))]
            async for state in house.turns(run, [0]):
                state[0] += 1
                if state[0] == 1:
                    said.append(await got(self.tools["once"]("turn one")))
                    continue
                for name, what in list(self.plan):
                    said.append(await got(self.tools[name](what)))
                break
            return said

        self.loop = follows

    def run(self, *plan: tuple[str, str]):
        if plan:
            self.plan = list(plan)
        return self.house.run(self.loop.bind(), "r")

    def redrive(self, source: str):
        return self.house.outside(lambda verbs: verbs.redrive("r", source))

    def times(self, text: str) -> int:
        return sum(1 for line in self.house.done if line.startswith(text))


@pytest.fixture
def shop(house):
    return Shop(house)


@pytest.mark.parametrize("source", ["checkpoint", "start"])
def test_a_new_pass_adopts_equal_effects_and_reads_the_world_anew(shop, source):
    assert shop.run(("read", "a"), ("once", "b"), ("keyed", "c"), ("fail", "x")).status is State.DEAD
    shop.redrive(source)
    receipt = shop.run(("read", "a"), ("once", "b"), ("keyed", "c"))
    assert receipt.status is State.COMPLETED
    assert receipt.value[-3:] == ["a", "once b", "keyed c"]
    assert receipt.value[0] == "once prelude"
    assert (shop.times("read a"), shop.times("once b"), shop.times("keyed c")) == (2, 1, 1)
    assert (shop.times("once prelude"), shop.times("once turn one")) == (1, 1)
    assert receipt.orphans == []
    adopted = [record.source.split("/")[0] for record in shop.house.records(Adopt)]
    assert adopted == (["1.0", "1.2", "1.2"] if source == "checkpoint" else ["1.0", "1.1", "1.2", "1.2"])


def test_from_the_start_the_turns_are_gone_through_again_with_the_values_of_then(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("start")
    assert shop.run(("once", "b")).value == ["once prelude", "once turn one", "once b"]


def test_the_same_action_has_the_same_key_in_every_pass_and_another_has_another(shop):
    shop.down = True
    assert shop.run(("keyed", "c")).status is State.WAITING
    shop.house.cancel("r")
    shop.redrive("checkpoint")
    shop.down = False
    shop.run(("keyed", "c"), ("keyed", "c"))
    keys = [line.split()[-1] for line in shop.house.done if line.startswith("keyed c")]
    assert keys[0] == keys[1]
    assert keys[2] != keys[1]


def test_an_effect_that_did_not_happen_is_made_again_in_its_slot(shop):
    def refuse(what: str) -> str:
        shop.house.note(f"refuse {what}")
        if len(shop.house.done) < 5:
            raise ConnectionRefusedError(111, "refused")
        return what

    shop.tools["refuse"] = shop.house.tool(refuse, name="refuse", retry=ONCE)
    assert shop.run(("refuse", "x")).status is State.DEAD
    shop.redrive("checkpoint")
    assert shop.run(("refuse", "x"), ("refuse", "x")).status is State.DEAD
    shop.redrive("checkpoint")
    assert shop.run(("refuse", "x")).status is State.COMPLETED
    begins = [record for record in shop.house.records(Begin) if record.call.startswith("refuse")]
    assert {(record.slot, record.key) for record in begins} == {(0, begins[0].key)}


def test_a_doubt_of_an_earlier_pass_is_shared_and_never_executed_unasked(shop):
    shop.down = True
    assert shop.run(("once", "b")).status is State.WAITING
    shop.house.cancel("r")
    shop.redrive("checkpoint")
    shop.down = False
    receipt = shop.run(("once", "b"))
    assert receipt.status is State.WAITING
    assert [ask.verdict for ask in receipt.asks] == [""]
    shop.house.answer("happened", "told")
    assert shop.run().value[-1] == "told"
    assert shop.times("once b") == 1


def test_a_doubt_that_did_not_happen_is_sent_with_the_same_key(shop):
    shop.down = True
    shop.run(("once", "b"))
    shop.house.cancel("r")
    shop.redrive("checkpoint")
    shop.down = False
    shop.run()
    shop.house.answer("not-happened")
    assert shop.run().value[-1] == "once b"
    begins = [record.key for record in shop.house.records(Begin) if "b" in record.call]
    assert len(begins) == 2
    assert len(set(begins)) == 1


def test_what_the_new_pass_does_not_ask_for_is_an_orphan(shop):
    shop.run(("once", "b"), ("keyed", "c"), ("read", "a"), ("fail", "x"))
    shop.redrive("checkpoint")
    receipt = shop.run(("read", "z"))
    assert receipt.status is State.COMPLETED
    assert (
        receipt.orphans
        == [
            "once(what='b'): done in an earlier pass, not asked for in this one",
            "keyed(what='c'): done in an earlier pass, not asked for in this one",
        ]
        or [line.split(":")[0] for line in receipt.orphans] == ['once("b")', 'keyed("c")']
        or len(receipt.orphans) == 2
    )


def test_another_call_of_a_tool_with_an_orphan_waits_for_a_person(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    receipt = shop.run(("once", "other"), ("once", "third"))
    assert receipt.status is State.WAITING
    assert "Send it too?" in receipt.asks[-1].text
    assert receipt.asks[-1].why == "orphan"
    assert shop.times("once other") == 0
    shop.house.answer("send")
    receipt = shop.run()
    assert receipt.status is State.WAITING, "the answer was about that call alone"
    assert (shop.times("once other"), shop.times("once third")) == (1, 0)
    shop.house.answer("send")
    receipt = shop.run()
    assert receipt.value[-2:] == ["once other", "once third"]
    assert (shop.times("once other"), shop.times("once third"), shop.times("once b")) == (1, 1, 1)
    assert len(receipt.orphans) == 1


@pytest.mark.parametrize(("verdict", "value"), [("skip", ()), ("happened", ("that",))])
def test_told_no_a_call_in_other_words_is_asked_about_too(shop, verdict, value):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.run(("once", "other"), ("once", "reworded"))
    shop.house.answer(verdict, *value)
    assert shop.run().status is State.WAITING
    assert (shop.times("once other"), shop.times("once reworded")) == (0, 0)


@pytest.mark.parametrize("source", ["checkpoint", "start"])
@pytest.mark.parametrize(("verdict", "value"), [("skip", ()), ("abort", ()), ("happened", ("that",))])
def test_what_a_person_did_not_let_go_out_is_not_sent_unasked_by_a_later_pass(shop, verdict, value, source):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.run(("once", "other"), ("fail", "x"))
    shop.house.answer(verdict, *value)
    assert shop.run().status is State.DEAD
    shop.redrive(source)
    assert shop.run().status is State.WAITING
    assert shop.times("once other") == 0


def test_send_is_an_answer_to_an_orphan_question_alone(shop):
    shop.down = True
    shop.run(("once", "b"))
    with pytest.raises(AnswerRefused, match="say happened VALUE, not-happened"):
        shop.house.answer("send")
    shop.house.answer("happened", "done")
    shop.down = False
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.run(("once", "other"))
    with pytest.raises(AnswerRefused, match="send, skip, abort"):
        shop.house.answer("value", "send")


def test_a_cancel_after_a_redrive_holds_whatever_the_clock_says(shop):
    shop.run(("fail", "x"))
    shop.redrive("step")
    shop.house.clock._us -= 5_000_000  # set back
    shop.house.cancel("r")
    assert shop.run().status is State.CANCELLED
    shop.redrive("step")
    assert shop.run().status is State.DEAD, "and one before it does not hold any more"


@pytest.mark.parametrize(("verdict", "value", "expected"), [("skip", (), None), ("happened", ("that",), "that")])
def test_a_person_may_skip_it_or_say_that_the_earlier_one_was_this_one(shop, verdict, value, expected):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.run(("once", "other"))
    shop.house.answer(verdict, *value)
    receipt = shop.run()
    assert (receipt.status, receipt.value[-1], shop.times("once other")) == (State.COMPLETED, expected, 0)


def test_a_person_may_abort_it(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.run(("once", "other"))
    shop.house.answer("abort")
    receipt = shop.run()
    assert (receipt.status, receipt.failure.reason, shop.times("once other")) == (State.DEAD, "outcome.orphan", 0)


def test_a_keyed_call_beside_an_orphan_goes_on_with_a_gap(shop):
    shop.run(("keyed", "c"), ("fail", "x"))
    shop.redrive("checkpoint")
    receipt = shop.run(("keyed", "other"))
    assert receipt.status is State.COMPLETED
    assert "an earlier pass did" in receipt.gaps[0]


def test_a_tool_may_allow_it(shop):
    shop.run(("allowed", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    receipt = shop.run(("allowed", "other"))
    assert (receipt.status, receipt.gaps, len(receipt.orphans)) == (State.COMPLETED, [], 1)


def test_an_orphan_is_adopted_by_an_equal_call_that_comes_later(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.run(("once", "other"), ("once", "b"))
    shop.house.answer("send")
    receipt = shop.run()
    assert receipt.value[-2:] == ["once other", "once b"]
    assert (shop.times("once b"), receipt.orphans) == (1, [])


def test_a_third_pass_adopts_what_the_second_did_and_adopted(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    shop.plan = [("once", "b"), ("keyed", "c"), ("fail", "x")]
    assert shop.run().status is State.DEAD
    shop.redrive("checkpoint")
    receipt = shop.run(("once", "b"), ("keyed", "c"))
    assert receipt.value[-2:] == ["once b", "keyed c"]
    assert (shop.times("once b"), shop.times("keyed c"), receipt.orphans) == (1, 1, [])


def test_new_code_takes_on_a_run_that_waits_for_code(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.house.outside(lambda verbs: verbs.redrive("r"))
    assert shop.run(("read", "z"), ("once", "b")).status is State.WAITING
    shop.redrive("checkpoint")
    receipt = shop.run()
    assert (receipt.status, shop.times("once b")) == (State.COMPLETED, 1)


def test_drift_is_found_in_a_new_pass_too(shop):
    shop.run(("once", "b"), ("fail", "x"))
    shop.redrive("checkpoint")
    assert shop.run(("once", "b"), ("read", "q"), ("fail", "x")).status is State.DEAD
    shop.house.outside(lambda verbs: verbs.redrive("r"))
    receipt = shop.run(("read", "q"), ("once", "b"))
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")


def test_two_redrives_at_once_are_one(shop, monkeypatch):
    shop.run(("fail", "x"))

    def both(verbs):
        reopen = verbs.store.reopen

        def late(*args, **options):
            monkeypatch.setattr(verbs.store, "reopen", reopen)
            shop.redrive("checkpoint")
            return reopen(*args, **options)

        monkeypatch.setattr(verbs.store, "reopen", late)
        with pytest.raises(AnswerRefused, match="somebody else"):
            verbs.redrive("r", "checkpoint")

    shop.house.outside(both)


def test_a_completed_run_has_nothing_to_redrive(shop):
    shop.run(("read", "a"))
    for source in ("step", "checkpoint", "start"):
        with pytest.raises(AnswerRefused, match="completed"):
            shop.redrive(source)
    with pytest.raises(AnswerRefused):
        shop.redrive("noon")


def test_spent_stays_spent(shop):
    first = shop.run(("once", "b"), ("fail", "x")).spent.calls
    shop.redrive("start")
    assert shop.run(("once", "b")).spent.calls == first


def test_an_effect_that_a_saved_turn_has_shared_is_no_orphan_when_a_later_turn_that_shared_it_too_is_abandoned(house):
    ends = ["bug"]

    @house.tool
    def once() -> str:
        house.note("once")
        raise TimeoutError

    fail = house.tool(lambda: 1 / 0, effect=Effect.READ_ONLY, name="fail", retry=ONCE)

    @house.loop(name="turning")
    async def turning(run) -> int:
        async for state in house.turns(run, [0]):
            if ends == ["fine"]:
                break
            await got(once())
            if state[0]:
                await got(fail())
            state[0] += 1
        return 1

    def redriven(source: str):
        house.outside(lambda verbs: verbs.redrive("r", source))
        return house.run(turning.bind())

    assert house.run(turning.bind()).waits_for == "person"
    assert redriven("checkpoint").waits_for == "person"
    house.answer("skip")
    assert house.run(turning.bind()).status is State.DEAD
    assert house.done == ["once"]
    ends[0] = "fine"
    receipt = redriven("checkpoint")
    assert (receipt.status, receipt.orphans) == (State.COMPLETED, [])


def test_a_call_that_takes_a_free_slot_is_held_against_the_orphans_it_differs_from(house):
    """Of two calls for the same, side by side, one has not happened: its slot is free, that of the other an orphan."""
    plan = ["a", "a"]

    @house.tool(retry=ONCE)
    def once(what: str) -> str:
        nth = house.note(what)
        if what == "a" and nth == 1:
            raise reset()
        if what == "a" and nth == 3:
            raise refused()
        return what

    @house.loop(name="fans")
    async def fans(run) -> list[object]:
        async def one(what: str) -> str:
            return await got(once(what))

        said = [settled.value for settled in await got(run.map(house.fn(one), plan, limit=1))]
        if len(plan) == 2:
            await got(once("b"))
            raise ValueError("a bug")
        return said

    assert house.run(fans.bind()).waits_for == "person"
    house.answer("not-happened")
    assert house.run(fans.bind()).status is State.DEAD
    assert house.done == ["a", "a", "a", "b"]
    plan.pop()
    house.outside(lambda verbs: verbs.redrive("r", "start"))
    receipt = house.run(fans.bind())
    assert 'an earlier pass did once(what="b"); this one asks for once(what="a") instead.' in receipt.asks[-1].text
