"""
G3: The same tool with the same key arguments in the same slot carries the same key: across retries, crashes,
re-planning; otherwise another.
"""

from __future__ import annotations

from tests.guarantees.colours import RUN, begins, both, url_of
from tests.guarantees.lives import Lives
from yaoki import INJECTED, Effect, Retry, Runner
from yaoki.records import State
from yaoki.testing import no_waits

QUICK = Retry(attempts_max=4)


class Till:
    """A receiver that remembers the key of every call."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []
        self.failing = 0

    def charge(self, what: str, *, idempotency_key: str = INJECTED) -> str:
        self.keys.append((what, idempotency_key))
        if self.failing:
            self.failing -= 1
            raise ConnectionResetError(104, "reset")
        return what


@both
def test_sent_again_after_sigkill_between_effect_and_record_it_carries_the_same_key(tmp_path, colour):
    lives = Lives(tmp_path, "charge", colour)
    assert lives.live() is None
    assert lives.live().value == ["saw before", "charged a", "saw after"]
    assert lives.world.asked("charge") == 2
    assert list(lives.world.done().values()) == [1]
    keys = {begin.key for begin in begins(lives.store) if begin.call.startswith("charge")}
    assert len(keys) == 1


@both
@no_waits
def test_every_retry_carries_the_same_key_and_the_next_equal_call_another(tmp_path, colour):
    till = Till()
    charge = colour.tool(till.charge, effect=Effect.KEYED, retry=QUICK, name="charge")

    def body(run):
        yield charge("a")
        yield charge("a")

    till.failing = 2
    assert colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind()).status is State.COMPLETED
    keys = [key for _, key in till.keys]
    assert len(keys) == 4
    assert keys[0] == keys[1] == keys[2] != keys[3]


@both
@no_waits
def test_equal_calls_in_parallel_are_two_actions_and_the_same_call_after_a_doubt_is_no_third(tmp_path, colour):
    till = Till()
    charge = colour.tool(till.charge, effect=Effect.KEYED, retry=Retry(attempts_max=1), name="charge")

    def branch(number):
        return (yield charge("a"))

    def body(run):
        settled = yield run.map(colour.body(branch), [0, 1])
        return [*(one.value for one in settled), (yield charge("a"))]

    till.failing = 1
    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    assert colour.run(store, bound).status is State.WAITING
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "skip")
    receipt = colour.run(store, bound)
    assert receipt.status is State.COMPLETED
    assert sorted(str(value) for value in receipt.value) == ["None", "None", "a"]
    assert len(till.keys) == 2
    assert len(set(till.keys)) == 2


@both
@no_waits
def test_other_arguments_another_tool_and_another_run_carry_other_keys(tmp_path, colour):
    till = Till()
    charge = colour.tool(till.charge, effect=Effect.KEYED, name="charge")
    refund = colour.tool(till.charge, effect=Effect.KEYED, name="refund")

    def body(run):
        yield charge("a")
        yield charge("b")
        yield refund("a")

    bound = colour.loop(body, name="body").bind()
    for run_id in ("run-1", "run-2"):
        colour.run(tmp_path / "s.db", bound, run_id=run_id)
    assert len({key for _, key in till.keys}) == 6


@both
@no_waits
def test_key_selects_the_arguments_that_identify_the_action(tmp_path, colour):
    keys: list[str] = []

    def charge(order: str, memo: str, *, idempotency_key: str = INJECTED) -> None:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise ConnectionResetError(104, "reset")

    charging = colour.tool(charge, effect=Effect.KEYED, key="order", retry=Retry(attempts_max=1))

    def body(run):
        first = yield charging("A-1", "first wording")
        again = yield charging("A-1", "second wording")
        return [first, again]

    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    assert colour.run(store, bound).status is State.WAITING
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "skip")
    assert colour.run(store, bound).status is State.COMPLETED
    assert len(keys) == 1, "one order, in doubt: the other wording is the same action, and shares its answer"


@both
@no_waits
def test_a_redriven_step_carries_the_same_key(tmp_path, colour):
    till = Till()
    charge = colour.tool(till.charge, effect=Effect.KEYED, retry=Retry(attempts_max=1), name="charge")

    def body(run):
        return (yield charge("a"))

    till.failing = 1
    store, bound = tmp_path / "s.db", colour.loop(body, name="body").bind()
    assert colour.run(store, bound).status is State.WAITING
    with Runner.verbs(url_of(store)) as runner:
        runner.answer(RUN, None, "abort")
    assert colour.run(store, bound).status is State.DEAD
    with Runner.verbs(url_of(store)) as runner:
        runner.redrive(RUN)
    assert colour.run(store, bound).value == "a"
    assert len(till.keys) == 2
    assert len(set(till.keys)) == 1


@both
@no_waits
def test_a_slot_whose_action_did_not_happen_is_free_again(tmp_path, colour):
    """Refused, executed `no`: the next equal call is the same action, with the same key."""
    till = Till()

    def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        till.keys.append((what, idempotency_key))
        if len(till.keys) == 1:
            raise ConnectionRefusedError(111, "refused")
        return what

    charging = colour.tool(charge, effect=Effect.KEYED, retry=Retry(attempts_max=1))

    def branch(number):
        return (yield charging("a"))

    def body(run):
        yield run.map(colour.body(branch), [0])
        return (yield charging("a"))

    assert colour.run(tmp_path / "s.db", colour.loop(body, name="body").bind()).value == "a"
    assert len(till.keys) == 2
    assert len(set(till.keys)) == 1
