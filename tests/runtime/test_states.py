"""A saved state as deltas: it comes back as it was, whatever was done to it, and costs what is new."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from yaoki.errors import StoreCorrupt
from yaoki.records import Checkpoint
from yaoki.runtime._saved import REPLACED_TIMES, Saved
from yaoki.runtime._states import Change, Whole
from yaoki.runtime._stored import references_in, resolved

encode = msgspec.json.encode

KEYS = st.sampled_from(["$", "$$", "", "a", "b", 'q"', "é", "messages"])
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=80)
)
REPLY: dict[str, Any] = {
    "text": "x" * 70,
    "message": {"role": "assistant", "content": "y" * 70},
    "$": [1, "text"],
    "list": ["z" * 70],
}
JSON = st.recursive(
    PLAIN | st.sampled_from([REPLY, *REPLY.values()]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
STATES = st.dictionaries(KEYS, JSON, max_size=5) | st.lists(JSON, max_size=4)


def change(old: bytes, new: bytes, results: dict[int, bytes]) -> Change | None:
    references: dict[bytes, bytes] = {}
    for seq, value in results.items():
        references = {**references_in(seq, value), **references}
    return Whole(old).change_to(new, references)


def restored(old: bytes, new: bytes, results: dict[int, bytes]) -> bytes:
    found = change(old, new, results)
    if found is None:
        return new
    state = Whole(old)
    state.apply(resolved(found.delta, results.get))
    return bytes(state)


@given(STATES, STATES, JSON)
def test_any_state_comes_back_from_any_other(old, new, result):
    assert restored(encode(old), encode(new), {5: encode(result)}) == encode(new)


@given(st.dictionaries(KEYS, st.lists(JSON, max_size=3), min_size=1, max_size=4), st.data())
def test_what_was_appended_comes_back_also_where_it_is_a_result(state, data):
    old = encode(state)
    for name in state:
        state[name] += data.draw(st.lists(JSON, max_size=3))
    assert restored(old, encode(state), {7: encode(REPLY)}) == encode(state)


# --- any edits, turn after turn


def copied(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Return what can be edited in place: each container with each key or index it has."""
    if not isinstance(value, list | dict):
        return []
    inside = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [(value, at) for at, _ in inside] + [place for _, item in inside for place in places_in(item)]


def edit(state: Any, data: Any) -> None:
    """Do one thing to a state, anywhere in it."""
    places = places_in(state)
    target = data.draw(st.sampled_from([state, *(one[at] for one, at in places if isinstance(one[at], list | dict))]))
    how = data.draw(st.sampled_from(["add", "add", "set", "remove", "turn round"]))
    if how == "add" and isinstance(target, list):
        target.append(copied(data.draw(JSON)))
    elif how == "add":
        target[data.draw(KEYS)] = copied(data.draw(JSON))
    elif how == "turn round" and isinstance(target, list):
        target.reverse()
    elif how == "turn round":
        items = list(target.items())
        target.clear()
        target.update(reversed(items))
    elif places:
        one, at = data.draw(st.sampled_from(places))
        if how == "set":
            one[at] = copied(data.draw(JSON))
        else:
            del one[at]


@settings(max_examples=200)
@given(STATES, st.data())
def test_a_state_edited_in_any_way_at_every_turn_is_always_the_one_that_comes_back(state, data):
    state = copied(state)
    live = Saved()
    written: list[tuple[Checkpoint, list[tuple[int, Raw]]]] = []
    for turn in range(1, data.draw(st.integers(1, 12)) + 1):
        for _ in range(data.draw(st.integers(0, 3))):
            edit(state, data)
        results = [(3 * turn, Raw(encode(REPLY))), (3 * turn + 1, Raw(encode(data.draw(JSON))))]
        whole = encode(state)
        record, parts = live.record(whole, at=1, turn=turn, results=lambda results=results: results)
        assert (parts is None) == (record.form == "base")
        written.append((msgspec.json.decode(encode(record), type=Checkpoint), results))
        live.take(record, lambda results=results: results)
        assert live.whole() == whole
    loaded = Saved()
    for record, results in written:
        loaded.take(record, lambda results=results: results)
    assert loaded.whole() == encode(state)


# --- what is stored


def test_only_what_was_appended_is_stored_and_a_result_by_reference():
    message = {"role": "assistant", "content": "z" * 1_000}
    old = encode({"messages": [{"role": "user", "content": "u" * 5_000}], "turn": 1})
    new = encode({"messages": [{"role": "user", "content": "u" * 5_000}, message, "short"], "turn": 2})
    found = change(old, new, {9: encode({"message": message})})
    assert found is not None
    assert found.delta == b'{"a":{"messages":[{"$":[9,"message"]},"short"]},"s":{"turn":2}}'
    assert found.parts == [("messages", "a", encode([message, "short"])), ("turn", "s", b"2")]


def test_in_an_object_of_the_state_only_what_changed_is_stored():
    old = {"plan": {"steps": ["s" * 500], "at": {"n": 1, "note": "t" * 500}}}
    new = {"plan": {"steps": ["s" * 500, "next"], "at": {"n": 2, "note": "t" * 500}}}
    found = change(encode(old), encode(new), {})
    assert found is not None
    assert found.delta == b'{"i":{"plan":{"a":{"steps":["next"]},"i":{"at":{"s":{"n":2}}}}}}'


def test_a_list_grown_in_many_turns_is_still_told_by_what_it_has_more():
    state = Whole(b'{"m":[]}')
    for n in range(1_000):
        found = state.change_to(encode({"m": list(range(n + 1))}), {})
        if n < 20:  # short of this the state is no longer than its delta
            state = Whole(encode({"m": list(range(n + 1))}))
            continue
        assert found is not None
        assert found.parts == [("m", "a", b"[%d]" % n)]
        state.apply(resolved(found.delta, {}.get))
    assert bytes(state) == encode({"m": list(range(1_000))})


@pytest.mark.parametrize(
    ("more", "grown"), [(b"112,3", False), (b"1,22,3", False), (b"1.2,3", False), (b"1,2,3", True)]
)
def test_where_one_part_of_a_grown_list_ends_the_next_begins(more, grown):
    long = b'"' + b"x" * 80 + b'"'
    state = Whole(b"[%s,1]" % long)
    state.apply(resolved(b'{"n":[2]}', {}.get))
    found = state.change_to(b"[%s,%s]" % (long, more), {})
    assert (found is not None) is grown
    assert found is None or found.delta == b'{"n":[3]}'


def test_an_edit_in_place_is_stored_whole():
    old, new = encode({"m": ["a" * 100, "b"]}), encode({"m": ["A" * 100, "b", "c"]})
    found = change(old, new, {})
    assert found is None or b"A" * 100 in found.delta
    assert restored(old, new, {}) == new


LONG = b'"b":"' + b"x" * 80 + b'"'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"a":[1],%s}' % LONG, b'{"a":[12],%s}' % LONG),
        (b'{"a":1,%s}' % LONG, b'{"a":12,%s}' % LONG),
        (b'{"a":1,%s}' % LONG, b'{"a":1,"a":2,%s}' % LONG),
        (b'{"a":1,%s}' % LONG, b'{"a":2,%s,"a":3}' % LONG),
        (b'{"a":1,%s}' % LONG, b'{"a":1,%s,"a":3}' % LONG),
        (b'{%s,"a":1}' % LONG, b'{%s,"a":12}' % LONG),
        (b'{"a":[1],%s}' % LONG, b'{"a":[1, 2],%s}' % LONG),
        (b'{"a":[1],%s}' % LONG, b'{"a":[1],%s,"c" :1}' % LONG),
        (b'{"a":[1],%s}' % LONG, b'{"a":[1,2],%s' % LONG),
        (b'{"a":[[1]],%s}' % LONG, b'{"a":[[1,2]],%s}' % LONG),
        (b'{"a":[1],"a":[2],%s}' % LONG, b'{"a":[1],"a":[2,3],%s}' % LONG),
        (b'["%s"]' % (b"x" * 80), b'["%s", 1]' % (b"x" * 80)),
        (b"{%s}" % LONG, b"[{%s}]" % LONG),
        (b"[]", b"[1]"),
        (b"{}", b"{%s}" % LONG),
    ],
)
def test_json_written_in_any_other_way_is_kept_as_it_was_written(old, new):
    assert restored(old, new, {}) == new


def test_a_missing_result_is_never_taken_for_another():
    with pytest.raises(LookupError, match="record 3"):
        resolved(b'{"n":[{"$":[3]}]}', {}.get)


# --- its mark, and bases


def saved_turns(states: list[Any], results: list[tuple[int, Raw]]) -> list[Checkpoint]:
    live = Saved()
    records: list[Checkpoint] = []
    for turn, state in enumerate(states, 1):
        record, _ = live.record(encode(state), at=1, turn=turn, results=lambda: results)
        live.take(record, lambda: results)
        records.append(record)
    return records


def loaded(records: list[Checkpoint], results: list[tuple[int, Raw]]) -> bytes | None:
    saved = Saved()
    for record in records:
        saved.take(record, lambda: results)
    return saved.whole()


@pytest.mark.parametrize("torn", ["lost", "twice", "swapped", "another result", "another base"])
def test_a_state_whose_parts_are_not_those_that_were_saved_is_refused(torn):
    results = [(8, Raw(encode("a" * 100)))]
    records = saved_turns([{"m": ["b" * 100]}, {"m": ["b" * 100, "c"]}, {"m": ["b" * 100, "c", "a" * 100]}], results)
    assert [record.form for record in records] == ["base", "delta", "delta"]
    assert loaded(records, results) is not None
    base, one, two = records
    if torn == "lost":
        records = [base, two]
    elif torn == "twice":
        records = [base, one, one, two]
    elif torn == "swapped":
        records = [base, msgspec.structs.replace(two, prefix=""), msgspec.structs.replace(one, prefix=two.prefix)]
    elif torn == "another result":
        results = [(8, Raw(encode("A" * 100)))]
    else:
        records = [msgspec.structs.replace(base, state=Raw(encode({"m": ["B" * 100]}))), one, two]
    with pytest.raises(StoreCorrupt, match=r"turn . cannot be put together"):
        loaded(records, results)


@pytest.mark.parametrize("stored", [b'{"n":[1]}', b'{"a":{"x":[1]}}', b'{"i":{"m":{"s":{"x":1}}}}', b'{"a":3}'])
def test_a_delta_that_does_not_fit_what_it_builds_on_is_refused(stored):
    base = Checkpoint(at=1, turn=1, state=Raw(b'{"m":3}'))
    delta = Checkpoint(at=1, turn=2, form="delta", state=Raw(stored))
    with pytest.raises(StoreCorrupt, match="turn 2 cannot be put together"):
        loaded([base, delta], [])
    with pytest.raises(StoreCorrupt, match="turn 2 cannot be put together"):
        loaded([delta], [])


def test_a_part_put_in_twice_shows_though_every_record_is_right():
    saved = Saved()
    for record in saved_turns([{"m": ["b" * 100]}, {"m": ["b" * 100, "c"]}], []):
        saved.take(record, list)
    assert saved.whole() == encode({"m": ["b" * 100, "c"]})
    saved._whole.apply(resolved(b'{"a":{"m":["c"]}}', {}.get))
    with pytest.raises(StoreCorrupt, match="turn 2 cannot be put together"):
        saved.whole()


def test_a_result_of_an_earlier_turn_is_referred_to_no_more():
    live = Saved()
    reply = "r" * 100
    written = []
    for turn, results in enumerate(([], [(8, Raw(encode(reply)))], []), 1):
        whole = encode({"m": ["b" * 100] + [reply] * (turn - 1)})
        record, _ = live.record(whole, at=1, turn=turn, results=lambda results=results: results)
        live.take(record, lambda results=results: results)
        written.append(bytes(record.state))
    assert written[1:] == [b'{"a":{"m":[{"$":[8]}]}}', b'{"a":{"m":["%s"]}}' % reply.encode()]


GROWING = [{"m": ["a" * 100] * n} for n in range(1, 6)]


def of_an_earlier_store(states: list[Any]) -> list[Checkpoint]:
    """Return checkpoints as they were written before marks chained: each the hash of the whole state."""
    return [
        msgspec.structs.replace(record, prefix=hashlib.sha256(encode(state)).hexdigest()[:16])
        for record, state in zip(saved_turns(states, []), states, strict=True)
    ]


def test_a_state_of_an_earlier_store_is_read_and_gone_on_from():
    records = of_an_earlier_store(GROWING)
    saved = Saved()
    for record in records:
        saved.take(record, list)
    assert saved.whole() == encode(GROWING[-1])
    following = {"m": [*GROWING[-1]["m"], "new"]}
    record, parts = saved.record(encode(following), at=1, turn=6, results=list)
    assert parts == [("m", "a", b'["new"]')]
    assert loaded([*records, record], []) == encode(following)
    for torn in ([*records[:2], *records[3:]], [*records[:2], *records[3:], record]):
        with pytest.raises(StoreCorrupt):
            loaded(torn, [])


def test_what_a_restore_reads_in_vain_is_bounded_by_bases():
    states = [{"kept": "k" * 10_000, "scratch": f"{n:04}" * 1_500} for n in range(40)]
    records = saved_turns(states, [])
    since = 0
    for record in records[1:]:
        since = 0 if record.form == "base" else since + len(bytes(record.state))
        assert since < REPLACED_TIMES * 16_100 + 16_100
    assert [record.form for record in records].count("base") > 1
    assert loaded(records, []) == encode(states[-1])


def test_a_state_that_grows_is_never_stored_whole_again():
    records = saved_turns([{"m": ["a" * 100] * n} for n in range(1, 400)], [])
    assert [record.form for record in records] == ["base"] + ["delta"] * 398


def test_a_result_within_a_message_is_stored_as_a_reference_to_it():
    said = encode("x" * 500 + ' "quoted" \u00e4\u6f22')
    block = {"type": "tool_result", "tool_use_id": "c1", "content": msgspec.json.decode(said)}
    message = {"role": "user", "content": [block]}
    old, new = encode({"messages": []}), encode({"messages": [message]})
    made = change(old, new, {7: said})
    assert made is not None
    assert len(made.delta) < 250
    assert restored(old, new, {7: said}) == new


@settings(deadline=None, max_examples=200)
@given(
    results=st.lists(st.text(min_size=0, max_size=200) | st.dictionaries(st.text(max_size=3), st.text(max_size=90))),
    texts=st.lists(st.text(max_size=70), max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_whatever_results_are_in_a_message_it_comes_back(results, texts, order):
    parts = [*results[:4], *texts, {"$": [1]}, *results[:2]]
    order.shuffle(parts)
    old, new = encode({"messages": ["a"]}), encode({"messages": ["a", {"content": parts, "more": [parts]}, parts]})
    assert restored(old, new, {n: encode(one) for n, one in enumerate(results)}) == new
