"""Killed at every write, a scope ends as well as it would have: nothing is counted twice, no place is lost for good."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.runtime.house import House, got
from yaoki import Breaker, Effect, Retry
from yaoki.journal import Journal
from yaoki.records import Begin, State

WRITES = ("create", "claim", "append", "append_if", "append_ruled", "append_batch", "leave")
FAILS = 3


def killing(house: House, at: int, patch: pytest.MonkeyPatch) -> None:
    """Die before or after the n-th write of the journal."""
    points = itertools.count(1)

    def watched(method):
        def call(self, *args, **kwargs):
            if next(points) == at:
                house.kill()
            value = method(self, *args, **kwargs)
            if next(points) == at:
                house.kill()
            return value

        return call

    for name in WRITES:
        patch.setattr(Journal, name, watched(getattr(Journal, name)))


def flow(house: House):
    """Return a loop of one call, which heals at the second probe of its scope."""

    @house.tool(
        effect=Effect.READ_ONLY,
        scope="vendor",
        breaker=Breaker(failures=2, open_s=5),
        retry=Retry(attempts_max=9, base_s=0, cap_s=0),
    )
    def ask(n: int) -> int:
        if house.note("asked") <= FAILS:
            raise ConnectionResetError(104, "reset")
        return n

    @house.loop
    async def work(run, n: int) -> int:
        return await got(ask(n))

    return work


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_killed_at_every_write_a_scope_is_well_in_the_end(kind, tmp_path, monkeypatch):
    seen: set[int] = set()
    for at in itertools.count(1):
        folder: Path = tmp_path / str(at)
        folder.mkdir()
        house = House(kind, folder)

        work = flow(house)
        with monkeypatch.context() as patch:
            killing(house, at, patch)
            killed = house.die(work.bind(1)) == -9
        if not killed:
            break
        house.later(1)
        receipt = house.run(work.bind(1))
        assert (receipt.status, receipt.value) == (State.COMPLETED, 1), at
        begins = house.records(Begin)
        assert [one.attempt for one in begins] == list(range(1, len(begins) + 1))
        assert len(house.done) in (FAILS + 1, FAILS + 2), (at, house.done)
        assert house.outside(lambda verbs: verbs.store.scopes().circuits) == {}, at
        seen.add(len(begins))
    assert at > 20
    assert seen
