"""What `yaoki doctor` looks at in the store's file: who may read it, what SQLite says of it, its `-wal`, its times."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from yaoki.cli._probe import Answer
from yaoki.cli._views_text import duration, size
from yaoki.errors import JournalError
from yaoki.journal._health import quick_check, readers_of, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yaoki.clock import Clock

__all__ = ["about_clock", "about_file"]

_FREE_INSIDE = 16_000_000
_CHECKED_MAX_S = 10.0
_FUTURE_MS = 60_000
_READ_TWICE_S = 1.1
"""A snapshot of the runtime's own is let go within a second."""
_PRIVATE = 0o077


def about_file(path: str, clock: Clock, tell: Callable[[float], None]) -> Iterator[Answer]:
    """Say who may read the store's file, whether it is whole, and how much of it is of use."""
    yield from _permissions(path)
    try:
        health = quick_check(path, clock, most_s=_CHECKED_MAX_S, tell=tell)
        sizes = size_of(path)
    except JournalError as error:
        yield Answer(level="FAIL", about="store", text=str(error))
        return
    if health.wrong:
        then = "stop all workers, move it away with its -wal, and restore a backup"
        yield Answer(level="FAIL", about="content", text="; ".join(health.wrong), then=then)
    elif health.finished:
        yield Answer(level="ok", about="content", text="SQLite's quick_check finds nothing wrong")
    else:
        text = (
            f"nothing wrong in the first {_CHECKED_MAX_S:.0f} s of SQLite's quick_check; the file is too large for more"
        )
        yield Answer(level="note", about="content", text=text, then="check a backup at leisure")
    inside = sizes.free > max(_FREE_INSIDE, sizes.file // 2)
    text = f"{size(sizes.file)}, {size(sizes.free)} of it free" if sizes.free else size(sizes.file)
    then = "new runs use it again; yaoki backup makes a copy" if inside else ""
    yield Answer(level="note" if inside else "ok", about="size", text=text, then=then)
    yield _wal(path, sizes.wal, sizes.wal_limit, sizes.wal_open, clock)
    ahead_ms = sizes.newest_ms - clock.now_ms()
    yield about_clock(ahead_ms)


def _wal(path: str, wal: int, limit: int, open_: int, clock: Clock) -> Answer:
    text = f"{size(wal)}, {size(open_)} of it not copied back yet" if wal else "none: nothing is at work"
    if wal <= 2 * limit:
        return Answer(level="ok", about="wal", text=text)
    before = readers_of(path)
    clock.sleep(_READ_TWICE_S)
    held = sorted({one[0] for one in before & readers_of(path)} - {os.getpid()})
    who = f"; read for over a second by pid {', '.join(map(str, held))}" if held else ""
    then = "end what reads it for so long" if held else "it is cut back when the workers have a pause"
    return Answer(level="warn", about="wal", text=text + who, then=then)


def about_clock(ahead_ms: int) -> Answer:
    """Say whether a record comes from the future."""
    if ahead_ms > _FUTURE_MS:
        text = f"a run carries a time {duration(ahead_ms)} from now: the clock was put back, or is wrong"
        then = "set the clock; sleeping runs and deadlines wait until it is there again"
        return Answer(level="warn", about="clock", text=text, then=then)
    return Answer(level="ok", about="clock", text="no record comes from the future")


def _permissions(path: str) -> Iterator[Answer]:
    names = [f"{path}{end}" for end in ("", "-wal", "-shm", "-lock")]
    modes = [(name, found) for name in names if (found := _stat(name)) is not None]
    open_ = [name for name, found in modes if found.st_mode & _PRIVATE]
    foreign = [name for name, found in modes if found.st_uid != os.geteuid()]
    folder = _stat(os.path.dirname(path))  # noqa: PTH120
    if open_:
        text = f"{open_[0]} can be read by others: it holds every argument and result as it was"
        yield Answer(level="warn", about="permissions", text=text, then=f"chmod 600 {' '.join(open_)}")
    elif foreign:
        text = f"{foreign[0]} belongs to uid {next(found.st_uid for name, found in modes if name == foreign[0])}"
        then = "run workers and commands as that user: other files beside it lock it out"
        yield Answer(level="warn", about="permissions", text=text, then=then)
    elif folder is not None and folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        text = "anybody may replace the store: its folder can be written by all"
        yield Answer(level="warn", about="permissions", text=text, then="chmod o-w its folder")
    else:
        yield Answer(level="ok", about="permissions", text="only this user reads it")


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except OSError:
        return None
