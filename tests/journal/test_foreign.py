from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from tests.journal.store import begun, note, open_at, texts
from yaoki.errors import StoreRefused


@pytest.fixture
def held(tmp_path):
    journal = open_at(tmp_path / "s.db")
    yield tmp_path / "s.db"
    journal.close()


def ways(path):
    path.with_name("soft.db").symlink_to(path)
    path.with_name("hard.db").hardlink_to(path)
    return {
        "the same path": lambda: sqlite3.connect(path),
        "a URI": lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True),
        "a URI with a host": lambda: sqlite3.connect(f"file://localhost{path}", uri=True),
        "an escaped URI": lambda: sqlite3.connect(f"file://{str(path).replace('s.db', '%73.d%62')}#x", uri=True),
        "a path as bytes": lambda: os.open(os.fsencode(path), os.O_RDWR),
        "a symbolic link": lambda: sqlite3.connect(path.with_name("soft.db")),
        "a hard link": lambda: sqlite3.connect(path.with_name("hard.db")),
        "a plain open": lambda: path.open("rb"),
        "a low-level open": lambda: os.open(path, os.O_RDONLY),
        "a copy": lambda: shutil.copy(path, path.with_name("copy.db")),
        "its shared memory": lambda: path.with_name("s.db-shm").open("rb"),
    }


def test_nothing_else_opens_a_store_that_this_process_holds(held):
    for what, way in ways(held).items():
        with pytest.raises(StoreRefused, match="held by this process"):
            way()
            pytest.fail(f"{what} was let through")


def test_a_path_relative_to_the_folder_is_the_same_store(held, monkeypatch):
    monkeypatch.chdir(held.parent)
    with pytest.raises(StoreRefused, match="another SQLite library"):
        sqlite3.connect("s.db")


def test_other_files_and_databases_are_nobodys_business(held, tmp_path):
    (tmp_path / "other.txt").write_text("x")
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("create table t (a)")
    connection.close()
    sqlite3.connect(":memory:").close()
    assert held.with_name("s.db-wal").read_bytes() is not None


def test_once_let_go_of_a_store_may_be_opened(tmp_path):
    one, two = open_at(tmp_path / "s.db"), open_at(tmp_path / "s.db")
    begun(one)
    one.close()
    with pytest.raises(StoreRefused):
        sqlite3.connect(tmp_path / "s.db")
    two.close()
    connection = sqlite3.connect(tmp_path / "s.db")
    assert connection.execute("select count(*) from run").fetchone() == (1,)
    connection.close()


def test_our_own_connections_and_backups_pass(held):
    other = open_at(held)
    run, epoch = begun(other)
    other.append(run, epoch, 0, [note()])
    other.backup(str(held.with_name("backup.db")))
    assert texts(other, run) == ["x"]
    other.close()


def test_a_forked_child_may_open_it(held):
    pid = os.fork()
    if not pid:
        try:
            connection = sqlite3.connect(held)
            os._exit(0 if connection.execute("select count(*) from run").fetchone() == (0,) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with pytest.raises(StoreRefused):
        sqlite3.connect(held)


STEPS = """
import sys
from collections import Counter
from yaoki import Effect, Runner, loop, tool

seen = Counter()
counting = []

@tool(effect=Effect.READ_ONLY)
def read(i: int) -> int:
    return i

@tool(effect=Effect.AT_MOST_ONCE)
def act(i: int) -> int:
    return i

@loop
def work(run) -> int:
    read(0), act(0)
    counting.append(True)
    for i in range(50):
        read(i), act(i)
    counting.clear()
    open(__file__).close()
    return 1

sys.addaudithook(lambda event, _: seen.update([event]) if counting else None)
with Runner(f"sqlite:///{sys.argv[1]}") as runner:
    assert runner.run(work.bind()).value == 1
print(dict(seen))
"""


def test_a_step_raises_no_audit_event_so_the_guard_costs_it_nothing(tmp_path):
    script = tmp_path / "steps.py"
    script.write_text(STEPS)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "y.db")], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout == "{}\n"
