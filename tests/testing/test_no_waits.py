"""`no_waits` skips every wait and changes nothing else."""

from __future__ import annotations

import asyncio
import inspect
import time

import pytest

from yaoki import AsyncRunner, Effect, Retry, RetryableError, Runner, loop, retry, tool
from yaoki.records import Settle, State
from yaoki.runtime._waits import skipping
from yaoki.testing import no_waits

FIVE = Retry(attempts_max=5, base_s=30, cap_s=30)


class Shaky:
    def __init__(self) -> None:
        self.calls = 0

    def call(self) -> int:
        self.calls += 1
        if self.calls < 5:
            raise RetryableError("later", delay_s=60)
        return self.calls


def test_retries_do_not_wait():
    shaky = Shaky()
    started_s = time.monotonic()
    with no_waits():
        assert retry(FIVE)(shaky.call)() == 5
    assert time.monotonic() - started_s < 20


@no_waits
def test_it_decorates_a_test_and_keeps_its_name_and_result():
    assert skipping()

    @no_waits
    def answer() -> int:
        return 42

    assert (answer(), answer.__name__) == (42, "answer")


def test_it_decorates_an_async_function_for_as_long_as_it_runs():
    @no_waits
    async def ask() -> bool:
        await asyncio.sleep(0)
        return skipping()

    assert inspect.iscoroutinefunction(ask)
    coroutine = ask()
    assert not skipping()
    assert asyncio.run(coroutine)
    assert not skipping()


def test_it_ends_with_its_block_also_by_an_exception_and_may_be_nested():
    with pytest.raises(ValueError, match="out"), no_waits():
        with no_waits():
            assert skipping()
        assert skipping()
        raise ValueError("out")
    assert not skipping()


def test_a_runs_waits_and_sleeps_are_skipped_and_recorded_as_decided(tmp_path):
    shaky = Shaky()
    look = tool(effect=Effect.READ_ONLY, retry=FIVE)(shaky.call)

    @loop
    def body(run) -> int:
        run.sleep(86_400 * 30)
        return look()

    with no_waits(), Runner(f"sqlite:///{tmp_path / 's.db'}") as runner:
        receipt = runner.run(body.bind(), run_id="r")
        waits_ms = [entry.record.decision.wait_ms for entry in runner.journal("r") if _failed(entry.record)]
    assert (receipt.status, receipt.value) == (State.COMPLETED, 5)
    assert waits_ms == [60_000] * 4
    assert receipt.spent.retry_wait_s == 240


def _failed(record: object) -> bool:
    return isinstance(record, Settle) and record.failure is not None


def test_an_async_runs_waits_are_skipped_too_and_its_timeouts_are_not(tmp_path):
    @tool(effect=Effect.READ_ONLY, retry=FIVE)
    async def hang() -> None:
        await asyncio.Event().wait()

    @loop
    async def body(run) -> str:
        await run.sleep(3600)
        try:
            async with run.timeout(0.01):
                await hang()
        except TimeoutError:
            return "cut"
        return "over"

    @no_waits
    async def drive():
        async with AsyncRunner(f"sqlite:///{tmp_path / 's.db'}") as runner:
            return await runner.run(body.bind(), run_id="r")

    assert asyncio.run(drive()).value == "cut"
