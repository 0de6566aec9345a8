"""A saved state through a run: what stands on disk, what is refused, what a resume finds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec
import pytest

from tests.runtime.house import House, got
from yaoki import Budget, Effect
from yaoki.errors import StoreCorrupt
from yaoki.records import Checkpoint, State
from yaoki.runtime._history import History

# --- what stands on disk


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path):
    return House(request.param, tmp_path)


def chat(house: House, turns: int, edit_at: int = -1):
    reply = house.tool(
        lambda turn: {"text": f"{turn} " + "w" * 1_000, "n": turn}, effect=Effect.READ_ONLY, name="reply"
    )

    @house.loop(name="chat")
    async def chat(run) -> int:
        async for state in house.turns(run, {"messages": [], "last": ""}):
            if len(state["messages"]) == turns:
                return sum(len(message["text"]) for message in state["messages"])
            said = await got(reply(len(state["messages"])))
            state["messages"].append(said)
            state["last"] = said["text"]
            if len(state["messages"]) == edit_at:
                state["messages"][0]["text"] = "edited"
        return -1

    return chat


def checkpoints(house: House) -> list[Checkpoint]:
    return house.records(Checkpoint)


def test_a_reply_that_is_kept_in_the_state_is_on_disk_once(house):
    assert house.run(chat(house, 30).bind()).status is State.COMPLETED
    found = checkpoints(house)
    assert [record.form for record in found] == ["base"] + ["delta"] * 29
    assert max(len(bytes(record.state)) for record in found[1:]) < 80


def test_a_state_edited_in_place_is_saved_as_it_is(house):
    one = chat(house, 12, edit_at=6)
    receipt = house.run(one.bind(), restart_at_checkpoint=True)
    again = House(house.kind, house.path)
    assert receipt.value == again.run(chat(again, 12, edit_at=6).bind()).value
    assert receipt.value == len("edited") + sum(len(f"{n} ") + 1_000 for n in range(1, 12))


def test_a_saved_state_whose_parts_do_not_fit_is_refused(house):
    house.run(chat(house, 5).bind())
    entries = house.journal()
    whole = History.of(entries).state
    assert whole is not None
    assert msgspec.json.decode(whole)["last"].startswith("4 ")
    torn = [entry for entry in entries if not (isinstance(entry.record, Checkpoint) and entry.record.turn == 3)]
    with pytest.raises(StoreCorrupt, match="turn 5 cannot be put together"):
        assert History.of(torn).state


def test_a_thousand_turns_take_little_more_room_than_their_replies(tmp_path):
    house = House("sync", tmp_path)
    loop = chat(house, 199)
    assert house.run(loop.bind()).status is State.COMPLETED
    size = sum(len(bytes(record.state)) for record in checkpoints(house))
    assert size < 199 * 100 + 2_100, "a checkpoint costs the same at every turn"


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("size", [10, 10_000])
def test_a_null_of_the_state_that_became_no_number_is_refused(house, wrong, size):
    @house.loop
    async def work(run) -> int:
        async for state in house.turns(run, {"text": "t" * size, "score": None, "n": 0}):
            state["n"] += 1
            if state["n"] == 3:
                state["score"] = wrong
        return 0

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert f"value['score'] is {wrong!r}: JSON has no such number" in receipt.text
    assert len(checkpoints(house)) == 2


def test_no_number_is_refused_in_what_is_new(house):
    @house.loop
    async def work(run) -> int:
        async for state in house.turns(run, {"text": "t" * 200, "scores": []}):
            state["scores"].append(math.nan if len(state["scores"]) == 2 else 0.5)
        return 0

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "value['scores'][2] is nan: JSON has no such number" in receipt.text
    assert [record.turn for record in checkpoints(house)] == [1, 2]


@pytest.mark.parametrize("wrong", [math.nan, "no number"])
def test_what_is_new_and_would_not_come_back_is_refused_at_the_turn_that_did_it(house, wrong):
    @house.loop
    async def work(run) -> int:
        async for state in house.turns(run, Scores()):
            state.text = "t" * 200
            state.scores.append(wrong if len(state.scores) == 2 else 0.5)
        return 0

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "JSON has no such number" in receipt.text or "does not come back as a Scores" in receipt.text
    assert [record.turn for record in checkpoints(house)] == [1, 2]


@dataclass
class Scores:
    scores: list[float] = field(default_factory=list)
    text: str = ""


def test_a_state_may_refer_to_the_prelude_of_its_own_pass_alone(house):
    reply = house.tool(lambda n: f"{n} " + "w" * 1_000, effect=Effect.READ_ONLY, name="reply")

    @house.loop(budget=Budget(turns=9), name="work")
    async def work(run) -> int:
        first = await got(reply(0))
        async for state in house.turns(run, {"n": 0, "kept": []}):
            if state["n"] in (3, 5) and house.note(f"turn {state['n']}") == 1:
                raise ValueError("over")
            state["n"] += 1
            state["kept"].append(first)
        return len(state["kept"])

    assert "over" in house.run(work.bind()).text
    assert max(len(bytes(record.state)) for record in checkpoints(house)[1:]) < 60
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    assert "over" in house.run(work.bind()).text
    assert [record.form for record in checkpoints(house)] == ["base"] + ["delta"] * 4
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    assert house.run(work.bind()).partial == 9
    assert msgspec.json.decode(History.of(house.journal()).state or b"")["kept"] == ["0 " + "w" * 1_000] * 8
