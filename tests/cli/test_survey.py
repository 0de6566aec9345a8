"""A store looked at as a whole: each run in one group, counts right, and nothing read that is not shown."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import Place, until
from tests.cli.stocked import Stock
from yaoki.cli._picture import GROUPS
from yaoki.cli._survey import survey
from yaoki.cli._views_text import Now
from yaoki.records import State
from yaoki.runtime import Runner


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    yield here
    here.close()


@pytest.fixture
def stock(place):
    made = Stock(place.folder / "yaoki.db")
    yield made
    made.close()


def seen(stock, *, limit=20, **options):
    """Return the groups as (count, ids shown)."""
    with Runner.verbs(stock.journal.url) as verbs:
        picture = survey(verbs, Now(now_ms=stock.now_ms), limit=limit, **options)
    groups = {name: (picture.groups[name].count, [r.run_id for r in picture.groups[name].shown]) for name in GROUPS}
    return picture, {name: group for name, group in groups.items() if group[0]}


def test_each_run_is_counted_in_one_group_and_those_to_be_seen_are_listed(stock):
    stock.parked("w-1", State.WAITING, waits_for="person", ago_ms=60_000)
    stock.parked("w-0", State.WAITING, waits_for="code", ago_ms=90_000)
    stock.parked("asleep-asks", State.SLEEPING, waits_for="person", wake_ms=stock.now_ms + 9_000, ago_ms=70_000)
    stock.parked("asleep", State.SLEEPING, waits_for="time", wake_ms=stock.now_ms + 60_000, note="cools down")
    stock.parked("late", State.SLEEPING, waits_for="time", wake_ms=stock.now_ms - 60_000)
    stock.asked("asked-to-the-end", State.CANCELLED)
    stock.died("d-0", "http.401", ago_ms=5_000)
    stock.died("d-1", "http.401", ago_ms=1_000)
    stock.ended("c-0", State.COMPLETED)
    stock.clock.ms = stock.now_ms
    stock.journal.create("p-0", loop="triage", input=b"{}")
    stock.begun("driven")
    picture, groups = seen(stock)
    assert groups == {
        "needs-you": (4, ["w-0", "asleep-asks", "w-1", "asked-to-the-end"]),
        "left": (1, ["late"]),
        "dead": (2, ["d-1", "d-0"]),
        "active": (3, []),
        "done": (1, []),
    }
    assert picture.groups["active"].parts == {State.RUNNING: 1, State.SLEEPING: 1, State.PENDING: 1}
    assert (picture.workers, picture.first_asleep.run_id) == (1, "asleep-asks")
    assert picture.asking == {"asked-to-the-end": "did asked-to-the-end happen?"}


def test_without_a_living_worker_what_is_pending_or_was_driven_is_left(stock):
    stock.journal.create("p-0", loop="triage", input=b"{}")
    stock.begun("driven")
    stock.journal.close()
    picture, groups = seen(stock)
    assert groups == {"left": (2, ["driven", "p-0"])}
    assert picture.died == {"driven"}


def test_rows_are_bounded_and_counts_are_not(stock):
    for n in range(30):
        stock.died(f"d-{n}", "http.401", ago_ms=n)
        stock.parked(f"w-{n}", State.WAITING, waits_for="person", ago_ms=n)
    _, groups = seen(stock, limit=3)
    assert groups == {"needs-you": (30, ["w-29", "w-28", "w-27"]), "dead": (30, ["d-0", "d-1", "d-2"])}


def test_a_loop_is_looked_at_alone(stock):
    stock.died("d-0", "http.401", loop="refund")
    stock.died("d-1", "http.401", loop="triage")
    assert seen(stock, loop="triage")[1] == {"dead": (1, ["d-1"])}


@pytest.mark.parametrize(
    ("status", "found"),
    [("done", ["c-1", "c-0"]), ("completed", ["c-1"]), ("active", ["asleep"]), ("sleeping", ["asleep"]), ("left", [])],
)
def test_a_status_is_a_state_or_a_group(stock, status, found):
    stock.ended("c-0", State.CAPPED, ago_ms=10)
    stock.ended("c-1", State.COMPLETED)
    stock.parked("asleep", State.SLEEPING, waits_for="time", wake_ms=stock.now_ms + 60_000)
    picture, _ = seen(stock, status=status)
    assert [one.run_id for one in picture.chosen.shown] == found
    assert picture.chosen.count == len(found)


# --- the verb


def test_a_limit_is_kept_and_the_rest_is_said(place, stock, capfd):
    for n in range(5):
        stock.died(f"d-{n}", "http.401", ago_ms=n)
    said = place.call(capfd, "runs", "--status", "dead", "--limit", "2")
    assert said.out.splitlines()[-1] == "  … and 3 more: yaoki runs --status dead --limit 5"
    as_json = place.call(capfd, "runs", "--json", "--limit", "2")
    assert [one["run_id"] for one in as_json.json] == ["d-0", "d-1"]
    assert as_json.last == "yaoki: 2 of 5 runs; more with --limit 5"
    assert place.call(capfd, "runs", "--loop", "refund").out.startswith("DEAD        5")


FILL = """
insert into run (name, loop, state, wake_ms, input, waits_for, file, created_ms, started_ms, ended_ms, changed_ms)
with n(i) as (select 0 union all select i + 1 from n where i < :count - 1)
select 'r-' || i, 'loop-' || (i % 3), case when i % 100 < 60 then 'sleeping' when i % 100 < 64 then 'waiting'
    when i % 100 < 70 then 'dead' else 'completed' end, case when i % 100 < 60 then :now + 600000 + i else 0 end,
    x'7b7d', case when i % 100 < 60 then 'time' else 'person' end, '/srv/agents.py', :now - i, :now - i,
    case when i % 100 < 64 then 0 else :now - i end, :now - i from n"""


def fill(place, count: int) -> None:
    """Write runs by SQL: the journal is closed, and nobody else is there."""
    stock = Stock(place.folder / "yaoki.db")
    now_ms = stock.now_ms
    stock.close()
    connection = sqlite3.connect(place.folder / "yaoki.db")
    connection.execute(FILL, {"count": count, "now": now_ms})
    connection.commit()
    connection.close()


def test_a_hundred_thousand_runs_are_looked_at_in_under_a_second(place):
    fill(place, 100_000)
    with Runner.verbs(f"sqlite:///{place.folder}/yaoki.db") as verbs:
        took_s = []
        for _ in range(3):  # the best of three: the machine does other things too
            began_s = time.process_time()
            picture = survey(verbs, Now(now_ms=int(time.time() * 1000)), limit=20)
            took_s.append(time.process_time() - began_s)
    assert {name: group.count for name, group in picture.groups.items()} == {
        "needs-you": 4_000,
        "left": 0,
        "dead": 6_000,
        "active": 60_000,
        "done": 30_000,
    }
    assert min(took_s) < 1


# --- --watch


def read_line(process) -> str:
    line = process.stdout.readline()
    assert line, "the command ended"
    return line


def watching(place, *words) -> subprocess.Popen:
    """Start a watch, and wait until it has had its first look: it tells of the first change after that."""
    process = place.start("runs", "--watch", *words)
    until(lambda: any("yaoki.db" in one for one in open_files(process.pid)), "the store to be opened")
    return process


def open_files(pid: int) -> list[str]:
    try:
        return [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def told(place, process, stock) -> str:
    """Let runs die until the watch tells of one: the first may come before its first look."""
    n = 0

    def heard() -> bool:
        nonlocal n
        stock.now_ms += 1
        stock.died(f"d-{n}", "http.401", "key revoked")
        n += 1
        return len(select_ready(process, 0.3)) > 0

    while True:  # a run may be seen on its way, before it is dead
        until(heard, "a change to be told")
        line = read_line(process)
        if "dead" in line:
            return line


def select_ready(process, timeout_s: float):
    import select

    return select.select([process.stdout], [], [], timeout_s)[0]


def test_in_a_pipe_each_change_is_a_line_and_ctrl_c_ends_it_well(place, stock):
    process = watching(place)
    line = told(place, process, stock)
    assert "  d-" in line
    assert line.rstrip().endswith("refund  dead  ask_model: http.401 key revoked")
    process.send_signal(signal.SIGINT)
    said = place.end(process)
    assert (said.code, said.err) == (0, "")


def test_as_json_each_change_is_a_document_on_its_line(place, stock):
    process = watching(place, "--json", "--status", "dead")
    change = json.loads(told(place, process, stock))
    assert (change["status"], change["group"]) == ("dead", "dead")
    assert change["at"] > 0
    process.send_signal(signal.SIGINT)
    assert place.end(process).code == 0


def test_a_watch_whose_reader_has_gone_ends(place, stock):
    process = watching(place)
    process.stdout.close()

    def ended() -> bool:
        stock.now_ms += 1
        stock.died(f"x-{stock.now_ms}", "http.401")
        return process.poll() is not None

    until(ended, "the end of the watch")
    assert process.returncode == 0
    process.stdout = None


def test_on_a_terminal_the_picture_is_drawn_again_and_the_last_one_stays(place, stock):
    stock.died("d-0", "http.401", "key revoked")
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "yaoki", "runs", "--watch"],
        cwd=place.folder,
        env={**place.env, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    said = b""

    def drawn(wanted: bytes) -> None:
        nonlocal said
        while wanted not in said:
            said += os.read(master, 65_536)

    try:
        drawn(b"d-0")
        stock.died("d-1", "http.401", "key revoked")
        drawn(b"d-1")
        said = b""
        process.send_signal(signal.SIGINT)
        drawn(b"\x1b[?1049l")
        after = said.partition(b"\x1b[?1049l")[2]
        while b"d-0" not in after:
            after += os.read(master, 65_536)
        assert b"d-1" in after
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
