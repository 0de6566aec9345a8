"""What to type next about a run in every state, and that each state has something."""

from __future__ import annotations

import pytest

from tests.cli.made import NOW, at, doubt_entries, receipt, text
from yaoki.cli._views_next import Around, next_lines, paused_lines, taken_lines
from yaoki.cli._views_show import show_lines
from yaoki.cli._views_text import Commands
from yaoki.journal import Brake
from yaoki.records import Begin, Entry, State

HERE = Commands(cwd="/srv")
FILE = "/srv/agents.py"


def typed(run, around=None, *, asked=False) -> str:
    return text(next_lines(run, HERE, around or Around(), NOW, asked=asked))


@pytest.mark.parametrize(
    ("state", "changes", "command"),
    [
        (State.PENDING, {}, "yaoki run agents.py:refund_agent --run-id r"),
        (State.SLEEPING, {"wake_at": at("04:00:00")}, "yaoki run agents.py:refund_agent --run-id r"),
        (State.SLEEPING, {"wake_at": at("01:00:00")}, "yaoki worker agents.py"),
        (State.WAITING, {"waits_for": "budget", "next_action": "yaoki top-up r --calls 5"}, "yaoki top-up r --calls 5"),
        (State.WAITING, {"waits_for": "code", "turn": 3}, "yaoki redrive r --from checkpoint"),
        (State.WAITING, {"waits_for": "code"}, "yaoki redrive r --from start"),
        (State.WAITING, {"waits_for": "signal", "next_action": "yaoki signal r go"}, "yaoki signal r go"),
        (State.DEAD, {"step": "1.3//a#0"}, "yaoki redrive r  tries that step again"),
        (State.DEAD, {"step": "1.3//a#0", "turn": 3}, "yaoki redrive r --from checkpoint"),
        (State.DEAD, {}, "yaoki discard r"),
        (State.CAPPED, {"stopped_by": "budget.turns", "budget": {"turns": 40.0}}, "yaoki top-up r --turns 40"),
        (State.CAPPED, {"stopped_by": "budget.cost_usd", "budget": {"cost_usd": 2.0}}, "yaoki top-up r --cost-usd 2"),
        (State.CANCELLED, {}, "yaoki redrive r"),
    ],
)
def test_every_state_that_can_go_on_has_a_command(state, changes, command):
    assert command in typed(receipt("r", state, file=FILE, **changes))


@pytest.mark.parametrize("state", [State.RUNNING, State.COMPLETED])
def test_where_nothing_is_to_be_done_nothing_is_said(state):
    assert typed(receipt("r", state, file=FILE)) == ""


def test_a_question_says_itself_what_to_type():
    run = receipt("r", State.WAITING, waits_for="person", next_action="yaoki show r")
    assert typed(run, asked=True) == typed(run) == ""


def test_a_living_worker_is_said_to_take_it_and_the_command_is_for_the_case_that_none_does():
    said = typed(receipt("r", State.PENDING, file=FILE), Around(workers=2))
    assert said.splitlines() == [
        "2 workers live: one that serves refund_agent takes it within a second. If none does:",
        "  yaoki run agents.py:refund_agent --run-id r",
    ]
    one = text(taken_lines(receipt("r", State.PENDING, file=FILE), HERE, Around(workers=1)))
    assert one.startswith("1 worker lives: ")


def test_new_code_is_offered_with_what_it_does_to_effects():
    said = typed(receipt("r", State.WAITING, waits_for="code", turn=3, file=FILE))
    assert "Nothing was executed. Either the old code again, and then:" in said
    assert "a new pass from the state saved after turn 3" in said
    assert "is listed as an orphan, and decided by you." in said


def test_a_paused_store_is_named_on_top_of_a_run_that_could_go_on():
    around = Around(brake=Brake("", "nina", at("03:00:00")))
    (said,) = text(paused_lines(around, NOW, HERE)).splitlines()
    assert said == "The store is paused since 03:00:00 by nina: nothing begins   yaoki unpause"
    assert said in text(show_lines(receipt("r", State.PENDING), [], NOW, HERE, around=around))
    assert said not in text(show_lines(receipt("r", State.COMPLETED), [], NOW, HERE, around=around))


def test_a_verb_that_moved_a_run_of_a_paused_store_says_what_it_waits_for():
    around = Around(workers=2, brake=Brake("", "nina", at("03:00:00")))
    assert text(taken_lines(receipt("r", State.PENDING, file=FILE), HERE, around)) == (
        "The store is paused; it is taken once it goes on:   yaoki unpause"
    )


def test_an_attempt_in_flight_is_named_and_one_past_its_timeout_as_such():
    entries = [
        *doubt_entries()[:1],
        Entry(5, "1.1//look#0", Begin(at=at("03:04:58"), call="look(1)", timeout_ms=120_000)),
        Entry(6, "1.1//ask#0", Begin(at=at("03:00:08"), call="ask(1)", timeout_ms=120_000)),
    ]
    said = text(show_lines(receipt("r", State.RUNNING), entries, NOW, HERE))
    assert "In flight   look(1) since 03:04:58 (10 s)\n" in said
    assert "In flight   ask(1) since 03:00:08 (5m, its timeout was 2m)".replace(", its", "; its") in said
