"""What a state may be, and the misuse of `run.turns` that is refused (docs/guarantees.md, "Identity and replay")."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from tests.runtime.house import House, got
from yaoki import Budget, Effect, StateError
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
    [
        "text",
        3,
        2.5,
        None,
        True,
        (1, 2),
        frozenset({1}),
        b"x",
        Frozen(),
        FrozenStruct(),
        FrozenModel(),
        Pair(1),
        Color.RED,
    ],
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
