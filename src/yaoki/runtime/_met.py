"""The failures a run has met, and what was known of each when: part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.records import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.records import Failure
    from yaoki.runtime._past import Past
    from yaoki.runtime._receipt import Met

__all__ = ["Failures"]

_MOST = 1_000


class _Told(Struct, eq=False):
    past: Past
    met: Met
    said: list[tuple[int, Failure]]
    """What it was said to be, each from a record of the driver on."""


class Failures:
    """In the order they were met; at most 1,000, the oldest."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: list[_Told] = []

    def add(self, seq: int, past: Past, met: Met) -> None:
        """Note one, met at that record."""
        if len(self._told) < _MOST:
            self._told.append(_Told(past, met, [(seq, met.failure)]))

    def decided_anew(self, seq: int, past: Past, attempt: int, failure: Failure, then: str) -> bool:
        """Correct what was met of an attempt that is settled a second time; return whether it was met before."""
        for one in reversed(self._told):
            if one.past is past and one.met.attempt == attempt:
                one.met.failure, one.met.then = failure, then
                one.said.append((seq, failure))
                return True
        return False

    def met(self) -> list[tuple[Past, Met]]:
        """Return each with its step, oldest first."""
        return [(one.past, one.met) for one in self._told]

    def listed(self) -> list[Met]:
        """Return them as the receipt shows them."""
        for one in self._told:
            one.met.healed = one.past.settled
        return [one.met for one in self._told]

    def by(self, seq: int, replayed: Callable[[str], bool]) -> list[Failure]:
        """
        Return what had been met by that record, as it was known then, of the steps that are replayed.

        Deaths of the process are left out: they are not the loop's.
        """
        found: list[Failure] = []
        for one in self._told:
            failure = next((said for since, said in reversed(one.said) if since <= seq), None)
            if failure is None or failure.scope is Scope.PROCESS:
                continue
            if replayed(one.past.step.split("!", 1)[0]):
                found.append(failure)
        return found
