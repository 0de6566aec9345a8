"""Rungs: declared as data, in an order that can be reached."""

from __future__ import annotations

import math

import pytest

from yaoki import escalate
from yaoki.errors import DeclarationError
from yaoki.policy import Abort, Ask, DeadLetter, ladder_of


def test_without_a_declaration_the_ladder_ends_in_a_step_failed():
    assert ladder_of() == (Abort(),)


def test_a_ladder_keeps_its_order_and_ends_in_an_abort_unless_written_otherwise():
    assert ladder_of([escalate.ask("a?"), escalate.ask("b?")]) == (Ask(text="a?"), Ask(text="b?"), Abort())
    assert ladder_of([escalate.ask(), escalate.dead_letter()]) == (Ask(), DeadLetter())
    assert ladder_of((escalate.abort(),)) == (Abort(),)


def test_one_rung_needs_no_brackets():
    assert ladder_of(escalate.dead_letter()) == (DeadLetter(),)


def test_an_answer_expires_in_seven_days_unless_written_otherwise():
    assert escalate.ask() == Ask(text=None, expires_s=7 * 24 * 3600)
    assert escalate.ask("now?", expires_s=60) == Ask(text="now?", expires_s=60)


@pytest.mark.parametrize("last", [escalate.abort(), escalate.dead_letter()])
def test_a_rung_that_is_never_reached_is_refused(last):
    with pytest.raises(DeclarationError, match=rf"rung 3 is never reached, since {type(last).__name__} before it"):
        ladder_of([escalate.ask(), last, escalate.ask()])


@pytest.mark.parametrize("wrong", [escalate.ask, [escalate.ask], "ask", [None], 3])
def test_what_is_no_rung_is_refused_saying_what_is(wrong):
    with pytest.raises(DeclarationError, match=r"rung 1 is .*ask\(\), dead_letter\(\), abort\(\)"):
        ladder_of(wrong)


def test_an_answer_may_take_ten_years_and_no_longer():
    years_s = 10 * 366 * 24 * 3600

    assert escalate.ask(expires_s=years_s).expires_s == years_s
    with pytest.raises(DeclarationError, match="expires_s"):
        escalate.ask(expires_s=years_s + 1)


@pytest.mark.parametrize("expires_s", [0, -1, math.inf, math.nan, True, None])
def test_a_question_that_never_expires_or_at_once_is_refused(expires_s):
    with pytest.raises(DeclarationError, match="expires_s"):
        escalate.ask(expires_s=expires_s)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_question_is_refused(text):
    with pytest.raises(DeclarationError, match="the text is empty"):
        escalate.ask(text)
