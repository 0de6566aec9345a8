"""A vendor that is down for two minutes, and twenty runs that need it: no storm, nobody dies, all are soon done."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.runtime.errors import refused, status
from tests.runtime.house import House
from yaoki import Breaker, Effect
from yaoki.records import State

RUNS = 20
DOWN_S = 120


@pytest.mark.parametrize("error", [refused, lambda: status(503), lambda: status(529)], ids=["refused", "503", "529"])
def test_an_outage_of_two_minutes(tmp_path, error):
    house = House("async", tmp_path)
    began_s = house.clock.monotonic_s()
    asked: list[float] = []
    first: Counter[int] = Counter()

    @house.tool(effect=Effect.READ_ONLY, scope="vendor/model", breaker=Breaker(failures=5, open_s=5))
    async def ask(n: int, step: int) -> int:
        at_s = house.clock.monotonic_s() - began_s
        asked.append(at_s)
        first[n] += 1
        await asyncio.sleep(0.05)
        if at_s < DOWN_S:
            raise error()
        return n

    @house.loop
    async def work(run, n: int) -> int:
        return await ask(n, 1) + await ask(n, 2)

    async def all_of_them(runner):
        made = await asyncio.gather(*(runner.run(work.bind(n), run_id=f"r{n}") for n in range(RUNS)))
        return made, house.clock.monotonic_s() - began_s

    receipts, took_s = house.drive(all_of_them)
    assert [receipt.status for receipt in receipts] == [State.COMPLETED] * RUNS
    assert took_s <= DOWN_S + 10, "all runs finish within 10 s of its end"
    during = sum(at_s < DOWN_S for at_s in asked)
    probes = DOWN_S / 5
    assert during <= 1.2 * RUNS + probes, "first attempts, a few more, and one probe a window"
