"""
Is a model going in circles? Pure: what it did is a list of signatures, a decision a look at its end.

A signature is a call and what came of it: tool, arguments, and the result without what changes by itself (times, ids,
durations). A changed result is progress. A cycle is one to five calls repeated; after its second round the model is
told, a call that goes on with it is refused, and after the third round it is over.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

__all__ = ["PERIOD_MAX", "StallGuard", "action_of", "normalised", "signature_of"]

PERIOD_MAX = 5
"""Calls in the longest cycle that is looked for."""
_PERIOD_MOST = 20
_ROUNDS_LEAST, _ROUNDS_MOST = 2, 100
_RESULT_MAX = 200_000
_VOLATILE = re.compile(
    r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?)?"  # dates and times
    r"|\b\d{1,2}:\d\d:\d\d([.,]\d+)?\b"
    r"|\b[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"  # UUIDs
    r"|\b0x[0-9a-fA-F]{6,}\b"  # addresses
    r"|\b(req|run|trace|span|msg|call|toolu)_[0-9A-Za-z]{8,}\b"  # ids of requests
    r"|\b1[0-9]{9}([.][0-9]+|[0-9]{3})?\b"  # seconds and milliseconds since 1970
    r"|\b\d+([.,]\d+)?\s?(µs|us|ms|s|sec|secs|seconds|min|minutes)\b"  # how long it took
    r"|\bpid[ =:]\d+\b"
)
_SPACE = re.compile(r"\s+")


def action_of(tool: str, args: object) -> str:
    """Return what two equal calls have in common."""
    text = json.dumps(args, sort_keys=True, default=repr, separators=(",", ":"))
    return blake2b(f"{tool}\0{text}".encode("utf-8", "replace"), digest_size=6).hexdigest()


def signature_of(action: str, result: str) -> str:
    """Return what two equal calls with equal results have in common; at most its first 200,000 characters count."""
    return f"{action}:{blake2b(normalised(result).encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


def normalised(result: str) -> str:
    """Return a result without what changes by itself: order of JSON's keys, spacing, times, ids, durations."""
    text = result[:_RESULT_MAX]
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), sort_keys=True)
    return _SPACE.sub(" ", _VOLATILE.sub("~", text)).strip()


class StallGuard(Struct, frozen=True, kw_only=True):
    """
    When a cycle is told to the model, refused, and over.

    Raises:
        ValueError: Rounds that are not in that order.
    """

    told_after: int = 2
    """Rounds after which the model is told."""
    over_after: int = 3
    """Rounds after which the loop is over; from `told_after` on, calls that go on with the cycle are refused."""
    period_max: int = PERIOD_MAX
    """Calls in the longest cycle that is looked for: 1 to 20."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        ordered = _ROUNDS_LEAST <= self.told_after < self.over_after <= _ROUNDS_MOST
        if not ordered or not 1 <= self.period_max <= _PERIOD_MOST:
            msg = (
                f"StallGuard(told_after={self.told_after}, over_after={self.over_after}, "
                f"period_max={self.period_max}): at least 2 rounds, told before it is over, a period of 1 to 20"
            )
            raise ValueError(msg)

    @property
    def kept(self) -> int:
        """How many signatures it needs to see."""
        return self.period_max * self.over_after

    def refused(self, seen: list[str], action: str) -> str:
        """
        Return the signature by which a call would go on with a cycle that was told already; else nothing.

        Args:
            seen: Signatures of the calls so far, oldest first.
            action: The call that is to be made.
        """
        for period in self._periods(seen):
            if self._rounds(seen, period) >= self.told_after and seen[-period].partition(":")[0] == action:
                return seen[-period]
        return ""

    def look(self, seen: list[str]) -> Literal["", "told", "over"]:
        """Return what is to be done after the calls so far."""
        rounds = max((self._rounds(seen, period) for period in self._periods(seen)), default=0)
        if rounds >= self.over_after:
            return "over"
        return "told" if rounds >= self.told_after else ""

    def cycle(self, seen: list[str]) -> int:
        """Return the period of the cycle that the calls so far end with, the shortest; 0 without one."""
        return next((p for p in self._periods(seen) if self._rounds(seen, p) >= self.told_after), 0)

    def _periods(self, seen: list[str]) -> range:
        return range(1, min(self.period_max, len(seen)) + 1)

    def _rounds(self, seen: list[str], period: int) -> int:
        """Return how often the last `period` calls stand there, one round after the other."""
        last, rounds = seen[-period:], 1
        while rounds < self.over_after:
            end = len(seen) - rounds * period
            if end < period or seen[end - period : end] != last:
                break
            rounds += 1
        return rounds
