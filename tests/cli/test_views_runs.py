from __future__ import annotations

import pytest

from tests.cli.made import COMMANDS, NOW, at, doubt, receipt, text
from yaoki.cli._store import Standing
from yaoki.cli._views_runs import grouped, light, runs_lines, select, status_names
from yaoki.cli._views_text import Commands, width
from yaoki.records import Spent, State

BROKE = receipt(
    "ticket-203",
    State.WAITING,
    waits_for="budget",
    waiting_since=at("02:53:00"),
    text="budget: $2.00 of $2.00",
)
DEAD = receipt("ticket-88", State.DEAD, text="ask_model: http.401 key revoked")
NIGHT = [
    DEAD,
    BROKE,
    *[receipt(f"r{i}", State.RUNNING) for i in range(8)],
    *[receipt(f"s{i}", State.SLEEPING, wake_at=at("03:09:30") + i, text="anthropic cools down") for i in range(3)],
    *[receipt(f"d{i}", State.COMPLETED, spent=Spent(cost_usd=0.65)) for i in range(472)],
    *[receipt(f"c{i}", State.CAPPED) for i in range(14)],
    doubt(),
]


def test_those_that_need_somebody_come_first_with_what_to_type():
    assert (
        text(runs_lines(NIGHT, NOW, COMMANDS))
        == """\
NEEDS YOU    2
  ticket-17   refund_agent  waiting 51m  did charge(A-1009, 4200) happen?  yaoki show ticket-17
  ticket-203  refund_agent  waiting 12m  budget: $2.00 of $2.00            yaoki show ticket-203
DEAD         1
  ticket-88   refund_agent  dead 02:31   ask_model: http.401 key revoked   yaoki show ticket-88
ACTIVE      11   8 running · 3 sleeping (first until 03:09:30: anthropic cools down)
DONE       486   472 completed · 14 capped · $306.80"""
    )


def test_groups_without_runs_are_left_out():
    assert text(runs_lines([DEAD], NOW, COMMANDS)).startswith("DEAD        1\n")


def test_on_a_terminal_the_reason_is_cut_and_the_command_is_not():
    lines = text(runs_lines(NIGHT, NOW, COMMANDS, cells_max=90)).splitlines()
    assert "…" in lines[1]
    assert lines[1].endswith("yaoki show ticket-17")


def test_a_reason_keeps_some_room_on_a_terminal_that_is_far_too_narrow():
    lines = text(runs_lines([DEAD], NOW, COMMANDS, cells_max=10)).splitlines()
    assert "ask_model: http.401 key" in lines[1]


def test_a_group_that_floods_the_screen_is_cut_with_the_command_that_lists_it_all():
    dead = [receipt(f"dead-{i}", State.DEAD) for i in range(60)]
    lines = text(runs_lines(dead, NOW, COMMANDS)).splitlines()
    assert len(lines) == 52
    assert lines[-1] == "  … 10 more: yaoki runs --status dead"
    assert len(runs_lines(dead, NOW, COMMANDS, every=True)) == 61


def test_every_run_is_listed_when_a_status_was_asked_for():
    groups = grouped(NIGHT, Standing(), NOW)
    lines = text(runs_lines(select(NIGHT, "active", groups), NOW, COMMANDS, every=True)).splitlines()
    assert len(lines) == 12
    assert lines[-1].startswith("  s2  refund_agent  sleeping until 03:09:30  anthropic cools down")


@pytest.mark.parametrize(
    ("status", "count"),
    [("waiting", 2), ("needs-you", 2), ("dead", 1), ("active", 11), ("sleeping", 3), ("done", 486), ("capped", 14)],
)
def test_a_status_is_a_state_or_a_group(status, count):
    assert status in status_names()
    assert len(select(NIGHT, status, grouped(NIGHT, Standing(), NOW))) == count


def test_commands_in_the_list_reach_the_store_that_had_to_be_given():
    lines = text(runs_lines(NIGHT, NOW, Commands(store="sqlite:///o.db"))).splitlines()
    assert lines[2].endswith("yaoki show ticket-203 --store sqlite:///o.db")


def test_rows_line_up_whatever_the_ids():
    wide = [receipt("猫-1", State.DEAD, text="x"), receipt("b", State.DEAD, text="y")]
    rows = text(runs_lines(wide, NOW, COMMANDS)).splitlines()[1:]
    assert width(rows[0][: rows[0].index("refund")]) == width(rows[1][: rows[1].index("refund")])


def test_times_that_are_not_known_are_not_made_up():
    odd = [
        receipt("a", State.WAITING, waits_for="person"),
        receipt("b", State.SLEEPING),
        receipt("c", State.DEAD, ended_at=0),
    ]
    lines = text(runs_lines(odd, NOW, COMMANDS, every=True))
    assert "waiting  " in lines
    assert "sleeping" in lines
    assert "until" not in lines
    assert "1970" not in lines


def test_the_light_form_has_what_a_list_knows_and_no_more():
    data = light(BROKE, "needs-you")
    assert data["group"] == "needs-you"
    assert data["run_id"] == "ticket-203"
    assert data["status"] is State.WAITING
    assert "failures" not in data
    assert "spent" not in data


def listed(runs, *, known=None, cells_max=0):
    return text(runs_lines(runs, NOW, Commands(cwd="/srv"), known=known, cells_max=cells_max)).splitlines()


def test_a_run_whose_process_died_is_listed_with_the_command_that_takes_it_up():
    runs = [receipt("a", State.RUNNING), receipt("b", State.RUNNING, file="/srv/agents.py")]
    assert listed(runs, known=Standing(died=frozenset({"b"}))) == [
        "LEFT        1   nothing drives it; the command takes one on",
        "  b  refund_agent  left  its process died  yaoki run agents.py:refund_agent --run-id b",
        "ACTIVE      1   1 running",
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"started_at": 0}, "not started yet"),
        ({"waits_for": "person", "text": "did it happen?"}, "answered, or told to stop"),
        ({"waits_for": "budget"}, "topped up, or told to stop"),
        ({"text": "its process was told to stop"}, "stopped: its process was told to stop"),
        ({}, "redriven"),
    ],
)
def test_a_pending_run_is_listed_with_what_made_it_so_and_the_command_that_takes_it_on(changes, why):
    assert listed([receipt("a", State.PENDING, file="/srv/agents.py", **changes)])[1] == (
        f"  a  refund_agent  pending  {why}  yaoki run agents.py:refund_agent --run-id a"
    )


def test_a_sleeping_run_is_listed_once_nobody_woke_it_and_not_while_somebody_may():
    late = receipt("late", State.SLEEPING, wake_at=at("03:03:45"), file="/srv/agents.py")
    soon = receipt("soon", State.SLEEPING, wake_at=at("03:05:05"))
    first, row, rest = listed([late, soon])
    assert first.startswith("LEFT        1")
    assert "overdue 1m 23s  slept until 03:03:45, no process waited" in row
    assert row.endswith("yaoki run agents.py:refund_agent --run-id late")
    assert rest.startswith("ACTIVE      1   1 sleeping")


def test_a_question_is_under_needs_you_whatever_the_state_of_its_run():
    runs = [
        receipt("runs", State.RUNNING, waits_for="person", waiting_since=at("03:00:08"), text="did a happen?"),
        receipt("sleeps", State.SLEEPING, waits_for="person", wake_at=at("04:00:00"), text="did b happen?"),
        receipt("ended", State.COMPLETED),
    ]
    lines = listed(runs, known=Standing(asking={"ended": "did c happen?"}))
    assert lines[0] == "NEEDS YOU   3"
    assert len(lines) == 4
    for question in ("did a happen?", "did b happen?", "did c happen?"):
        assert question in "".join(lines)
    assert "asks 5m" in "".join(lines)


def test_a_command_that_leaves_its_reason_no_room_stands_on_a_line_of_its_own():
    runs = [DEAD, receipt("a-rather-long-name-of-a-run", State.PENDING, file="/srv/some/folder/agents.py")]
    lines = listed(runs, cells_max=90)
    assert lines[2] == "      yaoki run some/folder/agents.py:refund_agent --run-id a-rather-long-name-of-a-run"
    assert lines[5] == "      yaoki show ticket-88"
    assert max(map(width, lines)) <= 90


def test_a_long_reason_above_its_own_command_does_not_push_other_commands_off_the_terminal():
    late = receipt("an-id-of-a-run-as-people-write-it", State.PENDING, text="its process was told to stop")
    lines = listed([receipt("b", State.DEAD, text="x" * 300), late], cells_max=100)
    assert lines[1].endswith("stopped: its process was told to stop")
    assert lines[-1].endswith("…  yaoki show b")
    assert max(map(width, lines)) <= 100


def test_in_a_pipe_one_long_reason_does_not_pad_the_other_rows():
    runs = [receipt("a", State.DEAD, text="x" * 300), receipt("b", State.DEAD, text="short")]
    first, second = listed(runs)[1:]
    assert "x" * 300 in first
    assert len(second) < 120
