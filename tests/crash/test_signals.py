"""A run that waits for signals, killed before and after each write of its journal: it takes each of them once."""

from __future__ import annotations

import itertools
import os

import pytest

from tests.runtime.house import House, got
from yaoki import AnswerRefused, Effect, Runner
from yaoki.journal import Journal
from yaoki.records import State

WRITES = ("claim", "append", "append_batch", "leave", "sync")
LIVES_MOST = 200


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch) -> None:
    monkeypatch.setattr("yaoki.journal._journal.default_sync", lambda fd: None)


def deadly(house: House, monkeypatch, die_at: list[int]) -> None:
    """Have a child process die at its nth point: before or after a write."""
    test, seen = os.getpid(), [0]

    def reach() -> None:
        if os.getpid() != test:
            seen[0] += 1
            if seen[0] == die_at[0]:
                house.kill()

    def watched(method):
        def call(*args, **kwargs):
            reach()
            value = method(*args, **kwargs)
            reach()
            return value

        return call

    for name in WRITES:
        monkeypatch.setattr(Journal, name, watched(getattr(Journal, name)))


def three_waits(house: House):
    """Make a loop that waits for two signals, notes them, and for a third one that comes too late."""
    note = house.tool(house.note, effect=Effect.AT_MOST_ONCE, name="note")

    @house.loop(name="waits", crashes_max=LIVES_MOST)
    async def waits(run) -> list[object]:
        found: list[object] = []
        for _ in range(2):
            found.append(await got(run.wait_signal("go", int)))
            await got(note(f"took {found[-1]}"))
        try:
            await got(run.wait_signal("never", timeout_s=60))
        except TimeoutError:
            found.append("late")
        return found

    return waits.bind()


def outside(house: House, number: int) -> None:
    """Do what somebody outside does after each life: a signal, an answer, and time passes."""
    with Runner(house.url, clock=house.clock, verbs_only=True) as verbs:
        receipt = verbs.get("r")
        for ask in receipt.asks:
            if not ask.verdict:
                text = ask.call.split('"')[1]
                verdict = ("happened", 1) if text in house.done else ("not-happened",)
                verbs.answer("r", ask.id, *verdict)
        if receipt.status is State.WAITING and receipt.text == "signal go":
            verbs.signal("r", "go", number)
    if receipt.text == "signal never":
        house.later(61)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("step", [1, 3])
def test_killed_at_point_after_point_each_wait_takes_one_signal(kind, step, tmp_path, monkeypatch):
    house, die_at = House(kind, tmp_path), [0]
    deadly(house, monkeypatch, die_at)
    bound = three_waits(house)
    deaths = 0
    for number in itertools.count(1):
        assert number < LIVES_MOST
        die_at[0] = 1 + step * deaths
        code = house.die(bound)
        deaths += code == -9
        assert code in (0, -9)
        if deaths == 1 and code == -9 and not house_has_run(house):
            continue
        receipt = house.get()
        if receipt.status.final:
            break
        outside(house, number)
    first, second, third = receipt.value
    assert first < second
    assert third == "late"
    assert house.done == [f"took {first}", f"took {second}"]
    assert deaths > 3
    with pytest.raises(AnswerRefused, match="completed: it takes no signal"):
        house.outside(lambda verbs: verbs.signal("r", "go", 1))


def house_has_run(house: House) -> bool:
    """Whether the first death came after the run was created."""
    return house.outside(lambda verbs: verbs.store.get("r")) is not None
