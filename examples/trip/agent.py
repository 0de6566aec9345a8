"""
A trip that is booked whole or not at all: if the card is declined, what was booked is given back, newest first.

    TRIP_CARD=declined yaoki run examples/trip/agent.py:book_trip --input '"Lisbon"' --run-id trip-1

Kill it anywhere, also while it gives things back: each booking and each undoing happens once, by its key. What could
not be undone stands on the receipt of a dead run, to be done by hand.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from yaoki import INJECTED, Effect, Retry, Run, TerminalError, loop, tool
from yaoki.escalate import compensate

DESK = Path(os.environ.get("TRIP_LOG", "trip.jsonl"))
QUICK = Retry(base_s=0.05, attempts_max=4)


def act(what: str, key: str) -> str:
    """Do something at the receiver, which knows keys: the second time it only says what it said."""
    done = [json.loads(line) for line in DESK.read_text().splitlines()] if DESK.exists() else []
    if not any(one["key"] == key for one in done):
        with DESK.open("a") as log:
            log.write(json.dumps({"what": what, "key": key}) + "\n")
    return f"{what}:{key[:6]}"


@tool(effect=Effect.KEYED, retry=QUICK)
def cancel_flight(booking: str, city: str, *, idempotency_key: str = INJECTED) -> None:
    act(f"cancel flight to {city}", idempotency_key)


@tool(effect=Effect.KEYED, retry=QUICK, undo=cancel_flight)
def book_flight(city: str, *, idempotency_key: str = INJECTED) -> str:
    return act(f"flight to {city}", idempotency_key)


@tool(effect=Effect.KEYED, retry=QUICK)
def cancel_hotel(booking: str, city: str, nights: int, *, idempotency_key: str = INJECTED) -> None:
    act(f"cancel hotel in {city}", idempotency_key)


@tool(effect=Effect.KEYED, retry=QUICK, undo=cancel_hotel)
def book_hotel(city: str, nights: int, *, idempotency_key: str = INJECTED) -> str:
    return act(f"hotel in {city}", idempotency_key)


@tool(effect=Effect.KEYED, retry=QUICK, escalate=[compensate()])
def charge(cents: int, *, idempotency_key: str = INJECTED) -> str:
    if os.environ.get("TRIP_CARD") == "declined":
        raise TerminalError("the card was declined", happened=False)
    return act(f"charge {cents}", idempotency_key)


@loop
def book_trip(run: Run, city: str) -> dict[str, str]:
    flight, hotel = book_flight(city), book_hotel(city, nights=3)
    return {"flight": flight, "hotel": hotel, "payment": charge(64_000)}
