"""Scopes that are given a rest: breakers, cooldowns, and scopes that a person has paused; in both worlds."""

from __future__ import annotations

import itertools

from tests.runtime.errors import status
from tests.runtime.house import got
from yaoki import Breaker, Budget, Effect, Retry, Settled
from yaoki.records import Begin, Hold, Settle, State

READ = Effect.READ_ONLY
PATIENT = Retry(attempts_max=50)


def shop(house, *, fails: int = 0, error=lambda: ConnectionResetError(104, "reset"), scope="vendor/model", **policy):
    """Return a tool that fails so often, then works; and a loop of one call of it."""

    @house.tool(effect=READ, scope=scope, **{"retry": PATIENT, **policy})
    def ask(n: int) -> int:
        house.note(f"ask {n} at {house.clock.passed_s:.0f}")
        if len(house.done) <= fails:
            raise error()
        return n

    @house.loop
    async def work(run, n: int) -> int:
        return await got(ask(n))

    return ask, work


def begins(house, run_id: str = "r") -> int:
    return len(house.records(Begin, run_id))


def circuit(house, scope: str = "vendor"):
    return house.outside(lambda verbs: verbs.store.scopes().circuits.get(scope))


def test_after_five_failures_in_a_row_the_next_attempt_waits_until_the_scope_may_be_probed(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=6, base_s=0, cap_s=0))
    receipt = house.run(work.bind(1))
    assert receipt.unwrap() == 1
    assert begins(house) == 6
    times = [float(line.rpartition(" ")[2]) for line in house.done]
    assert times[4] == 0
    assert 30 <= times[5] <= 34
    assert circuit(house) is None, "well again: nothing is kept of it"


def test_another_run_waits_for_it_before_its_first_attempt_and_spends_none(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0))
    assert house.run(work.bind(1), "first").status is State.DEAD
    receipt = house.run(work.bind(2), "second", park_after_s=3_600)
    assert receipt.unwrap() == 2
    assert receipt.attempts == 1
    (hold,) = house.records(Hold, "second")
    assert hold.reason == "breaker"
    assert hold.deadline_at == hold.at + 900_000
    opened_ms = house.records(Settle, "first")[-1].at
    assert opened_ms + 30_000 <= hold.until < opened_ms + 34_000
    assert house.records(Begin, "second")[0].at >= hold.until
    assert house.records(Begin, "second")[0].deadline_at == hold.deadline_at


def test_it_stays_open_through_a_restart_and_other_runners_see_it(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0, deadline_s=20))
    house.run(work.bind(1), "first")
    before = circuit(house)
    assert (before.failures, before.until_ms - before.opened_ms, before.reason) == (5, 30_000, "os.ECONNRESET")
    assert house.run(work.bind(2), "second").status is State.DEAD
    assert len(house.done) == 5


def test_a_wait_that_cannot_fit_ends_the_ladder_at_once_with_no_attempt(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0, deadline_s=20))
    house.run(work.bind(1), "first")
    passed_s = house.clock.passed_s
    receipt = house.run(work.bind(2), "second")
    assert (receipt.status, receipt.attempts) == (State.DEAD, 0)
    assert receipt.failure.reason == "breaker.open"
    assert receipt.failure.message == ("ask was not called: vendor is open (os.ECONNRESET) until after the deadline")
    assert house.clock.passed_s - passed_s < 1
    assert [one.attempt for one in house.records(Settle, "second")] == [0]
    assert house.get("second").first_attempt_failures == 0


def test_what_ended_so_is_replayed_so_and_a_redrive_tries_again(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0, deadline_s=20))
    house.run(work.bind(1), "first")
    house.run(work.bind(2), "second")
    house.redrive("second")
    assert house.run(work.bind(2), "second").status is State.DEAD, "still open"
    house.later(30)
    house.redrive("second")
    assert house.run(work.bind(2), "second").unwrap() == 2


def test_a_loop_may_go_on_without_it_and_replays_so(house):
    ask, first = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0, deadline_s=20))

    @house.loop
    async def work(run) -> str:
        tried = await got(run.try_call(ask, 2))
        assert isinstance(tried, Settled)
        await got(run.sleep(3_600))
        return tried.failure.reason

    house.run(first.bind(1), "first")
    assert house.run(work.bind(), park_after_s=0).unwrap() == "breaker.open"
    assert len(house.done) == 5


def test_a_retry_that_would_wait_past_its_deadline_ends_with_the_failure_it_had(house):
    _, work = shop(house, fails=50, retry=Retry(attempts_max=9, base_s=0, cap_s=0, deadline_s=20))
    receipt = house.run(work.bind(1))
    assert (receipt.status, receipt.attempts) == (State.DEAD, 5)
    assert receipt.failure.reason == "os.ECONNRESET"
    assert house.records(Settle)[-1].decision.why == "vendor is open (os.ECONNRESET) until after the deadline"


def test_a_failing_probe_opens_it_again_and_each_window_has_one(house):
    _, work = shop(house, fails=8, retry=Retry(attempts_max=20, base_s=0, cap_s=0))
    assert house.run(work.bind(1)).unwrap() == 1
    times = [float(line.rpartition(" ")[2]) for line in house.done]
    assert times[:5] == [0] * 5
    assert all(30 <= b - a <= 34 for a, b in itertools.pairwise(times[4:]))


def test_waits_are_parked_and_the_run_says_what_it_waits_for(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0))
    house.run(work.bind(1), "first")
    seen = []

    def watch(event):
        if type(event.record).__name__ == "Parked":
            seen.append(event.record)

    assert house.run(work.bind(2), "second", observers=[watch]).unwrap() == 2
    assert [(one.state, one.text) for one in seen] == [("sleeping", "vendor is open (os.ECONNRESET)")]


def test_a_breaker_may_be_left_out_or_set(house):
    _, work = shop(house, fails=20, breaker=None, retry=Retry(attempts_max=21, base_s=0, cap_s=0))
    assert house.run(work.bind(1)).attempts == 21
    assert circuit(house) is None
    assert house.clock.passed_s < 1


def test_its_numbers_are_those_declared(house):
    rest = Breaker(failures=2, open_s=5)
    _, work = shop(house, fails=3, breaker=rest, retry=Retry(attempts_max=9, base_s=0, cap_s=0))
    assert house.run(work.bind(1)).unwrap() == 1
    times = [float(line.rpartition(" ")[2]) for line in house.done]
    assert [round(b - a) >= 5 for a, b in itertools.pairwise(times)] == [False, True, True]


def test_once_open_and_never_reset_a_run_does_not_use_it_again_and_another_run_probes(house):
    once = Retry(attempts_max=2, base_s=0, cap_s=0)
    ask, work = shop(house, fails=2, breaker=Breaker(failures=2, reset="never"), retry=once)

    @house.loop
    async def tries(run) -> list[str]:
        said = []
        for n in range(3):
            tried = await got(run.try_call(ask, n))
            said.append(tried.failure.reason if tried.failure else "ok")
            await got(run.sleep(300))
        return said

    assert house.run(tries.bind(), park_after_s=0).unwrap() == ["os.ECONNRESET", "breaker.open", "breaker.open"]
    assert len(house.done) == 2
    assert house.run(work.bind(7), "other").unwrap() == 7
    assert circuit(house) is None


def test_after_a_hint_every_run_on_that_scope_waits(house):
    slow = status(429, retry_after="120")
    _, work = shop(house, fails=1, error=lambda: slow, retry=Retry(attempts_max=1))
    assert house.run(work.bind(1), "first").status is State.DEAD
    receipt = house.run(work.bind(2), "second")
    assert (receipt.unwrap(), receipt.attempts) == (2, 1)
    (hold,) = house.records(Hold, "second")
    assert hold.reason == "cooldown"
    assert 120 <= house.clock.passed_s <= 133
    _, elsewhere = shop(house, scope="other/model")
    assert house.run(elsewhere.bind(3), "third").unwrap() == 3
    assert house.records(Hold, "third") == []


def test_a_hold_keeps_its_deadline_through_parking(house):
    slow = status(429, retry_after="120")
    _, work = shop(house, fails=1, error=lambda: slow, retry=Retry(attempts_max=1, deadline_s=400))
    house.run(work.bind(1), "first")
    receipt = house.run(work.bind(2), "second", park_after_s=0)
    assert receipt.unwrap() == 2
    (hold,) = house.records(Hold, "second")
    (begin,) = house.records(Begin, "second")
    assert begin.deadline_at == hold.deadline_at == hold.at + 400_000


def test_observers_are_told_when_it_opens_and_when_it_closes(house):
    told = []

    def watch(event):
        told.extend((one.scope, bool(one.opened_ms), type(event.record).__name__) for one in event.circuits)

    _, work = shop(house, fails=6, retry=Retry(attempts_max=9, base_s=0, cap_s=0))
    house.run(work.bind(1), observers=[watch])
    assert told == [("vendor", True, "Settle"), ("vendor", False, "Settle")]


def test_a_cancelled_attempt_counts_for_nothing(async_house):
    import asyncio

    house = async_house

    @house.tool(effect=READ, scope="vendor", retry=Retry.never)
    async def ask(n: int) -> int:
        await asyncio.sleep(1_000)
        return n

    @house.loop
    async def work(run) -> int:
        for n in range(9):
            try:
                async with house.timeout(run, 1):
                    await ask(n)
            except TimeoutError:
                house.note("late")
        return len(house.done)

    assert house.run(work.bind()).unwrap() == 9
    assert circuit(house, "vendor") is None


def test_a_hundred_tasks_at_a_half_open_breaker_send_one_probe(async_house):
    import asyncio

    house = async_house
    begun: list[float] = []
    answered: list[float] = []
    flying: set[int] = set()

    @house.tool(effect=READ, scope="vendor", retry=Retry(attempts_max=50, base_s=1, cap_s=1))
    async def ask(n: int) -> int:
        begun.append(house.clock.passed_s)
        assert len(begun) <= 100 or answered or not flying, "a second probe"
        flying.add(n)
        await asyncio.sleep(2)
        flying.remove(n)
        if house.clock.passed_s < 100:
            raise ConnectionResetError(104, "reset")
        answered.append(house.clock.passed_s)
        return n

    @house.loop(budget=Budget(retries=None))
    async def work(run) -> int:
        return sum(one.value for one in await run.map(ask, range(100), limit=100))

    assert house.run(work.bind(), park_after_s=3_600).unwrap() == sum(range(100))
    assert begun[:100] == [0.0] * 100
    probes = [at for at in begun[100:] if at < answered[0]]
    assert 3 <= len(probes) <= 4
    assert all(b - a >= 30 for a, b in zip([0, *probes], probes, strict=False)), probes
    assert len(begun) == 100 + len(probes) + 99


def test_a_thousand_runs_that_cool_down_come_back_spread(async_house):
    house = async_house
    slow = status(429, retry_after="100")
    came: list[float] = []

    @house.tool(effect=READ, scope="vendor/model/key")
    async def ask(n: int) -> int:
        if house.clock.passed_s < 100:
            raise slow
        came.append(house.clock.passed_s)
        return n

    @house.loop
    async def work(run, n: int) -> int:
        return await ask(n)

    async def night(runner):
        for n in range(1_000):
            await runner.submit(work.bind(n), run_id=f"r{n}")
        served = runner.work(work, until="idle", concurrency=1_000)
        return await served

    house.drive(night, park_after_s=3_600)
    assert len(came) == 1_000
    assert min(came) >= 100
    assert max(came) <= 112
    seconds = [sum(1 for at in came if int(at - 100) == n) for n in range(10)]
    assert max(seconds) <= 200, seconds


# --- by hand


def test_a_paused_scope_begins_nothing_and_loses_nothing(house):
    _, work = shop(house, retry=Retry(deadline_s=10))
    _, elsewhere = shop(house, scope="other")
    assert house.run(elsewhere.bind(2), "elsewhere").unwrap() == 2
    house.outside(lambda verbs: verbs.pause(scope="vendor", by="ops"))
    receipt = house.run(work.bind(1))
    assert (receipt.status, receipt.waits_for, receipt.text) == (State.WAITING, "pause", "vendor is paused by ops")
    assert receipt.next_action == "yaoki unpause vendor"
    assert house.run(elsewhere.bind(3), "elsewhere-2").unwrap() == 3
    assert len(house.done) == 2
    house.later(86_400)
    assert house.run(work.bind(1)).status is State.WAITING
    assert house.outside(lambda verbs: verbs.unpause(scope="vendor"))
    assert house.get().status is State.PENDING
    assert house.run(work.bind(1)).unwrap() == 1
    assert not house.outside(lambda verbs: verbs.unpause(scope="vendor"))


def test_a_scope_unpaused_while_a_run_is_leaving_for_it_is_not_slept_over(house, monkeypatch):
    from yaoki.journal import Journal

    _, work = shop(house)
    assert house.run(work.bind(0), "before").unwrap() == 0
    house.outside(lambda verbs: verbs.pause(scope="vendor"))
    inner = Journal.leave

    def leave(self, *args, **kwargs):
        if kwargs.get("paused"):
            house.outside(lambda verbs: verbs.unpause(scope="vendor"))
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(Journal, "leave", leave)
    assert house.run(work.bind(1)).unwrap() == 1


def test_a_scope_that_is_reset_may_be_used_at_once(house):
    _, work = shop(house, fails=5, retry=Retry(attempts_max=5, base_s=0, cap_s=0))
    house.run(work.bind(1), "first")
    was = house.outside(lambda verbs: verbs.store.reset_scope("vendor"))
    assert was.failures == 5
    assert house.outside(lambda verbs: verbs.store.reset_scope("vendor")) is None
    assert house.run(work.bind(2), "second").unwrap() == 2
    assert house.clock.passed_s < 1


def test_a_retry_under_way_sees_a_pause_and_its_ladder_outlives_it(house):
    """The time a person has stopped it is given back: the deadline of what was begun stands where it stood."""
    _, work = shop(house, fails=1, retry=Retry(attempts_max=3, deadline_s=60))

    def watch(event):
        if isinstance(event.record, Settle) and event.record.outcome == "failed":
            house.outside(lambda verbs: verbs.pause(scope="vendor/model"))

    assert house.run(work.bind(1), observers=[watch]).status is State.WAITING
    house.later(3_600)
    house.outside(lambda verbs: verbs.unpause(scope="vendor/model"))
    receipt = house.run(work.bind(1))
    assert (receipt.unwrap(), receipt.attempts) == (1, 2)


def test_without_waits_nothing_is_waited_for(house):
    from yaoki.testing import no_waits

    _, work = shop(house, fails=7, retry=Retry(attempts_max=9))
    with no_waits():
        assert house.run(work.bind(1)).attempts == 8
    assert house.clock.passed_s < 1
