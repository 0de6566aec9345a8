"""A journal that cannot be written, and a claim that was lost: nothing more is promised, and nothing is lost."""

from __future__ import annotations

import apsw
import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House, box, calls, got
from yaoki import AsyncRunner, Effect, JournalError, RunBusy
from yaoki.journal import Journal
from yaoki.records import State

READ = Effect.READ_ONLY


def tools(house: House, *, at: int, what):
    """Make a read that does something to the store at its n-th call, and the loop that makes five in a row."""

    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        if n == at and house.done.count(f"step {n}") == 1:
            what()
        return n

    @house.loop
    async def work(run) -> int:
        return sum([await got(step(n)) for n in range(5)])

    return step, work


def steal(house: House) -> None:
    """Take the run as no living process may: what a bug, or another machine on the same disk, would do."""
    connection = apsw.Connection(str(house.path / "store.db"))
    connection.execute("update run set epoch = epoch + 1")
    connection.close()


def test_a_driver_that_lost_its_claim_records_nothing_more_and_says_so(house):
    _, work = tools(house, at=2, what=lambda: steal(house))
    with pytest.raises(RunBusy, match="run r: another process took it over"):
        house.run(work.bind())
    assert house.done == ["step 0", "step 1", "step 2"]
    assert house.run(work.bind()).unwrap() == 10
    assert house.done.count("step 1") == 1
    assert house.done.count("step 2") == 2


def test_a_loop_that_swallows_the_loss_of_its_claim_cannot_go_on(house):
    step, _ = tools(house, at=1, what=lambda: steal(house))

    @house.loop
    async def work(run) -> int:
        for n in range(5):
            try:
                await got(step(n))
            except BaseException:
                house.note("caught")
        return 1

    with pytest.raises(RunBusy):
        house.run(work.bind())
    assert [line for line in house.done if line != "caught"] == ["step 0", "step 1"]


def break_write(patch: pytest.MonkeyPatch, number: int) -> None:
    """Make the n-th write of the driver fail as on a full disk, and every later one."""
    written = iter(range(1, 10_000))

    def failing(inner):
        def method(self, *args, **kwargs):
            if next(written) >= number:
                raise JournalError("store s: the disk is full")
            return inner(self, *args, **kwargs)

        return method

    for name in ("append", "append_if", "append_ruled", "append_batch", "leave"):
        patch.setattr(Journal, name, failing(getattr(Journal, name)))


@pytest.mark.parametrize("shape", ["row", "map"])
@pytest.mark.parametrize("number", range(2, 6))
def test_a_write_that_fails_stops_the_run_where_it_was_and_a_later_process_goes_on(house, shape, number, monkeypatch):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> int:
        if shape == "row":
            return sum([await got(step(n)) for n in range(5)])
        return sum(s.value for s in await got(run.map(house.fn(one), range(5), limit=3)))

    with monkeypatch.context() as patch, pytest.raises(JournalError, match="store s: the disk is full"):
        break_write(patch, number)
        house.run(work.bind())
    assert not house.get().status.final
    assert house.run(work.bind()).unwrap() == 10
    assert all(house.done.count(f"step {n}") <= 2 for n in range(5))


def test_a_loop_that_swallows_a_journal_error_does_not_get_any_further(house, monkeypatch):
    def failing(inner):
        def append(self, run, epoch, seq, *items, **ruled):
            if seq >= 5:
                raise JournalError("store s: the disk is full")
            return inner(self, run, epoch, seq, *items, **ruled)

        return append

    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        return n

    @house.loop
    async def work(run) -> int:
        for n in range(5):
            try:
                await got(step(n))
            except Exception:
                house.note("caught")
        return 1

    with monkeypatch.context() as patch:
        for name in ("append", "append_if"):
            patch.setattr(Journal, name, failing(getattr(Journal, name)))
        with pytest.raises(JournalError):
            house.run(work.bind())
    assert not house.get().status.final
    assert [line for line in house.done if line != "caught"] in (["step 0", "step 1"], ["step 0", "step 1", "step 2"])


def test_the_async_runner_has_the_same_verbs(async_house):
    house = async_house

    @house.tool
    def charge(order: str) -> str:
        house.note("charge")
        raise reset()

    @house.loop
    async def work(run) -> list:
        return [r.value for r in await run.call_tools(box(charge), calls(("charge", {"order": "A"})))]

    async def verbs(runner: AsyncRunner):
        await runner.run(work.bind(), run_id="r")
        assert (await runner.get("r")).waits_for == "person"
        assert [r.run_id for r in await runner.list("waiting")] == ["r"]
        assert len(await runner.journal("r")) == 5
        assert (await runner.answer("r", "q1", "happened", "ch_1", by="ada")).status is State.PENDING
        done = await runner.run(work.bind(), run_id="r")
        assert (await runner.cancel("r")).status is State.COMPLETED
        return done

    assert house.drive(verbs).unwrap() == ["ch_1"]
    assert house.done == ["charge"]


def test_the_async_runner_redrives(async_house):
    house = async_house

    @house.tool(effect=READ)
    def look() -> int:
        if house.note("look") == 1:
            raise FileNotFoundError(2, "no")
        return 1

    @house.loop
    async def work(run) -> int:
        return await look()

    async def verbs(runner: AsyncRunner):
        assert (await runner.run(work.bind(), run_id="r")).status is State.DEAD
        await runner.redrive("r")
        return await runner.run(work.bind(), run_id="r")

    assert house.drive(verbs).unwrap() == 1
