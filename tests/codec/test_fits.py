"""A person's answer is checked against the stored schema, without the code it came from."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from yaoki.codec import codec_for, fits


@dataclasses.dataclass
class Node:
    name: str
    size: int = 0
    kids: list[Node] = dataclasses.field(default_factory=list)


class Inner(pydantic.BaseModel):
    a: int


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    inner: Inner
    more: list[Inner] = []


@dataclasses.dataclass
class Holder:
    models: list[Model]


POSITIVE = Annotated[int, msgspec.Meta(gt=0, le=10)]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "ch_123"),
        (int, 3),
        (float, 3),
        (None, None),
        (int | None, None),
        (Any, {"x": [1]}),
        (Literal["yes", "no"], "yes"),
        (POSITIVE, 10),
        (tuple[int, str], [1, "a"]),
        (dict[str, int], {"a": 1}),
        (Node, {"name": "a", "kids": [{"name": "b"}]}),
        (Model, {"inner": {"a": 1}, "more": [{"a": 2}]}),
        (Holder, {"models": [{"inner": {"a": 1}}]}),
    ],
)
def test_an_answer_of_the_type_fits(annotation: object, value: object) -> None:
    assert fits(codec_for(annotation).schema(), value) is None


@pytest.mark.parametrize(
    ("annotation", "value", "says"),
    [
        (str, 3, "$: expected string, got integer"),
        (int, True, "got boolean"),
        (int, 1.5, "got number"),
        (int | None, "x", "expected integer, got string; or expected null"),
        (Literal["yes", "no"], "maybe", "expected one of"),
        (POSITIVE, 0, "exclusiveMinimum is 0, got 0"),
        (POSITIVE, 11, "maximum is 10, got 11"),
        (tuple[int, str], [1, 2], "$[1]: expected string"),
        (tuple[int, str], [1, "a", 3], "$"),
        (dict[str, int], {"a": "x"}, "$.a: expected integer"),
        (Node, {"size": 1}, "name is missing"),
        (Node, {"name": "a", "kids": [{"name": 3}]}, "$.kids[0].name: expected string"),
        (Model, {"inner": {"a": "x"}}, "$.inner.a"),
        (Model, {"inner": {"a": 1}, "z": 1}, "$.z: not expected"),
        (Holder, {"models": [{"inner": {}}]}, "$.models[0].inner: a is missing"),
    ],
)
def test_another_answer_is_told_where_it_does_not_fit(annotation: object, value: object, says: str) -> None:
    wrong = fits(codec_for(annotation).schema(), value)
    assert wrong is not None
    assert says in wrong
    assert "\n" not in wrong


def test_one_of_and_all_of_and_patterns_count() -> None:
    assert fits({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 3) == "$: fits more than one of the alternatives"
    assert fits({"allOf": [{"type": "integer"}, {"minimum": 5}]}, 3) == "$: minimum is 5, got 3"
    assert fits({"pattern": "^ch_"}, "x") == "$: does not match ^ch_"
    assert fits({"const": 1}, value=True) is not None


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert fits({"$ref": "#"}, 1) is None
    assert fits({"$ref": "#/nowhere"}, 1) is None


def test_the_schema_handed_out_is_a_copy() -> None:
    codec_for(Node).schema().clear()
    assert codec_for(Node).schema()
