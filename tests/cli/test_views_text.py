from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from tests.cli.made import NOW, at, text
from yaoki.cli._views_text import (
    Commands,
    Now,
    clean,
    columns,
    duration,
    line,
    money,
    plain,
    plural,
    short_call,
    shorten,
    width,
    wrapped,
)


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (12, "12 ms"),
        (200, "0.2 s"),
        (3_100, "3.1 s"),
        (38_000, "38 s"),
        (59_900, "59 s"),
        (60_000, "1m"),
        (252_000, "4m 12s"),
        (51 * 60_000, "51m"),
        (3_600_000, "1h"),
        (7_500_000, "2h 5m"),
        (40_000_000, "11h"),
        (86_400_000, "1d"),
        (100 * 3_600_000, "4d 4h"),
        (40 * 86_400_000, "40d"),
    ],
)
def test_a_length_of_time_is_said_in_one_or_two_units(ms, said):
    assert duration(ms) == said


def test_a_time_has_its_date_only_when_it_is_not_today():
    assert NOW.time(at("02:14:08")) == "02:14:08"
    assert NOW.time(at("02:14:08", day=29)) == "29 Nov 02:14:08"
    assert NOW.minute(at("02:14:08") + 7 * 86_400_000) == "7 Dec 02:14"
    assert NOW.minute(at("02:14:08") + 365 * 86_400_000) == "30 Nov 2027 02:14"


def test_today_is_the_day_of_the_zone_spoken_in():
    tokyo = timezone(timedelta(hours=9))
    now = Now(now_ms=at("16:00:00", day=29), zone=tokyo)
    assert now.time(at("15:30:00", day=29)) == "00:30:00"
    assert now.time(at("14:30:00", day=29)) == "29 Nov 23:30:00"


def test_without_a_zone_times_are_the_machines():
    local = Now(now_ms=at("03:00:00"))
    assert local.time(at("03:00:00"))[-5:] == "00:00"


def test_waits_are_never_negative():
    now = Now(now_ms=1_000, zone=UTC)
    assert now.since(5_000) == "0 ms"
    assert now.until(500) == "0 ms"


def test_money_shows_cents_and_small_amounts_do_not_vanish():
    assert [money(usd) for usd in (0, 0.41, 311.2, 0.0031)] == ["$0.00", "$0.41", "$311.20", "$0.0031"]


def test_counts_agree_with_their_noun():
    assert plural(1, "retry", "retries") == "1 retry"
    assert plural(0, "restart") == "0 restarts"


def test_nothing_a_terminal_would_obey_reaches_it():
    assert clean("a\x1b[31mred\x07\n\tb\u202e") == "a\\x1b[31mred\\x07  b\\u202e"
    assert clean("plain ünïcode 猫") == "plain ünïcode 猫"
    assert plain(line("a\nb", ("c  ", "dim"))) == "a bc"


def test_a_lone_surrogate_is_written_out():
    assert clean("\ud800") == "\\ud800"


def test_columns_line_up_also_for_wide_characters():
    shown = columns([[("猫", ""), ("x", "")], [("abc", ""), ("y", "")]])
    assert text(shown) == "猫   x\nabc  y"


def test_columns_take_rows_of_different_lengths():
    assert text(columns([[("a", "")], [("bb", ""), ("c", ""), ("d", "")]], indent="  ")) == "  a\n  bb  c  d"
    assert columns([]) == []


def test_a_cut_text_fits_its_cells_and_says_that_it_was_cut():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
    assert width(shorten("猫猫猫猫", 6)) <= 6


def test_combining_marks_take_no_cell():
    assert width("e\u0301") == 1


@pytest.mark.parametrize(
    ("call", "short"),
    [
        ('charge(order_id="A-1009", cents=4200)', "charge(A-1009, 4200)"),
        ("ask()", "ask()"),
        ('say("two words")', 'say("two words")'),
        (
            'send_mail(to="ana@example.org", body="a long body that goes on and on")',
            'send_mail(ana@example.org, "a long bod…)',
        ),
    ],
)
def test_a_call_in_a_table_is_values_only_and_cut(call, short):
    assert short_call(call) == short
    assert width(short_call(call)) <= 40


def test_commands_are_quoted_for_a_shell():
    assert Commands().verb("show", "a b") == "yaoki show 'a b'"
    assert Commands().verb("answer", "r", "q1", "happened", '"x"') == "yaoki answer r q1 happened '\"x\"'"


def test_commands_reach_the_store_that_had_to_be_given():
    commands = Commands(store="sqlite:///x y.db")
    assert commands.verb("runs") == "yaoki runs --store 'sqlite:///x y.db'"
    assert commands.dress("yaoki show r --store other") == "yaoki show r --store other"
    assert commands.dress("edit agents.py") == "edit agents.py"


def test_a_line_too_long_for_the_terminal_is_broken_between_words_and_keeps_its_roles():
    long = line("  a b", ("ccc dddd", "bad"), " eeeee")
    assert [plain(part) for part in wrapped(long, 11)] == ["  a bccc", "    dddd", "    eeeee"]
    assert ("ccc ", "bad") in wrapped(long, 11)[0]
    assert wrapped(line("short"), 11) == [line("short")]


def test_a_command_and_a_word_without_end_are_not_broken():
    command = ("yaoki run agents.py:loop --run-id r", "command")
    assert [plain(part) for part in wrapped(line("Next ", command, "   one word"), 40)] == [
        f"Next {command[0]}",
        "  one word",
    ]
    assert command in wrapped(line("Next ", command), 20)[-1]
    assert [plain(part) for part in wrapped(line("x" * 30 + " y"), 20)] == ["x" * 30, "  y"]
