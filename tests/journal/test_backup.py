"""Copies of a store in use: one moment of it, whole, or nothing at all."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

import apsw
import pytest

from tests.journal.store import begun, edit, note, open_at, start, texts
from tests.journal.test_faults import VFS, FaultyVFS
from yaoki.errors import JournalError, StoreCorrupt
from yaoki.journal import _backup
from yaoki.records import State


@pytest.fixture
def journal(tmp_path):
    journal = open_at(tmp_path / "s.db")
    yield journal
    journal.close()


def files(folder) -> list[str]:
    """List what is in a folder beside the store."""
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith("s.db"))


def test_a_backup_is_a_store_of_its_own_with_everything_written_before(tmp_path, journal):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note(f"{i}") for i in range(5_000)])
    steps = []
    size = journal.backup(str(tmp_path / "copy.db"), lambda done, total: steps.append((done, total)))
    journal.append(run, epoch, 5_000, [note("later")])
    assert size == (tmp_path / "copy.db").stat().st_size
    assert steps[-1][0] == steps[-1][1] > 1
    assert steps == sorted(steps)
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert (tmp_path / "copy.db").stat().st_nlink == 1
    assert files(tmp_path) == ["copy.db"]
    copy = open_at(tmp_path / "copy.db")
    assert len(texts(copy, run)) == 5_000
    assert not any(worker.alive for worker in copy.workers() if worker.id != copy.worker)
    assert copy.claim(run).died, "in the copy its process has died"
    copy.close()


def test_a_backup_is_on_disk_before_it_has_its_name(tmp_path, journal, monkeypatch):
    order = []
    sync, name = _backup._sync, _backup._give_name
    monkeypatch.setattr(_backup, "_sync", lambda path: (order.append(path.name), sync(path)))
    monkeypatch.setattr(_backup, "_give_name", lambda *paths: (order.append("named"), name(*paths)))
    journal.backup(str(tmp_path / "copy.db"))
    assert order[0].startswith("copy.db.")
    assert order[1:] == ["named", tmp_path.name]


def test_a_backup_overwrites_nothing(tmp_path, journal):
    (tmp_path / "copy.db").write_text("mine")
    (tmp_path / "nowhere.db").symlink_to(tmp_path / "missing")
    for name in ("copy.db", "nowhere.db", "s.db", "s.db-wal"):
        with pytest.raises(JournalError, match=rf"{name} exists; nothing is overwritten"):
            journal.backup(str(tmp_path / name))
    assert (tmp_path / "copy.db").read_text() == "mine"
    assert files(tmp_path) == ["copy.db", "nowhere.db"]


def test_a_name_taken_while_the_copy_was_made_is_not_overwritten(tmp_path, journal):
    def meanwhile(done, total):
        (tmp_path / "copy.db").write_text("mine")

    with pytest.raises(JournalError, match="exists; nothing is overwritten"):
        journal.backup(str(tmp_path / "copy.db"), meanwhile)
    assert (tmp_path / "copy.db").read_text() == "mine"
    assert files(tmp_path) == ["copy.db"]


def test_a_name_that_sqlite_would_take_for_a_file_of_the_store_is_refused(tmp_path, journal, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "s.db-journal"), "s.db-journal", str(tmp_path / "link" / "s.db-journal")):
        with pytest.raises(JournalError, match="a name of the store's own files"):
            journal.backup(name)
    journal.backup(str(tmp_path / "s.db.copy"))


def test_a_backup_to_nowhere_says_so_and_leaves_nothing(tmp_path, journal):
    with pytest.raises(JournalError, match=r"cannot write .*No such file or directory"):
        journal.backup(str(tmp_path / "no" / "copy.db"))
    assert files(tmp_path) == []


def test_a_disk_that_fails_at_any_write_leaves_nothing_behind(tmp_path, journal, monkeypatch):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note("x" * 1000)] * 100)
    monkeypatch.setattr(_backup, "open_connection", lambda path, vfs: apsw.Connection(
        path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS))  # fmt: skip
    fail_at, errors = 0, [""]
    while len(errors) > fail_at:
        fail_at += 1
        vfs = FaultyVFS(apsw.FullError, fail_at, for_good=True)
        try:
            journal.backup(str(tmp_path / "copy.db"))
        except JournalError as error:
            errors.append(str(error))
        vfs.unregister()
        assert files(tmp_path) == [] or len(errors) == fail_at
    assert all("copy.db: cannot write the backup: the disk is full" in error for error in errors[1:])
    assert fail_at > 10
    assert files(tmp_path) == ["copy.db"]
    assert journal.failed is None


def test_a_sync_that_fails_leaves_nothing_behind(tmp_path, journal, monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(_backup, "_sync", fail)
    with pytest.raises(JournalError, match="Input/output error"):
        journal.backup(str(tmp_path / "copy.db"))
    assert files(tmp_path) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path, journal):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.backup(str(tmp_path / "copy.db"), interrupt)
    assert files(tmp_path) == []
    journal.backup(str(tmp_path / "copy.db"))


def test_where_there_are_no_hard_links_the_copy_is_renamed_and_overwrites_nothing(tmp_path, journal, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(_backup.os, "link", refuse)
    journal.backup(str(tmp_path / "copy.db"))
    assert files(tmp_path) == ["copy.db"]
    open_at(tmp_path / "copy.db", worker=False).close()
    with pytest.raises(JournalError, match="exists"):
        journal.backup(str(tmp_path / "other.db"), lambda done, total: (tmp_path / "other.db").write_text("mine"))
    assert (tmp_path / "other.db").read_text() == "mine"


def test_a_damaged_store_is_named_and_not_copied(tmp_path, journal, monkeypatch):
    def damaged(path, vfs):
        raise apsw.CorruptError("database disk image is malformed")

    monkeypatch.setattr(_backup, "connect", damaged)
    with pytest.raises(StoreCorrupt, match=r"s\.db: cannot copy it: the file is damaged"):
        journal.backup(str(tmp_path / "copy.db"))
    assert files(tmp_path) == []


def test_pages_that_are_damaged_are_no_backup(tmp_path, journal):
    """SQLite copies pages unread: that nobody could read them would show when the copy is needed."""
    run, epoch = begun(journal)
    for n in range(200):
        journal.append(run, epoch, n, [note("x" * 300)])
    journal.close()
    path = tmp_path / "s.db"
    path.write_bytes(path.read_bytes()[:-4096] + b"\xff" * 4096)
    verbs = open_at(path, worker=False)
    with pytest.raises(StoreCorrupt, match=r"s\.db: is damaged .*; no copy was made"):
        verbs.backup(str(tmp_path / "copy.db"))
    verbs.close()
    assert files(tmp_path) == []


LEFT = "copy.db." + "0" * 32 + ".partial"


def test_what_a_killed_backup_left_is_removed_by_the_next_and_nothing_else(tmp_path, journal):
    mine = ["copy.db.partial", "copy.db.old.partial", "other.db." + "0" * 32 + ".partial"]
    for name in (LEFT, *mine):
        (tmp_path / name).write_text("x")
    journal.backup(str(tmp_path / "copy.db"))
    assert files(tmp_path) == sorted(["copy.db", *mine])


def test_a_backup_to_the_same_name_that_is_under_way_is_left_alone(tmp_path, journal):
    with (tmp_path / LEFT).open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        journal.backup(str(tmp_path / "copy.db"))
        assert files(tmp_path) == ["copy.db", LEFT]


@pytest.mark.parametrize("when", ["at its first page", "at its last page", "before it has its name", "after"])
def test_a_death_during_a_backup_leaves_the_store_as_it_is_and_no_copy_or_a_whole_one(tmp_path, journal, when):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note("x" * 1000)] * 2000)
    script = """
import os
from yaoki.journal import _backup
when, folder = sys.argv[2:]
def die(*_): os.kill(os.getpid(), 9)
def progress(done, total):
    if when == 'at its first page' or (when == 'at its last page' and done == total): die()
whole = _backup._give_name
if when == 'before it has its name': _backup._give_name = die
if when == 'after': _backup._give_name = lambda *paths: (whole(*paths), die())
open_at(path).backup(folder + '/copy.db', progress)
"""
    worker = start(script, tmp_path / "s.db", when, str(tmp_path))
    assert worker.wait() == -9
    worker.stdin.close()
    worker.stdout.close()
    assert ("copy.db" in files(tmp_path)) == (when == "after")
    journal.append(run, epoch, 2000, [note("later")])
    journal.leave(run, epoch, 2001, [], state=State.COMPLETED)
    if when == "after":
        assert_whole(tmp_path / "copy.db", run, 2000)
        (tmp_path / "copy.db").unlink()
    journal.backup(str(tmp_path / "copy.db"))
    assert files(tmp_path) == ["copy.db"]
    assert_whole(tmp_path / "copy.db", run, 2001)


def assert_whole(path, run: int, records: int) -> None:
    copy = open_at(path, worker=False)
    assert copy._one("pragma integrity_check") == "ok"
    assert len(texts(copy, run)) == records
    copy.close()
    for suffix in ("-wal", "-shm", "-lock"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


WRITE = """
import select
journal = open_at(path); run, epoch = begun(journal, 'busy'); print('up', flush=True)
i = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    journal.append(run, epoch, i, [note(str(i))]); journal.mark(); i += 1
print(i, flush=True)
journal.close()
"""


def test_a_backup_ends_while_others_write_and_is_one_moment_of_the_store(tmp_path, journal):
    run, epoch = begun(journal, "old")
    for k in range(10):
        journal.append(run, epoch, 1000 * k, [note("x" * 1000)] * 1000)
    writer = start(WRITE, tmp_path / "s.db")
    assert writer.stdout.readline() == "up\n"
    seen = []

    def writes_go_on(done, total):
        if not seen:
            seen.append(len(texts(journal, 2)))
            until_s = time.monotonic() + 30
            while len(texts(journal, 2)) <= seen[0] + 10:
                assert time.monotonic() < until_s, "the writer waits for the copy"

    journal.backup(str(tmp_path / "copy.db"), writes_go_on)
    written = int(writer.communicate("stop\n")[0])
    copy = open_at(tmp_path / "copy.db", worker=False)
    said = texts(copy, copy.get("busy").id)
    assert said == [str(i) for i in range(len(said))]
    assert len(said) <= seen[0] < written
    assert copy._one("pragma integrity_check") == "ok"
    copy.close()


def test_a_copy_of_a_copy_has_runs_of_its_own(tmp_path, journal):
    run, _ = begun(journal)
    journal.backup(str(tmp_path / "copy.db"))
    edit(tmp_path / "copy.db", "update run set state = 'pending', owner = 0")
    copy = open_at(tmp_path / "copy.db")
    assert copy.claim(run).row.owner == copy.worker
    assert journal.driven(journal.get("run-1")), "the original is driven where it was"
    copy.backup(str(tmp_path / "second.db"))
    copy.close()
    open_at(tmp_path / "second.db", create=False, worker=False).close()
