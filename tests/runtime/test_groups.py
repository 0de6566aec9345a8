"""Groups of runs with a budget of their own (docs/guarantees.md, "Bounds")."""

from __future__ import annotations

import pytest

from tests.clocks import FakeClock
from tests.runtime.house import House, got
from yaoki import Budget, DeclarationError, Effect, ForModel, InputMismatch, Runner
from yaoki.journal import Journal
from yaoki.records import State

READ = Effect.READ_ONLY


def asking(house: House, tokens: int = 10, reserve: int = 30):
    agent = ForModel(usage=lambda _: {"tokens": tokens, "cost_usd": tokens / 100}, reserve={"tokens": reserve})

    @house.tool(effect=READ, agent=agent)
    def ask(n: int) -> int:
        house.note(f"ask {n}")
        return n

    return ask


def summing(house: House, times: int = 4, *, budget: Budget | None = None, **options):
    ask = asking(house, **options)

    @house.loop(budget=budget)
    async def work(run, first: int) -> int:
        return sum([await got(ask(first + n)) for n in range(times)])

    return work


def submit(house: House, bound, run_id: str, group: str = "night"):
    def plainly(runner):
        return runner.submit(bound, run_id=run_id, group=group)

    if not house.is_async:
        with Runner(house.url, clock=house.clock) as runner:
            return plainly(runner)
    return house.drive(plainly)


def budget(house: House, name: str = "night", **bounds):
    with Runner(house.url, clock=house.clock, submits_only=True) as runner:
        return runner.group(name, **bounds)


def night(house: House):
    return house.outside(lambda verbs: verbs.store.group("night"))


def top_up(house: House, **add):
    return house.outside(lambda verbs: verbs.top_up_group("night", **add))


def test_runs_of_a_group_share_its_budget_wait_when_it_is_empty_and_go_on_after_a_top_up(house):
    budget(house, calls=6)
    work = summing(house)
    for name, first in (("a", 0), ("b", 10)):
        submit(house, work.bind(first), name)
    assert house.run(work.bind(0), "a").unwrap() == 6
    receipt = house.run(work.bind(10), "b")
    assert (receipt.status, receipt.waits_for, receipt.text) == (State.WAITING, "budget", "group night: calls: 6 of 6")
    assert (receipt.group, receipt.next_action) == ("night", "yaoki top-up --group night --calls 6")
    assert (night(house).calls, night(house).runs) == (6, 2)
    assert top_up(house, calls=2).calls_max == 8
    assert house.get("b").status is State.PENDING
    assert house.run(work.bind(10), "b").unwrap() == 46
    assert house.done == [f"ask {n}" for n in (0, 1, 2, 3, 10, 11, 12, 13)]
    assert (night(house).calls, night(house).tokens, night(house).cost_usd) == (8, 80, 0.8)


def test_a_group_that_is_empty_caps_runs_that_say_so(house):
    budget(house, cost_usd=0.2)
    work = summing(house, budget=Budget(on_empty="cap"), reserve=0)
    submit(house, work.bind(0), "a")
    receipt = house.run(work.bind(0), "a")
    assert (receipt.status, receipt.stopped_by) == (State.CAPPED, "group.cost_usd")
    assert receipt.text == "group night: budget: $0.20 of $0.20"
    assert len(house.done) == 2


def test_the_budget_of_the_run_itself_holds_beside_that_of_its_group(house):
    budget(house, calls=100)
    work = summing(house, budget=Budget(calls=2))
    submit(house, work.bind(0), "a")
    receipt = house.run(work.bind(0), "a")
    assert (receipt.text, receipt.next_action) == ("calls: 2 of 2", "yaoki top-up a --calls 2")
    assert night(house).calls == 2


def test_what_one_run_reserves_another_does_not_get_and_what_comes_back_wakes_it(tmp_path):
    """Two processes, one in a call: the other waits, and is pending again once that has settled."""
    house = House("sync", tmp_path)
    budget(house, tokens=50)
    seen: list[object] = []

    @house.tool(effect=READ, agent=ForModel(usage=lambda _: {"tokens": 10}, reserve={"tokens": 30}))
    def outer(n: int) -> int:
        seen.append(house.get("b").status)
        with Runner(house.url, clock=house.clock) as other:
            from threading import Thread

            thread = Thread(target=lambda: seen.append(other.run(work.bind(2), run_id="b").text))
            thread.start()
            thread.join()
        seen.append((house.get("b").status, night(house).tokens, night(house).tokens_held))
        return n

    @house.loop
    async def first(run) -> int:
        return outer(1)

    work = summing(house, times=1)
    submit(house, first.bind(), "a")
    submit(house, work.bind(2), "b")
    assert house.run(first.bind(), "a").unwrap() == 1
    assert seen == [
        State.PENDING,
        "group night: tokens: 30 of 50 (this call reserves 30)",
        (State.WAITING, 30, 30),
    ]
    assert house.get("b").status is State.PENDING
    assert house.run(work.bind(2), "b").unwrap() == 2
    assert (night(house).tokens, night(house).tokens_held) == (20, 0)


def test_a_branch_held_in_memory_goes_on_when_its_group_is_topped_up(async_house):
    import asyncio

    house = async_house
    budget(house, calls=1)

    @house.tool(effect=READ)
    async def look(n: int) -> int:
        house.note(f"look {n}")
        await asyncio.sleep(5)
        if not n:
            top_up(house, calls=5)
            await asyncio.sleep(5)
            house.note("first ended")
        return n

    async def one(n):
        return await look(n)

    @house.loop
    async def work(run) -> int:
        return sum(one.value for one in await run.map(one, [0, 1]))

    submit(house, work.bind(), "a")
    assert house.run(work.bind(), "a").unwrap() == 1
    assert house.done == ["look 0", "look 1", "first ended"]
    assert len([record for _, _, record in house.journal("a") if type(record).__name__ == "Claimed"]) == 1


def test_what_a_loop_reports_itself_counts_for_its_group_once_over_replays(house):
    budget(house, tokens=1_000)
    ask = asking(house)

    @house.loop(budget=Budget(calls=1))
    async def work(run) -> int:
        run.spend(tokens=100, cost_usd=0.25)
        return await got(ask(1)) + await got(ask(2))

    submit(house, work.bind(), "a")
    assert house.run(work.bind(), "a").waits_for == "budget"
    house.top_up("a", calls=5)
    assert house.run(work.bind(), "a").unwrap() == 3
    assert (night(house).tokens, night(house).cost_usd, night(house).calls) == (120, 0.45, 2)


def test_a_dead_process_leaves_its_reservation_with_the_group(house):
    budget(house, tokens=1_000)

    @house.tool(effect=READ, agent=ForModel(usage=lambda _: {"tokens": 5}, reserve={"tokens": 100}))
    def ask() -> int:
        if house.note("ask") <= 2:
            house.kill()
        return 7

    @house.loop
    async def work(run) -> int:
        return await got(ask())

    submit(house, work.bind(), "a")
    assert house.die(work.bind(), "a") == -9
    assert (night(house).tokens, night(house).tokens_held, night(house).calls) == (100, 100, 1)
    assert house.die(work.bind(), "a") == -9
    assert (night(house).tokens, night(house).tokens_held) == (200, 100)
    assert house.run(work.bind(), "a").unwrap() == 7
    assert (night(house).tokens, night(house).tokens_held, night(house).calls) == (205, 0, 3)


def test_a_budget_set_again_changes_nothing_and_top_ups_stay(house):
    assert budget(house, cost_usd=20, tokens=100).cost_usd_max == 20
    assert top_up(house, cost_usd=5).cost_usd_max == 25
    again = budget(house, cost_usd=20)
    assert (again.cost_usd_max, again.tokens_max, again.calls_max) == (25, 100, None)


def test_a_run_without_a_group_is_charged_to_nobody(house):
    budget(house, calls=1)
    assert house.run(summing(house).bind(0)).unwrap() == 6
    assert night(house).calls == 0


def test_a_run_is_of_one_group(house):
    work = summing(house)
    submit(house, work.bind(0), "a")
    submit(house, work.bind(0), "a")
    with pytest.raises(InputMismatch, match="run a is of group 'night', not of 'day'"):
        submit(house, work.bind(0), "a", group="day")


@pytest.mark.parametrize(
    ("bounds", "wrong"),
    [({"calls": -1}, "calls=-1"), ({"tokens": 1.5}, "tokens=1.5"), ({"cost_usd": float("nan")}, "cost_usd=nan")],
)
def test_a_budget_that_cannot_work_is_refused(tmp_path, bounds, wrong):
    house = House("sync", tmp_path)
    with pytest.raises(DeclarationError, match=wrong):
        budget(house, **bounds)


def test_a_top_up_that_changes_nothing_is_refused_with_what_to_type(tmp_path):
    house = House("sync", tmp_path)
    budget(house, calls=1)
    with pytest.raises(DeclarationError, match="has no bound on tokens; set one: yaoki group night --tokens 5"):
        top_up(house, tokens=5)
    with pytest.raises(DeclarationError, match="no budget of 'turns' over a group"):
        top_up(house, turns=5)
    with pytest.raises(DeclarationError, match="there is no group 'day'"):
        house.outside(lambda verbs: verbs.top_up_group("day", calls=5))
    assert night(house).calls_max == 1


def test_no_room_is_missed_between_being_refused_and_being_parked(tmp_path):
    """What comes back while a refused run is on its way out makes it pending, though nobody waited yet."""
    house = House("sync", tmp_path)
    budget(house, calls=1)
    work = summing(house)
    submit(house, work.bind(0), "a")
    with Runner(house.url, clock=house.clock) as runner:
        leave, raced = runner.store.leave, []

        def late(*args, **kwargs):
            if not raced:
                raced.append(top_up(house, calls=10))
            return leave(*args, **kwargs)

        runner.store.leave = late
        assert runner.run(work.bind(0), run_id="a").unwrap() == 6
    assert len(raced) == 1


def test_a_groups_name_is_a_name(tmp_path):
    house = House("sync", tmp_path)
    with pytest.raises(DeclarationError, match="printable"):
        budget(house, name="")


def test_what_a_run_has_cost_is_known_from_its_row_and_added_up_by_state(house):
    work = summing(house)
    house.run(work.bind(0), "a")
    house.run(work.bind(10), "b")
    assert [receipt.spent.cost_usd for receipt in house.outside(lambda verbs: verbs.list())] == [0.4, 0.4]
    assert house.outside(lambda verbs: verbs.store.spent_by_state()) == {"completed": 0.8}
    assert house.outside(lambda verbs: verbs.store.spent_by_state("other")) == {}


def test_groups_of_a_store_from_before_have_a_row(tmp_path):
    journal = Journal.open(f"sqlite:///{tmp_path / 's.db'}", clock=FakeClock())
    journal.create("r", loop="l", input=b"{}", group="old")
    assert [(group.name, group.runs, group.calls_max) for group in journal.groups()] == [("old", 1, None)]
    journal.close()
