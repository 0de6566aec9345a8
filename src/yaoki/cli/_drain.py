"""
A runner that can be told to stop: it begins and claims nothing more, and lets what is in flight settle.

The run is left `pending`, as an ordered end: no crash is counted, nothing is in doubt. Whoever told it
kills the process when that takes too long; nothing correct depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.clock import SystemClock
from yaoki.records import State
from yaoki.runtime import Runner
from yaoki.runtime._live import Halt

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.journal import Claim, RunRow
    from yaoki.runtime import Bound
    from yaoki.runtime._drive import Returned
    from yaoki.runtime._live import Live
    from yaoki.runtime._sync import SyncDriver

__all__ = ["HALT", "Drained", "DrainingRunner", "raise_if_moving"]

HALT = Halt(to="drain", text="its process was told to stop")
_MOVING = (State.PENDING, State.RUNNING, State.SLEEPING)


class Drained(Exception):  # noqa: N818 - an ending, not an error
    """The runner was told to stop, and the run is left for whoever goes on with it."""


class _Clock(SystemClock):
    """The machine's clock; a runner told to stop does not sleep on between two residencies of its run."""

    def __init__(self) -> None:
        super().__init__()
        self.draining = False
        self.driving = False

    def sleep(self, delay_s: float) -> None:
        """Block, unless nothing is driven and nothing is to be claimed."""
        if self.draining and not self.driving:
            raise Drained
        super().sleep(delay_s)


class DrainingRunner(Runner):
    """
    A sync runner for one run; `drain` may be called in a signal handler.

    `entering` is called once, between the first claim and user code.
    """

    def __init__(self, store: str, entering: Callable[[], None]) -> None:
        self._entering: Callable[[], None] | None = entering
        self._own = _Clock()
        super().__init__(store, clock=self._own)
        self._driven: Live | None = None

    def drain(self) -> None:
        """Begin and claim nothing more; `run` raises `Drained` when what is in flight has settled."""
        self._own.draining = True
        if self._driven is not None:
            self._driven.stop_with(HALT)

    def _claim(self, row: RunRow, *, joined: bool) -> Claim | None:
        if self._own.draining:
            raise Drained
        return super()._claim(row, joined=joined)

    def _drive(self, claim: Claim, bound: Bound[Any]) -> Live:
        self._own.driving = True
        try:
            live = super()._drive(claim, bound)
        finally:
            self._own.driving = False
            self._driven = None
        if self._own.draining:
            raise_if_moving(self.store.get(claim.row.name))
        return live

    def _body(self, live: Live, bound: Bound[Any], driver: SyncDriver) -> Returned:
        self._driven = live
        if self._entering is not None:
            self._entering()
            self._entering = None
        if self._own.draining:
            live.stop_with(HALT)
        return super()._body(live, bound, driver)


def raise_if_moving(row: RunRow | None) -> None:
    """Raise `Drained` unless the run has come to rest."""
    if row is not None and row.state in _MOVING:
        raise Drained
