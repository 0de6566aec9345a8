from __future__ import annotations

import pytest

from tests.cli.made import doubt
from yaoki.cli._exits import CommandError
from yaoki.cli._words import ABSENT, Words, open_ask, parse_words, value_of
from yaoki.runtime._receipt import Ask


def ask(kind: str, **more: object) -> Ask:
    return Ask(id="q1", why="doubt", text="?", step="s", call="charge(5)", type="T", schema={"type": kind}, **more)


def asked(schema: object, kind: str = "T") -> Ask:
    return Ask(id="q1", why="doubt", text="?", step="s", call="charge(5)", type=kind, schema=schema)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["happened", '"x"'], Words(verdict="happened", value='"x"')),
        (["happened"], Words(verdict="happened")),
        (["q1", "happened"], Words(ask="q1", verdict="happened")),
        (["q1", "happened", "5"], Words(ask="q1", verdict="happened", value="5")),
        (["not-happened"], Words(verdict="not-happened")),
        (["q1", "skip"], Words(ask="q1", verdict="skip")),
        (["q1", "abort"], Words(ask="q1", verdict="abort")),
        (["7"], Words(verdict="value", value="7")),
        (["q1", "7"], Words(ask="q1", verdict="value", value="7")),
        (['"skip"'], Words(verdict="value", value='"skip"')),
    ],
)
def test_the_words_of_an_answer_are_told_apart(words, meant):
    assert parse_words(words) == meant


@pytest.mark.parametrize(
    "words", [[], ["skip", "7"], ["q1", "skip", "7"], ["q1", "happened", "1", "2"], ["a", "b", "c"]]
)
def test_words_in_no_form_are_refused_with_the_forms(words):
    with pytest.raises(CommandError, match="happened VALUE, not-happened, skip, abort") as refused:
        parse_words(words)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("typed", "value"), [('"ch_1"', "ch_1"), ("ch_1", "ch_1"), ("123", "123"), ("two words", "two words")]
)
def test_text_may_go_without_quotes_where_text_is_asked_for(typed, value):
    assert value_of(Words(verdict="happened", value=typed), ask("string")) == value


@pytest.mark.parametrize(("typed", "value"), [("123", 123), ("[1]", [1]), ("null", None), ('"x"', "x")])
def test_every_other_type_takes_json(typed, value):
    assert value_of(Words(verdict="happened", value=typed), asked({})) == value
    assert value_of(Words(verdict="value", value=typed), None) == value


def test_an_answer_that_is_no_json_says_where():
    with pytest.raises(CommandError, match="the answer is not JSON at line 1 column 1"):
        value_of(Words(verdict="happened", value="ch_1"), asked(None, kind=""))


def test_an_answer_of_another_type_is_refused_with_an_example():
    for typed in ("ch_1", '"ch_1"'):
        with pytest.raises(CommandError, match="for example: yaoki answer r q1 happened 0") as refused:
            value_of(Words(verdict="happened", value=typed), ask("integer"), "r")
        assert "T" in str(refused.value)


def test_what_is_no_verdict_on_a_doubt_is_refused_with_the_verdicts():
    with pytest.raises(CommandError, match="maybe is no verdict on q1: say happened VALUE, not-happened"):
        value_of(Words(verdict="value", value="maybe"), ask("string"))


def test_happened_needs_the_value_the_step_returns():
    with pytest.raises(CommandError, match=r"say what charge returned \(T\), .*: yaoki answer RUN q1 happened 0"):
        value_of(Words(verdict="happened"), ask("integer"))


def test_happened_needs_no_value_for_a_step_that_returns_none():
    assert value_of(Words(verdict="happened"), ask("null")) is None


@pytest.mark.parametrize("verdict", ["not-happened", "skip", "abort"])
def test_the_other_verdicts_take_no_value(verdict):
    assert value_of(Words(verdict=verdict), ask("string")) is ABSENT


def test_the_only_open_question_is_meant_when_none_is_named():
    run = doubt()
    assert open_ask(run, None) is run.asks[0]
    assert open_ask(run, "q1") is run.asks[0]
    assert open_ask(run, "q9") is None
    run.asks.append(ask("string"))
    assert open_ask(run, None) is None
    run.asks[0].verdict = "skip"
    assert open_ask(run, None) is run.asks[1]
