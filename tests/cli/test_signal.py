"""`yaoki signal`: what a run waits for, sent from a terminal."""

from __future__ import annotations

import pytest

from tests.cli.command import Place

WAITS = """\
from yaoki import Run, loop


@loop
def waits(run: Run) -> dict[str, object]:
    return {"approved": run.wait_signal("approved", bool), "note": run.wait_signal("note")}
"""


@pytest.fixture
def place(tmp_path, capfd):
    here = Place(tmp_path)
    here.write("waits.py", WAITS)
    assert here.call(capfd, "run", "waits.py:waits", "--run-id", "w").code == 3
    yield here
    here.close()


def test_a_waiting_run_says_what_to_type_and_typing_it_lets_it_go_on(place, capfd):
    shown = place.call(capfd, "show", "w").out
    assert "yaoki signal w approved VALUE" in shown
    assert "yaoki signal w approved VALUE" in place.call(capfd, "runs").out
    sent = place.call(capfd, "signal", "w", "approved", "true")
    assert (sent.code, sent.out.splitlines()[0]) == (0, "w has signal approved.")
    place.write("note.json", '{"from": "a file"}')
    assert place.call(capfd, "signal", "w", "note", "@note.json", "--json").json["status"] == "pending"
    done = place.call(capfd, "run", "waits.py:waits", "--run-id", "w", "--json")
    assert done.json["value"] == {"approved": True, "note": {"from": "a file"}}


def test_without_a_value_it_is_null(place, capfd):
    place.call(capfd, "signal", "w", "approved", "false")
    place.call(capfd, "signal", "w", "note")
    done = place.call(capfd, "run", "waits.py:waits", "--run-id", "w", "--json")
    assert done.json["value"] == {"approved": False, "note": None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("w", "approved", '"yes"'), "run w waits for another approved: "),
        (("w", "approved", "yes"), "the value is not JSON at line 1 column 1"),
        (("w", "approved", "NaN"), "the value is not JSON"),
        (("w", "note", '"\\ud800"'), "surrogate"),
        (("w", "", "1"), "its name has 1 to 200 printable characters"),
        (("nobody", "approved", "true"), "nobody"),
        (("w", "approved", "@none.json"), "the value @none.json: No such file"),
    ],
)
def test_what_cannot_be_sent_is_one_line_and_changes_nothing(place, capfd, words, said):
    refused = place.call(capfd, "signal", *words)
    assert refused.code == 2
    assert said in refused.last
    assert "Traceback" not in refused.err
    assert place.call(capfd, "show", "w", "--json").json["status"] == "waiting"


def test_an_ended_run_takes_none(place, capfd):
    place.call(capfd, "cancel", "w")
    place.call(capfd, "run", "waits.py:waits", "--run-id", "w")
    refused = place.call(capfd, "signal", "w", "approved", "true")
    assert refused.code == 2
    assert "run w is cancelled: it takes no signal any more" in refused.last
