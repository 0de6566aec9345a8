"""Whether a state would come back is told from what changed, as it is from the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yaoki.codec import codec_for
from yaoki.runtime._fields import parts_come_back
from yaoki.runtime._states import Whole

encode = msgspec.json.encode


class Pair(NamedTuple):
    a: int
    b: int = 0


class Item(msgspec.Struct):
    n: int


class Narrow(msgspec.Struct, array_like=True):
    items: list[int] = []
    n: int = 0


class Strict(pydantic.BaseModel):
    n: Annotated[int, pydantic.Field(gt=0)]


@dataclass
class Typed:
    items: list[Item] = field(default_factory=list)
    models: list[Strict] = field(default_factory=list)
    two: tuple[int, int] = (1, 2)
    many: tuple[int, ...] = ()
    pair: Pair = field(default_factory=lambda: Pair(1))
    few: Annotated[list[int], msgspec.Meta(max_length=3)] = field(default_factory=list)
    some: Annotated[list[int], msgspec.Meta(min_length=1)] = field(default_factory=lambda: [1])
    narrow: Narrow = field(default_factory=Narrow)
    either: list[int] | str | None = None
    by_name: dict[str, list[int]] = field(default_factory=dict)
    anything: Any = None
    names: set[str] = field(default_factory=set)


class Renamed(msgspec.Struct, rename="camel", tag=True, forbid_unknown_fields=True):
    some_items: list[int] = []
    n: int = 0


@dataclass
class Choosy:
    items: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.items) > 2:
            raise ValueError("at most two")


class Model(pydantic.BaseModel):
    items: Annotated[list[int], pydantic.Field(max_length=2)] = []


VALUES = st.recursive(
    st.sampled_from([0, 1, -1, 2**70, 1.5, "x", None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "x"]), inner, max_size=2),
    max_leaves=5,
)
KINDS = [Typed, Renamed, Narrow, Choosy, Model, list, dict]


@settings(max_examples=500)
@given(st.sampled_from(KINDS), st.lists(st.tuples(st.integers(0, 20), VALUES, st.booleans()), min_size=1, max_size=3))
def test_what_the_parts_promise_the_whole_keeps(kind, edits):
    codec = codec_for(kind)
    old = msgspec.json.decode(codec.encode(kind()))
    new = msgspec.json.decode(codec.encode(kind()))
    names = [*old, "more"] if isinstance(old, dict) else [""]
    for which, value, grow in edits:
        name = names[which % len(names)]
        if isinstance(new, list):
            new.append(value)
        elif grow and isinstance(new.get(name), list):
            new[name].append(value)
        else:
            new[name] = value
    found = Whole(encode(old)).change_to(encode(new), {})
    if found is not None and parts_come_back(kind, found.parts):
        codec.decode(encode(new))


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("items", [], [{"n": 1}], True),
        ("items", [{"n": 1}], [{"n": 1}, {"n": 2}], True),
        ("items", [{"n": 1}], [{"n": 1}, {"m": 2}], False),
        ("models", [{"n": 1}], [{"n": 1}, {"n": 2}], True),
        ("models", [{"n": 1}], [{"n": 1}, {"n": 0}], False),
        ("many", [1], [1, 2], True),
        ("two", [1, 2], [1, 2, 3, 4], False),
        ("pair", [1, 2], [1, 2, 3, 4], False),
        ("few", [1, 2], [1, 2, 3, 4], False),
        ("some", [1], [1, 2], False),
        ("narrow", [[], 1], [[], 1, 2], False),
        ("either", [1], [1, 2], True),
        ("either", "x", 3, False),
        ("by_name", {"a": [1]}, {"a": [1, 2]}, True),
        ("by_name", {"a": [1]}, {"a": ["x"]}, False),
        ("anything", [1], [1, {}], True),
        ("names", ["a"], ["a", "b"], True),
        ("unknown", 1, 2, False),
    ],
)
def test_a_state_is_told_by_its_parts_wherever_they_tell(name, before, after, told):
    start = msgspec.json.decode(encode(Typed()))
    found = Whole(encode(start | {name: before})).change_to(encode(start | {name: after}), {})
    assert found is not None
    assert parts_come_back(Typed, found.parts) is told


@pytest.mark.parametrize("kind", [Choosy, Model, Narrow], ids=lambda kind: kind.__name__)
def test_a_type_that_looks_at_itself_as_a_whole_is_decoded_whole(kind):
    found = Whole(encode({"items": [1], "text": "t" * 100})).change_to(encode({"items": [1, 2], "text": "t" * 100}), {})
    assert found is not None
    assert not parts_come_back(kind, found.parts)
