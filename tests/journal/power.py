"""
A disk that loses what was not synced: SQLite's file layer, recorded write by write, and any moment of it as the next
boot would find it. Of what was written since a file's last sync each sector may have arrived or not, in any order.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

__all__ = ["Disk", "image_at"]

SECTOR = 512
Op = tuple[str, str, int, bytes]
"""What was done (`write`, `cut`, `sync`), to which file, where, and what with."""


class Disk(apsw.VFS):
    """Records every write, truncation and sync of the stores opened through it."""

    def __init__(self, name: str) -> None:
        self.ops: list[Op] = []
        self._lock = threading.Lock()
        self.vfs = name
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self, name, flags)

    def note(self, what: str, path: str, at: int = 0, data: bytes = b"") -> None:
        with self._lock:
            self.ops.append((what, Path(path).name, at, data))

    def sync(self, path: Path) -> None:
        """Do what the barrier does, outside SQLite."""
        self.note("sync", f"{path}-wal")


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.note("write", self._name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._disk.note("cut", self._name, size)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.note("sync", self._name)


def image_at(ops: list[Op], cuts: list[int]) -> Iterator[tuple[int, dict[str, bytearray], dict[str, list[Op]]]]:
    """Go through the ops once; at each cut yield what is sure to be there, and what may be."""
    sure: dict[str, bytearray] = {}
    may: dict[str, list[Op]] = {}
    wanted = iter(sorted(cuts))
    cut = next(wanted, None)
    for number, op in enumerate(ops):
        while cut == number:
            yield cut, sure, may
            cut = next(wanted, None)
        what, name, _, _ = op
        if what == "sync":
            for pending in may.pop(name, ()):
                _apply(sure.setdefault(name, bytearray()), pending)
        else:
            may.setdefault(name, []).append(op)


def _apply(content: bytearray, op: Op, keep: random.Random | None = None) -> None:
    what, _, at, data = op
    if what == "cut":
        if keep is None or keep.random() < 0.5:
            del content[at:]
        return
    if len(content) < at + len(data):
        content.extend(b"\0" * (at + len(data) - len(content)))
    for start in range(0, len(data), SECTOR):
        if keep is None or keep.random() < 0.5:
            content[at + start : at + start + SECTOR] = data[start : start + SECTOR]


def boot(folder: Path, sure: dict[str, bytearray], may: dict[str, list[Op]], rng: random.Random) -> None:
    """Write the files as the next boot finds them: some of what may have arrived has."""
    everything, nothing = rng.random() < 0.1, rng.random() < 0.1
    for name in sure.keys() | may.keys():
        if name.endswith("-shm"):
            continue
        content = bytearray(sure.get(name, b""))
        for op in may.get(name, ()):
            if not nothing:
                _apply(content, op, None if everything else rng)
        (folder / name).write_bytes(content)
