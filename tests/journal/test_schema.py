from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from tests.journal.store import begun, edit, open_at
from yaoki.journal import _discarding, _fleet, _groups, _journal, _outside, _owning, _reading, _schema, _surveying


def shape(connection: apsw.Connection) -> list[tuple[str, str]]:
    """Every object's name and SQL, without comments and white space."""
    rows = connection.execute("select name, coalesce(sql, '') from sqlite_schema order by name").fetchall()
    return [(name, re.sub(r"\s+", " ", re.sub(r"--.*", "", sql)).strip()) for name, sql in rows]


def test_the_migrations_give_the_schema():
    migrated, written = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    assert _schema.migrate(migrated)
    schema = Path(_schema.__file__).with_name("sql") / "schema.sql"
    for statement in _schema.statements(schema.read_text("utf-8")):
        written.execute(statement)
    assert shape(migrated) == shape(written)
    assert migrated.pragma("application_id") == written.pragma("application_id") == _schema.APPLICATION_ID


def test_the_migrations_are_numbered_from_one_up_to_the_version():
    numbers = [number for number, _ in _schema.migrations()]
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (1, _schema.VERSION)


def test_a_store_that_is_up_to_date_is_not_migrated_again():
    connection = apsw.Connection(":memory:")
    assert [_schema.migrate(connection), _schema.migrate(connection)] == [True, False]


def test_a_migration_that_fails_leaves_the_schema_as_it_was(monkeypatch):
    connection = apsw.Connection(":memory:")
    monkeypatch.setattr(_schema, "migrations", lambda: [(1, "create table a (b);\ncreate table a (b);\n")])
    with pytest.raises(apsw.SQLError):
        _schema.migrate(connection)
    assert shape(connection) == []
    assert connection.pragma("user_version") == 0


def test_a_script_is_split_into_its_statements():
    script = "-- a; b\ncreate table a (\n  b -- c;\n);\nselect ';';\n-- the end\n"
    assert [re.sub(r"\s+", " ", s).strip() for s in _schema.statements(script)] == [
        "-- a; b create table a ( b -- c; );",
        "select ';';",
    ]


PLANS = {
    "due runs of a loop, the longest due first": (
        _fleet.WAKING,
        ("l", 10, 10),
        ["SEARCH run USING COVERING INDEX run_wake (loop=? AND wake_ms>? AND wake_ms<?)"],
    ),
    "the next wake of a loop": (
        _fleet.NEXT_WAKE,
        ("l",),
        ["SEARCH run USING COVERING INDEX run_wake (loop=? AND wake_ms>?)"],
    ),
    "pending runs of a loop, in order": (
        _fleet.PENDING,
        ("l", 10),
        ["SEARCH run USING COVERING INDEX run_state (state=? AND loop=?)"],
    ),
    "who owns runs": (
        _fleet.OWNERS,
        (),
        [
            "CO-ROUTINE owners",
            "SETUP",
            "SEARCH run USING COVERING INDEX run_owner (owner>?)",
            "RECURSIVE STEP",
            "SCAN owners",
            "CORRELATED SCALAR SUBQUERY 2",
            "SEARCH run USING COVERING INDEX run_owner (owner>?)",
            "SCAN owners",
        ],
    ),
    "what a worker left": (_fleet.LEFT_BY, (1, 10), ["SEARCH run USING INDEX run_owner (owner=?)"]),
    "counts, from the index alone": (_reading.COUNTS, (), ["SCAN run USING COVERING INDEX run_state"]),
    "how many runs a group has": (_groups.RUNS, ("night",), ["SEARCH run USING COVERING INDEX run_grp (grp=?)"]),
    "runs that wait for their group's budget": (_groups.WAKE, ("night", 1), ["SEARCH run USING INDEX run_grp (grp=?)"]),
    "what runs have cost, from the index alone": (
        _groups.SPENT_BY_STATE,
        ("",),
        ["SCAN run USING COVERING INDEX run_cost"],
    ),
    "old final runs": (
        _discarding.OLD,
        ("dead", 1, 10),
        ["SEARCH run USING INDEX run_ended (state=? AND ended_ms>? AND ended_ms<?)"],
    ),
    "the latest ended": (
        _surveying.LATEST_ENDED,
        ("", "dead", 10),
        ["SEARCH run USING INDEX run_ended (state=? AND ended_ms>?)"],
    ),
    "a chunk of the records to delete": (
        _discarding.CHUNK,
        (0, 1, 10),
        ["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    ),
    "a run is buried": (_discarding.BURY, (1, "", 1, 1), ["SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"]),
    "records deleted": (
        _discarding.DROP_RECORDS,
        (0, 1),
        ["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    ),
    "a swept run is noted": (
        _discarding.CLEARED,
        (1,),
        ["SEARCH tombstone USING INDEX tombstone_left (run=?)"],
    ),
    "a tombstone by its name": (
        _discarding.TOMBSTONE,
        ("x",),
        ["SEARCH tombstone USING INDEX sqlite_autoindex_tombstone_1 (name=?)"],
    ),
    "runs that wait for code": (
        _fleet.FOR_CODE,
        ("l",),
        ["SEARCH run USING INDEX run_state (state=? AND loop=?)"],
    ),
    "a page of all runs": (_reading.PAGE, (0, 10), ["SEARCH run USING INTEGER PRIMARY KEY (rowid>?)"]),
    "a run is claimed": (_owning.CLAIM, (1, 1, 1, 0), ["SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"]),
    "what discarded runs left": (
        _discarding.LEFT,
        (10,),
        ["SCAN tombstone USING COVERING INDEX tombstone_left"],
    ),
    "a run by its name": (_reading.BY_NAME, ("x",), ["SEARCH run USING INDEX sqlite_autoindex_run_1 (name=?)"]),
    "a run by its number": (_reading.BY_ID, (1,), ["SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"]),
    "the records of a run, in order": (
        _reading.ENTRIES,
        (0, 1),
        ["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    ),
    "the newest post": (_owning.LAST_POST, (1,), ["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]),
    "the driver's last record": (
        _outside.LAST_DRIVEN,
        (1,),
        ["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    ),
    "a fenced append": (_journal.APPEND, (1, 1, 0, 13, "", b""), ["SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"]),
    "runs of a loop in one state, in order": (
        _reading.OF_STATE,
        ("pending", "l", 0, 10),
        ["SEARCH run USING INDEX run_state (state=? AND loop=? AND rowid>?)"],
    ),
    "the newest runs of a loop in one state": (
        _reading.OF_STATE_NEWEST,
        ("pending", "l", 10),
        ["SEARCH run USING INDEX run_state (state=? AND loop=?)"],
    ),
    "whether a worker still owns a run": (
        "select 1 from run where owner <> 0 and owner = ?",
        (1,),
        ["SEARCH run USING COVERING INDEX run_owner (owner=?)"],
    ),
}


@pytest.mark.parametrize("what", PLANS)
def test_the_store_finds_without_scanning_or_sorting(what):
    sql, bindings, plan = PLANS[what]
    connection = apsw.Connection(":memory:")
    _schema.migrate(connection)
    assert [row[3] for row in connection.execute(f"explain query plan {sql}", bindings)] == plan


def test_a_run_number_is_never_used_again(tmp_path):
    path = tmp_path / "s.db"
    journal = open_at(path)
    assert begun(journal, "a")[0] == 1
    journal.close()
    edit(path, "delete from run")
    journal = open_at(path)
    assert begun(journal, "b")[0] == 2
    journal.close()
