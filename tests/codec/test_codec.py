"""Values cross JSON whole, or are refused with their place named."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import os
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Optional, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yaoki.codec import UnresolvedAnnotation, canonical, codec_for
from yaoki.errors import EncodingError


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    text: str
    tags: set[str] = dataclasses.field(default_factory=set)
    at: datetime | None = None


class Point(NamedTuple):
    x: int
    y: float


class Options(TypedDict, total=False):
    deep: bool
    color: Color


class Order(msgspec.Struct):
    id: UUID
    cents: Decimal
    lines: list[Line] = []


class Reply(pydantic.BaseModel):
    text: str
    score: float = 0.0
    when: datetime | None = None
    labels: set[str] = set()
    kids: list[Reply] = []

    @pydantic.computed_field
    @property
    def size(self) -> int:
        return len(self.text)


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    when: datetime
    name: str = pydantic.Field(alias="fullName")

    @pydantic.computed_field
    @property
    def loud(self) -> str:
        return self.name.upper()


@dataclasses.dataclass
class Wrapped:
    replies: list[Reply]
    best: Reply | None = None


class LookAlike:
    """Not pydantic, but with its two methods."""

    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def model_validate(cls, obj: object) -> LookAlike:
        if not isinstance(obj, dict):
            raise TypeError("not an object")
        return cls(obj["n"])

    def model_dump(self, *, mode: str = "python") -> dict[str, int]:
        assert mode == "json"
        return {"n": self.n}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LookAlike) and other.n == self.n

    __hash__ = None


class Client:
    pass


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


LINE = Line("a", {"x", "y"}, datetime(2024, 5, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 2**64 - 1),
        (int, 2**80),
        (str, "七転び八起き"),
        (None, None),
        (float, -0.5),
        (bytes, b"\xff\x00"),
        (list[dict], [{"a": [1, None, "null"]}]),
        (dict[int, str], {1: "a"}),
        (tuple[int, str], (1, "a")),
        (frozenset[int], frozenset({1, 2})),
        (Optional[int], None),  # noqa: UP045 - people write it
        (int | str, "1"),
        (Literal["a", 2], 2),
        (datetime, datetime(2024, 1, 1, 3, 4, 5, 678, tzinfo=UTC)),
        (timedelta, timedelta(days=1, seconds=3)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=5)),
        (Color, Color.RED),
        (Point, Point(1, 2.0)),
        (Options, {"deep": True, "color": Color.BLUE}),
        (Line, LINE),
        (Order, Order(id=UUID(int=1), cents=Decimal("4.20"), lines=[LINE])),
        (Reply, Reply(text="hi", labels={"b"}, kids=[Reply(text="kid")])),
        (Wrapped, Wrapped([Reply(text="hi")], Reply(text="best"))),
        (list[Reply], [Reply(text="hi")]),
        (Strict, Strict(when=datetime(2024, 1, 1, tzinfo=UTC), fullName="n")),
        (LookAlike, LookAlike(3)),
        (list[LookAlike], [LookAlike(3)]),
        (Any, {"a": 1}),
        (object, [1]),
        (list[object], ["x", 1]),
        (inspect.Parameter.empty, {"a": 1}),
        (inspect.Signature.empty, {"a": 1}),
    ],
    ids=lambda value: type(value).__name__,  # stable: a set has no order to show
)
def test_a_value_comes_back_equal_and_of_its_type(annotation: object, value: object) -> None:
    codec = codec_for(annotation)
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)


def test_without_annotation_a_value_is_plain_json() -> None:
    codec = codec_for(Any)
    assert codec.decode(codec.encode(((1, 2), LINE.at))) == [[1, 2], "2024-05-01T00:00:00Z"]


def test_decode_takes_what_the_journal_hands_out() -> None:
    for data in (b'["a"]', memoryview(b'["a"]'), msgspec.Raw(b'["a"]')):
        assert codec_for(list[str]).decode(data) == ["a"]


def test_subclasses_of_text_numbers_and_mappings_are_carried_as_their_base() -> None:
    value = [Text("a"), Number(1.5), {Text("k"): 1}, defaultdict(int, {"a": 1}), OrderedDict(a=1), Counter("a")]
    assert codec_for(Any).encode(value) == b'["a",1.5,{"k":1},{"a":1},{"a":1},{"a":1}]'


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (NAN, "value is nan"),
        (-INF, "value is -inf"),
        ({"a": [1, INF]}, "value['a'][1] is inf"),
        ((1, {2: NAN}), "value[1][2] is nan"),
        ({NAN}, "value[0] is nan"),
        (Point(1, NAN), "value[1] is nan"),
        (Number(NAN), "value is nan"),
        ([Reply(text="x", score=NAN)], "value[0].score is nan"),
        (Wrapped([Reply(text="x", kids=[Reply(text="y", score=INF)])]), "value.replies[0].kids[0].score is inf"),
        (msgspec.defstruct("S", ["f"])(NAN), "value.f is nan"),
    ],
    ids=repr,
)
def test_a_number_json_has_not_is_refused_with_its_place(value: object, place: str) -> None:
    for encode in (codec_for(Any).encode, canonical):
        with pytest.raises(EncodingError) as caught:
            encode(value)
        assert place in str(caught.value)


def _cycle() -> list[object]:
    ring: list[object] = []
    ring.append({"again": ring})
    return ring


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Client(), "value: Client objects are not JSON"),
        ({"a": [Client()]}, "value['a'][0]: Client objects"),
        (Line("x", at=Client()), "value.at: Client objects"),
        ({"a": "\ud800"}, "value['a'] is text with a lone surrogate"),
        ({"\ud800": 1}, "surrogates not allowed"),
        (_cycle(), "refers to itself"),
        ({(1, 2): "x"}, "tuple objects are not JSON"),
        (1j, "complex objects"),
        (ValueError("x"), "ValueError objects"),
        ((n for n in ()), "generator objects"),
        (lambda: 0, "function objects"),
        (pydantic.create_model("Login", key=pydantic.SecretStr)(key="s"), "serializes to asterisks"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_carry_is_refused_with_its_place(value: object, says: str) -> None:
    for encode in (codec_for(Any).encode, canonical):
        with pytest.raises(EncodingError) as caught:
            encode(value)
        assert says in str(caught.value)


def test_a_property_that_raises_is_an_encoding_error() -> None:
    class Rude(LookAlike):
        def model_dump(self, *, mode: str = "python") -> dict[str, int]:
            raise RuntimeError("no " + mode)

    with pytest.raises(EncodingError, match="no json"):
        codec_for(Any).encode(Rude(1))


@pytest.mark.parametrize(
    ("annotation", "data", "says"),
    [
        (int, b'"a"', "int: Expected `int`, got `str`"),
        (Line, b'{"text":"a","tags":[3]}', "$.tags[0]"),
        (list[Reply], b'[{"text":3}]', "text"),
        (list[LookAlike], b"[3]", "not an object"),
        (int, b"{", "int:"),
        (Any, b"\xff", "Any:"),
    ],
)
def test_json_that_does_not_fit_is_an_encoding_error_that_says_where(
    annotation: object, data: bytes, says: str
) -> None:
    with pytest.raises(EncodingError) as caught:
        codec_for(annotation).decode(data)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "annotation",
    [
        Client,
        list[Client],
        dict[str, Client | None],
        Client | str,
        Line | Wrapped,
        complex,
        type,
        defaultdict,
        set[int] | list[int],
    ],
    ids=repr,
)
def test_an_annotation_json_cannot_carry_is_refused_when_it_is_read(annotation: object) -> None:
    with pytest.raises(EncodingError, match="cannot be carried as JSON") as caught:
        codec_for(annotation)
    assert not isinstance(caught.value, UnresolvedAnnotation)


def test_a_class_that_holds_what_cannot_be_carried_is_refused_too() -> None:
    holder = dataclasses.make_dataclass("Holder", [("clients", list[Client])])
    with pytest.raises(EncodingError, match="Client cannot be carried"):
        codec_for(holder)


@pytest.mark.parametrize("annotation", ["Later", list["Later"], Optional["Later"]], ids=repr)  # noqa: F821
def test_a_forward_reference_is_told_apart_so_that_a_caller_can_wait(annotation: object) -> None:
    with pytest.raises(UnresolvedAnnotation):
        codec_for(annotation)


def test_a_forward_reference_inside_a_class_resolves_later() -> None:
    holder = dataclasses.make_dataclass("Holder", [("later", "Later")], namespace={"__module__": __name__})
    holder.__module__ = __name__
    with pytest.raises(UnresolvedAnnotation):
        codec_for(holder)
    globals()["Later"] = int
    try:
        assert codec_for(holder).decode(b'{"later":3}') == holder(3)
    finally:
        del globals()["Later"]


def test_a_codec_is_made_once_per_annotation() -> None:
    assert codec_for(list[int]) is codec_for(list[int])


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (str, "str"),
        (None, "None"),
        (list[dict], "list[dict]"),
        (Reply, "Reply"),
        (dict[str, Line], "dict[str, Line]"),
        (Optional[Line], "Line | None"),  # noqa: UP045 - people write it
        (Line | None, "Line | None"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a"], "Literal['a']"),
        (Any, "Any"),
        (inspect.Parameter.empty, "Any"),
    ],
)
def test_a_type_reads_as_people_write_it(annotation: object, name: str) -> None:
    assert codec_for(annotation).type_name == name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_json_survives_and_is_not_changed(value: object) -> None:
    codec, before = codec_for(Any), repr(value)
    assert codec.decode(codec.encode(value)) == value
    assert codec.decode(canonical(value)) == value
    assert repr(value) == before


@settings(max_examples=200, deadline=None)
@given(JSON, st.randoms())
def test_canonical_ignores_the_order_of_keys(value: object, rng: Any) -> None:
    def shuffled(item: object) -> object:
        if isinstance(item, dict):
            pairs = [(key, shuffled(inner)) for key, inner in item.items()]
            rng.shuffle(pairs)
            return dict(pairs)
        return [shuffled(inner) for inner in item] if isinstance(item, list) else item

    assert canonical(shuffled(value)) == canonical(value)


SETS = """
import dataclasses, enum, pydantic
from yaoki.codec import canonical
class Color(enum.Enum): RED = "red"; BLUE = "blue"; GREEN = "green"
@dataclasses.dataclass(frozen=True)
class P: x: str; tags: frozenset
class M(pydantic.BaseModel): tags: set[str]; inner: list[set[str]]
words = ["alpha", "beta", "gamma", "delta"]
print([canonical(v) for v in (
    set(words), {1, "a", None, 2.5}, {frozenset(words), frozenset(["b"]), frozenset()}, set(Color),
    {P("a", frozenset(words)), P("b", frozenset())}, {("a", frozenset(words)), ("b", frozenset(["x"]))},
    M(tags=set(words), inner=[set(words)]), {"m": [M(tags=set(words), inner=[])]}, {2: set(words), "1": 1},
)])
"""


def test_canonical_is_the_same_in_every_process() -> None:
    def run(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", SETS], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    first = run("1")
    assert "alpha" in first
    assert run("2") == first
    assert run("3") == first


def test_canonical_tells_different_values_apart() -> None:
    values = [{1, 2}, {1, 3}, {"a": 1}, {"a": 2}, Line("a"), Line("b"), {1: "x"}, {2: "x"}, "1", 1, None, [None]]
    assert len({canonical(value) for value in values}) == len(values)


def packs(value: object) -> list[object]:
    """Return values of more than a page of JSON, with one somewhere in them."""
    page = ["p" * 100] * 50
    model = Reply(text="x", score=0.5)
    beside: list[object] = [
        0.5,
        None,
        2**80,
        b"\xcb\x7f\xff",
        "\u02ff\u02c0",
        {"k": [1.5, -0.0]},
        model,
        datetime.now(UTC),
    ]
    return [[page, None, other, {"in": (value,)}] for other in beside]


@pytest.mark.parametrize("wrong", [NAN, -NAN, INF, -INF, Number(NAN)], ids=repr)
def test_a_number_that_is_none_is_found_in_a_large_value_too(wrong: object) -> None:
    codec = codec_for(None)
    for value in packs(wrong):
        with pytest.raises(EncodingError, match=r"value\[3\]\['in'\]\[0\] is"):
            codec_for(list[Any]).encode(value)
        with pytest.raises(EncodingError, match="JSON has no such number"):
            codec.refuse_non_finite(value)
    with pytest.raises(EncodingError, match=r"\[2\]\.score is"):
        codec_for(list[Any]).encode([["p" * 5_000], None, Reply(text="x", score=wrong)])
    for value in packs(1.5):
        assert codec_for(list[Any]).encode(value) == codec.encode_unchecked(value)
        codec.refuse_non_finite(value)


@given(st.lists(st.floats() | st.none() | st.binary(max_size=12) | st.text(max_size=8) | st.integers()))
def test_a_large_value_is_refused_just_where_one_of_its_numbers_is_none(items: list[Any]) -> None:
    finite = all(math.isfinite(item) for item in items if isinstance(item, float))
    value = ["p" * 5_000, None, *items]
    if finite:
        codec_for(list[Any]).encode(value)
    else:
        with pytest.raises(EncodingError, match="JSON has no such number"):
            codec_for(list[Any]).encode(value)


class Frozen(msgspec.Struct, frozen=True):
    n: int


@pytest.mark.parametrize(
    "annotation",
    [
        dict[tuple[int, int], str],
        list[dict[frozenset[int], str]],
        dict[Frozen, int],
        dict[bool, int],
        dict[str | None, int],
    ],
)
def test_a_dict_whose_keys_are_no_text_and_no_number_is_refused_when_it_is_declared(annotation):
    with pytest.raises(EncodingError, match="as a key of a dict"):
        codec_for(annotation)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (dict[int, str], {1: "a"}),
        (dict[Color, int], {Color.RED: 1}),
        (dict[UUID, int], {UUID(int=1): 2}),
        (dict[Literal["a"] | int, int], {"a": 1}),
    ],
)
def test_a_dict_whose_keys_stand_for_text_comes_back(annotation, value):
    codec = codec_for(annotation)
    assert codec.decode(codec.encode(value)) == value
