"""
The floors: the least that the same guarantee costs, without Yaoki. Each returns a rate or a time.

    written   two autocommits a step in SQLite through apsw (WAL, synchronous=NORMAL)
    synced    the same, with one fdatasync of the -wal file between them
    grouped   50 tasks in one event loop: what waits when it comes round is one transaction, and one fdatasync
"""

from __future__ import annotations

import asyncio
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
    """
    Return steps/s of `runs` tasks whose records share transactions and syncs.

    A task waits for its begin to be committed (and synced, if asked), yields once as its call would, then waits
    for its settle. What is waiting when the event loop comes round is one transaction.
    """

    async def measured(connection: apsw.Connection, file: int) -> float:
        ticks = asyncio.get_running_loop()
        cursor = connection.cursor()
        waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        seq = 0

        def commit() -> None:
            nonlocal seq
            batch = waiting.copy()
            waiting.clear()
            cursor.execute("begin immediate")
            for body, _ in batch:
                cursor.execute(_INSERT, (seq, body))
                seq += 1
            cursor.execute("commit")
            if sync and any(body is BEGIN for body, _ in batch):
                os.fdatasync(file)
            for _, done in batch:
                done.set_result(None)

        async def recorded(body: bytes) -> None:
            done = ticks.create_future()
            if not waiting:
                ticks.call_soon(commit)
            waiting.append((body, done))
            await done

        async def run() -> None:
            for _ in range(steps):
                await recorded(BEGIN)
                await asyncio.sleep(0)
                await recorded(SETTLE)

        start_s = time.perf_counter()
        await asyncio.gather(*(run() for _ in range(runs)))
        return runs * steps / (time.perf_counter() - start_s)

    with wal(directory) as (connection, file):
        return asyncio.run(measured(connection, file))


def process_ms(code: str) -> float:
    """Return how long a fresh interpreter takes to run `code` and end."""
    start_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - start_s) * 1000
