"""
Invoices that are paid by themselves, the large ones once a person has said so; whoever that is gets told.

    yaoki worker examples/invoices/agent.py --notify ntfy://my-topic
    yaoki submit examples/invoices/agent.py:pay_all --input '[["ink", 1200], ["press", 950000]]' --run-id may
    yaoki runs                                 # may: may pay(to="press", cents=950000) be done?
    yaoki answer may q1 approve                # or: refuse "not this month"

A refusal is kept by the runtime, not by good will: the call is not made, and the loop goes on without it.
"""

from __future__ import annotations

import os
from pathlib import Path

from yaoki import INJECTED, Effect, Retry, Run, StepFailed, loop, tool

LEDGER = Path(os.environ.get("INVOICES_LEDGER", "paid.txt"))
LIMIT_CENTS = 100_000


@tool(effect=Effect.KEYED, retry=Retry(base_s=0.05), approve=lambda to, cents: cents > LIMIT_CENTS)
def pay(to: str, cents: int, *, idempotency_key: str = INJECTED) -> str:
    """Pay an invoice; the bank knows keys."""
    paid = LEDGER.read_text().splitlines() if LEDGER.exists() else []
    if not any(line.startswith(idempotency_key) for line in paid):
        with LEDGER.open("a") as ledger:
            ledger.write(f"{idempotency_key} {to} {cents}\n")
    return f"paid {to} {cents / 100:.2f}"


@loop
def pay_all(run: Run, invoices: list[tuple[str, int]]) -> list[str]:
    said: list[str] = []
    for to, cents in invoices:
        try:
            said.append(pay(to, cents))
        except StepFailed as error:  # refused: the reason is in the failure
            run.gap(f"{to} was not paid")
            said.append(f"not paid: {error.failure.message}")
    return said
