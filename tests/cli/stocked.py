"""A store with runs in every state, made by the journal alone: no loop is run for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.journal.store import StillClock
from yaoki.clock import SystemClock
from yaoki.journal import Journal
from yaoki.records import (
    Begin,
    Decision,
    Effect,
    Ended,
    Executed,
    Failure,
    FailureKind,
    Question,
    Settle,
    Spend,
    State,
)

if TYPE_CHECKING:
    from yaoki.records import Record

DAY_MS = 86_400_000
ASK = "1.0//ask_model#0"


def failure(reason: str, message: str = "") -> Failure:
    return Failure(
        kind=FailureKind.PERMANENT,
        reason=reason,
        message=message,
        executed=Executed.NO,
        fingerprint=f"{reason} {message}",
    )


class Stock:
    """Fills a store; times are `ago_ms` before now."""

    def __init__(self, path: Path) -> None:
        self.group = ""
        self.clock = StillClock()
        self.now_ms = SystemClock().now_ms()
        self.clock.ms = self.now_ms
        self.journal = Journal.open(f"sqlite:///{path}", clock=self.clock)

    def close(self) -> None:
        self.journal.close()

    def begun(self, name: str, *, loop: str = "refund", ago_ms: int = 0) -> tuple[int, int]:
        self.clock.ms = self.now_ms - ago_ms
        row = self.journal.create(name, loop=loop, input=b"{}", file="/srv/agents.py", group=self.group)
        return row.id, self.journal.claim(row.id).row.epoch

    def steps(self, *failures: Failure, took_ms: int = 100, tool: str = "ask_model") -> list[tuple[str, Record]]:
        """Return a step that failed so often and then went well; or, if the last failure ends it, did not."""
        at, key = self.clock.ms, f"1.0//{tool}#0"
        records: list[tuple[str, Record]] = []
        for n, one in enumerate(failures, 1):
            last = n == len(failures) and one.kind is FailureKind.PERMANENT
            then = Decision(do="rung") if last else Decision(do="retry", wait_ms=500, next_at=at)
            records.append((key, Begin(at=at, attempt=n, call=f"{tool}()", effect=Effect.READ_ONLY)))
            records.append((key, Settle(at=at + took_ms, attempt=n, outcome="failed", failure=one, decision=then)))
        if not (failures and failures[-1].kind is FailureKind.PERMANENT):
            records.append((key, Begin(at=at, attempt=len(failures) + 1, call=f"{tool}()", effect=Effect.READ_ONLY)))
            records.append((key, Settle(at=at + took_ms, attempt=len(failures) + 1)))
        return records

    def ended(self, name: str, state: State, *, loop: str = "refund", ago_ms: int = 0, **end: object) -> None:
        run, epoch = self.begun(name, loop=loop, ago_ms=ago_ms)
        records = [*self.steps(), ("", Ended(at=self.clock.ms, state=state.value, **end))]
        self.journal.leave(run, epoch, 0, records, state=state, note=str(end.get("note", "")))

    def died(self, name: str, reason: str, message: str = "", *, loop: str = "refund", ago_ms: int = 0) -> None:
        run, epoch = self.begun(name, loop=loop, ago_ms=ago_ms)
        why = failure(reason, message)
        records = self.steps(why)
        records.append(("", Ended(at=self.clock.ms, state="dead", failure=why, step=ASK, stopped_by="step")))
        self.journal.leave(run, epoch, 0, records, state=State.DEAD, note=f"ask_model: {reason} {message}")

    def parked(self, name: str, state: State, *, loop: str = "refund", ago_ms: int = 0, **left: object) -> None:
        run, epoch = self.begun(name, loop=loop, ago_ms=ago_ms)
        self.journal.leave(run, epoch, 0, self.steps(), state=state, **left)

    def asked(self, name: str, state: State, *, ago_ms: int = 0) -> None:
        """Make a run in that state with a question open which its row does not tell of."""
        run, epoch = self.begun(name, ago_ms=ago_ms)
        at = self.clock.ms
        asked = Question(at=at, id="q1", why="doubt", text=f"did {name} happen?", expires_at=at + 7 * DAY_MS)
        records = [
            (ASK, Begin(at=at, call="charge(5)")),
            (ASK, asked),
            ("", Ended(at=at, state=state.value)),
        ]
        self.journal.leave(run, epoch, 0, records, state=state)

    def spent(self, name: str, cost_usd: float) -> None:
        run, epoch = self.begun(name)
        records = [*self.steps(), ("", Spend(at=self.clock.ms, cost_usd=cost_usd, tokens=10))]
        self.journal.leave(run, epoch, 0, records, state=State.COMPLETED)


def ids(found) -> list[str]:
    return [one["run_id"] for one in found]
