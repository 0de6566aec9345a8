"""
G7: Killing the process loses nothing recorded. Losing power loses at most 100 ms of read-only results, never
an effect's begin.
"""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tests.crash.matrix import RUN, url_of
from tests.crash.processes import Life
from tests.guarantees.colours import both
from yaoki import INJECTED, Effect, Runner
from yaoki.records import Checkpoint, Settle
from yaoki.testing import no_waits

KILLS = (13, 21, 34, 55)


def records(store) -> list:
    with Runner.verbs(url_of(store)) as runner:
        return [entry for entry in runner.journal(RUN) if entry.seq < 1 << 31]


@both
@pytest.mark.parametrize("shape", ["turns", "fan"])
def test_what_was_written_before_a_sigkill_is_there_after_it_and_after_every_later_life(tmp_path, colour, shape):
    store, outside = tmp_path / "s.db", tmp_path / "world.jsonl"
    before: list = []
    for point in KILLS:
        life = Life("tests.crash.program", url_of(store), str(outside), shape, colour_name(colour), str(point))
        life.end()
        now = records(store)
        assert now[: len(before)] == before
        assert [entry.seq for entry in now] == list(range(now[0].seq, now[0].seq + len(now)))
        before = now
    assert any(isinstance(entry.record, Settle | Checkpoint) for entry in before)


def colour_name(colour) -> str:
    return "async" if colour.is_async else "sync"


@both
def test_a_result_is_recorded_before_the_loop_sees_it(tmp_path, colour):
    """A life killed in the second tool, whatever its point, has the first one's settle."""
    store, outside = tmp_path / "s.db", tmp_path / "world.jsonl"
    point = 0
    while True:
        point += 1
        store.unlink(missing_ok=True)
        outside.unlink(missing_ok=True)
        for name in ("-wal", "-shm", "-lock"):
            store.with_name(f"s.db{name}").unlink(missing_ok=True)
        life = Life("tests.crash.program", url_of(store), str(outside), "straight", colour_name(colour), str(point))
        assert life.end() == -signal.SIGKILL
        if outside.exists() and '"put"' in outside.read_text():
            break
        assert point < 60
    settled = [entry.key for entry in records(store) if isinstance(entry.record, Settle)]
    assert any("look" in key for key in settled)


class Disk:
    """Knows how much of the `-wal` the last sync covered."""

    def __init__(self, store) -> None:
        self.wal = store.with_name("s.db-wal")
        self.synced = 0
        self.syncs = 0
        self.covered = threading.Event()

    def prepare(self, journal) -> None:
        journal._barrier._sync = self._sync

    def _sync(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        os.fdatasync(fd)
        self.synced = size
        self.syncs += 1
        self.covered.set()

    @property
    def unsynced(self) -> int:
        return self.wal.stat().st_size - self.synced


KINDS = [Effect.KEYED, Effect.AT_MOST_ONCE, Effect.IDEMPOTENT, Effect.READ_ONLY]


@both
@no_waits
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
def test_everything_up_to_the_begin_of_an_effect_is_on_disk_before_it_leaves_the_process(tmp_path, colour, kind):
    store = tmp_path / "s.db"
    disk = Disk(store)
    unsynced: list[int] = []

    def act(what: str, *, idempotency_key: str = INJECTED) -> str:
        unsynced.append(disk.unsynced)
        return what

    acting = colour.tool(act, effect=kind)

    def body(run):
        yield acting("a")
        yield acting("b")

    colour.run(store, colour.loop(body, name="body").bind(), prepare=disk.prepare, sync_every_ms=60_000)
    if kind is Effect.READ_ONLY:
        assert all(unsynced), "what changes nothing waits for no disk"
    else:
        assert unsynced == [0, 0]


@both
def test_a_read_only_result_is_on_disk_within_sync_every_ms(tmp_path, colour):
    store = tmp_path / "s.db"
    disk = Disk(store)
    seen: list[int] = []

    def look() -> str:
        return "seen"

    def wait() -> None:
        disk.covered.clear()
        assert disk.covered.wait(10), "no sync came by itself"
        seen.append(disk.synced)

    looking = colour.tool(look, effect=Effect.READ_ONLY)
    waiting = colour.tool(wait, effect=Effect.READ_ONLY)

    def body(run):
        yield looking()
        yield waiting()

    colour.run(store, colour.loop(body, name="body").bind(), prepare=disk.prepare, sync_every_ms=20)
    assert seen[0] > 0


@both
@no_waits
def test_a_run_is_reported_only_when_its_end_is_on_disk(tmp_path, colour):
    store = tmp_path / "s.db"
    disk = Disk(store)

    def look() -> str:
        return "seen"

    looking = colour.tool(look, effect=Effect.READ_ONLY)

    def body(run):
        yield looking()

    unsynced: list[int] = []

    def prepare(journal) -> None:
        disk.prepare(journal)
        leave, sync = journal.leave, journal.sync

        def left(*args, **kwargs):
            leave(*args, **kwargs)
            unsynced.append(disk.unsynced)

        def synced():
            sync()
            unsynced.append(disk.unsynced)

        journal.leave, journal.sync = left, synced

    colour.run(store, colour.loop(body, name="body").bind(), prepare=prepare, sync_every_ms=60_000)
    assert unsynced[-2] > 0
    assert unsynced[-1] == 0
