"""
A ticket agent whose model answers nonsense and whose tools fail, seeded: how many of its runs end well.

    python bench/agents.py [--runs N] [--nonsense P] [--failing P] [--json]

Beside it, the same script in a loop without any of it: no classification, no answers to a model's mistakes, no repair.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from yaoki import INJECTED, Budget, Effect, Receipt, Retry, Run, Runner, Toolbox, ToolCall, loop, tool
from yaoki.agent import converse
from yaoki.testing import no_waits

BUDGET = Budget(turns=40, calls=200, retries=100)
SHOP = {"A-1": 4200, "A-2": 900}


@dataclass
class Said:
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    message: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    refunded: int
    orders: list[str]


def asks(turn: int, *calls: tuple[str, Any]) -> Said:
    made = [ToolCall(f"c{turn}.{n}", name, args) for n, (name, args) in enumerate(calls)]
    blocks = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.args} for one in made]
    return Said("", made, {"role": "assistant", "content": blocks})


def says(text: str) -> Said:
    return Said(text, [], {"role": "assistant", "content": text})


def wise(messages: list[dict[str, Any]], turn: int) -> Said:
    """Say the right thing: look both orders up, refund them, report."""
    seen = json.dumps(messages)
    for order in SHOP:
        if f"{order} was paid" not in seen:
            return asks(turn, *(("find_order", {"order_id": one}) for one in SHOP if f"{one} was paid" not in seen))
    missing = [one for one in SHOP if f"refunded {one}" not in seen]
    if missing:
        return asks(turn, *(("refund", {"order_id": one, "cents": SHOP[one]}) for one in missing))
    return says(json.dumps({"refunded": sum(SHOP.values()), "orders": list(SHOP)}))


def nonsense(rng: Random, turn: int) -> Said:
    """Say one of the things a model says instead."""
    return rng.choice(
        [
            asks(turn, ("find_ordr", {"order_id": "A-1"})),
            asks(turn, ("refund", {"order": "A-1", "cents": "4200 cents"})),
            asks(turn, ("find_order", ["A-1"])),
            says(f"Certainly! I will look into that right away. ({turn})"),
            says(f'{{"refunded": {5100 + turn}, "orders": ["A-1", "A-2"'),
        ]
    )


class Desk:
    """One seeded run's model and tools."""

    def __init__(self, seed: int, nonsense_p: float, failing_p: float) -> None:
        self.rng = Random(seed)  # noqa: S311 - repeatable
        self.nonsense_p, self.failing_p = nonsense_p, failing_p
        self.refunds: dict[str, int] = {}

    def ask(self, messages: list[dict[str, Any]]) -> Said:
        turn = len(messages)
        return nonsense(self.rng, turn) if self.rng.random() < self.nonsense_p else wise(messages, turn)

    def fails(self) -> None:
        if self.rng.random() < self.failing_p:
            raise self.rng.choice(
                [ConnectionResetError(104, "reset"), TimeoutError("read"), BrokenPipeError(32, "pipe")]
            )

    def find(self, order_id: str) -> str:
        self.fails()
        return f"{order_id} was paid {SHOP[order_id]} cents"

    def pay_back(self, order_id: str, cents: int, key: str) -> str:
        self.fails()
        self.refunds.setdefault(key, cents)
        return f"refunded {order_id}"


def with_yaoki(desk: Desk, folder: Path) -> Receipt[Any]:
    quick = Retry(attempts_max=8)

    @tool(effect=Effect.READ_ONLY, name="model", retry=quick)
    def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Said:  # noqa: ARG001
        return desk.ask(messages)

    @tool(effect=Effect.READ_ONLY, retry=quick, breaker=None)
    def find_order(order_id: str) -> str:
        return desk.find(order_id)

    @tool(effect=Effect.KEYED, retry=quick, breaker=None)
    def refund(order_id: str, cents: int, *, idempotency_key: str = INJECTED) -> str:
        return desk.pay_back(order_id, cents, idempotency_key)

    def true_to_it(outcome: Outcome) -> None:
        assert outcome.refunded == sum(desk.refunds.values()), f"{sum(desk.refunds.values())} cents were refunded"

    @loop(budget=BUDGET)
    def tickets(run: Run) -> Outcome:
        box = Toolbox(find_order, refund)
        return converse(
            run, model, "both came broken", form="anthropic", tools=box, into=Outcome, verify=true_to_it,
            rejections_max=10,
        )  # fmt: skip

    with no_waits(), Runner(f"sqlite:///{folder / 'agents.db'}") as runner:
        return runner.run(tickets.bind())


def without(desk: Desk) -> bool:
    """Loop as it is written by hand: what goes wrong, goes wrong."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "both came broken"}]
    tools = {"find_order": desk.find, "refund": lambda **args: desk.pay_back(**args, key=args["order_id"])}
    try:
        for _ in range(BUDGET.turns or 40):
            said = desk.ask(messages)
            messages.append(said.message)
            if not said.calls:
                outcome = json.loads(said.text)
                return outcome["refunded"] == sum(SHOP.values()) == sum(desk.refunds.values())
            results = [{"type": "tool_result", "content": tools[one.name](**one.args)} for one in said.calls]
            messages.append({"role": "user", "content": results})
    except Exception:  # noqa: BLE001 - counted
        return False
    return False


def rates(runs: int, nonsense_p: float = 0.3, failing_p: float = 0.2) -> tuple[float, float]:
    """Return the share of runs that end well, with and without."""
    well = bare = 0
    for seed in range(runs):
        desk = Desk(seed, nonsense_p, failing_p)
        with tempfile.TemporaryDirectory() as folder:
            receipt = with_yaoki(desk, Path(folder))
        once = len(desk.refunds) == len(SHOP) and sum(desk.refunds.values()) == sum(SHOP.values())
        well += receipt.status == "completed" and once
        bare += without(Desk(seed, nonsense_p, failing_p))
    return well / runs, bare / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--nonsense", type=float, default=0.3)
    parser.add_argument("--failing", type=float, default=0.2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    well, bare = rates(options.runs, options.nonsense, options.failing)
    if options.json:
        print(json.dumps({"runs": options.runs, "with": well, "without": bare}))
    else:
        print(f"{options.runs} runs, nonsense {options.nonsense:g}, failing {options.failing:g}")
        print(f"  completed, every refund made once, with:    {well:.3f}")
        print(f"  the same script in a loop without:          {bare:.3f}")


if __name__ == "__main__":
    main()
