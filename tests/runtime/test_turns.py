"""`run.turns`: what is saved, where a resume starts, and what is refused (SEMANTICS section 5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from tests.runtime.house import House, got
from yaoki import Budget, Effect, StateError, StepFailed
from yaoki.records import Checkpoint, State

READ = Effect.READ_ONLY


@dataclass
class Chat:
    messages: list[str] = field(default_factory=list)
    n: int = 0


class ChatStruct(msgspec.Struct):
    messages: list[str] = []
    n: int = 0


class ChatModel(pydantic.BaseModel):
    messages: list[str] = []
    n: int = 0


@dataclass(frozen=True)
class Frozen:
    n: int = 0


class FrozenStruct(msgspec.Struct, frozen=True):
    n: int = 0


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    n: int = 0


class Pair(NamedTuple):
    a: int


class Color(Enum):
    RED = 1


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        if house.note(f"step {n}") == 1 and n == 99:
            house.kill()
        return n

    return step


def saved(house: House) -> list[tuple[int, Any]]:
    return [(c.turn, msgspec.json.decode(c.state)) for c in house.records(Checkpoint)]


# --- what is saved


def test_the_state_is_saved_after_each_body_that_falls_through_or_continues(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 2:
                continue
            if chat.n == 4:
                break
            chat.messages.append("fell through")
        return chat.n

    receipt = house.run(work.bind())
    assert receipt.unwrap() == 4
    assert saved(house) == [
        (1, {"messages": ["fell through"], "n": 1}),
        (2, {"messages": ["fell through"], "n": 2}),
        (3, {"messages": ["fell through"] * 2, "n": 3}),
    ]
    assert receipt.spent.turns == 4


@pytest.mark.parametrize("leave", ["break", "return", "exception"])
def test_leaving_saves_nothing_and_that_turn_stays_open(house, leave):
    step = step_of(house)

    @house.loop
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 2:
                if leave == "break":
                    break
                if leave == "return":
                    await got(step(99))
                    return "out"
                raise ValueError("out of here")
        await got(step(99))
        return "out"

    if leave == "exception":
        receipt = house.run(work.bind())
        assert receipt.status is State.DEAD
        assert "out of here" in receipt.failure.message
    else:
        assert house.die(work.bind()) == -9
        receipt = house.run(work.bind())
        assert receipt.unwrap() == "out"
        assert house.done == ["step 1", "step 2", "step 99", "step 99"]
    assert [turn for turn, _ in saved(house)] == [1]


def test_a_resume_starts_at_the_last_saved_turn(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list[str]:
        async for chat in house.turns(run, Chat()):
            house.note(f"turn {chat.n + 1} starts with {len(chat.messages)}")
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 3:
                await got(step(99))
                return chat.messages
            chat.messages.append(f"m{chat.n}")
        return []

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == ["m1", "m2"]
    assert house.done.count("turn 1 starts with 0") == 1
    assert house.done.count("turn 3 starts with 2") == 2
    assert house.done.count("step 3") == 1


def test_exhaustion_caps_the_run_with_what_the_loop_returns_as_its_partial_value(house):
    step = step_of(house)

    @house.loop(budget=Budget(turns=3))
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
        return f"stopped at {chat.n}"

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.stopped_by == "budget.turns"
    assert receipt.partial == receipt.unwrap() == "stopped at 3"
    assert receipt.value is None
    assert [turn for turn, _ in saved(house)] == [1, 2]


def test_the_last_turn_is_replayed_since_it_was_not_checkpointed(house):
    step = step_of(house)

    @house.loop(budget=Budget(turns=2))
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
        await got(step(99))
        return f"stopped at {chat.n}"

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.partial == "stopped at 2"
    assert house.done == ["step 1", "step 2", "step 99", "step 99"]


def test_a_run_that_ends_within_its_turns_is_completed(house):
    @house.loop(budget=Budget(turns=2))
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            if chat.n == 2:
                break
        return chat.n

    assert house.run(work.bind()).status is State.COMPLETED


def test_no_turns_at_all_is_capped_at_once(house):
    @house.loop(budget=Budget(turns=0))
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
        return "none"

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.partial == "none"


# --- what a state may be


@pytest.mark.parametrize(
    ("default", "change", "expected"),
    [
        (Chat(), lambda s: s.messages.append("x"), {"messages": ["x"], "n": 0}),
        (ChatStruct(), lambda s: s.messages.append("x"), {"messages": ["x"], "n": 0}),
        (ChatModel(), lambda s: s.messages.append("x"), {"messages": ["x"], "n": 0}),
        ([1], lambda s: s.append(2), [1, 2]),
        ({"a": 1}, lambda s: s.update(b=2), {"a": 1, "b": 2}),
        ({1, 2}, lambda s: s.add(3), [1, 2, 3]),
    ],
    ids=["dataclass", "struct", "pydantic", "list", "dict", "set"],
)
def test_a_state_is_changed_in_place_and_comes_back_as_its_type(house, default, change, expected):
    step = step_of(house)

    @house.loop
    async def work(run) -> str:
        turn = 0
        async for state in house.turns(run, default):
            if run.now() and turn == 0 and state != default:
                await got(step(99))
                return type(state).__name__
            change(state)
            turn += 1
            if turn == 2:
                await got(step(99))
                return type(state).__name__
        return ""

    assert house.die(work.bind()) == -9
    [(turn, value)] = saved(house)
    assert turn == 1
    assert (sorted(value) if isinstance(default, set) else value) == expected
    assert house.run(work.bind()).unwrap() == type(default).__name__


def test_the_default_itself_is_never_changed(house):
    default = Chat()

    @house.loop
    async def work(run) -> int:
        async for chat in house.turns(run, default):
            chat.n += 1
            if chat.n == 2:
                break
        return chat.n

    assert house.run(work.bind()).unwrap() == 2
    assert default == Chat()


@pytest.mark.parametrize(
    "default",
    ["text", 3, 2.5, None, True, (1, 2), frozenset({1}), b"x", Frozen(), FrozenStruct(), FrozenModel(), Pair(1), Color.RED],
    ids=lambda d: type(d).__name__,
)
def test_an_immutable_state_is_refused_and_says_what_to_use(house, default):
    @house.loop
    async def work(run) -> str:
        try:
            house.turns(run, default)
        except StateError as error:
            return str(error)
        return "accepted"

    said = house.run(work.bind()).unwrap()
    assert said == (
        f"run r: run.turns needs a state that is changed in place; {type(default).__name__} is immutable. "
        "Use a dataclass, a msgspec Struct, a pydantic model, a list or a dict."
    )


def test_a_state_that_cannot_be_saved_is_refused(house):
    class Socket:
        pass

    @house.loop
    async def work(run) -> str:
        try:
            house.turns(run, Socket())
        except StateError as error:
            return str(error)
        return "accepted"

    assert "a state of type Socket cannot be saved" in house.run(work.bind()).unwrap()


def test_a_state_that_became_unsaveable_is_an_error_that_names_the_place(house):
    @house.loop
    async def work(run) -> int:
        async for state in house.turns(run, {"a": 1}):
            state["a"] = object()
        return 1

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "the state cannot be saved" in receipt.text
    assert "['a']" in receipt.text


def test_rebinding_the_state_is_an_error_that_teaches(house):
    @house.loop
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat = Chat(n=chat.n + 1)  # noqa: PLW2901 - the mistake under test
        return 1

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.failure.reason == "state"
    assert "run r, turn 1: the state was replaced by another object, which would be lost" in receipt.text
    assert "Change it in place" in receipt.text


def test_a_state_kept_elsewhere_too_is_no_rebinding(house):
    @house.loop(budget=Budget(turns=4))
    async def work(run) -> int:
        kept = []
        async for chat in house.turns(run, Chat()):
            kept.append(chat)
            chat.n += 1
        return chat.n

    assert house.run(work.bind()).partial == 4


def test_a_helper_may_change_the_state(house):
    def helper(chat: Chat) -> None:
        chat.n += 1

    @house.loop(budget=Budget(turns=3))
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            helper(chat)
        return chat.n

    assert house.run(work.bind()).partial == 3


# --- one turns, no open steps


def test_a_second_turns_is_refused(house):
    @house.loop
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            break
        try:
            house.turns(run, Chat())
        except StateError as error:
            return str(error)
        return "accepted"

    assert "a second run.turns; a run has one" in house.run(work.bind()).unwrap()


def test_turns_in_a_branch_are_refused(house):
    @house.loop
    async def work(run) -> str:
        with run.scope("side"):
            try:
                house.turns(run, Chat())
            except StateError as error:
                return str(error)
        return "accepted"

    assert "turns belong to the loop itself" in house.run(work.bind()).unwrap()


def test_a_checkpoint_with_open_steps_is_refused(async_house):
    house = async_house

    @house.tool(effect=READ)
    async def slow() -> int:
        await asyncio.sleep(5)
        return 1

    @house.loop
    async def work(run) -> int:
        async for chat in run.turns(Chat()):
            chat.n += 1
            left = asyncio.ensure_future(slow())
            await asyncio.sleep(1)
            if chat.n == 2:
                return await left
        return 0

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "steps are still open at the end of the turn; await them first" in receipt.text


# --- the prelude


def test_the_prelude_is_journaled_once_and_replayed_on_every_resume(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list[int]:
        first = await got(step(0))
        began = run.now().timestamp()
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 3:
                await got(step(99))
                return [first, int(run.now().timestamp() - began)]
        return []

    assert house.die(work.bind()) == -9
    house.later(100)
    first, passed = house.run(work.bind()).unwrap()
    assert first == 0
    assert passed >= 100
    assert house.done == ["step 0", "step 1", "step 2", "step 3", "step 99", "step 99"]


def test_a_changed_prelude_is_parked_for_code_after_a_checkpoint_too(house):
    step = step_of(house)

    def made(n):
        @house.loop(name="work")
        async def work(run) -> int:
            await got(step(n))
            async for chat in house.turns(run, Chat()):
                chat.n += 1
                if chat.n == 2:
                    return await got(step(99))
            return 0

        return work

    assert house.die(made(0).bind()) == -9
    receipt = house.run(made(7).bind())
    assert receipt.waits_for == "code"
    assert "step 7" not in house.done
    assert house.run(made(0).bind()).unwrap() == 99


def test_code_before_the_checkpoint_may_change(house):
    """What lies before the checkpoint is not replayed."""
    step = step_of(house)

    def made(n):
        @house.loop(name="work")
        async def work(run) -> int:
            async for chat in house.turns(run, Chat()):
                chat.n += 1
                if chat.n == 1:
                    await got(step(n))
                if chat.n == 2:
                    return await got(step(99))
            return 0

        return work

    assert house.die(made(0).bind()) == -9
    assert house.run(made(7).bind()).unwrap() == 99


def test_steps_left_out_of_the_open_turn_are_parked_at_its_end(house):
    step = step_of(house)

    def made(n):
        @house.loop(name="work")
        async def work(run) -> int:
            async for chat in house.turns(run, Chat()):
                chat.n += 1
                for i in range(n):
                    await got(step(i))
                if n == 3:
                    await got(step(99))
                if chat.n == 2:
                    return 5
            return 0

        return work

    assert house.die(made(3).bind()) == -9
    receipt = house.run(made(2).bind())
    assert receipt.waits_for == "code"
    assert "the end of turn 1" in receipt.text
    assert saved(house) == []


# --- slots over checkpoints


def test_an_equal_call_in_a_later_turn_is_another_action(house):
    from yaoki import INJECTED

    @house.tool(effect=Effect.KEYED)
    def pay(order: str, *, idempotency_key: str = INJECTED) -> str:
        if house.note(f"key {idempotency_key}") == 1 and len(house.done) == 3:
            house.kill()
        return idempotency_key

    @house.loop(budget=Budget(turns=4))
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat.messages.append(await got(pay("A")))
        return len(set(chat.messages))

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).partial == 4
    assert len(house.done) == 5
    assert len(set(house.done)) == 4


# --- the test mode


@pytest.mark.parametrize("restart", [False, True])
def test_restart_at_checkpoint_re_enters_from_decoded_state_at_every_turn(house, restart):
    seen: list[bool] = []

    @house.loop(budget=Budget(turns=3))
    async def work(run) -> int:
        previous = None
        async for chat in house.turns(run, Chat()):
            seen.append(chat is previous)
            previous = chat
            chat.n += 1
        return chat.n

    assert house.run(work.bind(), restart_at_checkpoint=restart).partial == 3
    assert seen == [False, not restart, not restart]


def test_a_failure_in_a_turn_can_be_caught_and_the_turn_is_saved(house):
    @house.tool(effect=READ)
    def bad(n: int) -> int:
        house.note("bad")
        raise ValueError("no")

    @house.loop(budget=Budget(turns=2))
    async def work(run) -> list[str]:
        async for chat in house.turns(run, Chat()):
            try:
                await got(bad(chat.n))
            except StepFailed as error:
                chat.messages.append(error.failure.kind)
        return chat.messages

    receipt = house.run(work.bind())
    assert receipt.partial == ["unknown", "unknown"] or receipt.partial == ["programming", "programming"]
    assert len(house.done) == 2
    assert len(receipt.failures) == 2
