from __future__ import annotations

from collections import Counter

import pytest

from tests.cli.made import COMMANDS, NOW, at, doubt, receipt, text
from yaoki.cli._picture import GROUPS, Group, Picture, group_of, status_names
from yaoki.cli._views_runs import changed_line, light, runs_lines
from yaoki.cli._views_text import Commands, plain, width
from yaoki.journal import Brake
from yaoki.records import State

LISTED = ("needs-you", "left", "dead")


def picture(runs, *, rows=20, **known) -> Picture:
    """Return what a survey makes of these runs: counts of all, and the first rows of those somebody should see."""
    made = Picture(groups={name: Group(name=name) for name in GROUPS}, **known)
    for one in runs:
        group = made.groups[group_of(one, made, NOW)]
        group.count += 1
        group.parts[one.status] = group.parts.get(one.status, 0) + 1
        if group.name in LISTED and len(group.shown) < rows:
            group.shown.append(one)
    asleep = [one for one in runs if one.status is State.SLEEPING and one.wake_at > NOW.now_ms]
    made.first_asleep = min(asleep, key=lambda one: one.wake_at, default=None)
    return made


def chosen(runs, name, count=0, **known) -> Picture:
    """Return the picture of one group or state that was asked for."""
    made = picture(runs, **known)
    made.chosen = Group(name=name, count=count or len(runs), shown=list(runs))
    return made


BROKE = receipt(
    "ticket-203",
    State.WAITING,
    waits_for="budget",
    waiting_since=at("02:53:00"),
    text="budget: $2.00 of $2.00",
    next_action="yaoki top-up ticket-203 --cost-usd 2",
)
DEAD = receipt("ticket-88", State.DEAD, text="ask_model: http.401 key revoked")
NIGHT = [
    doubt(),
    BROKE,
    DEAD,
    *[receipt(f"r{i}", State.RUNNING) for i in range(8)],
    *[receipt(f"s{i}", State.SLEEPING, wake_at=at("03:09:30") + i, text="anthropic cools down") for i in range(3)],
    *[receipt(f"d{i}", State.COMPLETED) for i in range(472)],
    *[receipt(f"c{i}", State.CAPPED) for i in range(14)],
]


def lines_of(runs, *, cells_max=0, commands=COMMANDS, **known):
    return text(runs_lines(picture(runs, **known), NOW, commands, cells_max=cells_max)).splitlines()


def test_those_that_need_somebody_come_first_with_what_to_type():
    assert (
        "\n".join(lines_of(NIGHT, workers=2))
        == """\
NEEDS YOU    2
  ticket-17   refund_agent  waiting 51m  did charge(A-1009, 4200) happen?  yaoki show ticket-17
  ticket-203  refund_agent  waiting 12m  budget: $2.00 of $2.00            yaoki top-up ticket-203 --cost-usd 2
DEAD         1
  ticket-88   refund_agent  dead 02:31   ask_model: http.401 key revoked   yaoki show ticket-88
ACTIVE      11   8 running (2 workers) · 3 sleeping (anthropic cools down until 03:09:30)
DONE       486   472 completed · 14 capped"""
    )


def test_groups_without_runs_are_left_out():
    assert lines_of([DEAD])[0] == "DEAD        1"


def test_on_a_terminal_the_reason_is_cut_and_the_command_is_not():
    lines = lines_of(NIGHT, cells_max=90)
    assert "…" in lines[1]
    assert lines[1].endswith("yaoki show ticket-17")


def test_a_reason_keeps_some_room_on_a_terminal_that_is_far_too_narrow():
    assert "ask_model: http.401 key" in lines_of([DEAD], cells_max=10)[1]


def test_a_group_that_floods_the_screen_is_cut_with_the_command_that_lists_it_all():
    dead = [receipt(f"dead-{i}", State.DEAD) for i in range(60)]
    lines = lines_of(dead)
    assert len(lines) == 22
    assert lines[-1] == "  … and 40 more: yaoki runs --status dead"
    narrowed = lines_of(dead, loop="refund_agent")
    assert narrowed[-1] == "  … and 40 more: yaoki runs --status dead --loop refund_agent"


def test_of_a_status_that_was_asked_for_every_row_read_is_listed_and_the_rest_counted():
    some = [receipt(f"s{i}", State.SLEEPING, wake_at=at("03:09:30")) for i in range(3)]
    lines = text(runs_lines(chosen(some, "sleeping", count=5_000), NOW, COMMANDS)).splitlines()
    assert lines[0] == "SLEEPING   5,000"
    assert lines[1] == "  s0  refund_agent  sleeping until 03:09:30    yaoki show s0"
    assert lines[-1] == "  … and 4,997 more: yaoki runs --status sleeping --limit 5000"


@pytest.mark.parametrize(
    ("status", "count"), [("needs-you", 2), ("dead", 1), ("active", 11), ("done", 486), ("left", 0)]
)
def test_each_run_is_in_one_group(status, count):
    assert status in status_names()
    groups = Counter(group_of(one, Picture(groups={}), NOW) for one in NIGHT)
    assert groups[status] == count


def test_a_paused_store_says_so_on_top_with_what_ends_it():
    lines = lines_of(NIGHT, brake=Brake("", "nina", at("03:00:08")))
    assert lines[0] == "PAUSED        since 03:00:08 (5m) by nina: nothing begins   yaoki unpause"


def test_a_pending_run_is_left_only_while_no_worker_lives():
    one = receipt("a", State.PENDING, file="/srv/agents.py")
    assert lines_of([one])[0].startswith("LEFT        1   nothing drives it")
    assert lines_of([one], workers=1) == ["ACTIVE      1   1 pending"]


def test_a_run_that_is_pending_for_long_although_workers_live_is_told_of():
    one = receipt("a", State.PENDING)
    said = lines_of([one], workers=1, pending_since=at("02:55:08"))
    assert said == ["ACTIVE      1   1 pending (the oldest for 10m: do the workers serve its loop?)"]
    assert lines_of([one], workers=1, pending_since=at("03:05:00")) == ["ACTIVE      1   1 pending"]


def test_several_runs_that_are_left_are_taken_on_by_one_worker():
    two = [receipt(f"r{i}", State.PENDING, file=f"/srv/agents{i}.py") for i in range(2)]
    assert lines_of(two, commands=Commands(cwd="/srv"))[0] == (
        "LEFT        2   nothing drives them; each by its command, or all: yaoki worker agents0.py agents1.py"
    )


def test_a_change_is_one_line():
    slept = receipt("a", State.SLEEPING, wake_at=at("04:00:00"), text="anthropic cools down")
    said = plain(changed_line(slept, at("03:05:00"), NOW))
    assert said == "03:05:00  a  refund_agent  sleeping until 04:00:00  anthropic cools down"


def test_commands_in_the_list_reach_the_store_that_had_to_be_given():
    lines = lines_of(NIGHT, commands=Commands(store="sqlite:///o.db"))
    assert lines[1].endswith("yaoki show ticket-17 --store sqlite:///o.db")
    assert lines[2].endswith("yaoki top-up ticket-203 --cost-usd 2 --store sqlite:///o.db")


def test_rows_line_up_whatever_the_ids():
    wide = [receipt("猫-1", State.DEAD, text="x"), receipt("b", State.DEAD, text="y")]
    rows = lines_of(wide)[1:]
    assert width(rows[0][: rows[0].index("refund")]) == width(rows[1][: rows[1].index("refund")])


def test_times_that_are_not_known_are_not_made_up():
    odd = [
        receipt("a", State.WAITING, waits_for="person"),
        receipt("b", State.SLEEPING),
        receipt("c", State.DEAD, ended_at=0),
    ]
    lines = text(runs_lines(chosen(odd, "odd"), NOW, COMMANDS))
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


def listed(runs, *, cells_max=0, **known):
    return lines_of(runs, commands=Commands(cwd="/srv"), cells_max=cells_max, **known)


def test_a_run_whose_process_died_is_listed_with_the_command_that_takes_it_up():
    runs = [receipt("a", State.RUNNING), receipt("b", State.RUNNING, file="/srv/agents.py")]
    assert listed(runs, died=frozenset({"b"}), workers=1) == [
        "LEFT        1   nothing drives it; the command takes it on",
        "  b  refund_agent  left  its process died  yaoki run agents.py:refund_agent --run-id b",
        "ACTIVE      1   1 running (1 worker)",
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
    lines = listed(runs, asking={"ended": "did c happen?"})
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
