from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.house import House, got
from yaoki import Effect
from yaoki.errors import StoreCorrupt
from yaoki.records import Checkpoint, State
from yaoki.runtime._history import History
from yaoki.runtime._states import Restored, delta_of, references_to

encode = msgspec.json.encode

KEYS = st.sampled_from(["$", "$$", "a", "b", 'q"', "é", "messages"])
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=80)
)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
STATES = st.dictionaries(KEYS, JSON, max_size=5) | st.lists(JSON, max_size=4)


def restored(old: bytes, new: bytes, results: dict[int, bytes]) -> bytes:
    delta = delta_of(old, new, references_to(results.items()))
    if delta is None:
        return new
    state = Restored(old)
    state.apply(delta, results.get)
    return bytes(state)


@given(STATES, STATES, JSON)
def test_any_state_comes_back_from_any_other(old, new, result):
    assert restored(encode(old), encode(new), {5: encode(result)}) == encode(new)


@given(st.dictionaries(KEYS, st.lists(JSON, max_size=3), min_size=1, max_size=4), st.data())
def test_what_was_appended_comes_back_also_where_it_is_a_result(state, data):
    old = encode(state)
    reply = {"text": "x" * 70, "message": {"role": "assistant", "content": "y" * 70}, "$": [1, "text"]}
    for name in state:
        state[name] += data.draw(st.lists(JSON | st.just(reply) | st.just(reply["message"]), max_size=3))
    assert restored(old, encode(state), {7: encode(reply)}) == encode(state)


def test_only_what_was_appended_is_stored_and_a_result_by_reference():
    message = {"role": "assistant", "content": "z" * 1_000}
    old = encode({"messages": [{"role": "user", "content": "u" * 5_000}], "turn": 1})
    new = encode({"messages": [{"role": "user", "content": "u" * 5_000}, message, "short"], "turn": 2})
    results = {9: encode({"message": message})}
    assert delta_of(old, new, references_to(results.items())) == (
        b'{"a":{"messages":[{"$":[9,"message"]},"short"]},"s":{"turn":2}}'
    )


def test_an_edit_in_place_is_stored_whole():
    old, new = encode({"m": ["a" * 100, "b"]}), encode({"m": ["A" * 100, "b", "c"]})
    assert b"A" * 100 in (delta_of(old, new, {}) or new)
    assert restored(old, new, {}) == new


def test_a_missing_result_is_never_taken_for_another():
    state = Restored(b"[]")
    with pytest.raises(LookupError, match="record 3"):
        state.apply(b'{"n":[{"$":[3]}]}', {}.get)


# --- through a run


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
