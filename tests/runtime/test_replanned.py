"""
Random plans over several passes, held against a model of docs/guarantees.md, "Keys and slots".

Each pass calls another multiset of effects, dies somewhere or is abandoned at a question, and is redriven from the
checkpoint or the start. The model knows slots, doubts and orphans, and nothing of journals.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.runtime.house import House, got
from yaoki import INJECTED, Effect, Happened, NotHappened, Retry, StepFailed
from yaoki.records import State

ONCE = Retry.never
ASKS = ("once", "mail")
EFFECTS = ("once", "mail", "keyed", "put")
Call = tuple[str, str]


def fate(seed: int, tool: str, what: str, arrival: int) -> str:
    """Say what becomes of the nth call of a kind that reaches its receiver: ok, refused, or done and never answered."""
    if tool in ("read", "put"):
        return "ok"
    return random.Random(f"{seed} {tool} {what} {arrival}").choices(("ok", "refused", "lost"), (6, 2, 2))[0]


@dataclass
class Slot:
    state: str = "no"
    value: str | None = None
    left: bool = False
    """An abandoned pass has left it, and no call has taken it since."""
    shared_in: str = ""
    """Where a call of the present pass shares what is recorded: prelude, turn, or done."""
    made_in: str = "prelude"


@dataclass
class Plan:
    prelude: list[Call]
    turns: list[list[Call]]
    dies: bool
    start: int = 0
    """The turns that checkpoints have before the first one of these."""


class Abandoned(Exception):
    pass


@dataclass
class Model:
    seed: int
    rng: random.Random
    slots: dict[Call, list[Slot]] = field(default_factory=dict)
    arrivals: Counter[Call] = field(default_factory=Counter)
    done: Counter[Call] = field(default_factory=Counter)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Of the pass under way: why, what is answered, and with which value."""
    state: list[str | None] = field(default_factory=list)
    turn: int = 0
    here: str = "prelude"
    abandons: int = 2

    # --- a pass

    def go(self, plan: Plan) -> list[str | None] | None:
        """Go through a pass; its value, or None if it ends before."""
        self.asked, plan.start = [], self.turn
        try:
            self.here = "prelude"
            before = [self.call(*one) for one in plan.prelude]
            self.here = "turn"
            for calls in plan.turns[:-1]:
                self.state += [self.call(*one) for one in calls]
                self.turn += 1
                self.finish_turn()
            last = [self.call(*one) for one in plan.turns[-1]]
        except Abandoned:
            return None
        return None if plan.dies else [*before, *self.state, *last]

    def finish_turn(self) -> None:
        for slot in self.all():
            if slot.made_in == "turn":
                slot.made_in = "done"
            if slot.shared_in == "turn":
                slot.shared_in = "done"

    def redrive(self, source: str) -> None:
        whole = source == "start"
        for slot in self.all():
            slot.left = slot.left or whole or slot.made_in != "done"
            if whole or slot.shared_in != "done":
                slot.shared_in = ""
        if whole:
            self.state, self.turn = [], 0

    def all(self) -> list[Slot]:
        return [slot for slots in self.slots.values() for slot in slots]

    def orphans(self, tool: str = "") -> list[Slot]:
        return [
            slot
            for (name, _), slots in self.slots.items()
            for slot in slots
            if tool in ("", name) and slot.left and not slot.shared_in and slot.state != "no"
        ]

    # --- a call

    def call(self, tool: str, what: str) -> str | None:
        if tool == "read":
            return self.arrive(tool, what)[1]
        slots = self.slots.setdefault((tool, what), [])
        for slot in slots:
            if slot.state == "no":
                return self.execute(tool, what, slot)
            if slot.left and slot.state == "yes":
                if not slot.shared_in:
                    self.take(slot)
                    return slot.value
            elif slot.state == "skipped":
                slot.shared_in = slot.shared_in or (self.here if slot.left else "")
                return None
            elif slot.left and slot.state == "doubt" and tool == "keyed":  # sent again: the receiver knows the key
                self.take(slot)
                slot.state = "yes"
                return slot.value
            elif slot.left and slot.state == "doubt":
                return self.doubt(tool, slot)
        return self.execute(tool, what, None)

    def take(self, slot: Slot) -> None:
        slot.left, slot.shared_in, slot.made_in = False, "", self.here

    def execute(self, tool: str, what: str, slot: Slot | None) -> str | None:
        equal = self.slots[tool, what]
        if tool in ASKS and any(one not in equal for one in self.orphans(tool)):
            answer, value = self.ask("orphan", ["send", "send", "skip", "happened", "abort"], "that")
            if answer != "send":
                return {"skip": None, "happened": value, "abort": "failed"}[answer]
        if slot is None:
            slot = Slot()
            self.slots[tool, what].append(slot)
        self.take(slot)
        came, value = self.arrive(tool, what)
        if came == "refused":
            return "failed"
        slot.state, slot.value = "doubt" if came == "lost" else "yes", value
        if came == "lost" and tool == "mail":  # its check finds out
            slot.state = "yes"
        return value if slot.state == "yes" else self.doubt(tool, slot)

    def doubt(self, tool: str, slot: Slot) -> str | None:
        answer, value = self.ask("doubt", ["happened", "happened", "skip"], slot.value)
        if answer == "skip":
            slot.state, slot.shared_in = "skipped", self.here if slot.left else ""
            return None
        slot.state = "yes"
        if slot.left:
            self.take(slot)
        return value

    def ask(self, why: str, answers: list[str], value: str | None) -> tuple[str, str | None]:
        if self.abandons and self.rng.random() < 0.3:
            self.abandons -= 1
            self.asked.append((why, "abandon", None))
            raise Abandoned
        answer = self.rng.choice(answers)
        self.asked.append((why, answer, value if answer == "happened" else None))
        return answer, value

    def arrive(self, tool: str, what: str) -> tuple[str, str]:
        nth = self.arrivals[tool, what]
        self.arrivals[tool, what] += 1
        came = fate(self.seed, tool, what, nth)
        if came != "refused":
            self.done[tool, what] += 1
        return came, f"{tool} {what} {nth}"


class Shop:
    """The same plans, followed by a loop."""

    def __init__(self, house: House, seed: int) -> None:
        self.house, self.seed = house, seed
        self.plan = Plan([], [[]], dies=False)
        self.arrived: Counter[Call] = Counter()
        self.done: dict[Call, list[tuple[str, str]]] = {}
        self.tools = {name: self.made(name) for name in ("read", *EFFECTS)}
        fail = house.tool(self.fail, effect=Effect.READ_ONLY, name="fail", retry=ONCE)

        async def one(name: str, what: str) -> str | None:
            try:
                return await got(self.tools[name](what))
            except StepFailed:
                return "failed"

        @house.loop(name="follows")
        async def follows(run) -> list[str | None]:
            before = [await one(*call) for call in self.plan.prelude]
            plan = self.plan
            async for state in house.turns(run, {"turn": 0, "said": []}):
                number = state["turn"] - plan.start
                said = [await one(*call) for call in plan.turns[number]]
                if number < len(plan.turns) - 1:
                    state["turn"] += 1
                    state["said"] += said
                    continue
                if plan.dies:
                    await got(fail())
                return [*before, *state["said"], *said]
            return []

        self.loop = follows

    def fail(self) -> str:
        raise ValueError("the end of this pass")

    def made(self, name: str):
        effect = {"read": Effect.READ_ONLY, "put": Effect.IDEMPOTENT, "keyed": Effect.KEYED}.get(name)

        def act(what: str, *, idempotency_key: str = INJECTED) -> str | None:
            return self.arrive(name, what, idempotency_key)

        def found(what: str) -> Happened[str | None] | NotHappened:
            mine = self.done.get((name, what), [])
            return Happened(mine[-1][1]) if mine and self.lost == (name, what) else NotHappened()

        options = {"check": self.house.check(found), "check_after_s": 0} if name == "mail" else {"effect": effect}
        return self.house.tool(act, name=name, retry=ONCE, **{k: v for k, v in options.items() if v is not None})

    lost: Call | None = None

    def arrive(self, tool: str, what: str, key: str) -> str:
        known = [value for known, value in self.done.get((tool, what), []) if known == key]
        if known and tool == "keyed":
            return known[0]
        nth = self.arrived[tool, what]
        self.arrived[tool, what] += 1
        came, self.lost = fate(self.seed, tool, what, nth), None
        if came == "refused":
            raise ConnectionRefusedError(111, "refused")
        value = f"{tool} {what} {nth}"
        self.done.setdefault((tool, what), []).append((key, value))
        if came == "lost":
            self.lost = (tool, what)
            raise TimeoutError("no answer")
        return value

    def go(self, plan: Plan, answers: list[tuple[str, str, str | None]]):
        """Go through a pass, answering as the model did; its receipt."""
        self.plan = plan
        left = iter(answers)
        while True:
            receipt = self.house.run(self.loop.bind(), "r")
            if receipt.status is not State.WAITING:
                assert not list(left), (receipt.text, answers)
                return receipt
            assert receipt.waits_for == "person", receipt.diff
            why, answer, value = next(left, ("", "", None))
            ask = next(ask for ask in receipt.asks if ask.text == receipt.text and not ask.verdict)
            assert ask.why == why, (receipt.asks, answers)
            if answer == "abandon":
                return receipt
            self.house.answer(answer, *([value] if answer == "happened" else []), ask=ask.id)


def planned(rng: random.Random, *, dies: bool) -> Plan:
    def calls(most: int) -> list[Call]:
        tools = ("read", *EFFECTS, "once")
        return [(rng.choice(tools), rng.choice("ab")) for _ in range(rng.randint(0, most))]

    return Plan(calls(2), [calls(3) for _ in range(rng.randint(1, 3))], dies)


def gone_through(house: House, seed: int) -> None:
    rng = random.Random(seed)
    model, shop = Model(seed, random.Random(-seed)), Shop(house, seed)
    said: list[str] = []
    for number in range(6):
        plan = planned(rng, dies=number < rng.randint(1, 3))
        expected = model.go(plan)
        said.append(f"pass {number}: {plan} answers {model.asked}")
        receipt = shop.go(plan, model.asked)
        where = "\n".join([f"seed {seed}", *said])
        assert {action: len(one) for action, one in shop.done.items()} == dict(model.done), where
        for (tool, what), one in shop.done.items():
            keys = [key for key, _ in one]
            assert tool == "read" or len(set(keys)) == len(keys), (where, tool, what, "one key, two effects")
        assert len(receipt.orphans) == len(model.orphans()), (where, receipt.orphans, model.slots)
        if expected is not None:
            assert (receipt.status, receipt.value) == (State.COMPLETED, expected), where
            return
        assert receipt.status in (State.DEAD, State.WAITING), where
        source = rng.choice(("checkpoint", "checkpoint", "start"))
        said.append(f"redrive from {source}")
        model.redrive(source)
        house.outside(lambda verbs, source=source: verbs.redrive("r", source))
    raise AssertionError(f"seed {seed}: six passes, and no end")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("block", range(3))
def test_plans_that_change_from_pass_to_pass_repeat_no_effect(kind, block, tmp_path):
    each(kind, tmp_path, range(block * 20, block * 20 + 20))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("block", range(10))
def test_many_plans_that_change_from_pass_to_pass_repeat_no_effect(kind, block, tmp_path):
    each(kind, tmp_path, range(1_000 + block * 100, 1_100 + block * 100))


def each(kind: str, tmp_path, seeds: range, check: Callable[[House, int], None] = gone_through) -> None:
    for seed in seeds:
        directory = tmp_path / str(seed)
        directory.mkdir()
        check(House(kind, directory), seed)
