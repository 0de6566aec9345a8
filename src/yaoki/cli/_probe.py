"""
What `yaoki doctor` looks at: one small function a question, each with its answer and what to do about it.

Nothing is changed, but for a small file in the store's folder that is synced a few times and removed again.
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from yaoki.cli._views_text import duration, plural, size
from yaoki.errors import JournalError
from yaoki.journal._barrier import default_sync
from yaoki.journal._health import sqlite_version
from yaoki.journal._place import mount_of, refuse_sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaoki.clock import Clock
    from yaoki.journal import WorkerRow

__all__ = ["Answer", "Level", "about_place", "about_sqlite", "about_sync", "about_workers", "judged_sync"]

Level: TypeAlias = Literal["ok", "note", "warn", "FAIL"]

_MB = 1_000_000
_FREE_LEAST = 100 * _MB
_FREE_NONE = 10 * _MB
_SYNCS = 20
_SYNC_BYTES = 4096
_SYNC_QUICKEST_US = 20
"""No disk makes data permanent faster: what returns sooner has only taken note of it."""
_SYNC_SLOW_US = 20_000
_IN_MEMORY = ("tmpfs", "ramfs")
_UNSAFE_MOUNTS = {
    "nobarrier": "it does not make the disk keep what it was told to",
    "barrier=0": "it does not make the disk keep what it was told to",
    "data=writeback": "a power cut may leave old content in new files",
}


class Answer(Struct, frozen=True, kw_only=True):
    """What one question came to."""

    level: Level
    about: str
    text: str
    then: str = ""
    """What to do about it."""


def about_sqlite() -> Iterator[Answer]:
    """Say whether several processes may write with this SQLite, and that Python has another one."""
    sqlite, apsw = sqlite_version()
    try:
        refuse_sqlite()
    except JournalError as error:
        yield Answer(level="FAIL", about="sqlite", text=str(error))
        return
    yield Answer(level="ok", about="sqlite", text=f"{sqlite}, brought by apsw {apsw}")
    import sqlite3

    if sqlite3.sqlite_version != sqlite:
        text = f"Python's own sqlite3 is {sqlite3.sqlite_version}: another library, with locks of its own"
        then = "never open the store with it in a process that runs loops; from another process, only to read"
        yield Answer(level="note", about="sqlite3", text=text, then=then)


def about_place(path: str) -> Iterator[Answer]:
    """Say what the store lies on, how that is mounted, and how much room there is."""
    folder = os.path.dirname(path)  # noqa: PTH120 - strings throughout, as SQLite takes them
    kind, options = mount_of(folder)
    yield _file_system(kind, options.split(","))
    try:
        found = os.statvfs(folder)
    except OSError as error:
        yield Answer(level="FAIL", about="disk", text=f"{folder}: {error.strerror}")
        return
    free = found.f_bavail * found.f_frsize
    nodes = found.f_favail if found.f_files else 1
    text = f"{size(free)} free in {folder}" if nodes else f"no file can be added in {folder}: its inodes are used up"
    level: Level = "FAIL" if free < _FREE_NONE or not nodes else "warn" if free < _FREE_LEAST else "ok"
    then = "free space: when the disk is full, runs stop as they are" if level != "ok" else ""
    yield Answer(level=level, about="disk", text=text, then=then)


def _file_system(kind: str, options: list[str]) -> Answer:
    about = "file system"
    if not kind:
        return Answer(level="note", about=about, text="unknown here; a network one would lose data")
    if "ro" in options:
        return Answer(level="FAIL", about=about, text=f"{kind}, mounted read-only", then="mount it writable")
    for option, why in _UNSAFE_MOUNTS.items():
        if option in options:
            return Answer(level="warn", about=about, text=f"{kind}, mounted {option}: {why}", then="mount it without")
    if kind in _IN_MEMORY:
        then = "put the store on a disk: --store sqlite:////var/lib/yaoki.db"
        return Answer(level="warn", about=about, text=f"{kind}: in memory, and gone after a restart", then=then)
    if kind == "overlay":
        text = "overlay: the layer of a container, and gone with it"
        return Answer(level="note", about=about, text=text, then="put the store on a volume if it is to stay")
    return Answer(level="ok", about=about, text=kind)


def about_sync(path: str, clock: Clock) -> Answer:
    """Measure how long the disk takes to keep 4 kB for good, in the store's own folder."""
    folder = os.path.dirname(path)  # noqa: PTH120
    name = f"{folder}/.yaoki-doctor-{os.getpid()}"
    took_us: list[float] = []
    try:
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            for _ in range(_SYNCS):
                os.write(fd, b"\0" * _SYNC_BYTES)
                began_s = clock.monotonic_s()
                default_sync(fd)
                took_us.append((clock.monotonic_s() - began_s) * 1e6)
        finally:
            os.close(fd)
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108
    except OSError as error:
        return Answer(level="FAIL", about="sync", text=f"{folder}: {error.strerror}", then="make it writable")
    return judged_sync(median(took_us), in_memory=mount_of(folder)[0] in _IN_MEMORY)


def judged_sync(took_us: float, *, in_memory: bool) -> Answer:
    """Return what a sync of that length says about a disk."""
    rate = f"{1e6 / max(took_us, 1):,.0f} effects a second one after the other"
    text = f"{took_us:,.0f} us a sync: about {rate}"
    if took_us < _SYNC_QUICKEST_US and not in_memory:
        said = f"{took_us:,.0f} us a sync is faster than any disk: it may not keep what it says after a power cut"
        return Answer(level="warn", about="sync", text=said, then="turn its write cache off, or ask its host")
    if took_us > _SYNC_SLOW_US:
        return Answer(level="note", about="sync", text=text, then="runs side by side share a sync; a faster disk helps")
    return Answer(level="ok", about="sync", text=text)


def about_workers(workers: list[WorkerRow], now_ms: int) -> Iterator[Answer]:
    """Say who is at work on the store."""
    processes: dict[tuple[str, int], list[WorkerRow]] = {}
    for worker in workers:
        if worker.alive:
            processes.setdefault((worker.host, worker.pid), []).append(worker)
    for (host, pid), rows in processes.items():
        since = duration(now_ms - min(row.started_ms for row in rows))
        told = ", told to stop" if all(row.stop_ms for row in rows) else ""
        text = f"pid {pid} on {host} for {since}, drives {plural(sum(row.runs for row in rows), 'run')}{told}"
        yield Answer(level="ok", about="worker", text=text)
    if not any(worker.alive for worker in workers):
        yield Answer(level="ok", about="workers", text="none lives")
    here = platform.node()
    strangers = sorted({worker.host for worker in workers if worker.host and worker.host != here})
    if strangers:
        text = f"{', '.join(strangers)} also worked on this store: two machines on one file lose data"
        then = "if the file is on a shared volume, use one machine; if only the name has changed, all is well"
        yield Answer(level="note", about="hosts", text=text, then=then)
