from __future__ import annotations

import errno
import os
import queue
import threading

import apsw
import pytest

from tests.journal.store import begun, note, open_at, start, texts
from yaoki.clock import SystemClock
from yaoki.errors import JournalError
from yaoki.journal import Journal, _barrier
from yaoki.records import State


class Recorder:
    """A sync that notes how many records were committed when it was called; it can be held up, or fail."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.journal = None
        self.called = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.error: OSError | None = None

    def __call__(self, fd: int) -> None:
        os.fdatasync(fd)
        self.counts.append(self.journal._one("select count(*) from journal"))
        self.called.release()
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error


@pytest.fixture
def sync():
    return Recorder()


@pytest.fixture
def journal(tmp_path, sync):
    journal = open_at(tmp_path / "s.db", sync=sync, sync_every_ms=5)
    sync.journal = journal
    yield journal
    sync.gate.set()
    journal.close()


class Delivered:
    """What the syncer delivered, and a wait for it."""

    def __init__(self, journal) -> None:
        self.calls: list[tuple[list[object], BaseException | None]] = []
        self._came = threading.Semaphore(0)
        journal.deliver = self

    def __call__(self, waiters, error) -> None:
        self.calls.append((waiters, error))
        self._came.release()

    def wait(self) -> None:
        assert self._came.acquire(timeout=10)


def test_a_sync_comes_after_the_commit_it_makes_durable(journal, sync):
    run, epoch = begun(journal)
    for i in range(3):
        journal.append(run, epoch, i, [note()])
        journal.sync()
    assert sync.counts == [1, 2, 3]


def test_nothing_is_synced_that_nobody_asked_for(journal, sync):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note()])
    journal.append_batch([(run, epoch, 1, [note()])])
    journal.leave(run, epoch, 2, [note()], state=State.PENDING)
    assert sync.counts == []


def test_what_is_marked_is_synced_within_the_time(journal, sync):
    run, epoch = begun(journal)
    for i in range(3):
        journal.append(run, epoch, i, [note()])
        journal.mark()
        assert sync.called.acquire(timeout=10)
    assert sync.counts[-1] == 3


def test_marks_of_one_interval_share_a_sync(tmp_path, sync):
    journal = sync.journal = open_at(tmp_path / "s.db", sync=sync, sync_every_ms=50)
    run, epoch = begun(journal)
    for i in range(20):
        journal.append(run, epoch, i, [note()])
        journal.mark()
    assert sync.called.acquire(timeout=10)
    assert sync.counts == [20]
    journal.close()


def test_a_sync_answers_the_marks_before_it(tmp_path, sync):
    journal = sync.journal = open_at(tmp_path / "s.db", sync=sync, sync_every_ms=5)
    begun(journal)
    journal.mark()
    journal.sync()
    assert sync.called.acquire(timeout=0)
    assert not sync.called.acquire(timeout=0.02), "the thread has looked by now, and found nothing to do"
    journal.close()


def test_a_waiter_is_delivered_after_the_sync_of_what_it_wrote(journal, sync):
    delivered = Delivered(journal)
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note()])
    journal.sync_async("a")
    delivered.wait()
    assert (delivered.calls, sync.counts) == ([(["a"], None)], [1])


def test_waiters_that_come_during_a_sync_share_the_next(journal, sync):
    delivered = Delivered(journal)
    run, epoch = begun(journal)
    sync.gate.clear()
    journal.sync_async("first")
    assert sync.called.acquire(timeout=10)
    for i in range(50):
        journal.append(run, epoch, i, [note()])
        journal.sync_async(i)
    sync.gate.set()
    delivered.wait()
    delivered.wait()
    assert delivered.calls == [(["first"], None), (list(range(50)), None)]
    assert sync.counts == [0, 50], "the second began after all fifty were written"


class Turn:
    """The lock of the barrier, telling when somebody comes to wait for it."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.came = threading.Semaphore(0)

    def __enter__(self) -> None:
        self.came.release()
        self.lock.acquire()

    def __exit__(self, *_) -> None:
        self.lock.release()


def test_threads_that_sync_during_a_sync_share_the_next(journal, sync):
    run, epoch = begun(journal)
    sync.gate.clear()
    first = threading.Thread(target=journal.sync)
    first.start()
    assert sync.called.acquire(timeout=10)
    turn = journal._barrier._turn = Turn(journal._barrier._turn)

    def one(i: int) -> None:
        journal.append(run, epoch, i, [note()])
        journal.sync()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
        assert turn.came.acquire(timeout=10)
    sync.gate.set()
    for thread in (first, *threads):
        thread.join(10)
    assert sync.counts == [0, 8]


def test_closing_syncs_what_was_written(tmp_path, sync):
    journal = sync.journal = open_at(tmp_path / "s.db", sync=sync)
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note()])
    journal.close()
    assert sync.counts == [1]


def test_closing_serves_who_still_waits(tmp_path, sync):
    journal = sync.journal = open_at(tmp_path / "s.db")
    delivered = Delivered(journal)
    for i in range(5):
        journal.sync_async(i)
    journal.close()
    assert [waiter for waiters, error in delivered.calls for waiter in waiters if error is None] == list(range(5))


def test_a_failed_sync_is_final_and_never_tried_again(journal, sync):
    run, epoch = begun(journal)
    journal.append(run, epoch, 0, [note()])
    sync.error = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(JournalError, match="cannot sync the journal: Input/output error"):
        journal.sync()
    sync.error = None
    for use in (
        journal.sync,
        lambda: journal.sync_async("w"),
        lambda: journal.append(run, epoch, 1, [note()]),
        lambda: journal.append_batch([(run, epoch, 1, [note()])]),
        lambda: journal.leave(run, epoch, 1, [], state=State.DEAD),
        lambda: journal.create("b", loop="l", input=b""),
        lambda: journal.claim(run),
    ):
        with pytest.raises(JournalError, match="Input/output error"):
            use()
    assert len(sync.counts) == 1
    assert isinstance(journal.failed, JournalError)
    assert texts(journal, run) == ["x"], "it can still be read"


def test_a_failed_sync_is_delivered_to_all_who_wait_for_it_and_after_it(journal, sync):
    delivered = Delivered(journal)
    sync.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    sync.gate.clear()
    journal.sync_async("a")
    assert sync.called.acquire(timeout=10)
    journal.sync_async("b")
    sync.gate.set()
    delivered.wait()
    delivered.wait()
    assert [waiters for waiters, _ in delivered.calls] == [["a"], ["b"]]
    assert all("No space left" in str(error) for _, error in delivered.calls)
    assert len(sync.counts) == 1


def test_a_failed_sync_in_the_background_stops_the_next_write(journal, sync):
    run, epoch = begun(journal)
    sync.error = OSError(errno.EIO, os.strerror(errno.EIO))
    journal.append(run, epoch, 0, [note()])
    journal.mark()
    assert sync.called.acquire(timeout=10)
    journal._barrier._turn.acquire()  # the failed sync is over
    journal._barrier._turn.release()
    with pytest.raises(JournalError, match="Input/output error"):
        journal.append(run, epoch, 1, [note()])


def test_waiters_of_a_loop_that_is_gone_do_not_stop_the_syncer(journal, sync):
    called = threading.Event()

    def gone(waiters, error):
        called.set()
        raise RuntimeError("Event loop is closed")

    journal.deliver = gone
    journal.sync_async("lost")
    assert called.wait(10)
    delivered = Delivered(journal)
    journal.sync_async("kept")
    delivered.wait()
    assert delivered.calls[-1] == (["kept"], None)


def test_the_default_sync_reaches_the_disk_or_says_so(tmp_path):
    with (tmp_path / "f").open("wb") as file:
        _barrier.default_sync(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        _barrier.default_sync(1 << 20)


def test_the_wal_is_copied_back_and_starts_over_however_busy_the_writer(tmp_path):
    journal = open_at(tmp_path / "s.db", sync_every_ms=1)
    run, epoch = begun(journal)
    wal = tmp_path / "s.db-wal"
    largest = 0
    for i in range(12_000):
        journal.append(run, epoch, i, [note("x" * 1000)])
        journal.mark()
        largest = max(largest, wal.stat().st_size)
    assert largest < 5 * _barrier.WAL_LIMIT_BYTES, "12,000 commits write about 60 MB of log"
    assert (tmp_path / "s.db").stat().st_size > 4 << 20
    assert len(journal.load(run)) == 12_000
    journal.close()


@pytest.fixture
def looks(monkeypatch):
    """Collect what each look at the `-wal` returned, as it is done."""
    results: queue.Queue[bool] = queue.Queue()
    real = _barrier.Checkpointer.look
    monkeypatch.setattr(_barrier.Checkpointer, "look", lambda self: results.put(real(self)) or True)
    return results


def test_a_driver_that_syncs_every_step_has_its_wal_written_over_in_place(tmp_path, monkeypatch, looks):
    monkeypatch.setattr(_barrier, "WAL_LIMIT_BYTES", 1 << 19)
    journal = open_at(tmp_path / "s.db", sync=lambda fd: None)
    run, epoch = begun(journal)
    sizes = []
    for i in range(4 * _barrier._LOOK_EVERY):
        journal.append(run, epoch, i, [note("x" * 1000)])
        journal.sync()
        if (i + 1) % _barrier._LOOK_EVERY == 0:
            assert looks.get(timeout=10) is True
            sizes.append((tmp_path / "s.db-wal").stat().st_size)
    assert max(sizes) < 1.2 * sizes[0] < 1 << 20, "each time it starts over"
    assert (tmp_path / "s.db").stat().st_size > 1 << 17
    journal.close()


def test_a_reader_in_the_way_puts_a_checkpoint_off_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(_barrier, "WAL_LIMIT_BYTES", 1 << 16)
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    checkpointer = _barrier.Checkpointer(journal.path, "")
    assert checkpointer.look() is True, "not yet time"
    reader = apsw.Connection(journal.path)
    reader.execute("begin")
    reader.execute("select count(*) from journal").fetchall()
    for i in range(20):
        journal.append(run, epoch, i, [note("x" * 1000)])
    assert checkpointer.look() is False
    reader.execute("commit")
    reader.close()
    assert checkpointer.look() is True
    checkpointer.close()
    assert len(journal.load(run)) == 20
    journal.close()


class Spied:
    """A connection that remembers which checkpoints were asked for, and may tell what the log is like."""

    def __init__(self, connection=None, tells=()) -> None:
        self._connection, self._tells = connection, iter(tells)
        self.modes = []

    def wal_checkpoint(self, mode):
        self.modes.append(mode)
        return next(self._tells) if self._connection is None else self._connection.wal_checkpoint(mode=mode)


NOOP, PASSIVE, RESTART = apsw.SQLITE_CHECKPOINT_NOOP, apsw.SQLITE_CHECKPOINT_PASSIVE, apsw.SQLITE_CHECKPOINT_RESTART


def test_writers_are_not_held_for_what_a_reader_keeps_back(tmp_path, monkeypatch):
    monkeypatch.setattr(_barrier, "WAL_LIMIT_BYTES", 1 << 16)
    monkeypatch.setattr(_barrier, "_REST_FRAMES", 5)
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    reader = apsw.Connection(journal.path)
    reader.execute("begin")
    reader.execute("select count(*) from journal").fetchall()
    for i in range(20):
        journal.append(run, epoch, i, [note("x" * 1000)])
    checkpointer = _barrier.Checkpointer(journal.path, "")
    checkpointer.look()
    spied = Spied(checkpointer._connection)
    assert checkpointer._copy_back(spied) is False
    assert spied.modes == [NOOP, PASSIVE, NOOP]
    reader.close()
    assert checkpointer._copy_back(spied) is True
    assert spied.modes[3:] == [NOOP, PASSIVE, NOOP, RESTART]
    checkpointer.close()
    journal.close()


def test_a_large_rest_is_copied_beside_the_writers_until_it_is_small(tmp_path):
    spied = Spied(tells=[(90_000, 0), (90_000, 90_000), (120_000, 90_000), (1, 1), (121_000, 120_500), (1, 1)])
    assert _barrier.Checkpointer("", "")._copy_back(spied) is True
    assert spied.modes == [NOOP, PASSIVE, NOOP, PASSIVE, NOOP, RESTART]
    fast = [(90_000, 0), *((90_000 * i, 45_000 * i) for i in range(1, 20))]
    spied = Spied(tells=fast)
    assert _barrier.Checkpointer("", "")._copy_back(spied) is False, "writers that are faster are left to the next look"
    assert RESTART not in spied.modes
    assert len(spied.modes) == 1 + 2 * _barrier._ROUNDS


def test_a_look_that_failed_is_not_repeated_at_every_sync(tmp_path, monkeypatch):
    looked = queue.Queue()
    monkeypatch.setattr(_barrier.Checkpointer, "look", lambda self: looked.put(1) or False)
    journal = open_at(tmp_path / "s.db", sync=lambda fd: None)
    for _ in range(_barrier._LOOK_EVERY):
        journal.sync()
    assert looked.get(timeout=10)
    while journal._barrier._look_at < _barrier._LOOK_AGAIN:
        pass
    for _ in range(4 * _barrier._LOOK_EVERY):
        journal.sync()
    journal.close()
    assert looked.empty()


def test_waiting_without_anybody_to_deliver_to_is_a_bug_that_is_named():
    with pytest.raises(AssertionError, match="1 wait for a sync and `deliver` is not set"):
        _barrier._nobody(["w"], None)


def test_a_store_copied_from_under_a_killed_writer_has_what_was_written(tmp_path):
    """Written is in the WAL: it survives the process, synced or not."""
    path = tmp_path / "s.db"
    writer = start(
        "j = open_at(path, sync=lambda fd: None); run, epoch = begun(j)\n"
        "for i in range(50): j.append(run, epoch, i, [note(str(i))]); print(i, flush=True)\n"
        "sys.stdin.read()",
        path,
    )
    acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
    writer.kill()
    writer.communicate()
    journal = open_at(path)
    assert texts(journal, 1) == [str(i) for i in acknowledged]
    journal.close()


def test_soon_starts_a_sync_that_nobody_waits_for(tmp_path):
    """The settle of an effect is on disk within moments, though nobody waits for it."""
    synced = threading.Event()
    calls = []

    def sync(fd: int) -> None:
        calls.append(fd)
        os.fdatasync(fd)
        synced.set()

    journal = Journal.open(f"sqlite:///{tmp_path}/y.db", clock=SystemClock(), sync=sync, sync_every_ms=60_000)
    try:
        synced.clear()
        journal.soon()
        assert synced.wait(5)
        for _ in range(3):
            synced.clear()
            journal.soon()
            assert synced.wait(5)
    finally:
        journal.close()


def test_soon_is_covered_by_a_sync_that_starts_before_it(tmp_path):
    """A tight loop of effects pays one sync a step: the next begin's."""
    calls = []

    def sync(fd: int) -> None:
        calls.append(fd)

    journal = Journal.open(f"sqlite:///{tmp_path}/y.db", clock=SystemClock(), sync=sync, sync_every_ms=60_000)
    try:
        calls.clear()
        for _ in range(200):
            journal.soon()
            journal.sync()
        assert len(calls) <= 300
    finally:
        journal.close()
