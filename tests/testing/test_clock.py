"""`FakeClock`: waiting takes no time and moves the clock, in sync runs and in event loops."""

from __future__ import annotations

import asyncio
import time

import pytest

from yaoki import AsyncRunner, Effect, Retry, RetryableError, Runner, loop, tool
from yaoki.testing import FakeClock

DAY_S = 86_400


def test_a_sync_run_sleeps_for_hours_and_retries_for_minutes_in_no_time(tmp_path):
    clock, calls = FakeClock(), []

    @tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=3))
    def look() -> int:
        calls.append(clock.passed_s)
        if len(calls) < 3:
            raise RetryableError("later", delay_s=60)
        return len(calls)

    @loop
    def body(run) -> float:
        before = run.now()
        run.sleep(DAY_S / 2)
        look()
        return (run.now() - before).total_seconds()

    with Runner(f"sqlite:///{tmp_path / 's.db'}", clock=clock) as runner:
        receipt = runner.run(body.bind(), run_id="r")
    assert DAY_S / 2 + 120 <= receipt.value < DAY_S / 2 + 130
    assert receipt.spent.retry_wait_s == 120
    assert 60 <= calls[1] - calls[0] < 62


def test_an_async_run_lives_on_it_and_its_timeouts_run_out(tmp_path):
    clock = FakeClock()

    @tool(effect=Effect.READ_ONLY, timeout_s=120)
    async def hang() -> None:
        await asyncio.Event().wait()

    @loop
    async def body(run) -> str:
        await run.sleep(DAY_S / 8)
        try:
            async with run.timeout(45):
                await hang()
        except TimeoutError:
            return "cut"
        return "over"

    async def drive():
        async with AsyncRunner(f"sqlite:///{tmp_path / 's.db'}", clock=clock) as runner:
            return await runner.run(body.bind(), run_id="r")

    assert clock.run(drive()).value == "cut"
    assert DAY_S / 8 + 45 <= clock.passed_s < DAY_S / 8 + 60


def test_no_time_passes_while_a_thread_is_at_work():
    clock = FakeClock()

    async def main() -> tuple[str, float]:
        async with asyncio.timeout(3600):
            return await asyncio.to_thread(lambda: time.sleep(0.05) or "done"), clock.passed_s

    assert clock.run(main()) == ("done", 0)


def test_jitter_ids_and_times_are_the_same_each_time():
    one, other = FakeClock(seed=3), FakeClock(seed=3)
    assert (one.rng().random(), one.new_id(), one.now_ms()) == (other.rng().random(), other.new_id(), other.now_ms())
    assert FakeClock(seed=4).rng().random() != FakeClock(seed=3).rng().random()
    one.advance(-5)
    assert one.passed_s == 0


def test_an_event_loop_in_which_only_time_passes_is_stopped():
    async def forever() -> None:
        while True:  # noqa: ASYNC110 - that nothing else happens is the point
            await asyncio.sleep(60)

    with pytest.raises(AssertionError, match="nothing happens in this event loop but that time passes"):
        FakeClock().run(forever())
