from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from tests.journal.store import begun, edit, open_at
from yaoki.journal import _journal, _outside, _owning, _reading, _schema


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


def test_the_migrations_are_numbered_from_one_to_the_version_without_a_gap():
    assert [number for number, _ in _schema.migrations()] == list(range(1, _schema.VERSION + 1))


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
    "due runs, by the partial index": (_reading.DUE, (0, 10), ["SEARCH run USING INDEX run_due (wake_ms<?)"]),
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
    "runs in one state, in order": (
        _reading.in_states(1),
        ("pending", 10),
        ["SEARCH run USING INDEX run_state (state=?)"],
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
