"""What settled is never executed again, and code that asks for something else is parked with a diff (SEMANTICS 5)."""

from __future__ import annotations

import pytest

from tests.runtime.errors import refused, status
from tests.runtime.house import House, box, calls, got
from yaoki import Effect, InputMismatch, Retry, RunBusy, StepFailed
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


# --- code that changed


def versions(house: House, *bodies):
    """Loops of one name, as a file that is edited between two runs."""
    return [house.loop(name="work")(body) for body in bodies]


def parked(house: House, first, second) -> str:
    """Kill the first version at `die`, run the second: it is parked for code; return the diff."""
    assert house.die(first.bind()) == -9
    done = house.done
    receipt = house.run(second.bind())
    assert receipt.status is State.WAITING
    assert receipt.waits_for == "code"
    assert house.done == done
    return receipt.diff


def test_other_arguments_are_parked_with_a_diff_before_anything_executes(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(die(2))

    async def after(run) -> int:
        return await got(step(9)) + await got(die(2))

    diff = parked(house, *versions(house, before, after))
    assert "- recorded: step(n=1)" in diff
    assert "+ called:   step(n=9)" in diff


def test_a_parked_run_goes_on_once_the_code_fits_again(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(die(2))

    async def after(run) -> int:
        return await got(step(9)) + await got(die(2))

    good, bad = versions(house, before, after)
    parked(house, good, bad)
    assert house.run(bad.bind()).status is State.WAITING
    receipt = house.run(good.bind())
    assert receipt.unwrap() == 12
    assert receipt.diff == ""
    assert house.done == ["step 1", "die 2", "die 2"]


def test_recorded_steps_that_the_code_leaves_out_are_parked_at_the_return(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(step(2)) + await got(die(2))

    async def after(run) -> int:
        return await got(step(1)) + await got(die(2))

    good, bad = versions(house, before, after)
    assert house.die(good.bind()) == -9
    receipt = house.run(bad.bind())
    assert receipt.waits_for == "code"
    assert "- recorded: step(n=2)" in receipt.diff
    assert "its return" in receipt.text
    assert house.run(good.bind()).unwrap() == 32


def test_readings_that_the_code_leaves_out_are_parked_too(house):
    _, die = tools(house)

    async def before(run) -> int:
        run.now()
        return await got(die(2))

    async def after(run) -> int:
        return await got(die(2))

    good, bad = versions(house, before, after)
    assert house.die(good.bind()) == -9
    assert house.run(bad.bind()).waits_for == "code"
    assert house.run(good.bind()).unwrap() == 2


def test_another_order_of_branches_is_no_drift(house):
    """Identity is the branch's name, not when it ran."""
    step, die = tools(house)

    def body(order):
        async def one(n):
            return await got(step(n)) + await got(die(n))

        async def work(run) -> int:
            settled = await got(run.map(house.fn(one), order, key=str, limit=1))
            return sum(s.value for s in settled)

        return work

    first, second = versions(house, body([1, 2]), body([2, 1]))
    assert house.die(first.bind()) == -9
    assert house.die(second.bind()) == -9
    assert house.run(first.bind()).unwrap() == 33
    assert sorted(house.done) == ["die 1", "die 1", "die 2", "die 2", "step 1", "step 2"]


def test_more_code_after_the_recorded_part_is_no_drift(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(die(2))

    async def after(run) -> int:
        return await got(die(2)) + await got(step(1))

    good, more = versions(house, before, after)
    assert house.die(good.bind()) == -9
    assert house.run(more.bind()).unwrap() == 12


def test_a_loop_that_swallows_the_park_signal_is_parked_all_the_same(house):
    step, die = tools(house)

    async def before(run) -> int:
        return await got(step(1)) + await got(die(2))

    async def after(run) -> int:
        for n in (8, 9):
            try:
                await got(step(n))
            except BaseException:  # noqa: S110 - the crime under test
                pass
        return 5

    assert "step(n=8)" in parked(house, *versions(house, before, after))


# --- whose run it is


def test_the_same_id_with_other_input_is_refused(house):
    @house.loop
    async def work(run, n: int) -> int:
        return n

    house.run(work.bind(1))
    with pytest.raises(InputMismatch, match=r'started with other input \(\{"n":1\}, not \{"n":2\}\).*Nothing was changed'):
        house.run(work.bind(2))
    assert house.get().status is State.COMPLETED


def test_the_same_id_with_another_loop_is_refused(house):
    @house.loop
    async def one(run) -> int:
        return 1

    @house.loop
    async def two(run) -> int:
        return 2

    house.run(one.bind())
    with pytest.raises(InputMismatch, match="run r belongs to loop one, not two"):
        house.run(two.bind())


def test_a_run_that_a_living_process_drives_is_busy(house):
    @house.tool(effect=READ)
    def meanwhile() -> str:
        from yaoki.journal import Journal

        other = Journal.open(house.url, clock=house.clock)
        try:
            row = other.get("r")
            assert row is not None
            other.claim(row.id)
        except RunBusy as error:
            return str(error)
        finally:
            other.close()
        return "claimed"

    @house.loop
    async def work(run) -> str:
        return await got(meanwhile())

    assert "r" in house.run(work.bind()).unwrap()
    assert "claimed" not in house.get().value


def test_a_run_may_be_given_no_id_and_gets_one(house):
    @house.loop
    async def work(run) -> str:
        return run.id

    receipt = house.run(work.bind(), None)
    assert receipt.unwrap() == receipt.run_id
    assert receipt.run_id.startswith("work-")


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


# --- redrive


def test_a_redrive_starts_a_new_ladder_at_the_step_with_the_same_key(house):
    step, _ = tools(house)

    @house.tool(retry=Retry(attempts_max=2))
    def post(x: int) -> str:
        house.note("post")
        if house.done.count("post") <= 2:
            raise refused()
        return "posted"

    @house.loop
    async def work(run) -> str:
        await got(step(1))
        return await got(post(1))

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.step == "1.0//post#0"
    assert house.redrive().status is State.PENDING
    assert house.run(work.bind()).unwrap() == "posted"
    assert house.done == ["step 1", "post", "post", "post"]
    begins = [begin for begin in house.records(Begin) if begin.call.startswith("post")]
    assert len({begin.key for begin in begins}) == 1
    assert [begin.attempt for begin in begins] == [1, 2, 1]


def test_what_was_spent_stays_spent_over_a_redrive(house):
    @house.tool(effect=READ, retry=Retry(attempts_max=2))
    def look() -> str:
        house.note("look")
        raise refused()

    @house.loop
    async def work(run) -> str:
        return await got(look())

    house.run(work.bind())
    house.redrive()
    receipt = house.run(work.bind())
    assert receipt.spent.calls == 4
    assert receipt.spent.retries == 2


def test_a_completed_run_is_not_redriven(house):
    from yaoki import AnswerRefused

    @house.loop
    async def work(run) -> int:
        return 1

    house.run(work.bind())
    with pytest.raises(AnswerRefused, match="run r is completed: there is nothing to redrive"):
        house.redrive()


def test_a_settled_sibling_is_not_executed_again_after_a_redrive(house):
    step, _ = tools(house)

    @house.tool(retry=Retry.never, name="post")
    def post(n: int) -> str:
        if house.note("post") == 1:
            raise refused()
        return "posted"

    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(step), calls(*[("step", {"n": n}) for n in range(5)])))
        return [*[r.value for r in results], await got(post(1))]

    assert house.run(work.bind()).status is State.DEAD
    house.redrive()
    assert house.run(work.bind()).unwrap() == [0, 10, 20, 30, 40, "posted"]
    assert len(house.done) == 7


def test_an_effect_that_had_failed_in_a_doubt_of_an_earlier_process_is_decided_from_its_begin(house):
    """The begin holds what is needed: the code's new, milder declaration does not excuse the old attempt."""

    def made(effect):
        @house.tool(effect=effect, name="post")
        def post(x: int) -> str:
            if house.note("post") == 1:
                house.kill()
            return "posted"

        @house.loop(name="work")
        async def work(run) -> str:
            return await got(post(1))

        return work

    assert house.die(made(None).bind()) == -9
    assert house.run(made(READ).bind()).status is State.WAITING
    assert house.done == ["post"]
