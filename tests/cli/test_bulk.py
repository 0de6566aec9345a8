"""Verbs on many runs at once: the dead by cause, discard, prune, backup, the brake."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys

import pytest

from tests.cli.command import Place
from tests.cli.stocked import DAY_MS, Stock
from yaoki.records import State


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    stock = Stock(tmp_path / "yaoki.db")
    stock.died("a-1", "http.401.revoked", "key revoked", ago_ms=3 * DAY_MS)
    stock.died("a-2", "http.401.revoked", "key revoked", ago_ms=1_000)
    stock.died("a-3", "http.401.revoked", "key revoked", loop="triage", ago_ms=2_000)
    stock.died("b-1", "os.ENOENT", "no such file", ago_ms=40 * DAY_MS)
    stock.ended("old", State.COMPLETED, ago_ms=40 * DAY_MS)
    stock.ended("older", State.CAPPED, ago_ms=50 * DAY_MS)
    stock.ended("new", State.COMPLETED)
    stock.parked("waits", State.WAITING, waits_for="person", note="did it happen?")
    stock.close()
    yield here
    here.close()


def ids(place) -> set[str]:
    connection = sqlite3.connect(f"file:{place.folder}/yaoki.db?mode=ro", uri=True)
    try:
        return {name for (name,) in connection.execute("select name from run")}
    finally:
        connection.close()


ALL = {"a-1", "a-2", "a-3", "b-1", "old", "older", "new", "waits"}


# --- dead


def test_the_dead_are_grouped_by_cause_with_the_last_one_and_what_to_type(place, capfd):
    said = place.call(capfd, "dead")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "DEAD   4 runs, 2 causes"
    assert lines[2].startswith("3 x http.401.revoked   ask_model of refund, triage   ")
    assert lines[3] == "  key revoked"
    assert lines[4].startswith("  yaoki show a-2 ")
    assert "  yaoki discard --dead --reason http.401.revoked   for good" in lines
    assert "  yaoki discard b-1   for good" in lines
    assert "  yaoki redrive b-1   once the cause is gone" in lines


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ([], [3, 1]),
        (["--since", "24h"], [2]),
        (["--loop", "triage"], [1]),
        (["--reason", "http.401"], [3]),
        (["--reason", "http.4*"], [3]),
        (["--reason", "http.40"], []),
        (["--reason", "os.ENOENT", "--since", "1h"], []),
    ],
)
def test_the_dead_are_chosen_by_loop_time_and_reason(place, capfd, words, counts):
    assert [group["count"] for group in place.call(capfd, "dead", *words, "--json").json] == counts


def test_no_dead_is_said(place, capfd):
    assert "No dead runs like that in" in place.call(capfd, "dead", "--reason", "nope").out


# --- discard


def test_a_discarded_run_is_gone_with_its_records_and_its_id_stays_taken(place, capfd):
    said = place.call(capfd, "discard", "a-1", "old", "--yes")
    assert said.code == 0, said.err
    assert said.out == "Discarded a-1, old. Their ids stay taken.\n"
    assert ids(place) == ALL - {"a-1", "old"}
    shown = place.call(capfd, "show", "a-1")
    assert shown.code == 2
    assert "run a-1 (refund, dead) was discarded" in shown.last
    again = place.call(capfd, "run", "agents.py:done", "--run-id", "a-1")
    assert again.code == 2
    assert "was discarded; ids are never reused" in again.last


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ([], {"a-1", "a-2", "a-3", "b-1"}),
        (["--loop", "triage"], {"a-3"}),
        (["--reason", "http.401"], {"a-1", "a-2", "a-3"}),
        (["--older-than", "2d"], {"a-1", "b-1"}),
        (["--since", "1h"], {"a-2", "a-3"}),
        (["--reason", "http", "--loop", "refund", "--older-than", "1d"], {"a-1"}),
    ],
)
def test_the_dead_are_discarded_by_filter(place, capfd, words, gone):
    said = place.call(capfd, "discard", "--dead", *words, "--yes", "--json")
    assert set(said.json["discarded"]) == gone
    assert ids(place) == ALL - gone


def test_nothing_goes_without_a_yes(place, capfd):
    said = place.call(capfd, "discard", "--dead")
    assert said.code == 2
    assert "Discard 4 runs (a-1, a-2, a-3, …) for good? Nobody is at a terminal to say so: add --yes" in said.last
    assert place.call(capfd, "prune", "--older-than", "30d").code == 2
    assert ids(place) == ALL


@pytest.mark.parametrize(("typed", "left"), [("y", 7), ("yes", 7), ("n", 8), ("", 8), ("yep", 8)])
def test_at_a_terminal_one_is_asked_and_only_a_yes_is_one(place, typed, left):
    command = f"{sys.executable} -m yaoki discard a-1"
    script = ["script", "-qec", command, "/dev/null"]
    said = subprocess.run(
        script, cwd=place.folder, env=place.env, input=typed + "\n", capture_output=True, text=True, check=True
    )
    assert "Discard a-1 for good? [y/N]" in said.stdout
    assert len(ids(place)) == left
    assert ("Nothing is discarded." in said.stdout) == (left == 8)


def test_of_several_runs_none_is_discarded_if_one_cannot_be(place, capfd):
    said = place.call(capfd, "discard", "a-1", "waits", "--yes")
    assert said.code == 2
    assert "run waits is waiting: only a run that has ended is discarded. First: yaoki cancel waits" in said.last
    assert place.call(capfd, "discard", "a-1", "nope", "--yes").code == 2
    assert ids(place) == ALL


# --- redrive


@pytest.mark.parametrize(
    ("words", "moved"),
    [([], 4), (["--reason", "http.401"], 3), (["--loop", "triage"], 1), (["--since", "1h"], 2)],
)
def test_the_dead_are_redriven_by_filter(place, capfd, words, moved):
    said = place.call(capfd, "redrive", "--dead", *words, "--yes", "--json")
    assert said.code == 0, said.err
    assert (len(said.json["redriven"]), said.json["refused"]) == (moved, {})
    pending = place.call(capfd, "runs", "--status", "pending", "--json").json
    assert {one["run_id"] for one in pending} == set(said.json["redriven"])


def test_runs_redriven_are_named_with_what_takes_them_on(place, capfd):
    assert place.call(capfd, "redrive", "--dead").code == 2
    said = place.call(capfd, "redrive", "--dead", "--reason", "http.401", "--yes")
    assert said.out.splitlines() == ["3 runs pending again.", "Next   yaoki worker /srv/agents.py"]
    assert place.call(capfd, "redrive", "--dead", "--reason", "http.401", "--yes").out == "Nothing is redriven.\n"


# --- prune


def test_prune_says_first_and_then_deletes_what_ended_long_ago(place, capfd):
    assert place.call(capfd, "prune", "--older-than", "30d", "--dry-run").out == "3 runs would be pruned.\n"
    assert ids(place) == ALL
    said = place.call(capfd, "prune", "--older-than", "30d", "--yes", "--json")
    assert said.json == {"found": 3, "pruned": 3}
    assert ids(place) == ALL - {"b-1", "old", "older"}
    assert place.call(capfd, "prune", "--older-than", "30d", "--yes").out == "Nothing is that old.\n"


def test_prune_keeps_to_the_states_it_was_given(place, capfd):
    words = ["--status", "capped", "--status", "completed", "--yes"]
    assert place.call(capfd, "prune", "--older-than", "45d", *words).out == "Pruned 1 run. Their ids stay taken.\n"
    assert ids(place) == ALL - {"older"}


# --- backup


def test_a_backup_is_a_whole_store_that_only_this_user_reads(place, capfd):
    said = place.call(capfd, "backup", "copy.db")
    assert said.code == 0, said.err
    assert "yaoki runs --store sqlite:///copy.db" in said.out
    assert stat.S_IMODE((place.folder / "copy.db").stat().st_mode) == 0o600
    listed = place.call(capfd, "runs", "--store", "sqlite:///copy.db", "--json").json
    assert {one["run_id"] for one in listed} == ALL


def test_a_backup_overwrites_nothing(place, capfd):
    place.write("copy.db", "mine")
    said = place.call(capfd, "backup", "copy.db")
    assert said.code == 2
    assert "copy.db exists; nothing is overwritten" in said.last
    assert (place.folder / "copy.db").read_text() == "mine"


# --- the brake


def test_a_paused_store_is_named_by_every_view_until_it_goes_on(place, capfd):
    said = place.call(capfd, "pause", "--by", "nina")
    assert said.out.startswith("Paused: nothing new begins.\nGo on  yaoki unpause\n")
    assert place.call(capfd, "pause").out.startswith("Paused already, by nina at ")
    assert place.call(capfd, "runs").out.startswith("PAUSED        since ")
    assert "The store is paused since" in place.call(capfd, "show", "waits").out
    assert place.call(capfd, "pause", "--json").json["by"] == "nina"
    went = place.call(capfd, "unpause")
    assert went.out == "Unpaused: what waited goes on.\n"
    assert place.call(capfd, "unpause", "--json").json == {"paused": False, "was_paused": False}
    assert place.call(capfd, "runs").out.startswith("NEEDS YOU")


def test_unpause_says_what_serves_the_runs_that_are_pending(place, capfd):
    stock = Stock(place.folder / "yaoki.db")
    stock.journal.create("p-1", loop="refund", input=b"{}", file=f"{place.folder}/agents.py")
    stock.close()
    said = place.call(capfd, "unpause")
    assert said.out.splitlines()[1:] == ["1 run pending and no worker lives.", "Next   yaoki worker agents.py"]
