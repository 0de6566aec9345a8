"""Receipts and entries made by hand: the run of the manual's mock-up, and one in every other state."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Raw

from yaoki.cli._views_text import Commands, Line, Now, plain
from yaoki.records import (
    Begin,
    Checkpoint,
    Claimed,
    Decision,
    Effect,
    Entry,
    Executed,
    Failure,
    FailureKind,
    Question,
    Settle,
    Spent,
    State,
)
from yaoki.runtime._receipt import Ask, Met, Receipt


def at(clock: str, day: int = 30) -> int:
    """Return milliseconds of a time on a day of November 2026, UTC: `02:14:08` or `02:14:08.4`."""
    whole, _, part = clock.partition(".")
    when = datetime.strptime(f"2026-11-{day:02d} {whole}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return int(when.timestamp()) * 1000 + int((part or "0").ljust(3, "0"))


NOW = Now(now_ms=at("03:05:08"), zone=UTC)
COMMANDS = Commands()

DIED = Failure(kind=FailureKind.TRANSIENT, reason="process.died", executed=Executed.MAYBE)
OVERLOADED = Failure(kind=FailureKind.OVERLOADED, reason="http.529", executed=Executed.NO)
REVOKED = Failure(
    kind=FailureKind.PERMANENT,
    reason="http.401",
    message="key revoked",
    executed=Executed.NO,
    hint="Give it another key.",
)


def text(lines: list[Line]) -> str:
    """Return a view as a pipe gets it."""
    return "\n".join(plain(line) for line in lines)


def doubt_entries() -> list[Entry]:
    """Return the journal of a run whose charge is in doubt."""
    ask, find, charge = "1.6//ask_model#0", "1.6/c[0]/find_order#0", "1.6/c[1]/charge#0"
    retry = Decision(do="retry", next_at=at("02:13:56"), wait_ms=4_200)
    return [
        Entry(1, "", Claimed(at=at("02:10:00"), epoch=1, worker=1, pid=4127)),
        Entry(2, "1.5", Checkpoint(at=at("02:13:49"), turn=5, state=Raw(b"{}"))),
        Entry(3, ask, Begin(at=at("02:13:50"), call="ask_model([…])", effect=Effect.READ_ONLY, timeout_ms=120_000)),
        Entry(4, ask, Settle(at=at("02:13:51"), outcome="failed", failure=OVERLOADED, decision=retry)),
        Entry(5, ask, Begin(at=at("02:13:58"), attempt=2, call="ask_model([…])", effect=Effect.READ_ONLY)),
        Entry(6, ask, Settle(at=at("02:14:01.1"), attempt=2, value=Raw(b'"hm"'))),
        Entry(7, find, Begin(at=at("02:14:07"), call='find_order(order_id="A-1009")', effect=Effect.READ_ONLY)),
        Entry(8, find, Settle(at=at("02:14:07.2"), value=Raw(b"{}"))),
        Entry(
            9,
            charge,
            Begin(at=at("02:14:07.3"), call='charge(order_id="A-1009", cents=4200)', undeclared=True, key="k" * 40),
        ),
        Entry(10, "", Claimed(at=at("02:14:07.9"), epoch=2, worker=2, pid=4200, deaths=1)),
        Entry(11, charge, Settle(at=at("02:14:08"), outcome="failed", failure=DIED, decision=Decision(do="ask"))),
        Entry(12, charge, Question(at=at("02:14:08"), id="q1", why="doubt", text="did it happen?")),
    ]


def doubt(**changes: object) -> Receipt:
    """Return the receipt of that run."""
    ask = Ask(
        id="q1",
        why="doubt",
        text="did charge(A-1009, 4200) happen?",
        step="1.6/c[1]/charge#0",
        call='charge(order_id="A-1009", cents=4200)',
        attempt=1,
        attempts_max=8,
        type="str",
        schema={"type": "string"},
        asked_at=at("02:14:08"),
        expires_at=at("02:14:08") + 7 * 86_400_000,
    )
    fields: dict[str, object] = {
        "run_id": "ticket-17",
        "loop": "refund_agent",
        "status": State.WAITING,
        "asks": [ask],
        "spent": Spent(turns=6, retries=3, cost_usd=0.41),
        "budget": {"turns": 40, "retries": 50, "cost_usd": 2.0},
        "turn": 6,
        "attempts": 4,
        "restarts": 1,
        "created_at": at("02:10:00"),
        "started_at": at("02:10:00"),
        "waits_for": "person",
        "waiting_since": at("02:14:08"),
        "text": "did charge(A-1009, 4200) happen?",
        "next_action": "yaoki show ticket-17",
        "file": "/srv/agents.py",
    }
    return Receipt(**{**fields, **changes})


def receipt(run_id: str, status: State, **changes: object) -> Receipt:
    """Return a receipt with nothing more than its state needs."""
    fields: dict[str, object] = {
        "run_id": run_id,
        "loop": "refund_agent",
        "status": status,
        "created_at": at("02:00:00"),
        "started_at": at("02:00:00"),
    }
    if status.final:
        fields["ended_at"] = at("02:31:00")
    return Receipt(**{**fields, **changes})


def met(step: str, attempt: int, failure: Failure, then: str, *, healed: bool = False) -> Met:
    """Return a failure that a run met."""
    return Met(
        step=step,
        call="ask_model([…])",
        attempt=attempt,
        at=at("02:30:00") + attempt * 1000,
        failure=failure,
        then=then,
        healed=healed,
    )
