from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.journal.store import begun, edit, note, open_at, texts
from yaoki.errors import StoreCorrupt, StoreRefused
from yaoki.journal._codec import decode_all, encode
from yaoki.records import ABSENT, KINDS, kind_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def values(kind: object) -> st.SearchStrategy:
    """Draw values of a record's field, by its type."""
    if kind is msgspec.Raw:
        return JSON.map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
    if kind is int:
        return st.integers(0, 2**62)
    if kind is float:
        return st.floats(0, 1e12)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structs(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (list, dict):
        inner = [values(arg) for arg in args]
        return st.lists(*inner, max_size=3) if origin is list else st.dictionaries(*inner, max_size=3)
    if args:
        return st.one_of([values(arg) for arg in args])
    return st.from_type(kind)


def structs(cls: type[msgspec.Struct]) -> st.SearchStrategy:
    types = typing.get_type_hints(cls)
    fields = msgspec.structs.fields(cls)
    required = {field.name: values(types[field.name]) for field in fields if field.required}
    optional = {field.name: values(types[field.name]) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: cls(**given))


def plain(value: object) -> object:
    """Return a record with its raw JSON made comparable."""
    if isinstance(value, msgspec.Raw):
        return ("absent",) if value is ABSENT else bytes(value)
    if isinstance(value, msgspec.Struct):
        return type(value), {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: KINDS[kind].__name__)
def test_a_record_of_every_kind_comes_back_as_it_was_written(kind):
    @given(structs(KINDS[kind]))
    def round_trip(record):
        assert kind_of(record) == kind
        (entry,) = decode_all([((7 << 32) | 5, kind, "key", encode(record))], "store")
        assert (entry.seq, entry.key, plain(entry.record)) == (5, "key", plain(record))

    round_trip()


def test_a_field_that_a_later_version_adds_is_read_over():
    (entry,) = decode_all([(5, 13, "", b'{"at":1,"text":"x","colour":"red"}')], "store")
    assert entry.record.text == "x"


def test_a_record_of_an_unknown_kind_is_refused_and_named(tmp_path):
    path = tmp_path / "s.db"
    with_one_record(path)
    edit(path, "update journal set kind = 99")
    journal = open_at(path)
    with pytest.raises(StoreRefused, match=r"record 0 of run number 1 is of kind 99, .* version that wrote it"):
        journal.load(1)
    journal.close()


@pytest.mark.parametrize("body", ["x'00'", "x'7b7d'", 'cast(\'{"at":"now","text":"x"}\' as blob)'])
def test_a_record_that_does_not_decode_is_a_corrupt_store(tmp_path, body):
    path = tmp_path / "s.db"
    with_one_record(path)
    edit(path, f"update journal set body = {body}")
    journal = open_at(path)
    with pytest.raises(StoreCorrupt, match=r"record 0 of run number 1 is damaged"):
        journal.load(1)
    journal.close()


def with_one_record(path):
    journal = open_at(path)
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note()])
    assert texts(journal, run) == ["x"]
    journal.close()
