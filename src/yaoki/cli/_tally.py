"""What a store's runs did, added up tool by tool. Memory grows with tools and reasons, never with runs. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.cli._views_steps import identity
from yaoki.records import Begin, Checkpoint, Settle, Spend

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaoki.records import Entry, Failure, State

__all__ = ["Durations", "LoopTally", "Tally", "ToolTally"]

_REASONS_MAX = 100
"""Reasons counted for one tool; what comes after them is counted as `other`."""
_HEDGE = "!hedge."
_FINEST = 8
"""Buckets for each doubling of a duration: a percentile is off by at most a twelfth."""


class Durations(Struct, kw_only=True):
    """A histogram of milliseconds on a logarithmic scale."""

    buckets: Counter[int]

    @classmethod
    def empty(cls) -> Durations:
        """Return one with nothing in it."""
        return cls(buckets=Counter())

    def add(self, ms: int) -> None:
        """Count one."""
        self.buckets[int(math.log2(ms + 1) * _FINEST) if ms > 0 else 0] += 1

    def percentile(self, share: float) -> int:
        """Return milliseconds that so much of them does not exceed; -1 if there is nothing."""
        wanted = math.ceil(sum(self.buckets.values()) * share)
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return round(2 ** ((bucket + 0.5) / _FINEST) - 1) if bucket else 0
        return -1


class ToolTally(Struct, kw_only=True):
    """The steps of one tool."""

    tool: str
    steps: int = 0
    attempts: int = 0
    first_failed: int = 0
    """Steps whose first attempt failed."""
    ok: int = 0
    failed: int = 0
    """Steps that ended without a value."""
    open: int = 0
    """Steps under way, waiting, or in doubt."""
    waited_ms: int = 0
    """Before retries."""
    hedged: int = 0
    """Second calls beside slow attempts; what they cost is counted with the rest."""
    cost_usd: float = 0.0
    tokens: float = 0.0
    reasons: Counter[str]
    durations: Durations


class LoopTally(Struct, kw_only=True):
    """The runs of one loop that were looked at."""

    loop: str
    runs: int = 0
    attempts: int = 0
    turns: int = 0
    cost_usd: float = 0.0
    tokens: float = 0.0


class _Step(Struct, kw_only=True):
    """One step of the run being added."""

    tool: str
    begun_at: int = 0
    attempts: int = 0
    first_failed: bool = False
    end: str = ""


def _spend(of: ToolTally | LoopTally, amounts: dict[str, float] | None, sign: int) -> None:
    if amounts:
        of.cost_usd += sign * amounts.get("cost_usd", 0)
        of.tokens += sign * amounts.get("tokens", 0)


class Tally:
    """Fed with the records of one run after the other."""

    def __init__(self, *, since_ms: int = 0, tool: str = "") -> None:
        self.tools: dict[str, ToolTally] = {}
        self.loops: dict[str, LoopTally] = {}
        self.states: dict[str, Counter[State]] = {}
        """Runs by loop and state, all of them."""
        self._since_ms = since_ms
        self._tool = tool
        self._open: dict[str, Begin] = {}

    def add(self, loop: str, entries: Iterable[Entry]) -> None:
        """Add what one run has done since the time asked for."""
        steps: dict[str, _Step] = {}
        self._open.clear()
        of_loop = self.loops.setdefault(loop, LoopTally(loop=loop))
        seen = False
        for entry in entries:
            record = entry.record
            if record.at < self._since_ms:
                continue
            seen = True
            match record:
                case Begin() | Settle() if _HEDGE in entry.key:
                    self._hedged(entry.key, record, of_loop)
                case Begin() if "!" not in entry.key:
                    self._begin(steps, entry.key, record, of_loop)
                case Settle() if "!" not in entry.key:
                    self._settle(steps, entry.key, record, of_loop)
                case Spend():
                    of_loop.cost_usd += record.cost_usd
                    of_loop.tokens += record.tokens
                case Checkpoint():
                    of_loop.turns += 1
                case _:
                    pass
        of_loop.runs += seen
        for step in steps.values():
            self._close(step)

    def _hedged(self, key: str, record: Begin | Settle, loop: LoopTally) -> None:
        """Count a second call, and what it costs, with its step's tool."""
        begin = record if isinstance(record, Begin) else self._open.pop(key, None)
        if begin is None:
            return
        tool = begin.tool or identity(key).name
        counted: list[LoopTally | ToolTally] = [loop]
        if self._tool in ("", tool):
            counted.append(self._of(tool))
        if isinstance(record, Begin):
            self._open[key] = begin
            if len(counted) > 1:
                self._of(tool).hedged += 1
        elif record.used is None:
            return
        for of in counted:
            _spend(of, begin.reserved, 1 if isinstance(record, Begin) else -1)
            _spend(of, record.used if isinstance(record, Settle) else None, 1)

    def _begin(self, steps: dict[str, _Step], key: str, begin: Begin, loop: LoopTally) -> None:
        tool = begin.tool or identity(key).name
        loop.attempts += 1
        self._open[key] = begin
        _spend(loop, begin.reserved, 1)
        if self._tool not in ("", tool):
            return
        step = steps.setdefault(key, _Step(tool=tool))
        step.begun_at, step.end = begin.at, ""
        step.attempts += 1
        self._of(tool).attempts += 1
        _spend(self._of(tool), begin.reserved, 1)

    def _settle(self, steps: dict[str, _Step], key: str, settle: Settle, loop: LoopTally) -> None:
        begin = self._open.pop(key, None)
        used = settle.used if begin is not None else None  # else it is decided anew; none: it used what it reserved
        back = begin.reserved if begin is not None and used is not None else None
        _spend(loop, back, -1)
        _spend(loop, used, 1)
        step = steps.get(key)
        if step is None:
            return
        tally, failure = self._of(step.tool), settle.failure
        _spend(tally, back, -1)
        _spend(tally, used, 1)
        died = failure is not None and failure.reason == "process.died"
        if not died:
            tally.durations.add(max(settle.at - step.begun_at, 0))
        if settle.outcome == "ok":
            step.end = "ok"
            return
        if failure is not None:
            self._met(tally, failure)
            step.first_failed = step.first_failed or step.attempts == 1
        decision = settle.decision
        if decision is None or decision.do in ("rung", "end", "tell", "pass"):
            step.end = "failed"
        else:
            step.end = ""
            tally.waited_ms += decision.wait_ms

    def _met(self, tally: ToolTally, failure: Failure) -> None:
        known = failure.reason in tally.reasons or len(tally.reasons) < _REASONS_MAX
        tally.reasons[failure.reason if known else "other"] += 1

    def _close(self, step: _Step) -> None:
        tally = self._of(step.tool)
        tally.steps += 1
        tally.first_failed += step.first_failed
        if step.end == "ok":
            tally.ok += 1
        elif step.end:
            tally.failed += 1
        else:
            tally.open += 1

    def _of(self, tool: str) -> ToolTally:
        tally = self.tools.get(tool)
        if tally is None:
            tally = self.tools[tool] = ToolTally(tool=tool, reasons=Counter(), durations=Durations.empty())
        return tally
