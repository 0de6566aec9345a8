"""The demo itself: real processes, real kills, the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO

import msgspec
import pytest

from yaoki import Run, Runner, loop
from yaoki.clock import SystemClock
from yaoki.demo import main
from yaoki.demo._audit import Audit, audit
from yaoki.demo._board import PlainBoard
from yaoki.demo._cases import case_of_ticket
from yaoki.demo._director import Director
from yaoki.demo._place import Place, example_folder
from yaoki.demo._plan import Fault, Kill, Plan, Slip

# Three tickets, and every kind of interruption.
TICKETS = ("ticket-01", "ticket-02", "ticket-07")
TROUBLE = Plan(
    seed=1,
    kills=(
        Kill(ticket="ticket-01", tool="ask_model", number=2, when="before"),
        Kill(ticket="ticket-01", tool="send_mail", number=2, when="after"),
        Kill(ticket="ticket-01", tool="append_ledger", number=3, when="after"),
        Kill(ticket="ticket-02", tool="refund", number=1, when="after"),
        Kill(ticket="ticket-02", tool="append_ledger", number=3, when="before"),
        Kill(ticket="ticket-07", tool="refund", number=2, when="after"),
        Kill(ticket="ticket-07", tool="send_mail", number=3, when="before"),
    ),
    faults=(
        Fault(ticket="ticket-01", endpoint="refunds", request=1, kind="late"),
        Fault(ticket="ticket-01", endpoint="model", request=1, kind="truncated"),
    ),
    slips=(
        Slip(ticket="ticket-01", stage=0, kind="malformed-json"),
        Slip(ticket="ticket-07", stage=1, kind="unknown-tool"),
    ),
)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Audit:
    folder = tmp_path_factory.mktemp("demo")
    place = Place(folder=folder, store=f"sqlite:///{folder / 'yaoki.db'}", example=example_folder())
    clock = SystemClock()
    began_s = clock.monotonic_s()
    lines = StringIO()

    def elapsed_s() -> float:
        return clock.monotonic_s() - began_s

    cases = [case_of_ticket(ticket) for ticket in TICKETS]
    director = Director(place, TROUBLE, PlainBoard(lines, elapsed_s), elapsed_s, cases)
    found = audit(director.run())
    outputs = [place.output(ticket).read_text() for ticket in TICKETS]
    assert found.ok, "\n".join([*found.problems, lines.getvalue(), *outputs])
    return found


def test_killed_at_every_point_nothing_is_done_twice_and_nothing_is_lost(found):
    for tally in found.effects.values():
        assert (tally.done, tally.journaled) == (tally.wanted, tally.wanted)
        assert (tally.duplicated, tally.lost, tally.unwanted) == (0, 0, 0)
    assert found.runs == {"completed": 3}


def test_every_planned_kill_was_struck_and_survived(found):
    planned = {msgspec.json.encode(kill) for kill in TROUBLE.kills}
    assert {msgspec.json.encode(killed.kill) for killed in found.kills} == planned
    assert found.restarts >= len(TROUBLE.kills)
    # One death may catch two calls of a reply in flight: a mail and a ledger line.
    assert found.failures["process.died"] >= len(TROUBLE.kills)
    assert found.steps_reused > 0


def test_a_person_is_asked_about_the_ledger_alone_and_the_answer_is_what_the_ledger_shows(found):
    assert {(asked.run, asked.verdict) for asked in found.asked} == {
        ("ticket-01", "happened"),
        ("ticket-02", "not-happened"),
    }
    assert all(asked.call.startswith("append_ledger(") for asked in found.asked)


def test_a_refund_sent_again_carried_the_key_the_vendor_knew(found):
    # Two killed after it, one answered too late.
    assert found.keys_deduplicated == 3


def test_the_wire_and_the_model_misbehaved_and_that_healed(found):
    assert found.faults == {"late": 1, "truncated": 1}
    assert found.retries["semantic"] == 1
    assert (found.failures["output.rejected"], found.failures["tool.unknown"]) == (1, 1)
    assert found.retries["transient"] >= 2


def test_a_store_with_an_earlier_demo_is_refused(tmp_path, capsys):
    @loop
    def refund_agent(run: Run, ticket: str) -> str:
        return ticket

    store = f"sqlite:///{tmp_path / 'used.db'}"
    with Runner(store) as runner:
        runner.run(refund_agent.bind("x"), run_id="ticket-03")
    assert main(seed=1, store=store) == 2
    assert "ticket-03" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_the_whole_command_passes_for_any_seed_and_repeats_its_faults_and_kills(seed):
    command = [sys.executable, "-m", "yaoki", "demo", "--seed", str(seed), "--json"]
    audits = [
        json.loads(subprocess.run(command, capture_output=True, check=True, env=os.environ.copy(), timeout=100).stdout)
        for _ in range(2)
    ]
    for one in audits:
        assert one["ok"]
        assert len(one["kills"]) >= 7
        assert one["took_s"] < 60
    points = [sorted(json.dumps(killed["kill"]) for killed in one["kills"]) for one in audits]
    assert points[0] == points[1]
    assert audits[0]["faults"] == audits[1]["faults"]
