"""The async runner that can be told to stop, as `_drain` has the sync one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from yaoki.cli._drain import HALT, Drained, raise_if_moving
from yaoki.runtime._async_runner import AsyncRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.journal import Claim, RunRow
    from yaoki.runtime import Bound, Receipt
    from yaoki.runtime._async import AsyncDriver
    from yaoki.runtime._drive import Returned
    from yaoki.runtime._live import Live

__all__ = ["DrainingAsyncRunner"]


class DrainingAsyncRunner(AsyncRunner):
    """
    An async runner for one run; `drain` is called in its event loop.

    `entering` is called once, between the first claim and user code.
    """

    def __init__(self, store: str, entering: Callable[[], None]) -> None:
        self._entering: Callable[[], None] | None = entering
        super().__init__(store)
        self._draining = False
        self._driving = False
        self._main: asyncio.Task[Any] | None = None
        self._at: tuple[Live, AsyncDriver] | None = None

    async def run_one(self, bound: Bound[Any], run_id: str) -> Receipt[Any]:
        """Drive the run as `run` does; raises `Drained` once told to stop and what was in flight has settled."""
        self._main = asyncio.current_task()
        try:
            return await self.run(bound, run_id=run_id)
        except asyncio.CancelledError:
            if self._draining:
                raise Drained from None
            raise

    def drain(self) -> None:
        """Begin and claim nothing more."""
        self._draining = True
        if self._at is not None:
            live, driver = self._at
            live.stop_with(HALT)
            driver.halted()
        elif not self._driving and self._main is not None:
            self._main.cancel()

    def _claim(self, row: RunRow, *, joined: bool) -> Claim | None:
        if self._draining:
            raise Drained
        return super()._claim(row, joined=joined)

    async def _drive(self, claim: Claim, bound: Bound[Any]) -> Live:
        self._driving = True
        try:
            live = await super()._drive(claim, bound)
        finally:
            self._driving = False
            self._at = None
        if self._draining:
            raise_if_moving(self.store.get(claim.row.name))
        return live

    async def _body(self, live: Live, bound: Bound[Any], driver: AsyncDriver) -> Returned:
        self._at = live, driver
        if self._entering is not None:
            self._entering()
            self._entering = None
        if self._draining:
            live.stop_with(HALT)
        return await super()._body(live, bound, driver)
