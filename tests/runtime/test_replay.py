"""What settled is never executed again (docs/guarantees.md, "Identity and replay")."""

from __future__ import annotations

from tests.runtime.errors import refused, status
from tests.runtime.house import House, got
from yaoki import Effect, Retry, StepFailed
from yaoki.records import Begin, State

READ = Effect.READ_ONLY


def tools(house: House):
    """`step(n)` is done once; `die(n)` kills the process the first time, if told to."""

    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n * 10

    @house.tool(effect=READ)
    def die(n: int) -> int:
        if house.note(f"die {n}") == 1:
            house.kill()
        return n

    return step, die


# --- settled steps


def test_a_settled_step_is_never_executed_again(house):
    step, die = tools(house)

    @house.loop
    async def work(run) -> list[int]:
        found = [await got(step(n)) for n in range(3)]
        found.append(await got(die(3)))
        found.append(await got(step(4)))
        return found

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.unwrap() == [0, 10, 20, 3, 40]
    assert house.done == ["step 0", "step 1", "step 2", "die 3", "die 3", "step 4"]
    assert receipt.restarts == 1


def test_a_run_killed_at_every_step_ends_as_if_nothing_had_happened(house):
    _, die = tools(house)

    @house.loop
    async def work(run) -> int:
        return sum([await got(die(n)) for n in range(1, 5)])

    deaths = 0
    while house.die(work.bind()) == -9:
        deaths += 1
    assert house.run(work.bind()).unwrap() == 10
    assert deaths == 4
    assert len(house.done) == 8


def test_time_chance_and_ids_are_the_same_on_replay(house):
    _, die = tools(house)

    @house.loop
    async def work(run) -> list[str]:
        found = [str(run.now()), str(run.random()), str(run.uuid()), str(run.random()), str(run.remaining["retries"])]
        house.note(" ".join(found))
        await got(die(1))
        found.append(str(run.now()))
        return found

    assert house.die(work.bind()) == -9
    house.later(500)
    found = house.run(work.bind()).unwrap()
    first, _, second, _ = house.done
    assert first == second == " ".join(found[:5])
    assert found[1] != found[3]
    assert found[5] != found[0]


def test_a_final_run_is_its_receipt_and_nothing_is_driven(house):
    step, _ = tools(house)

    @house.loop
    async def work(run) -> int:
        return await got(step(1))

    first = house.run(work.bind())
    second = house.run(work.bind())
    assert first.unwrap() == second.unwrap() == 10
    assert house.done == ["step 1"]
    assert second.attempts == 1


def test_a_replay_of_failures_makes_no_new_ones(house):
    _, die = tools(house)

    @house.tool(effect=READ, retry=Retry(attempts_max=2))
    def look() -> int:
        house.note("look")
        raise refused()

    @house.loop
    async def work(run) -> str:
        try:
            await got(look())
        except StepFailed as error:
            reason = error.failure.reason
        await got(die(1))
        return reason

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == "os.ECONNREFUSED"
    assert house.done.count("look") == 2


def test_run_failures_are_those_of_the_steps_asked_for_so_far_on_replay_too(house):
    _, die = tools(house)

    @house.tool(effect=READ)
    def flaky() -> int:
        if house.note("flaky") == 1:
            raise refused()
        return 1

    @house.loop
    async def work(run) -> list[int]:
        found = [len(run.failures)]
        await got(flaky())
        found.append(len(run.failures))
        await got(die(1))
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [0, 1]


def test_what_a_branch_read_of_run_failures_it_reads_on_replay_too(house):
    """Branches fail in another order when they are replayed: the reading is what was recorded."""
    _, die = tools(house)

    @house.tool(effect=READ)
    def bad(n: int) -> int:
        raise PermissionError(f"no {n}")

    @house.loop
    async def work(run) -> list[list[str]]:
        async def one(n):
            if house.is_async:
                await got(run.sleep(10 - n))
            await got(run.try_call(bad, n))
            return sorted(failure.message for failure in run.failures)

        found = await got(run.map(house.fn(one), range(3), limit=3 if house.is_async else 1))
        house.note(str([len(settled.value) for settled in found]))
        await got(die(1))
        return [settled.value for settled in found]

    assert house.die(work.bind()) == -9
    house.later(60)
    found = house.run(work.bind()).unwrap()
    before, after = [line for line in house.done if line.startswith("[")]
    assert before == after == str([len(one) for one in found])


def test_run_failures_grow_from_one_reading_to_the_next_and_replay_so(house):
    _, die = tools(house)

    @house.tool(effect=READ)
    def bad(n: int) -> int:
        raise PermissionError(f"no {n}")

    @house.loop
    async def work(run) -> list[int]:
        found = [len(run.failures)]
        await got(run.try_call(bad, 1))
        found.append(len(run.failures))
        await got(run.try_call(bad, 2))
        await got(die(1))
        found.append(len(run.failures))
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [0, 1, 2]


def test_retries_go_on_where_the_dead_process_left_them(house):
    """Attempts are counted over all processes, and a restart waits only the rest."""

    @house.tool(effect=READ, retry=Retry(attempts_max=4))
    def look() -> int:
        house.note(f"look {house.clock.passed_s:.0f}")
        if len(house.done) == 2:
            house.kill()
        raise status(429, retry_after="20")

    @house.loop
    async def work(run) -> int:
        return await got(look())

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert len(house.done) == 4
    assert [begin.attempt for begin in house.records(Begin)] == [1, 2, 3, 4]


# --- crashes


def test_a_run_whose_process_dies_again_and_again_is_dead_with_its_step_named(house):
    @house.tool(effect=READ, retry=Retry(attempts_max=99))
    def bad() -> int:
        house.note("bad")
        house.kill()
        return 1

    @house.loop(crashes_max=3)
    async def work(run) -> int:
        return await got(bad())

    for _ in range(3):
        assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.stopped_by == "crashes"
    assert "bad" in receipt.step
    assert receipt.text == "its process died 3 times in a row, last in bad"
    assert len(house.done) == 3


def test_an_attempt_that_kills_its_process_runs_attempts_max_times_and_the_run_is_dead(house):
    @house.tool(effect=READ, retry=Retry(attempts_max=4, base_s=0))
    def bad() -> int:
        house.note("bad")
        house.kill()
        return 1

    @house.loop
    async def work(run) -> int:
        return await got(bad())

    for _ in range(20):
        if house.die(work.bind()) != -9:
            break
    receipt = house.get()
    assert len(house.done) == 4
    assert receipt.status is State.DEAD
    assert "bad" in receipt.step


def test_progress_between_deaths_starts_the_count_anew(house):
    _, die = tools(house)

    @house.loop(crashes_max=2)
    async def work(run) -> int:
        return sum([await got(die(n)) for n in range(6)])

    while house.die(work.bind()) == -9:
        pass
    assert house.get().status is State.COMPLETED
