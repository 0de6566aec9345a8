"""Losing power at any write of a busy store, the copying back into its file included."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.conftest import LONG
from tests.journal.power import Disk, boot, image_at
from tests.journal.store import START_MS, begun, note, open_at, texts
from yaoki.journal import Journal, _barrier
from yaoki.records import Signal, State

CUTS = 20_000 if LONG else 250
NUMBER = itertools.count()
Written = dict[str, list[str]]


@pytest.fixture
def memory() -> Iterator[Path]:
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if place.exists() else None, prefix="yaoki-power-") as folder:
        yield Path(folder)


class Told:
    """What was acknowledged, and after how many of the disk's operations."""

    def __init__(self, at: int, texts: dict[str, int], posts: dict[str, int], ended: set[str]) -> None:
        self.at = at
        self.texts = texts
        self.posts = posts
        self.ended = ended


def busy(
    path: Path, seed: int, *, forgets: bool = False, steps: int = 260
) -> tuple[Disk, list[Told], dict[str, list[str]]]:
    """Write six runs in turns: records, acknowledged or not, posts, ends; and copy back into the file now and then."""
    rng = random.Random(seed)
    disk = Disk(f"power-{next(NUMBER)}")
    sync = (lambda _: None) if forgets else (lambda _: disk.sync(path))
    journal = open_at(path, vfs=disk.vfs, sync=sync, sync_every_ms=3_600_000)
    runs = {f"run-{n}": begun(journal, f"run-{n}") for n in range(6)}
    written: dict[str, list[str]] = {name: [] for name in runs}
    posts = dict.fromkeys(runs, 0)
    ended: set[str] = set()
    told = [Told(len(disk.ops), {}, {}, set())]
    for _ in range(steps):
        name = rng.choice([one for one in runs if one not in ended])
        run, epoch = runs[name]
        text = f"{name} {len(written[name])} " + "x" * rng.choice((10, 400, 5_000))
        done = rng.random()
        if done < 0.02 and len(ended) < 4:
            journal.leave(run, epoch, len(written[name]), [note(text)], state=State.COMPLETED)
            journal.sync()
            ended.add(name)
        elif done < 0.1:
            journal.post(run, Signal(at=START_MS, name="s"))
            posts[name] += 1
            told.append(_told(disk, written, posts, ended))
            continue
        else:
            journal.append(run, epoch, len(written[name]), [note(text)])
            if done < 0.5:
                written[name].append(text)
                journal.sync()
                told.append(_told(disk, written, posts, ended))
                continue
        written[name].append(text)
        if name in ended:
            told.append(_told(disk, written, posts, ended))
    journal.close()
    return disk, told, written


def _told(disk: Disk, written: dict[str, list[str]], posts: dict[str, int], ended: set[str]) -> Told:
    return Told(len(disk.ops), {name: len(one) for name, one in written.items()}, dict(posts), set(ended))


def losses(
    memory: Path, disk: Disk, told: list[Told], written: dict[str, list[str]], cuts: int, seed: int
) -> list[str]:
    """Cut the power `cuts` times; return what was wrong with what was found."""
    rng = random.Random(seed)
    first = told[0].at
    wrong: list[str] = []
    places = [rng.randrange(first, len(disk.ops)) for _ in range(cuts)]
    for cut, sure, may in image_at(disk.ops, places):
        folder = memory / "boot"
        folder.mkdir()
        boot(folder, sure, may, rng)
        acknowledged = next(one for one in reversed(told) if one.at <= cut)
        try:
            found = _look(folder, acknowledged, written)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            wrong.append(f"power cut before operation {cut}: {found}")
        shutil.rmtree(folder)
    return wrong


def _look(folder: Path, acknowledged: Told, written: dict[str, list[str]]) -> str:
    path = folder / "s.db"
    connection = apsw.Connection(str(path))
    checked = connection.execute("pragma integrity_check").get
    connection.close()
    if checked != "ok":
        return str(checked)
    journal: Journal = open_at(path, worker=False, create=False)
    try:
        for name, most in written.items():
            row = journal.get(name)
            least = acknowledged.texts.get(name, 0)
            if row is None:
                return f"{name} is gone" if least else ""
            found = texts(journal, row.id)
            if found != most[: len(found)]:
                return f"{name}: not what was written"
            if len(found) < least:
                return f"{name}: {len(found)} records of {least} that were acknowledged"
            if len(journal.posts(row.id, 0)) < acknowledged.posts.get(name, 0):
                return f"{name}: a post is lost"
            if name in acknowledged.ended and row.state is not State.COMPLETED:
                return f"{name}: its end is lost"
    finally:
        journal.close()
    return ""


@pytest.mark.timeout(3_000 if LONG else 60)
@pytest.mark.parametrize("seed", range(2))
def test_whenever_the_power_goes_nothing_acknowledged_does(memory, monkeypatch, seed):
    monkeypatch.setattr(_barrier, "WAL_LIMIT_BYTES", 128 << 10)  # so that it is copied back often
    disk, told, written = busy(memory / "s.db", seed)
    kinds = {(what, name.removeprefix("s.db")) for what, name, _, _ in disk.ops[told[0].at :]}
    assert {("write", "-wal"), ("sync", "-wal"), ("write", ""), ("sync", "")} <= kinds, "it was copied back"
    assert losses(memory, disk, told, written, CUTS // 2, seed) == []


def test_a_barrier_that_does_nothing_is_found(memory):
    disk, told, written = busy(memory / "s.db", 1, forgets=True, steps=60)
    assert any("acknowledged" in one or "gone" in one for one in losses(memory, disk, told, written, 60, 1))
