"""
A ticket agent on the tool loop: it looks orders up, refunds, and answers; the amount is held against the order.

    export ANTHROPIC_API_KEY=…
    yaoki run examples/agents/tickets.py:tickets --input '"A-1009 came broken."' --run-id ticket-17
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import anthropic

from yaoki import INJECTED, Budget, Effect, Retry, Run, TerminalError, Toolbox, loop, tool
from yaoki.agent import converse
from yaoki.models import anthropic_model

SHOP = Path(os.environ.get("TICKETS_SHOP", "shop.json"))
LOG = Path(os.environ.get("TICKETS_LOG", "refunds.txt"))
RETRY = Retry(base_s=float(os.environ.get("TICKETS_RETRY_BASE_S", "0.5")))
SYSTEM = """You answer customers of a small shop. Look an order up before you promise anything, refund what is fair,
never more than was paid. When you are done answer with JSON alone: {"outcome": "refunded" | "declined", "cents": 0}"""

claude = anthropic_model(
    anthropic.Anthropic(), os.environ.get("TICKETS_MODEL", "claude-sonnet-5"), system=SYSTEM, retry=RETRY, stream=True
)


@dataclass
class Outcome:
    outcome: str
    cents: int


@tool(effect=Effect.READ_ONLY, retry=RETRY)
def find_order(order_id: str) -> dict[str, int]:
    """Look an order up: what was paid for it, in cents."""
    return json.loads(SHOP.read_text())[order_id]


@tool(effect=Effect.KEYED, retry=RETRY)
def refund(order_id: str, cents: int, *, idempotency_key: str = INJECTED) -> str:
    """Refund an order, or a part of it."""
    paid = find_order.fn(order_id)["paid"]
    if cents > paid:
        raise TerminalError(f"{order_id} was {paid} cents, so {cents} cannot be refunded", happened=False)
    done = LOG.read_text().splitlines() if LOG.exists() else []
    if not any(line.startswith(idempotency_key) for line in done):
        with LOG.open("a") as log:
            log.write(f"{idempotency_key} {order_id} {cents}\n")
    return f"refunded {cents}"


def fair(answer: Outcome) -> None:
    """Hold the answer against what was done; the model has no say in this."""
    done = sum(int(line.split()[2]) for line in LOG.read_text().splitlines()) if LOG.exists() else 0
    assert answer.cents == done, f"{done} cents were refunded, not {answer.cents}"


@loop(budget=Budget(turns=15, calls=60, tokens=200_000))
def tickets(run: Run, ticket: str) -> Outcome:
    return converse(run, claude, ticket, tools=Toolbox(find_order, refund), into=Outcome, verify=fair)
