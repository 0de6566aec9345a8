"""
A worker whose runs share a group's budget; killed from outside.

    main STORE WORLD sync|async
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.crash.world import STAGE, World
from yaoki import AsyncRun, AsyncRunner, Budget, Effect, ForModel, Retry, Run, Runner, loop, tool

__all__ = ["USED", "main", "plain"]

USED = 10
PAUSE_S = 0.02
OFTEN = Retry(attempts_max=500, base_s=0.001, cap_s=0.002)
METER = ForModel(usage=lambda _: {"tokens": USED}, reserve={"tokens": USED})
MUCH = Budget(retries=100_000)


@tool(effect=Effect.READ_ONLY, retry=OFTEN, agent=METER, name="ask")
def ask(run_id: str, n: int) -> int:
    STAGE.world.note("asked", "ask", f"{run_id} {n}", None)
    time.sleep(PAUSE_S)  # so that there is somebody to kill in a call
    return n


@tool(effect=Effect.READ_ONLY, retry=OFTEN, agent=METER, name="ask")
async def ask_async(run_id: str, n: int) -> int:
    STAGE.world.note("asked", "ask", f"{run_id} {n}", None)
    await asyncio.sleep(PAUSE_S)
    return n


@loop(name="spender", crashes_max=1_000, budget=MUCH)
def plain(run: Run, times: int) -> int:
    return sum(ask(run.id, n) for n in range(times))


@loop(name="spender", crashes_max=1_000, budget=MUCH)
async def coroutine(run: AsyncRun, times: int) -> int:
    return sum([await ask_async(run.id, n) for n in range(times)])


async def _serve(store: str) -> None:
    async with AsyncRunner(store) as runner:
        await runner.work(coroutine, concurrency=4)


def main(store: str, world: str, colour: str) -> None:
    STAGE.world = World(Path(world))
    if colour == "async":
        asyncio.run(_serve(store))
    else:
        with Runner(store) as runner:
            runner.work(plain)
