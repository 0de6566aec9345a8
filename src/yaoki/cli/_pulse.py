"""A worker's pulse: what it is busy with, told to its supervisor about once a second. No typer, no rich."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, json

from yaoki.cli._report import Beat
from yaoki.clock import SystemClock
from yaoki.records import Begin, Claimed, Ended, Hold, Parked, Settle
from yaoki.runtime._base import driven_by

if TYPE_CHECKING:
    from yaoki.cli._report import Report
    from yaoki.events import Event
    from yaoki.runtime._base import Base

__all__ = ["Pulse"]

_EVERY_S = 1.0
_APART_S = 0.05
"""A run that was left is told at once, so that a death makes nobody forget it; but no more often than this."""
_FACTOR = 2
"""A worker is killed when an attempt has run twice its timeout: a call that cannot be interrupted in its thread."""


class _Attempt(Struct, frozen=True):
    call: str
    timeout_s: float
    since_s: float


class _Busy(Struct):
    """One run that is driven here."""

    heard_s: float
    moves: int
    attempts: dict[str, _Attempt]


class Pulse:
    """
    An observer of every run that this process drives, and a small thread that says what it knows.

    The thread needs the interpreter, so one that hangs in C code falls silent; how long that may last was said
    in the beat before.
    """

    def __init__(self, report_fd: int, *, hung_after_s: float) -> None:
        self._fd = report_fd
        self._hung_after_s = hung_after_s
        self._runners: tuple[Base, ...] = ()
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._runs: dict[str, _Busy] = {}
        self._settled = 0
        self._left: Counter[str] = Counter()
        self._ended = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._say, name="yaoki-pulse", daemon=True)

    def __call__(self, event: Event) -> None:
        """Take note of a record."""
        now_s = self._clock.monotonic_s()
        record = event.record
        with self._lock:
            if isinstance(record, (Ended, Parked)):
                self._runs.pop(event.run_id, None)
                self._left[record.state] += 1
                self._news.set()
                return
            busy = self._runs.get(event.run_id)
            if busy is None:
                busy = self._runs[event.run_id] = _Busy(now_s, 0, {})
            busy.heard_s = max(busy.heard_s, now_s)
            if isinstance(record, Claimed):
                busy.attempts.clear()
            elif isinstance(record, Begin):
                busy.attempts[event.key] = _Attempt(record.call, record.timeout_ms / 1000, now_s)
            elif isinstance(record, Hold):
                self._waits(busy, now_s, record.until - record.at)
            elif isinstance(record, Settle):
                busy.attempts.pop(event.key, None)
                self._waits(busy, now_s, record.decision.wait_ms if record.decision is not None else 0)
                failure = record.failure
                self._settled += failure is None or failure.reason != "process.died"

    def _waits(self, busy: _Busy, now_s: float, wait_ms: int) -> None:
        """Take note that a branch waits as it should: for so long, nothing is to be heard of it."""
        busy.heard_s = max(busy.heard_s, now_s + wait_ms / 1000)

    def start(self, *runners: Base) -> None:
        """Begin to beat for these runners. A run taken away from them leaves no record: they say what they drive."""
        self._runners = runners
        self._thread.start()

    def last(self, report: Report) -> None:
        """Say how it ended; no beat comes after that."""
        self._ended.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        os.write(self._fd, json.encode(report) + b"\n")

    @property
    def left(self) -> dict[str, int]:
        """How many runs were left, by where."""
        with self._lock:
            return dict(self._left)

    def beat(self) -> Beat:
        """Return what there is to say now."""
        now_s = self._clock.monotonic_s()
        patience_s = self._hung_after_s
        hung = ""
        driven = {run_id: moves for runner in self._runners for run_id, moves in driven_by(runner).items()}
        with self._lock:
            for run_id, busy in self._runs.items():
                if run_id not in driven:
                    continue
                if driven[run_id] != busy.moves:  # a replay writes nothing, and is no idleness
                    busy.moves = driven[run_id]
                    busy.heard_s = max(busy.heard_s, now_s)
                for attempt in busy.attempts.values():
                    limit_s = _FACTOR * attempt.timeout_s
                    left_s = limit_s - (now_s - attempt.since_s)
                    patience_s = max(patience_s, left_s)
                    if attempt.timeout_s and left_s <= 0:
                        hung = f"{attempt.call} has run {limit_s:g} s, twice its timeout, and cannot be interrupted"
                if not busy.attempts and now_s - busy.heard_s > self._hung_after_s:
                    hung = f"run {run_id} has done nothing for {self._hung_after_s:g} s between two steps"
            return Beat(
                patience_s=patience_s,
                settled=self._settled,
                active=len(driven),
                left=dict(self._left),
                hung=hung,
            )

    def _say(self) -> None:
        while True:
            os.write(self._fd, json.encode(self.beat()) + b"\n")
            if self._ended.wait(_APART_S):
                return
            self._news.wait(_EVERY_S - _APART_S)
            self._news.clear()
