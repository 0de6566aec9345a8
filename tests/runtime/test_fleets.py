"""What holds for workers however many runs there are, and whatever the clock, the code or one of the runs does."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import tracemalloc
from collections.abc import Callable

import apsw
import pytest

from tests.clocks import FakeClock
from tests.runtime.house import House, got
from tests.runtime.test_work import echo, submit, work
from yaoki import AsyncRunner, Effect, Runner
from yaoki.errors import JournalError
from yaoki.journal import Journal
from yaoki.records import Claimed, Settle, State
from yaoki.runtime._survivors import MARK

HOUR_S = 3_600
READ = Effect.READ_ONLY


class Hooked(FakeClock):
    """Wall time may jump, and things happen while somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped_ms = 0
        self.at: dict[float, Callable[[], object]] = {}

    def now_ms(self) -> int:
        return super().now_ms() + self.jumped_ms

    def jump(self, seconds: float) -> None:
        self.jumped_ms += int(seconds * 1000)

    def advance(self, delay_s: float) -> None:
        super().advance(delay_s)
        for second in [second for second in self.at if second <= self.passed_s]:
            self.at.pop(second)()


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path):
    made = House(request.param, tmp_path)
    made.clock = Hooked()
    return made


def dozing(house: House):
    @house.loop(name="dozing")
    async def dozing(run) -> str:
        await got(run.sleep(HOUR_S / 2))
        return "up"

    return dozing


# --- the clock


def test_a_clock_that_jumps_ahead_wakes_a_sleeper_early_and_one_that_jumps_back_late(house):
    loop = dozing(house)
    submit(house, loop.bind(), "early")
    assert work(house, loop) == {"sleeping": 1}
    house.clock.jump(HOUR_S)
    assert work(house, loop) == {"completed": 1}
    submit(house, loop.bind(), "late")
    assert work(house, loop) == {"sleeping": 1}
    house.clock.jump(-HOUR_S)
    house.later(HOUR_S / 2 + 1)
    assert work(house, loop) == {}
    house.later(HOUR_S)
    assert work(house, loop) == {"completed": 1}


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_a_clock_that_jumps_gives_a_run_no_second_driver(house, seconds):
    seen = []

    def look() -> str:
        house.clock.jump(seconds)
        other = Journal.open(house.url, clock=house.clock)
        seen.extend(other.claim_many(10, loops=["looks"]))
        other.close()
        return "seen"

    looks = house.tool(look, effect=READ)

    @house.loop(name="looks")
    async def looking(run) -> str:
        await got(run.sleep(1))
        return await got(looks())

    submit(house, looking.bind(), "r1")
    assert work(house, looking) == {"completed": 1}
    assert seen == []
    assert len(house.records(Claimed, "r1")) == 1


# --- code


def test_of_fifty_sleeping_runs_those_that_fit_the_new_code_go_on_and_the_others_wait_for_it(house):
    step = house.tool(lambda text: house.note(text) and text, effect=READ, name="step")
    changed = False

    @house.loop(name="sleeper")
    async def sleeper(run, n: int) -> str:
        other = "new" if changed and n % 2 else "old"
        await got(step(f"{other} {n}"))
        await got(run.sleep(HOUR_S))
        return await got(step(f"after {n}"))

    for n in range(50):
        submit(house, sleeper.bind(n), f"r{n}")
    assert work(house, sleeper, concurrency=1) == {"sleeping": 50}
    changed = True
    house.later(HOUR_S + 1)
    assert work(house, sleeper) == {"completed": 25, "waiting": 25}
    waits = house.get("r7")
    assert (waits.status, waits.waits_for) == (State.WAITING, "code")
    assert "old 7" in waits.diff
    assert "new 7" in waits.diff
    changed = False
    assert work(house, sleeper) == {"completed": 25}
    assert sorted(house.done) == sorted(f"{word} {n}" for n in range(50) for word in ("old", "after"))


def test_of_fifty_sleeping_runs_those_parked_by_new_code_are_taken_on_by_it_and_repeat_no_effect(house):
    """`redrive --from checkpoint`: what the code does otherwise is done, what it did before is adopted."""
    look = house.tool(lambda text: text, effect=READ, name="look")
    send = house.tool(lambda text: house.note(text) and text, name="send")
    changed = False

    @house.loop(name="sleeper")
    async def sleeper(run, n: int) -> str:
        await got(send(f"prelude {n}"))
        async for state in house.turns(run, [0]):
            state[0] += 1
            await got(send(f"turn {state[0]} of {n}"))
            if state[0] == 1:
                continue
            if changed and n % 2:
                await got(look(f"before sleeping {n}"))
            await got(run.sleep(HOUR_S))
            await got(send(f"after {n}"))
            break
        return "up"

    for n in range(50):
        submit(house, sleeper.bind(n), f"r{n}")
    assert work(house, sleeper, concurrency=1) == {"sleeping": 50}
    changed = True
    house.later(HOUR_S + 1)
    assert work(house, sleeper, concurrency=1) == {"completed": 25, "waiting": 25}
    parked = [f"r{n}" for n in range(50) if n % 2]
    waits = house.get("r7")
    assert (waits.waits_for, waits.orphans) == ("code", [])
    assert "before sleeping 7" in waits.diff
    house.outside(lambda verbs: [verbs.redrive(run_id, "checkpoint") for run_id in parked])
    assert work(house, sleeper, concurrency=1) == {"sleeping": 25}
    house.later(HOUR_S + 1)
    assert work(house, sleeper, concurrency=1) == {"completed": 25}
    whole = [f"{what} {n}" for n in range(50) for what in ("prelude", "turn 1 of", "turn 2 of", "after")]
    assert sorted(house.done) == sorted(whole)
    assert [house.get(run_id).orphans for run_id in parked] == [[]] * 25


# --- many


def test_a_worker_costs_the_same_whether_a_hundred_thousand_runs_sleep_or_none(house):
    one = echo(house)
    submit(house, one.bind("x"), "first")
    now_ms = house.clock.now_ms()
    rows = ((f"s{n}", now_ms + HOUR_S * 1_000, now_ms) for n in range(100_000))
    connection = apsw.Connection(str(house.path / "store.db"))
    with connection:
        connection.executemany(
            "insert into run (name, loop, state, wake_ms, input, created_ms, changed_ms)"
            " values (?1, 'echo', 'sleeping', ?2, x'7b7d', ?3, ?3)",
            rows,
        )
    connection.close()
    tracemalloc.start()
    try:
        assert work(house, one) == {"completed": 1}
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3_000_000, f"{most:,} bytes"


def while_idle(house: House, loop, seconds: float) -> int:
    """Let a worker serve for so long; return how often it looked for runs."""
    looks = 0
    claim_many = Journal.claim_many

    def counted(*args, **options):
        nonlocal looks
        looks += 1
        return claim_many(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "claim_many", counted)
        if house.is_async:

            async def serve(runner: AsyncRunner) -> None:
                house.clock.at[house.clock.passed_s + seconds] = runner.drain
                await runner.work(loop)

            house.drive(serve)
        else:
            with Runner(house.url, clock=house.clock) as runner:
                house.clock.at[house.clock.passed_s + seconds] = runner.drain
                runner.work(loop)
    return looks


def test_an_idle_worker_looks_a_few_times_a_second(house):
    assert 60 <= while_idle(house, echo(house), 60) <= 60 * 5 + 5


def test_what_comes_while_a_worker_is_idle_is_taken_within_a_second(house):
    one = echo(house)
    begun_ms, comes_s = house.clock.now_ms(), 20.05
    house.clock.at[comes_s] = lambda: create(house, "r1", b'{"text":"x"}')
    while_idle(house, one, 60)
    assert house.get("r1").status is State.COMPLETED
    assert comes_s * 1000 <= house.records(Claimed, "r1")[0].at - begun_ms <= comes_s * 1000 + 1_000


# --- what is wrong with one, and with the store


def create(house: House, run_id: str, data: bytes) -> None:
    with Runner(house.url, clock=house.clock, submits_only=True) as runner:
        runner.store.create(run_id, loop="echo", input=data)


@pytest.mark.parametrize(
    ("data", "why", "recorded"),
    [
        (b'{"words":"x"}', "missing a required argument: 'text'", '- recorded: echo(words="x")'),
        (b'{"text":"x","n":1}', "got an unexpected keyword argument 'n'", '- recorded: echo(text="x", n=1)'),
        (b'{"text":7}', "Expected `str`, got `int`", "- recorded: echo(text=7)"),
    ],
)
def test_a_loop_that_takes_other_arguments_than_a_run_was_made_with_is_other_code(house, data, why, recorded):
    one = echo(house)
    submit(house, one.bind("x"), "good")
    create(house, "other", data)
    assert work(house, one) == {"completed": 1, "waiting": 1}
    receipt = house.get("other")
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
    assert why in receipt.text
    assert receipt.diff == f"{recorded}\n+ takes:    echo(text: 'str') -> 'str'"


def test_a_run_whose_records_cannot_be_read_is_left_to_others_and_named_in_the_log(house, caplog):
    one = echo(house)
    submit(house, one.bind("x"), "good")
    create(house, "bad", b"{")
    with caplog.at_level(logging.ERROR, "yaoki"):
        assert work(house, one) == {"completed": 1}
    assert "run bad: cannot be driven here, left to others" in caplog.text
    assert house.get("bad").status is State.PENDING


def test_a_store_that_cannot_be_written_ends_the_work(house):
    broken = OSError(5, "Input/output error")

    def lost(fd: int) -> None:
        raise broken

    submit(house, echo(house).bind("x"), "r1")
    effect = house.tool(lambda: None, name="effect")

    @house.loop(name="echo")
    async def acts(run, text: str) -> None:
        await got(effect())

    if house.is_async:

        async def serve(runner: AsyncRunner) -> None:
            runner.store._barrier._sync = lost
            await runner.work(acts)

        with pytest.raises(JournalError, match="Input/output error"):
            house.drive(serve)
    else:
        with Runner(house.url, clock=house.clock) as runner, pytest.raises(JournalError, match="Input/output error"):
            runner.store._barrier._sync = lost
            runner.work(acts)


def test_a_run_under_the_brake_waits_and_says_so(house, caplog):
    one = echo(house)
    submit(house, one.bind("x"), "r1")
    house.outside(lambda verbs: verbs.store.pause("nina"))
    released = []

    def release() -> None:
        assert house.done == []
        released.append(house.outside(lambda verbs: verbs.store.unpause()))

    house.clock.at[5] = release
    assert house.run(one.bind("x"), "r1").value == "x"
    assert released == [True]
    assert "run r1: " in caplog.text
    assert "nina" in caplog.text


# --- what the dead have left running


def start_marked(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark})


@pytest.mark.parametrize("lives", [False, True])
def test_what_an_attempt_has_left_running_ends_unless_its_process_lives(house, monkeypatch, lives):
    """A process may let go of a run and live on, with others to drive: it is not killed for that one."""

    @house.tool(effect=READ)
    def die() -> str:
        if house.note("die") == 1:
            house.kill()
        return "over"

    @house.loop(name="work")
    async def loop(run) -> str:
        return await got(die())

    mark = f"mark-{os.getpid()}-{lives}"
    monkeypatch.setenv(MARK, mark)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgrp()
            house.run(loop.bind())
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    same = Journal.open(house.url, clock=house.clock)
    if not lives:
        same.close()
    monkeypatch.delenv(MARK)
    with start_marked(mark) as left, start_marked("another") as other:
        try:
            assert house.run(loop.bind()).value == "over"
            assert (left.poll() is None) is lives
            assert other.poll() is None
        finally:
            left.kill()
            other.kill()
    same.close()


@pytest.mark.parametrize(("drain_s", "settled"), [(5, True), (1, False)])
def test_told_to_stop_an_async_worker_waits_for_what_is_in_flight_and_no_longer(tmp_path, drain_s, settled):
    house = House("async", tmp_path)
    told = []

    @house.tool(effect=READ)
    async def takes_three_seconds() -> str:
        told[-1].drain()
        await asyncio.sleep(3)
        return "over"

    @house.loop(name="long")
    async def long(run) -> str:
        return await takes_three_seconds()

    submit(house, long.bind(), "r1")

    async def serve(runner: AsyncRunner) -> dict[str, int]:
        told.append(runner)
        return await runner.work(long, until="idle")

    assert house.drive(serve, drain_s=drain_s) == ({"pending": 1} if settled else {})
    (settle,) = house.records(Settle, "r1")
    assert settle.outcome == ("ok" if settled else "cancelled")
    assert house.get("r1").status is State.PENDING


def test_drained_in_threads_every_run_is_counted_once(tmp_path):
    house = House("sync", tmp_path)
    one = echo(house)
    for n in range(40):
        submit(house, one.bind(f"t{n}"), f"r{n}")
    with Runner(house.url, clock=house.clock) as runner:
        assert runner.work(one, until="idle", concurrency=8) == {"completed": 40}


def test_a_cancelled_worker_leaves_what_it_drove_pending(tmp_path):
    house = House("async", tmp_path, real_time=True)
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await asyncio.sleep(60)

    step = house.tool(hangs, effect=READ, name="step")

    @house.loop(name="hangs")
    async def hanging(run) -> None:
        await step()

    async def main() -> None:
        async with AsyncRunner(house.url) as runner:
            await runner.submit(hanging.bind(), run_id="r1")
            working = asyncio.create_task(runner.work(hanging))
            await asyncio.wait_for(begun.wait(), 30)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working

    asyncio.run(main())
    assert (house.get("r1").status, house.get("r1").restarts) == (State.PENDING, 0)
