"""
The floors: the least that the same guarantee costs, without Yaoki. Each returns a rate or a time.

    written   two autocommits a step in SQLite through apsw (WAL, synchronous=NORMAL)
    synced    the same, with one fdatasync of the -wal file between them
    grouped   one transaction for the begins of 50 runs, fdatasync if asked, one for their settles
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN, SETTLE = b"b" * 300, b"s" * 60
_INSERT = "insert into journal values (?, ?)"


@contextmanager
def wal(directory: str) -> Iterator[tuple[apsw.Connection, int]]:
    """Open a fresh database in WAL mode, and its -wal file for syncing."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        connection = apsw.Connection(f"{name}/floor.db")
        for pragma in ("journal_mode = wal", "synchronous = normal", "wal_autocheckpoint = 0"):
            connection.execute(f"pragma {pragma}").fetchall()
        connection.execute("create table journal (id integer primary key, body blob) strict").fetchall()
        file = os.open(f"{name}/floor.db-wal", os.O_RDWR)
        try:
            yield connection, file
        finally:
            os.close(file)
            connection.close()


def one_run(directory: str, steps: int, *, sync: bool) -> float:
    """Return steps/s of one run: a begin and a settle a step, each in a transaction of its own."""
    with wal(directory) as (connection, file):
        execute = connection.cursor().execute
        start_s = time.perf_counter()
        for i in range(steps):
            execute(_INSERT, (2 * i, BEGIN))
            if sync:
                os.fdatasync(file)
            execute(_INSERT, (2 * i + 1, SETTLE))
        return steps / (time.perf_counter() - start_s)


def grouped(directory: str, runs: int, steps: int, *, sync: bool) -> float:
    """Return steps/s of `runs` runs in step, whose records share transactions and syncs."""
    with wal(directory) as (connection, file):
        cursor = connection.cursor()
        start_s = time.perf_counter()
        for i in range(steps):
            at = 2 * i * runs
            for body, first in ((BEGIN, at), (SETTLE, at + runs)):
                cursor.execute("begin immediate")
                for k in range(runs):
                    cursor.execute(_INSERT, (first + k, body))
                cursor.execute("commit")
                if sync and body is BEGIN:
                    os.fdatasync(file)
        return runs * steps / (time.perf_counter() - start_s)


def process_ms(code: str) -> float:
    """Return how long a fresh interpreter takes to run `code` and end."""
    start_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - start_s) * 1000
