"""A fan-out of documents, two steps each under random delays; `main` takes STORE WORLD DOCUMENTS SEED."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.crash.world import STAGE, World
from yaoki import INJECTED, AsyncRun, AsyncRunner, Budget, Effect, Retry, loop, tool

DELAYS = random.Random(0)
QUICK = Retry(attempts_max=40, base_s=0.01, cap_s=0.02)


@tool(effect=Effect.READ_ONLY, retry=QUICK)
async def fetch(name: str) -> str:
    await asyncio.sleep(DELAYS.random() * 0.02)
    return str(STAGE.call("fetch", name, f"text of {name}", effect="none"))


@tool(effect=Effect.KEYED, retry=QUICK)
async def store(name: str, text: str, *, idempotency_key: str = INJECTED) -> int:
    await asyncio.sleep(DELAYS.random() * 0.02)
    return int(STAGE.call("store", idempotency_key, len(text), effect="dedup"))


@loop(budget=Budget(retries=10_000), crashes_max=100)
async def documents(run: AsyncRun, count: int) -> int:
    async def one(number: int) -> int:
        return await store(f"doc-{number}", await fetch(f"doc-{number}"))

    settled = await run.map(one, range(count), limit=16)
    return sum(one.value for one in settled)


async def drive(url: str, world: str, count: str, seed: str) -> None:
    STAGE.world = World(Path(world))
    DELAYS.seed(int(seed))
    async with AsyncRunner(url) as runner:
        receipt = await runner.run(documents.bind(int(count)), run_id="fan-out")
    print(receipt.status.value, receipt.value)


def main(*arguments: str) -> None:
    asyncio.run(drive(*arguments))
