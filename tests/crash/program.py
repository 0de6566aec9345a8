"""
A process that runs one shape and kills itself with SIGKILL at its nth point.

    main STORE WORLD SHAPE sync|async KILL_AT [first|again]

Points are those of the simulated matrix: before and after each write, when a call arrives, when its effect is
done. Prints the run's state and what it waits for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.crash.matrix import RUN, watch
from tests.crash.shapes import bound
from tests.crash.world import STAGE, Points, World
from yaoki import AsyncRunner, Receipt, Runner
from yaoki.testing import no_waits


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def reside(store: str, shape: str, again: bool) -> Receipt:
    with Runner(store) as runner:
        watch(runner.store, STAGE.points)
        return runner.run(bound(shape, is_async=False, again=again), run_id=RUN)


async def reside_async(store: str, shape: str, again: bool) -> Receipt:
    async with AsyncRunner(store) as runner:
        watch(runner.store, STAGE.points)
        return await runner.run(bound(shape, is_async=True, again=again), run_id=RUN)


def main(store: str, world: str, shape: str, colour: str, kill_at: str, again: str = "first") -> None:
    STAGE.world = World(Path(world))
    STAGE.points = Points(int(kill_at), die)
    with no_waits():
        pass_ = (store, shape, again == "again")
        receipt = asyncio.run(reside_async(*pass_)) if colour == "async" else reside(*pass_)
    print(receipt.status.value, receipt.waits_for)
