from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.journal.store import StillClock, begun, edit, kill, note, open_at, photo, start, texts, url_of, wait_said
from yaoki.errors import JournalError, StoreCorrupt, StoreRefused
from yaoki.journal import Journal, _connect, _place, _schema
from yaoki.journal._place import default_fs_type, path_of
from yaoki.journal._schema import VERSION

NEWER = VERSION + 1


def refused(directory: Path, url: str, error: type[JournalError], words: str, **options) -> None:
    """Check that opening is refused with these words, and that not a byte below the directory changes."""
    before = photo(directory)
    for worker in (True, False):
        with pytest.raises(error, match=words) as caught:
            Journal.open(url, clock=StillClock(), worker=worker, **options)
        assert type(caught.value) is error
    assert photo(directory) == before


@pytest.mark.parametrize(
    "url", ["yaoki.db", "postgres://host/db", "sqlite://", "sqlite:///", "sqlite://yaoki.db", "sqlite:///:memory:", "temporal://x"]
)  # fmt: skip
def test_what_is_no_file_is_refused_as_a_store(tmp_path, url):
    refused(tmp_path, url, StoreRefused, r"not a store\. A store is a file: sqlite:///yaoki\.db")


def test_a_url_is_relative_with_three_slashes_and_absolute_with_four(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert path_of("sqlite:///a/b.db") == ("sqlite:///a/b.db", str(tmp_path / "a/b.db"))
    assert path_of("sqlite:////x/b.db") == ("sqlite:////x/b.db", "/x/b.db")


def test_the_store_is_yaoki_db_unless_the_environment_names_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("YAOKI_STORE", raising=False)
    assert path_of(None)[1] == str(tmp_path / "yaoki.db")
    monkeypatch.setenv("YAOKI_STORE", "sqlite:///other.db")
    assert path_of(None)[1] == str(tmp_path / "other.db")


def test_two_ways_to_one_file_are_one_store(tmp_path):
    open_at(tmp_path / "s.db").close()
    (tmp_path / "link.db").symlink_to("s.db")
    journal = open_at(tmp_path / "link.db")
    assert journal.path == str(tmp_path / "s.db")
    assert not (tmp_path / "link.db-lock").exists()
    journal.close()


def test_a_new_store_is_readable_by_its_owner_alone_and_marked_as_ours(tmp_path):
    journal = open_at(tmp_path / "s.db")
    begun(journal)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["s.db", "s.db-lock", "s.db-shm", "s.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    journal.close()
    header = (tmp_path / "s.db").read_bytes()[:100]
    assert header[68:72] == b"YAOK"
    assert int.from_bytes(header[60:64], "big") == VERSION


def test_a_missing_store_is_not_created_for_who_only_looks(tmp_path):
    refused(
        tmp_path, url_of(tmp_path / "s.db"), StoreRefused, "no store at .*s.db; yaoki run creates one", create=False
    )


def test_an_empty_file_is_no_store_for_who_only_looks_and_becomes_one_for_a_run(tmp_path):
    path = tmp_path / "s.db"
    path.touch()
    refused(tmp_path, url_of(path), StoreRefused, "no store at", create=False)
    journal = open_at(path)
    assert begun(journal) == (1, 1)
    journal.close()


def test_a_directory_is_refused(tmp_path):
    refused(tmp_path, url_of(tmp_path), StoreRefused, "is a directory")


def test_a_missing_parent_directory_is_refused(tmp_path):
    refused(tmp_path, url_of(tmp_path / "no/s.db"), StoreRefused, "there is no directory .*/no")


@contextmanager
def unprivileged():
    """Who may do anything is refused nothing, so root becomes nobody for a while."""
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(65534)
    try:
        yield
    finally:
        if privileged:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("directory_mode", "file_mode", "words"),
    [(0o555, 0o666, "the directory .* is read-only"), (0o777, 0o444, "not readable and writable for this user")],
)
def test_what_cannot_be_written_is_refused(directory_mode, file_mode, words):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.db"
        open_at(path).close()
        before = photo(Path(name))
        path.chmod(file_mode)
        Path(name).chmod(directory_mode)
        with unprivileged(), pytest.raises(StoreRefused, match=words):
            open_at(path)
        Path(name).chmod(0o755)
        assert photo(Path(name)) == before


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path, kind):
    asked = []
    options = {"fs_type": lambda directory: asked.append(directory) or kind}
    refused(tmp_path, url_of(tmp_path / "s.db"), StoreRefused, rf"network file system \({kind}\)", **options)
    assert asked == [str(tmp_path)] * 2


def test_a_local_file_system_is_taken_by_the_type_the_kernel_gives(tmp_path):
    assert default_fs_type("/proc") == "proc"
    assert default_fs_type(str(tmp_path)) not in {"", "proc"}


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path, monkeypatch):
    table = (
        "22 1 8:1 / / rw shared:1 - ext4 /dev/root rw\n"
        "31 22 0:40 / /mnt/a\\040b rw - nfs4 host:/x rw\n"
        "32 22 0:41 / /mnt rw - tmpfs none rw\n"
    )
    (tmp_path / "mountinfo").write_text(table)
    monkeypatch.setattr(_place, "_MOUNTS", str(tmp_path / "mountinfo"))
    asked = {name: default_fs_type(name) for name in ("/mnt/a b/c", "/mnt/a b", "/mnt/a", "/mntx", "/")}
    assert asked == {"/mnt/a b/c": "nfs4", "/mnt/a b": "nfs4", "/mnt/a": "tmpfs", "/mntx": "ext4", "/": "ext4"}


def test_where_the_kernel_gives_no_table_the_place_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(_place, "_MOUNTS", str(tmp_path / "absent"))
    assert default_fs_type("/") == ""


@pytest.mark.parametrize(("version", "good"), [("3.51.2", False), ("3.40.1", False), ("3.51.3", True), ("4.0.0", True)])
def test_a_sqlite_with_the_wal_reset_bug_is_refused(tmp_path, monkeypatch, version, good):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    path = tmp_path / "s.db"
    if good:
        open_at(path).close()
    else:
        refused(tmp_path, url_of(path), StoreRefused, rf"SQLite {version} can corrupt .* Install apsw >= 3\.51\.3")


def test_a_store_of_a_newer_schema_is_refused(tmp_path):
    path = tmp_path / "s.db"
    open_at(path).close()
    edit(path, f"pragma user_version = {NEWER}")
    refused(tmp_path, url_of(path), StoreRefused, rf"newer yaoki \(schema {NEWER}, this one knows {VERSION}\)")


def test_a_newer_schema_still_in_the_wal_of_a_living_process_is_refused(tmp_path):
    path = tmp_path / "s.db"
    open_at(path).close()
    newer = start(
        "c = apsw.Connection(str(path)); c.pragma('wal_autocheckpoint', 0)\n"
        f"c.execute('pragma user_version = {NEWER}'); print('up', flush=True); sys.stdin.read()",
        path,
    )
    wait_said(newer, "up")
    try:
        before = photo(tmp_path)
        with pytest.raises(StoreRefused, match="newer yaoki"):
            open_at(path)
        del before["s.db-shm"]  # who reads leaves a mark in the shared memory, and nothing else
        assert before.items() <= photo(tmp_path).items()
    finally:
        kill(newer)


@pytest.mark.parametrize("header", ["in the file", "in the -wal"])
def test_a_newer_store_whose_last_process_was_killed_keeps_its_wal(tmp_path, header):
    path = tmp_path / "s.db"
    open_at(path).close()
    newer = start(
        "c = apsw.Connection(str(path)); c.pragma('wal_autocheckpoint', 0)\n"
        f"c.execute('pragma user_version = {NEWER}')\n"
        "if sys.argv[2] == 'in the file': c.wal_checkpoint()\n"
        "c.execute('create table later (a)'); print('up', flush=True); sys.stdin.read()",
        path,
        header,
    )
    wait_said(newer, "up")
    kill(newer)
    before = photo(tmp_path)
    assert "s.db-wal" in before
    for _ in range(2):
        with pytest.raises(StoreRefused, match="newer yaoki"):
            open_at(path)
    if header == "in the -wal":  # the shared memory is made anew by whoever looks, and is no part of the store
        before["s.db-shm"] = photo(tmp_path)["s.db-shm"]
    assert photo(tmp_path) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program_is_refused(tmp_path, mode):
    path = tmp_path / "s.db"
    edit(path, f"pragma journal_mode = {mode}", "create table theirs (a)", "insert into theirs values (1)")
    refused(tmp_path, url_of(path), StoreRefused, "belongs to another program")
    edit(path, "pragma application_id = 252006673")
    refused(tmp_path, url_of(path), StoreRefused, "belongs to another program")


@pytest.mark.parametrize(
    "content", [b"x", b"not a database, but longer than a header would be" * 10, b"SQLite format 3\0"]
)
def test_a_file_that_is_no_database_is_refused(tmp_path, content):
    path = tmp_path / "s.db"
    path.write_bytes(content)
    refused(tmp_path, url_of(path), StoreCorrupt, "no SQLite database")


def test_damage_below_the_header_is_a_corrupt_store_when_it_is_met(tmp_path):
    path = tmp_path / "s.db"
    journal = open_at(path)
    run, epoch = begun(journal)
    for i in range(200):
        journal.append(run, epoch, i, [note("x" * 500)])
    journal.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(StoreCorrupt, match="Move it away with its -wal and restore a backup"):
        open_at(path)


def test_every_connection_is_held_to_the_same_pragmas(tmp_path):
    journal = open_at(tmp_path / "s.db")
    names = ["journal_mode", "synchronous", "wal_autocheckpoint", "journal_size_limit", "mmap_size", "trusted_schema"]
    for connection in (journal._connection, _connect.connect(journal.path, "")):
        assert [connection.execute(f"pragma {name}").get for name in names] == ["wal", 1, 0, 8 << 20, 0, 0]
        connection.close()
    journal._connection = _connect.connect(journal.path, "")
    journal.close()


def test_a_pragma_that_is_not_taken_refuses_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr(_connect, "_PRAGMAS", (("page_size", 1000, 1000),))
    with pytest.raises(JournalError, match="SQLite refused pragma page_size = 1000"):
        open_at(tmp_path / "s.db")


def test_processes_that_create_one_store_at_once_all_get_it(tmp_path):
    script = (
        "print('up', flush=True); sys.stdin.readline()\n"
        "for i in range(15):\n"
        "    j = open_at(path / f'{i}.db'); run, epoch = begun(j, sys.argv[2])\n"
        "    j.append(run, epoch, 0, [note(sys.argv[2])]); j.close()"
    )
    processes = [start(script, tmp_path, str(i)) for i in range(4)]
    for process in processes:
        wait_said(process, "up")
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 4
    for i in range(15):
        journal = open_at(tmp_path / f"{i}.db")
        assert sorted(texts(journal, row.id)[0] for row in journal.list()) == ["0", "1", "2", "3"]
        journal.close()


def test_a_store_that_another_process_creates_while_we_look_at_it_is_ours(tmp_path):
    path = tmp_path / "s.db"
    path.touch()
    creator = threading.Thread(target=lambda: open_at(path).close())

    class Raced:
        """Lets the other one in between two looks, unless they are one snapshot, which holds it back."""

        def __init__(self, connection) -> None:
            self.connection = connection

        def execute(self, statement, *bindings):
            result = self.connection.execute(statement, *bindings)
            if statement == "pragma application_id":
                creator.start()
                creator.join(0.05)
            return result

        def __getattr__(self, name):
            return getattr(self.connection, name)

    connection = _connect._open(str(path), "")
    _connect._prepare(Raced(connection), str(path))
    connection.close()
    creator.join(10)
    journal = open_at(path)
    assert begun(journal) == (1, 1)
    journal.close()


def test_an_older_store_is_brought_forward_in_place(tmp_path, monkeypatch):
    path = tmp_path / "s.db"
    open_at(path).close()
    later = [*_schema.migrations(), (NEWER, "alter table run add column colour text not null default '';\n")]
    for module in (_schema, _place):
        monkeypatch.setattr(module, "VERSION", NEWER)
    monkeypatch.setattr(_schema, "migrations", lambda: later)
    held = open_at(path)
    assert held._one("select count(colour) from run") == 0
    seen = subprocess.run(["od", "-An", "-tu1", "-j60", "-N4", path], capture_output=True, check=True, text=True)
    assert seen.stdout.split() == ["0", "0", "0", str(NEWER)], "the header in the file says so at once"
    held.close()
