"""G9: Every wait has a bound; none is slept that cannot help."""

from __future__ import annotations

import asyncio

import pytest

from tests.guarantees.colours import Hand, both, records_of, settles
from yaoki import AsyncRunner, Effect, Retry, RetryableError, Runner, loop, tool
from yaoki.records import LADDER_MS, Begin, Parked, Question, State
from yaoki.testing import no_waits


def failing_body(colour, error, retry, calls=None):
    def fail() -> None:
        if calls is not None:
            calls.append(1)
        raise error

    failing = colour.tool(fail, effect=Effect.READ_ONLY, retry=retry)

    def body(run):
        yield failing()

    return body


@both
def test_a_hint_past_the_deadline_is_not_slept_and_the_ladder_ends_at_once(tmp_path, colour):
    calls: list[int] = []
    body = failing_body(colour, RetryableError("later", delay_s=3600), Retry(deadline_s=60), calls)
    clock = Hand()
    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind(), clock=clock)
    assert receipt.status is State.DEAD
    assert len(calls) == 1
    assert clock.slept_s == []
    assert "deadline" in settles(tmp_path / "s.db")[0].decision.why


def test_no_wait_between_attempts_ends_past_the_deadline(tmp_path):
    clock, store = Hand(), tmp_path / "s.db"

    @tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=1000, deadline_s=120, base_s=4, cap_s=20))
    def fail() -> None:
        clock.ms += 100
        raise ConnectionResetError(104, "reset")

    @loop
    def body(run) -> None:
        fail()

    with Runner(f"sqlite:///{store}", clock=clock) as runner:
        start_ms = clock.ms
        assert runner.run(body.bind(), run_id="run-1").status is State.DEAD
    begun = records_of(store, Begin)
    assert {begin.deadline_at for begin in begun} == {start_ms + 120_000}
    assert all(begin.at < begin.deadline_at for begin in begun)
    assert len(begun) > 3
    assert sum(clock.slept_s) <= 120


def test_a_begin_that_names_no_deadline_has_that_of_the_ladder_all_the_same(tmp_path):
    clock, store = Hand(), tmp_path / "s.db"

    @tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=1000, base_s=4, cap_s=60, same_error_limit=1000))
    def fail() -> None:
        clock.ms += 100
        raise ConnectionResetError(104, "reset")

    @loop
    def body(run) -> None:
        fail()

    with Runner(f"sqlite:///{store}", clock=clock) as runner:
        assert runner.run(body.bind(), run_id="run-1").status is State.DEAD
    first, *later = records_of(store, Begin)
    assert first.deadline_at == 0
    assert len(later) > 3
    assert {begin.deadline_at for begin in later} == {first.ends_at} == {first.at + LADDER_MS}
    assert 600 < sum(clock.slept_s) <= 900


@both
@no_waits
def test_waits_grow_to_their_cap_and_not_beyond(tmp_path, colour):
    body = failing_body(colour, ConnectionResetError(104, "reset"), Retry(attempts_max=12, base_s=1, cap_s=5))
    colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind())
    waits_s = [settle.decision.wait_ms / 1000 for settle in settles(tmp_path / "s.db")[:-1]]
    assert len(waits_s) == 11
    assert all(wait_s <= min(5, 2**n) for n, wait_s in enumerate(waits_s))


def test_a_long_wait_leaves_memory_with_the_time_it_ends_and_a_restart_waits_only_the_rest(tmp_path):
    clock, store = Hand(), tmp_path / "s.db"

    @loop
    def body(run) -> str:
        run.sleep(3600)
        return "slept"

    woken: list[float] = []

    class Interrupted(Hand):
        def sleep(self, delay_s: float) -> None:
            woken.append(delay_s)
            raise KeyboardInterrupt

    start_ms = clock.ms
    with Runner(f"sqlite:///{store}", clock=Interrupted(start_ms)) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(body.bind(), run_id="run-1")
    with Runner.verbs(f"sqlite:///{store}") as runner:
        receipt = runner.get("run-1")
    assert (receipt.status, receipt.wake_at) == (State.SLEEPING, start_ms + 3_600_000)
    clock.ms += 3_000_000
    with Runner(f"sqlite:///{store}", clock=clock) as runner:
        assert runner.run(body.bind(), run_id="run-1").value == "slept"
    assert sum(clock.slept_s) == pytest.approx(600, abs=1)
    assert [parked.wake_at for parked in records_of(store, Parked)] == [start_ms + 3_600_000]


def test_an_attempt_that_does_not_answer_is_cut_at_timeout_s_and_counts(tmp_path):
    cut: list[int] = []

    @tool(effect=Effect.READ_ONLY, timeout_s=0.01, retry=Retry(attempts_max=2))
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut.append(1)

    @loop
    async def body(run) -> None:
        await hang()

    @no_waits
    async def drive():
        async with AsyncRunner(f"sqlite:///{tmp_path / 's.db'}") as runner:
            return await runner.run(body.bind(), run_id="run-1")

    receipt = asyncio.run(drive())
    assert receipt.status is State.DEAD
    assert cut == [1, 1]
    assert {met.failure.kind for met in receipt.failures} == {"transient"}


def test_a_sync_attempt_with_interrupt_is_left_at_timeout_s(tmp_path):
    import threading

    over = threading.Event()

    @tool(effect=Effect.READ_ONLY, timeout_s=0.02, interrupt="thread", retry=Retry(attempts_max=2))
    def hang() -> None:
        over.wait(30)

    @loop
    def body(run) -> None:
        hang()

    with no_waits(), Runner(f"sqlite:///{tmp_path / 's.db'}") as runner:
        receipt = runner.run(body.bind(), run_id="run-1")
    over.set()
    assert receipt.status is State.DEAD
    assert receipt.attempts == 2


@both
@no_waits
def test_every_question_expires(tmp_path, colour):
    clock = Hand()

    def note() -> None:
        raise ConnectionResetError(104, "reset")

    noting = colour.tool(note)

    def body(run):
        yield noting()

    receipt = colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind(), clock=clock)
    assert receipt.wake_at == clock.ms + 7 * 86_400_000
    assert [q.expires_at for q in records_of(tmp_path / "s.db", Question)] == [receipt.wake_at]


@both
def test_failures_that_cannot_heal_are_not_waited_for(tmp_path, colour):
    for number, error in enumerate(
        [FileNotFoundError(2, "no such file", "x"), TypeError("bug"), PermissionError(13, "denied")]
    ):
        calls: list[int] = []
        clock = Hand()
        body = failing_body(colour, error, Retry(), calls)
        store = tmp_path / f"{number}.db"
        assert colour.run(store, colour.loop(body, name="body").bind(), clock=clock).status is State.DEAD
        assert len(calls) == 1
        assert clock.slept_s == []


@both
def test_the_last_attempt_is_not_followed_by_a_wait(tmp_path, colour):
    body = failing_body(colour, ConnectionResetError(104, "reset"), Retry(attempts_max=1))
    clock = Hand()
    colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind(), clock=clock)
    assert clock.slept_s == []
    assert [settle.decision.wait_ms for settle in settles(tmp_path / "s.db")] == [0]
