"""How a store is: asked without changing it, in bounded time, with errors in Yaoki's words."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.journal.store import START_MS, StillClock, begun, open_at
from yaoki.errors import JournalError
from yaoki.journal import _health
from yaoki.journal._health import quick_check, readers_of, size_of, sqlite_version


class Ticking(StillClock):
    """A second passes with every look."""

    def monotonic_s(self) -> float:
        self.ms += 1_000
        return self.ms / 1_000


@pytest.fixture
def journal(tmp_path):
    journal = open_at(tmp_path / "s.db")
    for n in range(50):
        begun(journal, f"r-{n}")
    yield journal
    journal.close()


def test_a_whole_store_is_well(journal):
    told = []
    health = quick_check(journal.path, StillClock(), most_s=10, tell=told.append)
    assert (health.finished, health.wrong) == (True, [])


def test_a_check_that_takes_too_long_is_given_up_and_says_so_meanwhile(journal, monkeypatch):
    monkeypatch.setattr(_health, "_STEPS", 1)
    told = []
    health = quick_check(journal.path, Ticking(), most_s=5, tell=told.append)
    assert (health.finished, health.wrong) == (False, [])
    assert told == sorted(told)
    assert len(told) > 1
    assert begun(journal, "after")  # nothing is locked


def test_what_sqlite_finds_wrong_is_told(journal):
    journal.close()
    connection = apsw.Connection(journal.path)
    connection.execute("pragma writable_schema = on")
    connection.execute("update sqlite_schema set rootpage = 2 where name = 'run_owner'")
    connection.close()
    health = quick_check(journal.path, StillClock(), most_s=10, tell=lambda _: None)
    assert health.finished
    assert 0 < len(health.wrong) <= 5


def test_a_store_that_cannot_be_read_is_an_error_of_the_journal(journal):
    journal.close()
    with Path(journal.path).open("r+b") as file:
        file.write(b"SQLite format 3\0" + b"\xff" * 84)
    with pytest.raises(JournalError):
        quick_check(journal.path, StillClock(), most_s=10, tell=lambda _: None)
    with pytest.raises(JournalError):
        size_of(journal.path)


def test_sizes_are_in_bytes_and_the_newest_time_is_a_runs(journal):
    sizes = size_of(journal.path)
    assert sizes.file % 4096 == 0
    assert sizes.wal > 0
    assert sizes.wal_open > 0
    assert sizes.newest_ms == START_MS
    journal.close()
    closed = size_of(journal.path)
    assert (closed.wal_open, closed.newest_ms) == (0, START_MS)


def test_readers_are_found_nowhere_for_a_store_that_is_not_open(tmp_path):
    assert readers_of(f"{tmp_path}/none.db") == set()


def test_versions_are_numbers():
    assert all(version[0].isdigit() for version in sqlite_version())
