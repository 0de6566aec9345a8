"""
What is tried when a ladder ends, in order: another tool, an earlier value, a value written in advance.

The rules: docs/guarantees.md, "When the ladder ends".
"""

from __future__ import annotations

import pytest

from tests.runtime.errors import refused, reset
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, DeclarationError, Effect, FailureKind, Retry, StepFailed, TerminalError, loop, tool
from yaoki.escalate import abort, ask, cached, compensate, dead_letter, degrade, fallback
from yaoki.records import Adopt, Begin, State

TWICE = Retry(attempts_max=2, base_s=0.001, cap_s=0.002)


def one_call(house: House, made):
    """Return a loop that makes one call and says how it ended."""

    @house.loop
    async def work(run) -> str:
        try:
            return await got(made("A"))
        except StepFailed as error:
            return f"failed: {error.failure.reason}"

    return work


def failing(house: House, name: str, error, *, value: str = "", **policy):
    """Make a tool that notes its call, and raises, or returns a value."""

    @house.tool(**{"effect": Effect.READ_ONLY, "retry": TWICE, "name": name, **policy})
    def call(order: str) -> str:
        house.note(name)
        if error is None:
            return value or name
        raise error() if callable(error) else error

    return call


def keyed(house: House, name: str, error, **policy):
    @house.tool(effect=Effect.KEYED, retry=TWICE, name=name, **policy)
    def call(order: str, *, idempotency_key: str = INJECTED) -> str:
        house.note(f"{name} {idempotency_key}")
        if error is None:
            return name
        raise error()

    return call


# --- fallback


def test_when_a_ladder_ends_the_next_tool_is_tried_and_then_the_next(house):
    c = failing(house, "c", None)
    b = failing(house, "b", refused)
    a = failing(house, "a", refused, escalate=[fallback(b, c)])
    receipt = house.run(one_call(house, a).bind())
    assert receipt.value == "c"
    assert house.done == ["a", "a", "b", "b", "c"]
    assert [(one.rung, one.tool, one.attempt) for one in house.records(Begin)] == [
        (0, "", 1),
        (0, "", 2),
        (1, "b", 1),
        (1, "b", 2),
        (2, "c", 1),
    ]


def test_the_next_step_starts_with_the_first_tool_again(house):
    b = failing(house, "b", None)
    a = failing(house, "a", refused, escalate=[fallback(b)])

    @house.loop
    async def work(run) -> list[str]:
        return [await got(a("A")), await got(a("B"))]

    assert house.run(work.bind()).value == ["b", "b"]
    assert house.done == ["a", "a", "b"] * 2


def test_never_while_the_action_is_in_doubt(house):
    """A fallback to vendor B after a timeout at vendor A is a double charge."""
    b = keyed(house, "b", None)
    a = keyed(house, "a", reset, escalate=[fallback(b)])
    receipt = house.run(one_call(house, a).bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "person")
    assert not [line for line in house.done if line.startswith("b")]
    house.answer("not-happened")
    receipt = house.run(one_call(house, a).bind())  # one more attempt, in doubt again
    assert receipt.waits_for == "person"
    house.answer("happened", "found it")
    assert house.run(one_call(house, a).bind()).value == "found it"


def test_each_member_has_a_key_of_its_own_and_keeps_it(house):
    b = keyed(house, "b", refused, escalate=[abort()])
    a = keyed(house, "a", refused, escalate=[fallback(b)])
    assert house.run(one_call(house, a).bind()).value.startswith("failed")
    first, again, second, second_again = (line.split()[1] for line in house.done)
    assert first == again
    assert second == second_again
    assert first != second
    direct = one_call(house, b)
    house.run(direct.bind(), run_id="r2")
    assert house.done[-1].split()[1] not in (first, second)


def test_the_members_own_check_settles_its_doubt(house):
    from yaoki import Happened

    @house.check
    def was_made(order: str) -> Happened[str]:
        house.note("checked b")
        return Happened("made before")

    @house.tool(check=was_made, check_after_s=0, retry=TWICE)
    def b(order: str) -> str:
        house.note("b")
        raise reset()

    a = failing(house, "a", refused, effect=Effect.IDEMPOTENT, escalate=[fallback(b)])
    assert house.run(one_call(house, a).bind()).value == "made before"
    assert house.done == ["a", "a", "b", "checked b"]


def test_failures_that_do_not_move_on_pass_the_rung_over(house):
    b = failing(house, "b", None)
    only = fallback(b, on=[FailureKind.OVERLOADED])
    a = failing(house, "a", refused, escalate=[only, degrade("nothing")])
    assert house.run(one_call(house, a).bind()).value == "nothing"
    assert "b" not in house.done


def test_a_bug_is_not_hidden_by_another_tool(house):
    b = failing(house, "b", None)
    a = failing(house, "a", lambda: TypeError("a bug"), escalate=[fallback(b)])
    assert house.run(one_call(house, a).bind()).value.startswith("failed")
    assert house.done == ["a"]


def test_a_member_whose_scope_is_what_failed_is_passed_over(house):
    """A refused connection says that the vendor is not there; its other model is not, either."""
    same = failing(house, "same", None, scope="acme/small")
    other = failing(house, "other", None, scope="globex/large")
    a = failing(house, "a", refused, scope="acme/large", escalate=[fallback(same, other)])
    assert house.run(one_call(house, a).bind()).value == "other"
    assert house.done == ["a", "a", "other"]


def test_the_same_tool_with_other_arguments(house):
    @house.tool(effect=Effect.READ_ONLY, retry=TWICE, escalate=[fallback(model="small")])
    def think(text: str, model: str = "large") -> str:
        house.note(model)
        if model == "large":
            raise refused()
        return f"{model}: {text}"

    @house.loop
    async def work(run) -> str:
        return await got(think("x"))

    receipt = house.run(work.bind())
    assert receipt.value == "small: x"
    assert house.records(Begin)[-1].call == 'think(text="x", model="small")'


def test_the_one_that_was_begun_stays_chosen_after_a_death(house):
    @house.tool(effect=Effect.READ_ONLY, retry=TWICE)
    def b(order: str) -> str:
        if house.note("b") == 1:
            house.kill()
        return "b"

    a = failing(house, "a", refused, escalate=[fallback(b)])
    work = one_call(house, a)
    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).value == "b"
    assert house.done == ["a", "a", "b", "b"]


def test_a_member_that_the_code_has_lost_is_left_for_the_next_rung(house):
    @house.tool(effect=Effect.READ_ONLY, retry=TWICE, name="b")
    def b(order: str) -> str:
        house.note("b")
        house.kill()

    a = failing(house, "a", refused, escalate=[fallback(b), degrade("nothing")])
    assert house.die(one_call(house, a).bind()) == -9
    renamed = failing(house, "other", None)
    changed = failing(house, "a", refused, escalate=[fallback(renamed), degrade("nothing")])
    assert house.run(one_call(house, changed).bind()).value == "nothing"
    assert "other" not in house.done


def test_a_redrive_starts_with_the_first_tool_and_its_key(house):
    b = keyed(house, "b", refused)
    a = keyed(house, "a", refused, escalate=[fallback(b), dead_letter()])
    work = one_call(house, a)
    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).status is State.DEAD
    names = [line.split()[0] for line in house.done]
    assert names == ["a", "a", "b", "b"] * 2
    assert len({line for line in house.done if line.startswith("a")}) == 1


def test_an_exhausted_budget_of_one_vendor_goes_on_at_another(house):
    import httpx

    def no_quota() -> Exception:
        request = httpx.Request("POST", "https://api.openai.com/v1/responses")
        body = {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "quota"}}
        return httpx.HTTPStatusError("429", request=request, response=httpx.Response(429, json=body, request=request))

    b = failing(house, "b", None, scope="globex")
    a = failing(house, "a", no_quota, scope="acme", escalate=[fallback(b)])
    assert house.run(one_call(house, a).bind()).value == "b"
    assert house.done == ["a", "b"]


# --- cached and degraded values


def test_a_cached_value_stands_in(house):
    a = failing(house, "a", refused, escalate=[cached(house.check(lambda order: f"{order} of yesterday"))])
    receipt = house.run(one_call(house, a).bind())
    assert (receipt.value, receipt.gaps) == ("A of yesterday", [])


@pytest.mark.parametrize("error", [KeyError("A"), ValueError("no cache"), refused()])
def test_a_cache_that_has_nothing_leaves_it_to_the_next_rung(house, error):
    def look(order: str) -> str:
        raise error

    a = failing(house, "a", refused, escalate=[cached(house.check(look)), degrade("nothing")])
    assert house.run(one_call(house, a).bind()).value == "nothing"


def test_a_cached_value_of_another_type_is_none(house):
    a = failing(house, "a", refused, escalate=[cached(house.check(lambda order: 7)), degrade("nothing")])
    assert house.run(one_call(house, a).bind()).value == "nothing"


def test_a_cached_value_is_read_once_and_replayed(house):
    @house.check
    def look(order: str) -> str:
        return f"{house.note('looked')}"

    a = failing(house, "a", refused, escalate=[cached(look, gap="as of yesterday")])

    @house.tool(effect=Effect.READ_ONLY)
    def stop() -> None:
        if house.note("stop") == 1:
            house.kill()

    @house.loop
    async def work(run) -> str:
        value = await got(a("A"))
        await got(stop())
        return value

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert (receipt.value, receipt.gaps) == ("1", ["as of yesterday"])


def test_a_degraded_value_notes_its_gap_and_the_model_is_told(house):
    a = failing(house, "a", refused, escalate=[degrade("nothing", gap="no prices today")])

    @house.loop
    async def work(run) -> list[str]:
        results = await got(run.call_tools(box(a), calls(("a", {"order": "A"}))))
        return [f"{one.text}|{one.value}|{one.is_error}" for one in results]

    receipt = house.run(work.bind())
    assert receipt.value == ["nothing\n[no prices today]|nothing|False"]
    assert receipt.gaps == ["no prices today"]
    assert [one.failure.reason for one in receipt.failures] == ["os.ECONNREFUSED"] * 2


def test_a_gap_is_written_from_the_failure_when_none_is_given(house):
    a = failing(house, "a", TerminalError("the shop is closed"), escalate=[degrade("nothing")])
    (gap,) = house.run(one_call(house, a).bind()).gaps
    assert gap.startswith('a(order="A"): ')
    assert "the shop is closed" in gap


def test_what_was_degraded_did_not_happen_and_is_made_with_the_same_key_later(house):
    @house.tool(effect=Effect.KEYED, retry=TWICE, escalate=[degrade("later")])
    def send(order: str, *, idempotency_key: str = INJECTED) -> str:
        if house.note(idempotency_key) <= 2:
            raise refused()
        return "sent"

    @house.loop
    async def work(run) -> list[str]:
        return [await got(send("A")), await got(send("A"))]

    assert house.run(work.bind()).value == ["later", "sent"]
    assert len(set(house.done)) == 1
    assert [one.source for one in house.records(Adopt)] == ["degrade"]


def test_the_loops_rungs_are_for_tools_without_their_own(house):
    a = failing(house, "a", refused)

    @house.loop(escalate=[degrade("nothing")])
    async def work(run) -> str:
        return await got(a("A"))

    assert house.run(work.bind()).value == "nothing"


def test_a_person_is_asked_between_two_rungs(house):
    b = failing(house, "b", None)
    a = failing(house, "a", refused, escalate=[ask("Really?"), fallback(b)])
    work = one_call(house, a)
    receipt = house.run(work.bind())
    assert (receipt.waits_for, receipt.text) == ("person", "Really?")
    house.answer("not-happened")
    assert house.run(work.bind()).value == "b"
    assert house.done == ["a", "a", "a", "b"]


# --- declarations


def other_parameters(item: str) -> str:
    return item


@pytest.mark.parametrize(
    ("rungs", "said"),
    [
        ([fallback(other_parameters)], "decorate it with @tool"),
        ([fallback(tool(effect=Effect.READ_ONLY)(other_parameters))], "takes other arguments"),
        ([fallback(colour="red")], "does not take: colour"),
        ([degrade(7)], "no value of its type"),
        ([degrade("x"), ask()], "never reached"),
        ([dead_letter(), fallback(colour="red")], "never reached"),
        ([abort()] * 40, "never reached"),
        ([fallback(order=str(n)) for n in range(40)], "32 is the most"),
        (["fallback"], "yaoki.escalate offers"),
    ],
)
def test_rungs_that_cannot_work_are_refused(rungs, said):
    with pytest.raises(DeclarationError, match=said):

        @tool(effect=Effect.READ_ONLY, escalate=rungs)
        def a(order: str) -> str:
            return order


def test_a_fallback_to_nothing_and_for_no_failure_are_refused():
    with pytest.raises(DeclarationError, match="name the tool"):
        fallback()
    with pytest.raises(DeclarationError, match="never moves on"):
        fallback(model="x", on=[])
    with pytest.raises(DeclarationError, match="FailureKind"):
        fallback(model="x", on=["sometimes"])


def test_a_loop_refuses_the_rungs_of_one_tool():
    with pytest.raises(DeclarationError, match="belongs to one tool"):

        @loop(escalate=[cached(lambda order: order)])
        def work(run) -> None: ...


def test_an_async_tool_refuses_a_plain_fallback():
    plain = tool(effect=Effect.READ_ONLY)(other_parameters)
    with pytest.raises(DeclarationError, match="make them alike"):

        @tool(effect=Effect.READ_ONLY, escalate=[fallback(plain)])
        async def a(item: str) -> str:
            return item


def test_an_undo_does_not_compensate():
    with pytest.raises(DeclarationError, match="undo"):

        @tool(escalate=[compensate()], name="x.undo")
        def a(item: str) -> str:
            return item
