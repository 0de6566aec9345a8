from __future__ import annotations

import inspect
import io

import pytest

from yaoki.cli._bind import arguments_of
from yaoki.cli._exits import CommandError
from yaoki.cli._input import encoded, json_value, read_input


def one(ticket: str): ...


def two(order: str, cents: int = 5): ...


def pair(a: str, b: str): ...


def keyword(*, ticket: str): ...


def none(): ...


def bound(fn, value):
    args, kwargs = arguments_of(inspect.signature(fn), value, fn.__name__)
    inspect.signature(fn).bind(*args, **kwargs)
    return args, kwargs


def test_input_is_json_given_or_in_a_file(tmp_path):
    file = tmp_path / "in.json"
    file.write_text('{"a": 1}', encoding="utf-8")
    assert read_input('{"a": 1}') == {"a": 1}
    assert read_input(f"@{file}") == {"a": 1}


def test_input_may_come_from_stdin(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))
    assert read_input("@-") == [1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"a": }', r"--input is not JSON at line 1 column 7: Expecting value$"),
        ("ticket 17", r"""a string needs its own quotes: '"ticket 17"'"""),
        ("", r"not JSON at line 1 column 1"),
        ("NaN", r"NaN is no JSON number"),
        ("[Infinity]", r"Infinity is no JSON number"),
        ("[" * 100_000, r"--input is not JSON"),
        ("@nowhere.json", r"--input @nowhere.json: No such file"),
    ],
)
def test_input_that_is_no_json_says_where_and_what_next(given, said):
    with pytest.raises(CommandError, match=said) as refused:
        read_input(given)
    assert "\n" not in refused.value.message
    assert refused.value.exit_code == 2


def test_an_input_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "in.json"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="not UTF-8 at byte 0"):
        read_input(f"@{file}")


def test_an_error_in_a_file_of_many_lines_names_the_line():
    with pytest.raises(CommandError, match="line 2 column 7"):
        json_value('{"a": 1,\n "b": x}', what="--input")


@pytest.mark.parametrize(
    ("fn", "value", "args", "kwargs"),
    [
        (one, "t", ["t"], {}),
        (one, {"ticket": "t"}, [], {"ticket": "t"}),
        (one, {"other": 1}, [{"other": 1}], {}),
        (one, ["t"], [["t"]], {}),
        (one, None, [None], {}),
        (keyword, "t", [], {"ticket": "t"}),
        (two, {"order": "o"}, [], {"order": "o"}),
        (two, {"order": "o", "cents": 7}, [], {"order": "o", "cents": 7}),
        (two, ["o"], ["o"], {}),
        (two, "o", [], {"order": "o"}),
        (two, ["o", 7], ["o", 7], {}),
        (none, {}, [], {}),
        (none, [], [], {}),
    ],
)
def test_input_becomes_the_arguments_people_expect(fn, value, args, kwargs):
    assert bound(fn, value) == (args, kwargs)


@pytest.mark.parametrize(
    ("fn", "value", "said"),
    [
        (two, {"cents": 7}, r"--input lacks order; the loop is two\(order: str, cents: int = …\)"),
        (two, {"order": "o", "cent": 7}, r"--input has cent, which two\(.*\) does not take"),
        (pair, "o", r"""--input must name the parameters of pair\(.*\): \{"a": …\}"""),
        (two, [], r"--input has 0 values"),
        (two, ["o", 1, 2], r"--input has 3 values"),
        (two, {}, r"lacks order"),
        (none, 5, r"none\(\) takes no input"),
    ],
)
def test_input_that_does_not_fit_says_what_the_loop_takes(fn, value, said):
    with pytest.raises(CommandError, match=said) as refused:
        bound(fn, value)
    assert refused.value.exit_code == 2
    assert refused.value.code == "input.mismatch"


@pytest.mark.parametrize(
    ("text", "said"),
    [("1e999", "is not JSON"), ('"\\ud800"', "half a character"), ("[" * 5_000 + "]" * 5_000, "is not JSON")],
)
def test_what_only_lenient_readers_take_is_refused_too(text, said):
    with pytest.raises(CommandError, match=said):
        encoded(json_value(text, what="--input"), what="--input")


def test_what_is_json_stays_as_it_is():
    text = '{"ü": [1, 2.5, null]}'
    assert encoded(json_value(text, what="--input"), what="--input") == text.encode()
