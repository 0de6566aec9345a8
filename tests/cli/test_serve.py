"""The worker process's two halves: a sync runner for plain loops, an async one for the others."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from yaoki import AsyncRun, AsyncRunner, Effect, Run, Runner, loop, tool
from yaoki.cli._pulse import Pulse
from yaoki.cli._report import Service
from yaoki.cli._serve import _Crew
from yaoki.errors import JournalError
from yaoki.records import State


@loop
def plain(run: Run) -> str:
    return "plain"


@loop
async def coroutine(run: AsyncRun) -> str:
    return "coroutine"


@pytest.fixture
def service(tmp_path):
    return Service(files=["f.py"], store=f"sqlite:///{tmp_path / 's.db'}", until="stopped", concurrency=2)


@pytest.fixture(autouse=True)
def handlers():
    """Give the test's own handlers back."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def pulse(tmp_path):
    with (tmp_path / "report").open("wb") as file:
        yield Pulse(file.fileno(), hung_after_s=240)


@pytest.mark.parametrize("coroutines", [[coroutine], []], ids=["both", "plain alone"])
def test_should_the_plain_half_fail_the_other_does_not_go_on_alone(service, pulse, monkeypatch, coroutines):
    def fails(self, *loops, **options):
        raise JournalError("the disk is full")

    monkeypatch.setattr(Runner, "work", fails)
    with pytest.raises(JournalError, match="the disk is full"):
        _Crew(service, pulse).serve(coroutines, [plain])


def test_should_the_async_half_fail_what_the_plain_one_has_in_flight_may_settle(service, pulse, monkeypatch):
    begun, failed = threading.Event(), threading.Event()

    @tool(effect=Effect.READ_ONLY)
    def slow() -> str:
        begun.set()
        assert failed.wait(30)
        return "settled"

    @loop
    def steps(run: Run) -> str:
        slow()
        return slow()

    async def fails(self, *loops, **options):
        await asyncio.to_thread(begun.wait, 30)
        threading.Timer(0.01, failed.set).start()
        raise JournalError("the disk is full")

    with Runner(service.store, submits_only=True) as runner:
        runner.submit(steps.bind(), run_id="r1")
    monkeypatch.setattr(AsyncRunner, "work", fails)
    with pytest.raises(JournalError, match="the disk is full"):
        _Crew(service, pulse).serve([coroutine], [steps])
    with Runner.verbs(service.store) as verbs:
        receipt = verbs.get("r1")
    assert (receipt.status, receipt.attempts, receipt.failures) == (State.PENDING, 1, [])


@pytest.mark.parametrize("coroutines", [[coroutine], []], ids=["both", "plain alone"])
def test_a_signal_stops_both_halves(service, pulse, monkeypatch, coroutines):
    work = Runner.work

    def told(self, *loops, **options):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
        return work(self, *loops, **options)

    monkeypatch.setattr(Runner, "work", told)
    assert _Crew(service, pulse).serve(coroutines, [plain]) is True
