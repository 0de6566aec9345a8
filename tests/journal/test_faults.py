"""
Disks that fail at operation 1, 2, 3, … until a run meets no failure, and writers killed in the middle.

Whatever the operation: what was acknowledged is there afterwards, and the error is a JournalError that
says what, where and what next.
"""

from __future__ import annotations

import os
import re

import apsw
import pytest

from tests.conftest import LONG
from tests.journal.store import StillClock, begun, note, open_at, raw, start, step, texts, url_of, wait_said
from yaoki.errors import JournalError, StoreCorrupt
from yaoki.journal import Journal
from yaoki.journal._faults import translate
from yaoki.records import Signal, State

VFS = "yaoki-faulty"


class FaultyVFS(apsw.VFS):
    """The system's file layer, but the n-th write, sync or truncation fails: once, or from then on."""

    def __init__(self, error: type[apsw.Error], fail_at: int, *, for_good: bool) -> None:
        self.error, self.fail_at, self.for_good = error, fail_at, for_good
        self.count = 0
        super().__init__(VFS, "")

    def xOpen(self, name, flags):
        return FaultyFile(self, name, flags)

    def tick(self) -> None:
        self.count += 1
        if self.count == self.fail_at or (self.for_good and self.count > self.fail_at):
            raise self.error("injected")


class FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: FaultyVFS, name, flags) -> None:
        self.vfs = vfs
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self.vfs.tick()
        super().xWrite(data, offset)

    def xSync(self, flags):
        self.vfs.tick()
        super().xSync(flags)

    def xTruncate(self, size):
        self.vfs.tick()
        super().xTruncate(size)


class Scene:
    """A worker's life in small; remembers what it was told is kept."""

    def __init__(self, path, vfs: str) -> None:
        self.path, self.vfs = path, vfs
        self.kept: list[str] = []
        self.posted = 0
        self.ended = False

    def play(self) -> None:
        journal = Journal.open(url_of(self.path), clock=StillClock(), vfs=self.vfs, sync=lambda fd: None)
        try:
            self.drive(journal)
        finally:
            journal.close()

    def drive(self, journal) -> None:
        run, epoch = begun(journal)
        for i in range(4):
            journal.append(run, epoch, i, [note(str(i))])
            self.kept.append(str(i))
        journal.append_batch([(run, epoch, 4, [note("4"), note("5")])])
        self.kept += ["4", "5"]
        journal.post(run, Signal(at=1, name="s"))
        self.posted = 1
        journal._barrier._look = True  # a checkpoint, beside the writes
        journal._barrier._rouse()
        journal.append(run, epoch, 6, [note("x" * 9000)])
        self.kept.append("x" * 9000)
        journal.leave(run, epoch, 7, [note("7")], state=State.COMPLETED, value=b"1")
        self.kept.append("7")
        self.ended = True


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_whichever_operation_fails_nothing_acknowledged_is_lost(tmp_path, error, for_good):
    fail_at, met, errors = 0, True, []
    while met:
        fail_at += 1
        directory = tmp_path / str(fail_at)
        directory.mkdir()
        vfs = FaultyVFS(error, fail_at, for_good=for_good)
        scene = Scene(directory / "s.db", VFS)
        try:
            scene.play()
        except JournalError as failure:
            errors.append(str(failure))
        met = vfs.count >= fail_at
        vfs.unregister()
        check(scene)
    assert fail_at > 20
    assert len(errors) > 10
    for message in errors:
        assert re.search(r"^store .*s\.db: cannot [a-z ]+: .*(full|failed|opened).*\. .+\.$", message)
    assert scene.ended


def check(scene: Scene) -> None:
    journal = open_at(scene.path)
    row = journal.get("run-1")
    if row is None:
        assert not scene.kept
    else:
        found = texts(journal, row.id)
        assert found[: len(scene.kept)] == scene.kept
        assert len(found) <= len(scene.kept) + 2, "at most the write that was not acknowledged"
        assert len(journal.posts(row.id, 0)) >= scene.posted
        assert row.state is State.COMPLETED or not scene.ended
    journal.close()


def test_after_a_failed_write_every_later_write_is_refused_and_reads_go_on(tmp_path):
    vfs = FaultyVFS(apsw.FullError, 10**9, for_good=False)
    try:
        journal = open_at(tmp_path / "s.db", vfs=VFS)
        run, epoch = begun(journal)
        journal.append(run, epoch, 0, [note("kept")])
        vfs.fail_at = vfs.count + 1
        for _ in range(2):
            with pytest.raises(JournalError, match=r"cannot append to the journal: the disk is full .* Free space"):
                journal.append(run, epoch, 1, [note("lost")])
        for write in (
            lambda: journal.append(run, epoch, 1, [note(), note()]),
            lambda: journal.leave(run, epoch, 1, [], state=State.COMPLETED),
            lambda: journal.post(run, Signal(at=1, name="s")),
            lambda: journal.reopen(run, []),
            journal.sync,
        ):
            with pytest.raises(JournalError, match="the disk is full"):
                write()
        assert texts(journal, run) == ["kept"]
        assert journal.get("run-1").state is State.RUNNING, "the run stays as it was"
        journal.close()
    finally:
        vfs.unregister()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (apsw.FullError("x"), "the disk is full"),
        (apsw.IOError("x"), "the disk failed"),
        (apsw.ReadOnlyError("x"), "it cannot be written"),
        (apsw.CantOpenError("x"), "it cannot be opened"),
        (apsw.BusyError("x"), "another process kept it locked"),
        (apsw.NoMemError("x"), "out of memory"),
        (apsw.ConstraintError("x"), "a record's place is already taken"),
        (apsw.SQLError("x"), "SQLError: x. Please report this"),
    ],
)
def test_every_error_of_sqlite_says_what_where_and_what_next(error, words):
    failure = translate(error, "s.db", "append")
    assert type(failure) is JournalError
    assert re.match(rf"store s\.db: cannot append: {words}.*\.$", str(failure))


def test_a_disk_that_has_no_room_for_what_sqlite_keeps_beside_a_store_is_full(monkeypatch, tmp_path):
    """It says "disk I/O error" then; at a disk that has room, that is what it is."""
    error, path = apsw.IOError("disk I/O error"), str(tmp_path / "s.db")
    assert "the disk failed" in str(translate(error, path, "open it"))
    disk = os.statvfs(tmp_path)
    full = os.statvfs_result([*disk[:3], 1, 1, *disk[5:10]])
    monkeypatch.setattr(os, "statvfs", lambda directory: full if directory == str(tmp_path) else disk)
    assert "the disk is full (disk I/O error). Free space" in str(translate(error, path, "open it"))


@pytest.mark.parametrize("error", [apsw.NotADBError("x"), apsw.CorruptError("x")])
def test_a_damaged_file_is_a_corrupt_store(error):
    assert type(translate(error, "s.db", "read")) is StoreCorrupt


def test_a_store_kept_locked_is_given_up_on_after_a_bound(tmp_path, monkeypatch):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    from yaoki.journal import _connect

    journal._connection.set_busy_handler(_connect._Patience(0.01))
    thief = apsw.Connection(str(tmp_path / "s.db"))
    thief.execute("begin immediate")
    with pytest.raises(JournalError, match="another process kept it locked"):
        journal.append(run, epoch, 0, [note()])
    thief.close()
    journal.close()


def test_a_store_that_is_locked_for_a_moment_is_waited_for(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    holder = start(
        "c = apsw.Connection(str(path)); c.execute('begin immediate'); print('up', flush=True)\n"
        "time.sleep(0.03); c.execute('commit'); c.close()",
        tmp_path / "s.db",
    )
    wait_said(holder, "up")
    journal.append(run, epoch, 0, [note()])
    assert texts(journal, run) == ["x"]
    holder.communicate()
    journal.close()


def test_a_writer_killed_in_the_middle_of_a_transaction_leaves_nothing_of_it(tmp_path):
    path = tmp_path / "s.db"
    writer = start(
        "j = open_at(path); run, epoch = begun(j); j.append(run, epoch, 0, [note('whole')])\n"
        "with j._transaction('be killed'):\n"
        "    j._append_all(run, epoch, 1, [note('x' * 3000) for _ in range(2000)])\n"
        "    print('up', flush=True); sys.stdin.read()",
        path,
    )
    wait_said(writer, "up")
    writer.kill()
    writer.communicate()
    journal = open_at(path)
    assert texts(journal, 1) == ["whole"]
    assert journal.claim(1).died
    journal.close()


def test_an_interrupt_in_a_transaction_rolls_it_back_and_poisons_nothing(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)

    def interrupt(entries):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.post(run, Signal(at=1, name="s"), guard=interrupt)
    journal.append(run, epoch, 0, [note()])
    assert (texts(journal, run), journal.posts(run, 0)) == (["x"], [])
    journal.close()


def test_a_begin_and_settle_of_one_kilobyte_cost_under_one_and_a_half_on_disk(tmp_path):
    path = tmp_path / "s.db"
    journal = open_at(path)
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note()])
    journal._connection.wal_checkpoint()
    before, count = path.stat().st_size, 2000 if LONG else 500
    for i in range(count):
        journal.append(run, epoch, 2 * i + 1, step(i, raw_kilobyte(i)))
    journal.close()
    assert (path.stat().st_size - before) / count < 1536
    journal = open_at(path)
    assert len(journal.load(run)) == 2 * count + 1
    journal.close()


def raw_kilobyte(i: int) -> bytes:
    return b'"' + str(i).encode().ljust(1022, b"x") + b'"'


def test_a_large_result_is_kept_whole(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    value = b'"' + b"x" * (4 << 20) + b'"'
    journal.append(run, epoch, 0, step(0, value))
    assert bytes(journal.load(run)[1].record.value) == bytes(raw(value))
    journal.close()
