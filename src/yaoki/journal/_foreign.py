"""
Keeps everything but SQLite's own connections off a store that this process holds.

SQLite's locks are POSIX record locks: closing *any* descriptor of the file, whoever opened it, drops all that the
process holds on it, and another process may then write at the same time (sqlite.org, "How To Corrupt An SQLite
Database File", section 2.2). So a second SQLite library, a copy by `shutil`, or a plain `open` of the database or
its `-shm` is refused while it is held here, by an audit hook (PEP 578). The `-wal` carries no locks.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from yaoki.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["hold", "let_go", "our_own"]

_held: dict[str, int] = {}
"""By path, how many journals of this process hold the store."""
_lock = threading.Lock()
_mine = threading.local()
_hooks: list[object] = []
"""The hook, once it is added."""
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def hold(path: str) -> None:
    """Guard a store from now on; the hook is added with the first one, and never goes."""
    with _lock:
        _held[path] = _held.get(path, 0) + 1
        if not _hooks:
            sys.addaudithook(_hook)
            _hooks.append(_hook)


def let_go(path: str) -> None:
    """Guard it no more, once every journal of this process has let go of it."""
    with _lock:
        left = _held.get(path, 0) - 1
        if left > 0:
            _held[path] = left
        else:
            _held.pop(path, None)


def _after_fork_in_child() -> None:
    """
    Free the lock that another thread may have held.

    Its journals, which are poisoned there, let go of their stores: a child inherits no locks that it could drop.
    """
    global _lock  # noqa: PLW0603 - of the process
    _lock = threading.Lock()


@contextmanager
def our_own() -> Generator[None, None, None]:
    """Let this thread's own calls through: they leave no descriptor to close."""
    _mine.depth = getattr(_mine, "depth", 0) + 1
    try:
        yield
    finally:
        _mine.depth -= 1


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _held or event not in ("open", "sqlite3.connect") or _ours():
        return
    path = args[0]
    if isinstance(path, int) or path is None:
        return
    try:
        text = os.fsdecode(path)
        if event == "sqlite3.connect" and text.startswith("file:"):
            text = _path_in(text)
        found = os.stat(text)  # noqa: PTH116 - in every open of the process: by the shortest way
    except (OSError, ValueError, TypeError):  # not there, or no path: nobody's store
        return
    for store in tuple(_held):
        for suffix in ("", "-shm"):
            if _same(found, store + suffix):
                raise StoreRefused(_refusal(store, event))


def _path_in(uri: str) -> str:
    """Return the path a SQLite URI names (sqlite.org, "Uniform Resource Identifiers", section 3)."""
    path = uri[5:].partition("#")[0].partition("?")[0]
    if path.startswith("//"):  # an authority, empty or localhost
        path = path[path.index("/", 2) :]
    return os.fsdecode(_ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), os.fsencode(path)))


def _ours() -> bool:
    depth: int | None = getattr(_mine, "depth", None)
    return bool(depth)


def _same(found: os.stat_result, path: str) -> bool:
    try:
        own = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)


def _refusal(store: str, event: str) -> str:
    what = "opened by another SQLite library" if event == "sqlite3.connect" else "opened as a plain file"
    return (
        f"store {store}: it is held by this process, so it is not {what} here: closing it would drop SQLite's locks, "
        "and two processes could write at once. Copy it with yaoki backup, or look at it from another process."
    )


os.register_at_fork(after_in_child=_after_fork_in_child)  # before that of `_core`, which lets go
