"""
Losing power, simulated: what the disk is sure to hold is what was there at the last sync; of what came
later each sector may have reached it or not.

The barrier is fdatasync on the `-wal`, so the `sync` port is where the simulation looks. Nothing is
checkpointed here, hence the database file stands still.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.conftest import LONG
from tests.journal.store import begun, note, open_at, texts
from yaoki.records import Signal, State

SECTOR = 512


class Disk:
    """A store on a disk that forgets what was not synced."""

    def __init__(self, directory) -> None:
        self.path = directory / "s.db"
        open_at(self.path).close()
        self.database = self.path.read_bytes()
        self.wal = self.path.with_name("s.db-wal")
        self.synced = b""
        self.lost_power: list[tuple[bytes, bytes]] = []

    def sync(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        self.synced = os.pread(fd, size, 0)

    def after_power_cut(self, directory, rng: random.Random):
        """Copy the store as the next boot finds it, and return its path."""
        now = self.wal.read_bytes()
        found = bytearray(self.synced.ljust(len(now), b"\0"))
        for start in range(0, len(now), SECTOR):
            if rng.random() < 0.5:
                found[start : start + SECTOR] = now[start : start + SECTOR]
        if rng.random() < 0.3:
            del found[max(len(self.synced), rng.randrange(len(found) + 1)) :]
        directory.mkdir()
        (directory / "s.db").write_bytes(self.database)
        (directory / "s.db-wal").write_bytes(found)
        return directory / "s.db"


@pytest.mark.parametrize("seed", range(300 if LONG else 25))
def test_a_power_cut_takes_nothing_that_was_synced(tmp_path, seed):
    rng = random.Random(seed)
    disk = Disk(tmp_path)
    journal = open_at(disk.path, sync=disk.sync)
    run, epoch = begun(journal)
    written, synced, posts = [], 0, 0
    for i in range(rng.randrange(1, 60)):
        text = str(i) + "x" * rng.randrange(3000)
        journal.append(run, epoch, i, [note(text)])
        written.append(text)
        if rng.random() < 0.2:
            if rng.random() < 0.5:
                journal.sync()
            else:
                journal.post(run, Signal(at=1, name="s"))
                posts += 1
            synced = len(written)
    restarted = open_at(disk.after_power_cut(tmp_path / "rebooted", rng))
    row = restarted.get("run-1")
    found = texts(restarted, run) if row else []
    assert found == written[: len(found)], "a prefix: nothing torn, nothing out of order"
    assert len(found) >= synced
    assert len(restarted.posts(run, 0)) == posts if row else posts == 0
    restarted.close()
    journal.close()


def test_the_simulation_loses_what_was_not_synced(tmp_path):
    disk = Disk(tmp_path)
    journal = open_at(disk.path, sync=disk.sync)
    run, epoch = begun(journal)
    journal.sync()
    journal.leave(run, epoch, 0, [note("x" * 3000)], state=State.COMPLETED)
    rng = random.Random(0)
    rng.random = lambda: 0.9
    restarted = open_at(disk.after_power_cut(tmp_path / "rebooted", rng))
    assert (restarted.get("run-1").state, texts(restarted, run)) == (State.RUNNING, [])
    restarted.close()
    journal.close()
