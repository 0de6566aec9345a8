"""Bad input: one line, the right exit code, nothing lost; and JSON where JSON was asked for."""

from __future__ import annotations

import os

import pytest

from tests.cli.command import Place


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One folder for all: nothing here changes it."""
    here = Place(tmp_path_factory.mktemp("place"))
    here.write("broken.py", "import no_such_module_here\n")
    here.write("twice.py", "from yaoki import loop\n\n@loop\ndef f(): ...\n")
    here.write("empty.py", "x = 1\n")
    here.write("text.db", "this is no database, but it is long enough to have a header that says so, really\n" * 50)
    said = here.type("run", "agents.py:doubt", "--input", '"A-1"', "--run-id", "ticket-17")
    assert said.code == 3, said.err
    yield here
    here.close()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--store", "sqlite:///o.db", "runs"], 2, "goes after the verb: yaoki runs --store sqlite:///o.db"),
        (["--store=sqlite:///o.db", "show", "r"], 2, "goes after the verb: yaoki show r --store=sqlite:///o.db"),
        (["runs", "ticket-17"], 2, "yaoki runs takes no run: yaoki show ticket-17"),
        (["cancel", "a", "b"], 2, "yaoki cancel takes one run at a time: yaoki cancel a"),
        (["run", "--run-id", "ticket-17"], 2, "which loop? yaoki run FILE:LOOP"),
        (["answer", "ticket-17"], 2, "yaoki show ticket-17 lists what can be typed"),
        (["answer", "ticket-17", "q1", "maybe"], 2, "maybe is no verdict on q1"),
        (["run", "nowhere.py:x"], 2, "no file nowhere.py"),
        (["run", "agent.py:done"], 2, "did you mean agents.py?"),
        (["run", "agents.py:dnoe"], 2, "no loop dnoe in agents.py; there: adone, "),
        (["run", "agents.py:dnoe"], 2, "did you mean agents.py:done?"),
        (["run", "agents.py"], 2, "which loop of agents.py?"),
        (["run", "empty.py"], 2, "empty.py has no loop"),
        (["run", "broken.py:x"], 2, "broken.py:1: ModuleNotFoundError: No module named 'no_such_module_here'"),
        (["run", "twice.py:x"], 2, "twice.py:3: DeclarationError: loop f takes no run"),
        (["run", "agents.py:done", "--input", "pie"], 2, "not JSON at line 1 column 1"),
        (["run", "agents.py:done", "--input", "@none.json"], 2, "--input @none.json: No such file"),
        (["run", "agents.py:done", "--input", "5"], 2, "--input does not fit done"),
        (["run", "agents.py:doubt"], 2, "doubt(order: str) needs input: --input '{\"order\": …}'"),
        (["run", "agents.py:adone", "--input", '{"nam": 1}'], 2, "--input has nam, which adone("),
        (["run", "agents.py:done", "--run-id", ""], 2, "--run-id is empty"),
        (["run", "agents.py:doubt", "--run-id", "ticket-17", "--input", '"B-2"'], 2, "ticket-17"),
        (["run", "agents.py:done", "--run-id", "ticket-17", "--input", '"A-1"'], 2, "ticket-17"),
        (["run", "agents.py:done", "--store", "mysql://x"], 2, "store 'mysql://x': not a store"),
        (["run", "agents.py:done", "--store", "sqlite:///no/such/folder/y.db"], 70, "no/such/folder"),
        (["run", "agents.py:done", "--store", "sqlite:///text.db"], 70, "text.db"),
        (["runs", "--store", "sqlite:///none.db"], 70, "none.db"),
        (["runs", "--store", "sqlite:///no/such/none.db"], 70, "there is no directory"),
        (["runs", "--store", ""], 2, "--store is empty; leave it out"),
        (["runs", "--store", "sqlite://"], 2, "store 'sqlite://': not a store"),
        (["show", "ticket-17", "--store", "yaoki.db"], 2, "did you mean sqlite:///yaoki.db?"),
        (["submit", "agents.py:done", "--store", "sqlite://yaoki.db"], 2, "did you mean sqlite:///yaoki.db?"),
        (["worker", "agents.py", "--store", "postgres://h/x"], 2, "store 'postgres://h/x': not a store"),
        (["submit", "agents.py:done", "--group", "g" * 201], 2, "must be at most 200 printable characters"),
        (["submit", "agents.py:done", "--group", "a\x1b[31m"], 2, "must be at most 200 printable characters"),
        (["submit", ""], 2, "no file (empty). Say FILE:LOOP"),
        (["submit", "agents.py:done", "--run-id", "ticket-17"], 2, "ticket-17 belongs to loop doubt, not done"),
        (["run", "agents.py:done", "--run-id", "ticket-17"], 2, "ticket-17 belongs to loop doubt, not done"),
        (["show", ""], 2, "the run's id is empty"),
        (["cancel", "x" * 5000], 2, "…: an id has at most 200 characters"),
        (["worker", "agents.py", "--drain-s", "inf"], 2, "--drain-s lies between 0 and 86,400, not inf"),
        (["worker", "agents.py", "--drain-s", "nan"], 2, "--drain-s lies between 0 and 86,400, not nan"),
        (["worker", "agents.py", "--hung-after-s", "1e300"], 2, "--hung-after-s lies above 0, and is at most 86,400"),
        (["worker", "agents.py", "--store", "sqlite:///text.db"], 70, "text.db"),
        (["kill", "9" * 30], 2, "is not in this store; alive: none"),
        (["kill", "0"], 2, "worker 0 is not in this store"),
        (["backup", "a\nb.db"], 2, "name a file by printable characters alone"),
        (["backup", os.fsdecode(b"\xff.db")], 2, "name a file by printable characters alone"),
        (["pause", "--by", "x" * 201], 2, "--by takes 1 to 200 printable characters"),
        (["run", "agents.py:done", "--run-id", "t", "--store", "sqlite:///text.db"], 70, "text.db"),
        (["runs", "--status", "asleep"], 2, "--status asleep is no state or group: active"),
        (["show", "ticket-71"], 2, "did you mean ticket-17?"),
        (["show", "zzz"], 2, "no run zzz in sqlite:///yaoki.db. All runs: yaoki runs"),
        (["cancel", "tickt-17"], 2, "did you mean ticket-17?"),
        (["redrive", "nope"], 2, "no run nope"),
        (["redrive"], 2, "redrive: say which: yaoki redrive RUN, or --dead"),
        (["redrive", "ticket-17", "--dead"], 2, "redrive: say which"),
        (["redrive", "--reason", "http.401"], 2, "redrive: say which"),
        (["redrive", "ticket-17", "--from", "middle"], 2, "--from middle"),
        (["answer", "nope", "skip"], 2, "no run nope"),
        (["answer", "ticket-17", "q9", "skip"], 2, "q9"),
        (["answer", "ticket-17", "happened"], 2, "say what charge returned (str), for example: yaoki answer"),
        (["answer", "ticket-17", "skip", "extra", "words", "here"], 2, "say [ASK] and one of"),
        (["demo", "--seed", "x"], 2, "--seed"),
        (["runs", "--limit", "0"], 2, "--limit"),
        (["runs", "--loop", "nope"], 2, "--loop nope: no run of that loop in the store; there: doubt"),
        (["runs", "--watch", "--store", "sqlite:///none.db"], 70, "none.db"),
        (["dead", "--since", "soon"], 2, "--since soon: say how long, as 45m, 24h, 30d or 2w"),
        (["dead", "--loop", ""], 2, "--loop (empty): no run of that loop"),
        (["dead", "--store", "sqlite:///text.db"], 70, "text.db"),
        (["dead", "ticket-17"], 2, "See: yaoki dead --help"),
        (["discard"], 2, "say which: yaoki discard RUN…, or --dead"),
        (["discard", "ticket-17", "--dead"], 2, "say which"),
        (["discard", "--reason", "http.401"], 2, "say which"),
        (["discard", "tickt-17"], 2, "did you mean ticket-17?"),
        (["discard", "ticket-17", "--yes"], 2, "ticket-17 is waiting: only a run that has ended is discarded"),
        (["discard", "--dead", "--older-than", "-3d"], 2, "--older-than -3d: say how long"),
        (["prune"], 2, "--older-than"),
        (["prune", "--older-than", "0.5"], 2, "--older-than 0.5: say how long"),
        (["prune", "--older-than", "1d", "--status", "running"], 2, "only ended runs are pruned: completed, capped"),
        (["prune", "--older-than", "9999999w"], 2, "say how long"),
        (["backup"], 2, "PATH"),
        (["backup", ""], 2, "name a file"),
        (["backup", "agents.py"], 2, "agents.py exists; nothing is overwritten"),
        (["backup", "no/folder/x.db"], 2, "there is no folder"),
        (["backup", "x.db", "--store", "sqlite:///none.db"], 70, "none.db"),
        (["pause", "vendor", "--all"], 2, "pause vendor --all: everything is more than vendor; leave one of them out"),
        (["unpause", "vendor/"], 2, "unpause 'vendor/': a scope is vendor, vendor/model or a tool's name"),
        (["pause", "--store", "sqlite:///none.db"], 70, "none.db"),
        (["stats", "--since", ""], 2, "--since (empty): say how long"),
        (["stats", "--tool", "chrage"], 2, "no step of a tool chrage in sqlite:///yaoki.db; did you mean charge?"),
        (["stats", "--store", "sqlite:///text.db"], 70, "text.db"),
        (["check"], 2, "FILE"),
        (["check", "agent.py"], 2, "did you mean agents.py?"),
        (["check", "."], 2, "it is a directory"),
        (["doctor", "nowhere.py"], 2, "no file nowhere.py"),
        (["doctor", "--store", "mysql://x"], 2, "store 'mysql://x': not a store"),
        (["top-up", "ticket-17"], 2, "say how much of what"),
        (["top-up", "ticket-17", "--calls", "x"], 2, "--calls"),
        (["top-up", "ticket-17", "--calls", "-1"], 2, "--calls"),
        (["top-up", "ticket-17", "--calls", "1.5"], 2, "Write a whole number"),
        (["top-up", "ticket-17", "--cost-usd", "inf"], 2, "cost_usd"),
        (["top-up", "nope", "--calls", "1"], 2, "no run nope"),
        (["top-up"], 2, "top-up takes a RUN or --group G"),
        (["top-up", "ticket-17", "--group", "g", "--calls", "1"], 2, "top-up takes a RUN or --group G"),
        (["top-up", "--group", "g"], 2, "say how much of what, for example: yaoki top-up --group g --calls 50"),
        (["top-up", "--group", "g", "--calls", "1"], 2, "there is no group 'g'"),
        (["top-up", "--group", "g", "--turns", "1"], 2, "no budget of 'turns' over a group"),
        (["group", "--calls", "1"], 2, "say which group"),
        (["group", "nope"], 2, "no group nope"),
        (["group", "g", "--calls", "1.5"], 2, "Write a whole number"),
        (["group", "g", "--cost-usd", "-1"], 2, "--cost-usd"),
        (["rnu"], 2, "No such command 'rnu'"),
        (["run"], 2, "FILE:LOOP"),
        (["show", "ticket-17", "--journa"], 2, "--journa"),
    ],
)
def test_bad_input_is_one_line_that_says_what_where_and_what_next(place, capfd, words, code, said):
    spoken = place.call(capfd, *words)
    assert spoken.code == code, spoken.err
    assert spoken.out == ""
    assert said in spoken.last
    assert spoken.last.startswith("yaoki: ")
    assert "Traceback" not in spoken.err
    own = [line for line in spoken.err.splitlines() if line.startswith("yaoki: ")]
    assert len(own) == 1, spoken.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "nowhere.py:x"], "file.not_found"),
        (["run", "agents.py:dnoe"], "loop.not_found"),
        (["run", "broken.py:x"], "file.import"),
        (["run", "agents.py:done", "--input", "pie"], "input.not_json"),
        (["run", "agents.py:doubt", "--run-id", "ticket-17", "--input", '"B-2"'], "run.input_mismatch"),
        (["show", "ticket-71"], "run.not_found"),
        (["runs", "--store", "sqlite:///none.db"], "journal.refused"),
        (["answer", "ticket-17", "q9", "skip"], "answer.refused"),
        (["rnu"], "usage"),
    ],
)
def test_an_error_is_json_too_where_json_was_asked_for(place, capfd, words, code):
    spoken = place.call(capfd, *words, "--json")
    assert spoken.json["error"]["code"] == code
    assert spoken.json["error"]["message"] in spoken.last


def test_debug_shows_the_traceback(place, capfd):
    assert "Traceback" in place.call(capfd, "run", "broken.py:x", "--debug").err
    assert "Traceback" in place.call(capfd, "show", "nope", "--debug").err


def test_a_missing_store_is_not_created_by_looking(place, capfd):
    place.call(capfd, "runs", "--store", "sqlite:///none.db")
    place.call(capfd, "show", "x", "--store", "sqlite:///none.db")
    assert not list(place.folder.glob("none.db*"))


def test_the_store_may_come_from_the_environment(place, capfd, tmp_path):
    place.env["YAOKI_STORE"] = f"sqlite:///{tmp_path}/env.db"
    try:
        assert place.call(capfd, "run", "agents.py:done", "--run-id", "e1").code == 0
        assert "e1" in place.call(capfd, "runs", "--status", "done").out
    finally:
        del place.env["YAOKI_STORE"]
    assert (tmp_path / "env.db").exists()


def test_a_folder_that_cannot_be_written_is_named(place, capfd):
    """Nobody may make a file in /proc, not even root."""
    spoken = place.call(capfd, "run", "agents.py:done", "--store", "sqlite:////proc/y.db")
    assert spoken.code == 70
    assert "/proc" in spoken.last


def test_the_version_is_said(place, capfd):
    said = place.call(capfd, "--version")
    assert said.code == 0
    assert said.out.startswith("yaoki ")
    assert said.out.strip()[-1].isdigit()


def test_an_option_before_its_verb_is_answered_with_the_command_put_right(place, capfd):
    said = place.call(capfd, "--json", "runs", "--status", "dead")
    assert said.code == 2
    assert said.last.endswith("--json goes after the verb: yaoki runs --status dead --json")
    assert said.json["error"]["code"] == "usage"
