from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from tests.runtime.house import House, got
from yaoki import Effect, Retry, Runner
from yaoki.errors import AnswerRefused, DeclarationError, EncodingError, RunNotFound
from yaoki.records import State


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path):
    return House(request.param, tmp_path)


def send(house: House, name: str, *value: object, run_id: str = "r"):
    return house.outside(lambda verbs: verbs.signal(run_id, name, *value, by="ana"))


def waiting_for(house: House, *names: str, **options):
    step = house.tool(lambda what: house.note(str(what)), effect=Effect.READ_ONLY, name="step")

    @house.loop(name="waits")
    async def waits(run) -> list[object]:
        found = []
        for name in names:
            try:
                found.append(await got(run.wait_signal(name, **options)))
            except TimeoutError:
                found.append("late")
            await got(step(found[-1]))
        return found

    return waits


def test_a_run_waits_for_its_signal_and_says_what_to_type(house):
    loop = waiting_for(house, "approved")
    receipt = house.run(loop.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "signal")
    assert receipt.next_action == "yaoki signal r approved VALUE"
    assert send(house, "approved", {"by": "ana"}).status is State.PENDING
    assert house.run(loop.bind()).value == [{"by": "ana"}]


def test_the_nth_wait_takes_the_nth_signal_of_its_name(house):
    loop = waiting_for(house, "a", "b", "a")
    house.run(loop.bind())
    send(house, "a", 1)
    send(house, "a", 2)
    send(house, "b")
    assert house.run(loop.bind()).value == [1, None, 2]


def test_a_signal_may_come_before_its_wait(house):
    @house.loop(name="later")
    async def later(run) -> int:
        await got(run.sleep(3600))
        return await got(run.wait_signal("go", int))

    send_asleep(house, later, ("go", 7))
    assert house.run(later.bind()).value == 7


def test_a_replay_gives_the_same_signal(house):
    lives = []

    @house.loop(name="twice")
    async def twice(run) -> int:
        value = await got(run.wait_signal("go", int))
        lives.append(value)
        await got(run.wait_signal("more"))
        return value

    house.run(twice.bind())
    send(house, "go", 1)
    house.run(twice.bind())
    send(house, "go", 2)
    send(house, "more")
    assert house.run(twice.bind()).value == 1
    assert set(lives) == {1}


def test_killed_after_a_signal_was_taken_the_run_goes_on_with_it(house):
    @house.loop(name="killed")
    async def killed(run) -> int:
        value = await got(run.wait_signal("go", int))
        if len(house.done) == 0:
            house.note("killed")
            house.kill()
        return value

    house.run(killed.bind())
    send(house, "go", 5)
    assert house.die(killed.bind()) == -9
    send(house, "go", 6)
    assert house.run(killed.bind()).value == 5


def test_a_wait_ends_in_time_and_a_replay_raises_again(house):
    loop = waiting_for(house, "a", "b", timeout_s=600)
    assert house.run(loop.bind()).status is State.WAITING
    house.later(601)
    assert house.run(loop.bind()).status is State.WAITING
    send(house, "a", "too late for the first")
    send(house, "b", "in time")
    assert house.run(loop.bind()).value == ["late", "in time"]


@dataclass
class Verdict:
    ok: bool


def test_one_of_another_type_than_the_run_waits_for_is_refused_to_its_sender(house):
    loop = waiting_for(house, "a", into=Verdict)
    house.run(loop.bind())
    with pytest.raises(AnswerRefused, match="run r waits for another a: "):
        send(house, "a", "yes")
    assert house.get().status is State.WAITING
    send(house, "a", {"ok": True})
    assert house.run(loop.bind()).value == [{"ok": True}]


def asleep_then(house: House, body):
    """Make a loop that sleeps an hour first, and leave it asleep: what is sent now comes before its wait."""

    @house.loop(name="later")
    async def later(run) -> object:
        await got(run.sleep(3600))
        return await body(run)

    return later


def send_asleep(house: House, loop, *signals: tuple[str, object]) -> None:
    with Runner(house.url, clock=house.clock, submits_only=True) as runner:
        runner.store.create("r", loop=loop.name, input=loop.bind().data)
    for name, value in signals:
        send(house, name, value)


def test_one_of_another_type_that_came_before_is_left_and_a_replay_sees_the_same(house):
    seen = []

    async def body(run) -> object:
        try:
            await got(run.wait_signal("a", Verdict))
        except EncodingError as error:
            seen.append(str(error))
        value = await got(run.wait_signal("a"))
        seen.append(value)
        await got(run.wait_signal("more"))
        return value

    loop = asleep_then(house, body)
    send_asleep(house, loop, ("a", "yes"))
    assert house.run(loop.bind()).waits_for == "signal"
    send(house, "more")
    assert house.run(loop.bind()).value == "yes"
    assert seen[:2] == seen[2:]
    assert seen[0].startswith("run r: signal 'a' is not what run.wait_signal(into=…) takes: ")


def test_code_that_takes_it_goes_on_with_it(house):
    into: list[type] = [Verdict]

    async def body(run) -> object:
        return await got(run.wait_signal("a", into[0]))

    loop = asleep_then(house, body)
    send_asleep(house, loop, ("a", "yes"))
    receipt = house.run(loop.bind())
    assert (receipt.status, receipt.failure.reason) == (State.DEAD, "encoding")
    house.redrive()
    assert house.run(loop.bind()).status is State.DEAD, "it is still there, and still of another type"
    into[0] = str
    house.redrive()
    assert house.run(loop.bind()).value == "yes"


def test_one_sent_after_the_waits_end_came_too_late_whenever_the_run_looks(house):
    loop = waiting_for(house, "a", "a", timeout_s=600)
    assert house.run(loop.bind()).status is State.WAITING
    house.later(700)
    send(house, "a", "sent")
    assert house.run(loop.bind()).value == ["late", "sent"], "the second wait takes it"


def test_a_step_beside_the_wait_goes_on(tmp_path):
    house = House("async", tmp_path)
    step = house.tool(lambda what: what, effect=Effect.READ_ONLY, name="step")

    @house.loop(name="beside")
    async def beside(run) -> list[object]:
        async def one(kind: str) -> object:
            return await run.wait_signal("go") if kind == "signal" else await step(kind)

        return [settled.value for settled in await run.map(one, ["signal", "step"])]

    house.run(beside.bind())
    assert house.get().attempts == 1
    send(house, "go", "went")
    assert house.run(beside.bind()).value == ["went", "step"]


def test_a_live_driver_takes_a_signal_up_at_once(tmp_path):
    house = House("async", tmp_path, real_time=True)

    taken = threading.Event()

    @house.loop(name="live")
    async def live(run) -> object:
        async def one(kind: str) -> object:
            if kind == "signal":
                value = await run.wait_signal("go")
                taken.set()
                return value
            threading.Timer(0.01, lambda: send(house, "go", "went")).start()
            for _ in range(1000):
                if taken.is_set():
                    return "beside it"
                await run.sleep(0.02)
            return "nobody took it"

        return [settled.value for settled in await run.map(one, ["signal", "sleep"])]

    assert house.run(live.bind()).value == ["went", "beside it"]


def test_what_is_no_signal_is_refused_and_changes_nothing(house):
    loop = waiting_for(house, "a")
    house.run(loop.bind())
    for name in ("", "x" * 201, "new\nline"):
        with pytest.raises(DeclarationError, match="its name has 1 to 200 printable"):
            send(house, name, 1)
    with pytest.raises(RunNotFound):
        send(house, "a", 1, run_id="nobody")
    assert house.get().status is State.WAITING
    send(house, "a", 1)
    house.run(loop.bind())
    with pytest.raises(AnswerRefused, match="completed: it takes no signal"):
        send(house, "a", 1)


def test_signals_are_bounded_in_size_and_number(house, monkeypatch):
    loop = waiting_for(house, "a")
    house.run(loop.bind())
    with pytest.raises(EncodingError, match=r"signal b has 16,777,217 bytes; 16,777,216 is the most"):
        send(house, "b", "x" * (16 * 1024 * 1024 - 1))
    monkeypatch.setattr("yaoki.runtime._verbs._UNTAKEN_MAX", 3)
    for n in range(3):
        send(house, "b", n)
    with pytest.raises(AnswerRefused, match="has 3 signals that nobody took"):
        send(house, "a", 1)
    assert house.get().status is State.PENDING


def test_a_new_pass_takes_the_signals_of_the_abandoned_one_again(house):
    def fail() -> None:
        raise ValueError("no")

    broken = [True]
    breaks = house.tool(fail, effect=Effect.READ_ONLY, retry=Retry.never, name="breaks")

    @house.loop(name="passes")
    async def passes(run) -> int:
        value = await got(run.wait_signal("go", int))
        if broken[0]:
            await got(breaks())
        return value

    house.run(passes.bind())
    send(house, "go", 4)
    assert house.run(passes.bind()).status is State.DEAD
    broken[0] = False
    house.outside(lambda verbs: verbs.redrive("r", "checkpoint"))
    assert house.run(passes.bind()).value == 4


def test_a_signal_taken_as_another_type_than_the_code_wants_by_now_waits_for_code(house):
    look = house.tool(lambda: house.note("look") == 1 and house.kill(), effect=Effect.READ_ONLY, name="look")

    def made(kind: type):
        @house.loop(name="work")
        async def work(run) -> str:
            try:
                found = str(await got(run.wait_signal("go", kind)))
            except EncodingError:
                found = "caught"
            await got(look())
            return found

        return work

    house.run(made(str).bind())
    send(house, "go", "text")
    house.die(made(str).bind())
    receipt = house.run(made(int).bind())
    assert (receipt.status, receipt.waits_for, house.done) == (State.WAITING, "code", ["look"])
    assert "signal 'go' = \"text\"" in receipt.diff
    assert house.run(made(str).bind()).value == "text"
