"""Budgets as a person types them: groups, top-ups, and what was spent in the views."""

from __future__ import annotations

import pytest

from tests.cli.command import Place
from tests.cli.stocked import Stock
from yaoki.cli._views_groups import group_lines
from yaoki.cli._views_text import Commands, plain
from yaoki.records import Group

METERED = """
from yaoki import Budget, Effect, ForModel, loop, tool

@tool(effect=Effect.READ_ONLY, agent=ForModel(usage=lambda n: {"tokens": 100, "cost_usd": 0.25}))
def ask(n: int) -> int:
    return n

@loop
def asks(run, times: int) -> int:
    return sum(ask(n) for n in range(times))

@loop(budget=Budget(on_empty="cap"))
def capping(run, times: int) -> int:
    return sum(ask(n) for n in range(times))

@loop(budget=Budget(cost_usd=0.5))
def bounded(run, times: int) -> int:
    return sum(ask(n) for n in range(times))
"""


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    here.write("metered.py", METERED)
    yield here
    here.close()


def test_a_night_on_one_budget_waits_is_topped_up_and_ends(place, capfd):
    assert place.call(capfd, "group", "night", "--cost-usd", "1").code == 0
    for name in ("a", "b"):
        said = place.call(capfd, "submit", "metered.py:asks", "--input", "3", "--run-id", name, "--group", "night")
        assert said.code == 0, said.err
    assert place.type("worker", "metered.py", "--until-idle", "--concurrency", "1").code == 0

    lines = place.call(capfd, "runs").out.splitlines()
    assert lines[0] == "NEEDS YOU   1"
    assert "group night: budget: $1.00 of $1.00" in lines[1]
    assert lines[1].endswith("yaoki top-up --group night --cost-usd 1")
    assert lines[2] == "DONE        1   1 completed · $0.75"
    assert lines[3] == "GROUPS"
    assert lines[4].split("  ") [1:] == [
        "night", "2 runs", "$1.00 of $1.00 · 400 tokens · 4 calls", "yaoki top-up --group night --cost-usd 1",
    ]  # fmt: skip
    show = place.call(capfd, "show", "b").out
    assert "Group   night: $1.00 of $1.00 · 400 tokens · 4 calls · 2 runs" in show
    assert "Next   yaoki top-up --group night --cost-usd 1" in show

    topped = place.call(capfd, "top-up", "--group", "night", "--cost-usd", "5")
    assert topped.code == 0, topped.err
    assert topped.out.splitlines()[0] == "night  2 runs  $1.00 of $6.00 · 400 tokens · 4 calls"
    assert place.type("worker", "metered.py", "--until-idle", "--concurrency", "1").code == 0
    (group,) = place.call(capfd, "group", "--json").json
    assert group == {
        "group": "night",
        "runs": 2,
        "spent": {"calls": 6, "tokens": 600, "cost_usd": 1.5},
        "in_flight": {"tokens": 0, "cost_usd": 0.0},
        "budget": {"calls": None, "tokens": None, "cost_usd": 6.0},
    }
    stats = place.call(capfd, "stats", "--json").json
    assert (stats["tools"][0]["cost_usd"], stats["tools"][0]["tokens"]) == (1.5, 600)
    assert (stats["loops"][0]["cost_usd"], stats["loops"][0]["tokens"]) == (1.5, 600)
    assert "$1.50 · 600 tokens" in place.call(capfd, "stats").out


def test_a_run_capped_by_its_groups_budget_says_how_it_could_go_on(place, capfd):
    place.call(capfd, "group", "night", "--calls", "2")
    place.call(capfd, "submit", "metered.py:capping", "--input", "3", "--run-id", "a", "--group", "night")
    ended = place.type("run", "metered.py:capping", "--run-id", "a")
    assert ended.code == 4, ended.err
    show = place.call(capfd, "show", "a").out
    assert "yaoki top-up --group night --calls 2" in show
    assert "yaoki redrive a" in show
    assert place.call(capfd, "top-up", "--group", "night", "--calls", "2").code == 0
    assert place.call(capfd, "redrive", "a").code == 0
    assert place.type("run", "metered.py:capping", "--run-id", "a").code == 0


def test_a_run_that_has_spent_its_dollars_waits_with_the_command_that_adds_some(place, capfd):
    ended = place.type("run", "metered.py:bounded", "--input", "3", "--run-id", "a")
    assert ended.code == 3, ended.err
    lines = place.call(capfd, "runs").out.splitlines()
    assert "budget: $0.50 of $0.50" in lines[1]
    assert lines[1].endswith("yaoki top-up a --cost-usd 0.5")
    assert "Spent   $0.50/0.50 · 200 tokens" in place.call(capfd, "show", "a").out
    assert place.call(capfd, "top-up", "a", "--cost-usd", "0.5").code == 0
    assert place.type("run", "metered.py:bounded", "--run-id", "a").code == 0


@pytest.mark.parametrize(
    ("field", "amount"),
    [
        ("calls", 2),
        ("retries", 2),
        ("turns", 2),
        ("tokens", 2),
        ("cost-usd", 0.5),
        ("retry-wait-s", 2.5),
        ("wall-s", 9),
    ],
)
def test_every_field_of_a_budget_can_be_topped_up(place, capfd, field, amount):
    stock = Stock(place.folder / "yaoki.db")
    stock.begun("r")
    stock.close()
    said = place.call(capfd, "top-up", "r", f"--{field}", str(amount))
    assert said.code == 0, said.err
    assert said.out.startswith(f"r has {amount:g} {field.replace('-', '_')} more")


def test_a_group_is_one_line_with_what_is_in_flight():
    group = Group(
        name="night", calls_max=None, tokens_max=1000, cost_usd_max=None, calls=3, tokens=400, cost_usd=0.2,
        tokens_held=100, cost_usd_held=0.1, freed=0, runs=1,
    )  # fmt: skip
    assert [plain(one) for one in group_lines([group], Commands(store="", cwd="/"))] == [
        "night  1 run  $0.20 · 400 of 1,000 tokens · 3 calls · $0.10 in flight"
    ]
