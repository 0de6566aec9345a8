"""
A worker of a fleet, and what is known of it from outside.

    main STORE WORLD SLOT sync|async

Half of a fleet is sync, half async; both serve the loop `busy`, and take over from one another. Each call says who
makes it, in the world and in its result, so that the journal itself shows which process wrote what. How long appends
took is kept in a file beside the world. SIGTERM drains it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

from msgspec import json as values

from tests.crash.world import World
from yaoki import INJECTED, AsyncRun, AsyncRunner, Budget, Effect, Retry, Run, Runner, loop, tool
from yaoki.journal import Journal
from yaoki.records import Claimed, Entry, Settle

__all__ = ["append_waits", "check_one_writer", "main", "plain"]

_WRITTEN_EVERY = 10
_OFTEN = Retry(attempts_max=500, base_s=0.001, cap_s=0.002)
_WORLD = World()
_SLOT = 0


def _act(run_id: str, n: int) -> int:
    _WORLD.note("asked", run_id, str(_SLOT), [n, os.getpid()])
    return os.getpid()


@tool(effect=Effect.KEYED, retry=_OFTEN, name="act")
def act(run_id: str, n: int, pause_ms: int, *, idempotency_key: str = INJECTED) -> int:
    time.sleep(pause_ms / 1000)
    return _act(run_id, n)


@tool(effect=Effect.KEYED, retry=_OFTEN, name="act")
async def act_async(run_id: str, n: int, pause_ms: int, *, idempotency_key: str = INJECTED) -> int:
    await asyncio.sleep(pause_ms / 1000)
    return _act(run_id, n)


MUCH = Budget(turns=10_000, retries=100_000)


@loop(name="busy", crashes_max=1_000, budget=MUCH)
def plain(run: Run, turns: int, steps: int, pause_ms: int) -> int:
    for done in run.turns([0]):
        if done[0] >= turns:
            return done[0]
        for n in range(steps):
            act(run.id, done[0] * steps + n, pause_ms)
        done[0] += 1
    return -1


@loop(name="busy", crashes_max=1_000, budget=MUCH)
async def coroutine(run: AsyncRun, turns: int, steps: int, pause_ms: int) -> int:
    async for done in run.turns([0]):
        if done[0] >= turns:
            return done[0]
        for n in range(steps):
            await act_async(run.id, done[0] * steps + n, pause_ms)
        done[0] += 1
    return -1


class Waits:
    """How long appends took: a line of the number and the worst, milliseconds, now and then; a death loses a few."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count, self._worst = 0, 0.0

    def watch(self, journal: Journal) -> None:
        for name in ("append", "append_if", "append_ruled", "append_batch", "leave"):
            setattr(journal, name, self._timed(getattr(journal, name)))

    def _timed(self, method):
        def timed(*args, **kwargs):
            began_s = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._add((time.perf_counter() - began_s) * 1000)

        return timed

    def _add(self, ms: float) -> None:
        self._count, self._worst = self._count + 1, max(self._worst, ms)
        if self._count >= _WRITTEN_EVERY:
            with self._path.open("a") as file:
                file.write(json.dumps([self._count, self._worst]) + "\n")
            self._count, self._worst = 0, 0.0


def append_waits(world: Path) -> list[tuple[int, float]]:
    """Return what all workers wrote: how many appends, and the worst of them in milliseconds."""
    text = world.with_suffix(".waits").read_text()
    return [tuple(json.loads(line)) for line in text.splitlines()]


def _serve(store: str, waits: Waits) -> None:
    runner = Runner(store)
    signal.signal(signal.SIGTERM, lambda *_: runner.drain())
    with runner:
        waits.watch(runner.store)
        runner.work(plain)


async def _serve_async(store: str, waits: Waits) -> None:
    runner = AsyncRunner(store)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.drain)
    async with runner:
        waits.watch(runner.store)
        await runner.work(coroutine, concurrency=1)


def main(store: str, world: str, slot: str, colour: str) -> None:
    global _WORLD, _SLOT
    _WORLD, _SLOT = World(Path(world)), int(slot)
    waits = Waits(Path(world).with_suffix(".waits"))
    if colour == "async":
        asyncio.run(_serve_async(store, waits))
    else:
        _serve(store, waits)


def check_one_writer(entries: list[Entry]) -> int:
    """Hold that whoever had claimed the run wrote each of its records; return how many claims were recorded."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    claims = [entry.record for entry in entries if isinstance(entry.record, Claimed)]
    epochs = [claim.epoch for claim in claims]
    # One that died between its claim and that record has left a gap.
    assert epochs == sorted(set(epochs))
    writer = 0
    for _, _, record in entries:
        if isinstance(record, Claimed):
            writer = record.pid
        elif isinstance(record, Settle) and record.outcome == "ok":
            assert values.decode(record.value) == writer, "settled by a process that had not claimed the run"
    return len(claims)
