"""Where a store is, and whether this place may be opened at all: everything that is asked before any change."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import apsw
from msgspec import Struct

from yaoki.errors import StoreCorrupt, StoreRefused
from yaoki.journal._schema import APPLICATION_ID, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Header",
    "default_fs_type",
    "inspect",
    "is_there",
    "mount_of",
    "path_of",
    "refuse_content",
    "refuse_place",
    "refuse_sqlite",
]

_DEFAULT = "sqlite:///yaoki.db"
_SCHEME = "sqlite:///"
_SQLITE_MIN = (3, 51, 3)
_HEADER_SIZE = 100
_MAGIC = b"SQLite format 3\0"
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space, a tab, a backslash

# SQLite's WAL needs shared memory between the processes and byte-range locks that hold; these have neither.
# 9p is absent on purpose: sandboxes mount their root with it, and where it has no shared mmap SQLite says so.
_NETWORK = frozenset(
    """
    afpfs afs beegfs ceph cifs coda davfs gfs gfs2 glusterfs lustre ncpfs nfs nfs4 ocfs2 orangefs prl_fs pvfs2
    smb2 smb3 smbfs vboxsf vmhgfs webdav
    fuse.ceph fuse.cephfs fuse.davfs2 fuse.gcsfuse fuse.glusterfs fuse.goofys fuse.juicefs fuse.rclone fuse.s3fs
    fuse.smbnetfs fuse.sshfs fuse.vmhgfs-fuse
    """.split()  # noqa: SIM905 - a list of names reads best as words
)


def path_of(url: str | None) -> tuple[str, str]:
    """
    Return (url, absolute path) of a store; `None` is `$YAOKI_STORE`, or `sqlite:///yaoki.db`.

    Symbolic links are resolved: two ways to one file are one store, with one lock file.

    Raises:
        StoreRefused: Another scheme, or no file name.
    """
    url = url or os.environ.get("YAOKI_STORE") or _DEFAULT
    name = url.removeprefix(_SCHEME)
    if name == url or not name or name.startswith(":") or "\0" in name:
        whose = " ($YAOKI_STORE)" if url == os.environ.get("YAOKI_STORE") else ""
        raise StoreRefused(
            f"store {url!r}{whose}: not a store. A store is a file: {_DEFAULT}, or sqlite:////var/lib/yaoki.db{_meant(url)}"
        )
    return url, os.path.realpath(name)


def _meant(url: str) -> str:
    """Return what a path written without its scheme, or with too few slashes, would be as a store."""
    path = url.removeprefix("sqlite://").removeprefix("sqlite:")
    if not path.strip("/.") or ":" in path or "\0" in path:
        return ""
    return f"; did you mean {_SCHEME}{path}?"


def is_there(path: str) -> bool:
    """Whether there is a store: a file with something in it. An empty one becomes a store when a run is put into it."""
    return os.path.exists(path) and os.path.getsize(path) > 0  # noqa: PTH110, PTH202 - strings, as SQLite takes them


def refuse_sqlite() -> None:
    """Refuse a SQLite that can corrupt a WAL that several processes write (fixed in 3.51.3)."""
    version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")[:3]) < _SQLITE_MIN:
        least = ".".join(map(str, _SQLITE_MIN))
        raise StoreRefused(
            f"SQLite {version} can corrupt a store that several processes write. Install apsw >= {least}."
        )


def refuse_place(path: str, fs_type: Callable[[str], str]) -> None:
    """Refuse a path no store can live at: no directory, not writable, a network file system."""
    parent = os.path.dirname(path)  # noqa: PTH120 - strings throughout, as SQLite takes them
    if os.path.isdir(path):  # noqa: PTH112
        raise StoreRefused(f"store {path}: is a directory. Name a file in it: sqlite:///{path}/yaoki.db")
    if not os.path.isdir(parent):  # noqa: PTH112
        raise StoreRefused(f"store {path}: there is no directory {parent}. Create it, or name another place.")
    if not os.access(parent, os.W_OK | os.X_OK, effective_ids=True):
        raise StoreRefused(f"store {path}: the directory {parent} is read-only. Make it writable, or use --store.")
    if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):  # noqa: PTH110
        raise StoreRefused(f"store {path}: the file is not readable and writable for this user. Check its owner.")
    kind = fs_type(parent)
    if kind in _NETWORK:
        raise StoreRefused(
            f"store {path}: lies on a network file system ({kind}), where SQLite's locks do not hold. "
            "Put it on a local disk: --store sqlite:////var/tmp/yaoki.db"
        )


def default_fs_type(directory: str) -> str:
    """Return the type of the file system `directory` is on, by `/proc/self/mountinfo`; `""` where there is none."""
    return mount_of(directory)[0]


def mount_of(directory: str) -> tuple[str, str]:
    """Return the type of the file system `directory` is on and its mount options, comma-separated; `""` if unknown."""
    try:
        # Not by pathlib, which would be a tenth of what importing the journal costs.
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:  # noqa: PTH123
            lines = mounts.read().splitlines()
    except OSError:
        return "", ""
    best, kind, options = "", "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        own = left.split(" ")
        mount = _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), own[4])
        inside = mount in {"/", directory} or directory.startswith(mount + "/")
        if inside and len(mount) >= len(best):  # the last of equal mounts lies on top
            words = right.split(" ")
            best, kind, options = mount, words[0], f"{own[5]},{words[-1]}"
    return kind, options


class Header(Struct, frozen=True, kw_only=True):
    """What a database file says of itself."""

    application_id: int
    user_version: int


def inspect(path: str, vfs: str) -> Header | None:
    """
    Read the header of the file at `path`; `None` if it is empty.

    Through SQLite's own file layer: closing a descriptor of ours on a database would drop the locks of
    another connection in this process. No `-wal` or `-shm` is made, nothing is locked.

    Raises:
        StoreCorrupt: It is no SQLite database.
    """
    size = os.path.getsize(path)  # noqa: PTH202 - SQLite's own calls a file of one byte empty
    if not size:
        return None
    file = apsw.VFSFile(vfs, path, [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        head = file.xRead(min(size, _HEADER_SIZE), 0)
    finally:
        file.xClose()
    if len(head) < _HEADER_SIZE or not head.startswith(_MAGIC):
        raise StoreCorrupt(f"store {path}: the file is no SQLite database. Name another file; nothing was changed.")
    return Header(
        application_id=int.from_bytes(head[68:72], "big"),
        user_version=int.from_bytes(head[60:64], "big"),
    )


def refuse_content(path: str, application_id: int, user_version: int) -> None:
    """Refuse another program's database, and a store of a newer schema."""
    if application_id != APPLICATION_ID:
        raise StoreRefused(
            f"store {path}: this SQLite database belongs to another program. Name another file; nothing was changed."
        )
    if user_version > VERSION:
        raise StoreRefused(
            f"store {path}: written by a newer yaoki (schema {user_version}, this one knows {VERSION}). "
            "Upgrade yaoki; nothing was changed."
        )
