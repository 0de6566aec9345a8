"""`yaoki doctor`: each answer is ok, a note, a warning or a FAIL, with what to do; it changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.command import Place
from tests.cli.stocked import Stock
from tests.journal.store import StillClock
from yaoki.cli._findings import Examined
from yaoki.cli._probe import about_place, about_sync, about_workers, judged_sync
from yaoki.cli._probe_file import about_clock, about_file
from yaoki.cli._views_doctor import about_examined, about_left, doctor_lines
from yaoki.cli._views_text import Commands, plain
from yaoki.journal import WorkerRow
from yaoki.records import State

HERE = Commands(cwd="/srv")


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    yield here
    here.close()


@pytest.fixture
def stock(place):
    made = Stock(place.folder / "yaoki.db")
    made.died("d-1", "http.401")
    yield made
    made.close()


def answers(said) -> dict[str, tuple[str, str, str]]:
    return {one["about"]: (one["level"], one["text"], one["then"]) for one in said.json}


def test_a_healthy_store_has_an_answer_to_everything_and_nothing_is_changed(place, stock, capfd):
    stock.close()
    before = {file.name: file.read_bytes() for file in place.folder.iterdir()}
    said = place.call(capfd, "doctor", "--json")
    assert said.code == 0, said.out
    found = answers(said)
    for about in ("sqlite", "file system", "disk", "sync", "store", "workers", "left", "permissions", "content"):
        assert about in found
    assert {"size", "wal", "clock"} <= found.keys()
    assert "FAIL" not in {level for level, _, _ in found.values()}
    assert found["store"][1].endswith("yaoki.db, 1 run of 1 loop")
    after = {file.name: file.read_bytes() for file in place.folder.iterdir() if not file.name.startswith("stderr")}
    assert after == {name: content for name, content in before.items() if not name.startswith("stderr")}


def test_no_store_yet_is_a_note(place, capfd):
    found = answers(place.call(capfd, "doctor", "--json"))
    assert found["store"][0] == "note"
    assert "yaoki run creates it" in found["store"][2]
    assert not (place.folder / "yaoki.db").exists()


def test_what_a_death_left_is_named_with_the_command_that_takes_it_on(place, stock, capfd):
    stock.begun("r-1")
    stock.close()
    level, text, then = answers(place.call(capfd, "doctor", "--json"))["left"]
    assert (level, then) == ("warn", "yaoki worker /srv/agents.py")
    assert text == "1 run left by a process that died, taken up by nobody: r-1"


def test_a_living_worker_and_a_brake_are_named(place, stock, capfd):
    stock.begun("r-1")
    stock.journal.pause("nina")
    found = answers(place.call(capfd, "doctor", "--json"))
    assert f"pid {os.getpid()} on " in found["worker"][1]
    assert found["worker"][1].endswith("drives 1 run")
    assert found["brake"][0] == "warn"
    assert found["brake"][2] == "yaoki unpause"
    assert found["left"][0] == "ok"


def test_a_damaged_store_fails_with_70_and_says_what_to_do(place, stock, capfd):
    for n in range(200):
        stock.died(f"x-{n}", "http.401", "k" * 500)
    stock.close()
    file = place.folder / "yaoki.db"
    body = bytearray(file.read_bytes())
    body[40 * 4096 : 44 * 4096] = b"\xff" * (4 * 4096)
    file.write_bytes(body)
    said = place.call(capfd, "doctor", "--json")
    assert said.code == 70
    assert any(level == "FAIL" for level, _, _ in answers(said).values())


def test_what_is_no_store_fails_with_70(place, capfd):
    place.write("yaoki.db", "this is no database, but it is long enough to be looked at, really\n" * 50)
    said = place.call(capfd, "doctor")
    assert said.code == 70
    assert "FAIL" in said.out
    assert "is no SQLite database" in said.out


def test_a_store_that_others_can_read_is_warned_of(place, stock, capfd):
    stock.close()
    (place.folder / "yaoki.db").chmod(0o644)
    level, text, then = answers(place.call(capfd, "doctor", "--json"))["permissions"]
    assert level == "warn"
    assert "can be read by others" in text
    assert then.startswith("chmod 600 ")


def test_a_store_from_the_future_is_warned_of(stock):
    stock.now_ms += 3_600_000
    stock.died("d-2", "http.401")
    clock = StillClock()
    clock.ms = stock.now_ms - 3_600_000
    found = {one.about: one for one in about_file(stock.journal.path, clock, lambda _: None)}
    assert found["clock"].level == "warn"
    assert "1h" in found["clock"].text


HOLD = """
import sqlite3, sys
reader = sqlite3.connect(sys.argv[1])
reader.execute("begin")
reader.execute("select count(*) from run").fetchall()
print("holds", flush=True)
sys.stdin.read()
"""


def test_a_wal_that_a_reader_holds_is_named_with_that_process(stock):
    command = [sys.executable, "-c", HOLD, stock.journal.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "holds\n"
        for n in range(45):
            stock.journal.create(f"w-{n}", loop="l", input=b"x" * 400_000)
        found = {one.about: one for one in about_file(stock.journal.path, StillClock(), lambda _: None)}
        reader.stdin.close()
    assert found["wal"].level == "warn"
    assert f"read for over a second by pid {reader.pid}" in found["wal"].text
    assert found["wal"].then == "end what reads it for so long"


@pytest.mark.parametrize(
    ("took_us", "in_memory", "level"),
    [(3, False, "warn"), (3, True, "ok"), (150, False, "ok"), (9_000, False, "ok"), (30_000, False, "note")],
)
def test_a_sync_is_judged_by_what_disks_can_do(took_us, in_memory, level):
    judged = judged_sync(took_us, in_memory=in_memory)
    assert judged.level == level
    assert bool(judged.then) == (level != "ok")


def test_the_disk_is_really_synced_and_the_file_is_gone_after(tmp_path):
    class Counting(StillClock):
        reads = 0

        def monotonic_s(self) -> float:
            self.reads += 1
            return self.reads / 1000

    clock = Counting()
    answer = about_sync(f"{tmp_path}/yaoki.db", clock)
    assert clock.reads == 40
    assert answer.text.startswith("1,000 us a sync")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mount", "level", "text"),
    [
        (("ext4", "rw,relatime"), "ok", "ext4"),
        (("ext4", "rw,relatime,nobarrier"), "warn", "ext4, mounted nobarrier: "),
        (("ext4", "ro"), "FAIL", "ext4, mounted read-only"),
        (("tmpfs", "rw"), "warn", "tmpfs: in memory"),
        (("overlay", "rw"), "note", "overlay: the layer of a container"),
        (("", ""), "note", "unknown here"),
    ],
)
def test_the_file_system_is_judged_by_its_kind_and_options(tmp_path, monkeypatch, mount, level, text):
    monkeypatch.setattr("yaoki.cli._probe.mount_of", lambda _: mount)
    answer = next(iter(about_place(f"{tmp_path}/yaoki.db")))
    assert answer.level == level
    assert answer.text.startswith(text)


@pytest.mark.parametrize(
    ("free", "nodes", "level"), [(10**12, 5, "ok"), (50_000_000, 5, "warn"), (1_000, 5, "FAIL"), (10**12, 0, "FAIL")]
)
def test_the_room_on_the_disk_is_judged(tmp_path, monkeypatch, free, nodes, level):
    class Found:
        f_bavail, f_frsize, f_files, f_favail = free, 1, 10, nodes

    monkeypatch.setattr("yaoki.cli._probe.os.statvfs", lambda _: Found)
    _, disk = about_place(f"{tmp_path}/yaoki.db")
    assert disk.level == level


def test_a_process_that_drives_many_runs_at_once_is_one_worker():
    rows = [WorkerRow(n, 77, "here", "", 0, 0, n % 2, alive=True, runs=n) for n in range(4)]
    (answer, *_) = about_workers(rows, 5_000)
    assert answer.text == "pid 77 on here for 5.0 s, drives 6 runs"


def test_a_worker_of_another_machine_is_a_note():
    rows = [WorkerRow(1, 77, "elsewhere", "", 0, 0, 0, alive=False, runs=0)]
    found = {one.about: one for one in about_workers(rows, 10)}
    assert found["hosts"].level == "note"
    assert "elsewhere also worked on this store" in found["hosts"].text
    assert about_clock(0).level == "ok"


def test_a_file_that_leaves_a_thread_running_has_its_steps_measured_beside_it(place, capfd):
    spin = (
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, name='spinner').start()\n"
    )
    place.write("spins.py", spin)
    found = answers(place.call(capfd, "doctor", "spins.py", "agents.py", "--json"))
    assert found["spins.py"][0] in ("warn", "note")  # how much it slows steps is the scheduler's, and this machine's
    assert "it left 1 thread running: spinner" in found["spins.py"][1]
    assert "thread" not in found["agents.py"][1]


def test_a_file_is_judged_by_what_importing_it_does_to_steps():
    (answer,) = about_examined(Examined(file="x.py", error="x.py:1: SyntaxError"), "x.py")
    assert answer.level == "FAIL"
    busy = Examined(file="x.py", threads=["t"], rate=10_000, rate_beside=4_999)
    (answer,) = about_examined(busy, "x.py")
    assert answer.level == "warn"
    assert answer.text == ("4,999 empty steps a second once it is imported, 10,000 before; it left 1 thread running: t")
    assert "give it a process of its own" in answer.then
    idle = Examined(file="x.py", threads=["t"], rate=10_000, rate_beside=9_000)
    assert [one.level for one in about_examined(idle, "x.py")] == ["note"]


def test_the_lines_say_what_to_do_and_sum_up():
    left = about_left([(f"r-{n}", "l", "/srv/a.py") for n in range(5)], HERE, more=False)
    lines = [plain(one) for one in doctor_lines([about_clock(0), left])]
    assert lines == [
        "ok    clock  no record comes from the future",
        "warn  left   5 runs left by a process that died, taken up by nobody: r-0, r-1, r-2, …",
        "      -> yaoki worker a.py",
        "1 thing to look at.",
    ]
    assert plain(doctor_lines([about_clock(0)])[-1]) == "All is well."


def test_states_are_untouched_by_looking(place, stock, capfd):
    stock.parked("w", State.WAITING, waits_for="person")
    place.call(capfd, "doctor")
    assert stock.journal.get("w").state is State.WAITING
