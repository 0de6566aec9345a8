"""The async runner: the same runs, many at once in one event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Self, TypeVar

from yaoki.errors import DeclarationError, JournalError, Passing, RunBusy
from yaoki.records import ABSENT, State
from yaoki.runtime import _context
from yaoki.runtime._async import AsyncDriver
from yaoki.runtime._base import Base, loop_of, next_move
from yaoki.runtime._commits import Commits
from yaoki.runtime._concluding import Returned, conclude
from yaoki.runtime._drive import take_up, undo_all
from yaoki.runtime._live import Halt
from yaoki.runtime._run import AsyncRun
from yaoki.runtime._sync import POLL_S
from yaoki.runtime._work import LOOK_S, Docket, served_loops

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping
    from types import TracebackType

    from yaoki.journal import Claim
    from yaoki.records import Entry, Group
    from yaoki.runtime._live import Live
    from yaoki.runtime._loop import Bound, Loop
    from yaoki.runtime._receipt import Receipt
    from yaoki.runtime._work import Until

__all__ = ["AsyncRunner"]

R = TypeVar("R")


class AsyncRunner(Base):
    """
    Drives `async def` loops in the running event loop, any number at once; an async context manager.

    Arguments and errors are those of `Runner`.
    """

    async def __aenter__(self) -> Self:
        """Open the store and become a worker on it."""
        self._open()
        self._commits = Commits(self.store)
        self._driven: set[AsyncDriver] = set()
        self._watcher: asyncio.Task[None] | None = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sync and close the store; no correctness depends on it."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if self._telling is not None:
            await asyncio.to_thread(self._telling.stop, self._drain_s)
        self._close()

    async def run(self, bound: Bound[R], *, run_id: str | None = None) -> Receipt[R]:
        """
        Drive a run until it is final or waits for somebody, and return its receipt; through sleep it stays.

        Cancelled itself, it settles what was begun (cause `runner`), lets go of the run and leaves it pending. Told
        to `drain`, it lets what was begun settle, and returns the receipt. While the store is paused it waits.

        Raises:
            RunBusy: A living process drives it; nothing was changed.
            InputMismatch: The id is taken by another loop or other input; nothing was changed.
            JournalError: The journal cannot be written; the run stays as it was.
            DeclarationError: The loop is plain `def` (use Runner), or cannot work.
        """
        loop = loop_of(bound)
        if not loop.is_async:
            msg = f"loop {loop.name} is plain `def`; run it with Runner: runner.run(…)"
            raise DeclarationError(msg)
        loop.resolve()
        row = self._admit_run(bound, run_id)
        tried_code = joined = False
        live: Live | None = None
        while True:
            now_ms = self._clock.now_ms()
            move = next_move(row, now_ms, tried_code=tried_code, driven_here=live is not None)
            if move == "report" or self._draining:
                mine = live is not None and live.epoch == row.epoch
                return self._report(row.name, loop, live.history if live is not None and mine else None)
            if move == "sleep":
                joined = True
                await asyncio.sleep(min(POLL_S, max(0.0, (row.wake_ms - now_ms) / 1000)))
            elif (claim := self._claim(row, joined=joined)) is None:
                await asyncio.sleep(POLL_S / 10)
            else:
                tried_code = tried_code or (row.state is State.WAITING and row.waits_for == "code")
                live = await self._residency(claim, bound)
            row = self._on_store.row(row.name)

    async def submit(self, bound: Bound[R], *, run_id: str | None = None, group: str = "") -> Receipt[R]:
        """Create a run that a worker will drive, as `Runner.submit`."""
        return self._submit(bound, run_id, group)

    async def work(self, *loops: Loop[..., Any], until: Until = "stopped", concurrency: int = 16) -> dict[str, int]:
        """
        Take up runs of these async loops and drive them, as `Runner.work`, all in this event loop.

        Cancelled, it cancels what it drives, as `run` does. After `drain`, attempts in flight have `drain_s` to settle;
        what then has not is cancelled.
        """
        served = served_loops(loops, is_async=True, until=until, concurrency=concurrency)
        docket = Docket(self.store, served)
        tasks: set[asyncio.Task[None]] = set()
        until_s = 0.0
        try:
            while True:
                if not self._draining:
                    for claim in docket.take(concurrency - len(tasks)):
                        tasks.add(asyncio.create_task(self._drive_one(docket, claim)))
                if not tasks and (self._draining or until == "idle"):
                    return dict(docket.tally)
                if not tasks:
                    await asyncio.sleep(LOOK_S)
                    continue
                done, tasks = await asyncio.wait(tasks, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if self._draining:
                    until_s = until_s or self._clock.monotonic_s() + self._drain_s
                    if self._clock.monotonic_s() >= until_s:
                        await _cancel(tasks)
        finally:
            await _cancel(tasks)

    async def _drive_one(self, docket: Docket, claim: Claim) -> None:
        """Drive one claimed run, whatever becomes of it."""
        try:
            bound, halt = docket.call_of(claim)
            live = await self._residency(claim, bound, halt)
        except RunBusy:  # fenced: another process took it over
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one run's trouble is not the others'
            docket.put_aside(claim, error)
            return
        row = docket.driven(claim.row.name)
        if row is not None and row.state is State.WAITING:
            self._tell_waiting(row.name, bound.loop, live.history)

    def drain(self) -> None:
        """
        Begin and claim nothing more; `run` and `work` return when what is in flight has settled.

        Runs are left pending, and no crash is counted. To be called in the event loop, as a signal handler is that
        was added with `loop.add_signal_handler`.
        """
        self._stop.ask()
        if self._journal is None:  # not yet open, or no more: nothing is driven
            return
        for driver in list(self._driven):
            driver.halted()

    async def _residency(self, claim: Claim, bound: Bound[Any], halt: Halt | None = None) -> Live:
        """Drive a claimed run until it is final, waits or sleeps; with `halt`, only leave it as that says."""
        driver = AsyncDriver(self._commits)
        live = take_up(
            self.store,
            claim,
            bound.loop,
            limits=self._limits,
            clock=self._clock,
            driver=driver,
            pid=os.getpid(),
            observers=self._observers,
        )
        driver.live = live
        driver.branches.add(live.main)
        self._driven.add(driver)
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch())
        _context.note_driving(1)
        if halt is not None:
            live.stop_with(halt)
        self._stop.enter(live)
        try:
            returned = await self._body(live, bound, driver)
        finally:
            _context.note_driving(-1)
            self._stop.lives.discard(live)
            self._driven.discard(driver)
        self._commits.flush()
        try:
            conclude(live, returned)
        finally:
            live.detached = True
        return live

    async def _body(self, live: Live, bound: Bound[Any], driver: AsyncDriver) -> Returned:
        if live.halt is not None:
            return Returned(unfinished=True)
        task = asyncio.create_task(_loop(live, bound, restart=self._restart), name=f"yaoki {live.name}")
        live.main.owner = task
        try:
            await asyncio.wait({task, driver.quiet}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as stop:
            await self._let_go(live, driver, task)
            return Returned(error=stop)
        if not task.done():
            held = [*driver.held, *driver.plain.held]
            await self._let_go(live, driver, task)
            return Returned(held=held, unfinished=True)
        await self._settle_rest(driver)
        if task.cancelled():
            return _cancelled_loop(live)
        error = task.exception()
        if error is None and isinstance(ended := task.result(), _Exit):
            error = ended.error
        parked = isinstance(error, Passing) or (live.main.passing is not None and not live.broken)
        if parked and not live.detached:  # a plain tool's branch: it cannot be held, it unwinds
            return Returned(held=[*driver.held, *driver.plain.held], unfinished=True)
        if error is not None:
            stopped = live.halted or live.broken is not None
            return Returned(error=error, unfinished=stopped and not isinstance(error, Exception))
        return Returned(value=task.result(), unfinished=live.halted)

    async def _let_go(self, live: Live, driver: AsyncDriver, task: asyncio.Task[Any]) -> None:
        """Settle what was begun, then detach, then cancel the loop; bounded by `drain_s` if it will not end."""
        driver.stopping = live.stopping = True
        performing = set(driver.performing)
        for one in performing:
            one.cancel()
        if performing:
            await asyncio.wait(performing, timeout=self._limits.drain_s)
        self._commits.flush()
        live.detached = True
        while not task.done():
            task.cancel()
            _, pending = await asyncio.wait({task}, timeout=self._limits.drain_s)
            if pending:
                return
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report what stopped it

    async def _settle_rest(self, driver: AsyncDriver) -> None:
        """The loop ended with steps under way that it did not await: no call starts any more, those made settle."""
        driver.live.stopping = True
        self._commits.flush()
        if driver.attempting:
            await asyncio.wait(set(driver.attempting), timeout=self._limits.drain_s)
        driver.stopping = True
        for _ in range(2):
            performing = set(driver.performing)
            for task in performing:
                task.cancel()
            if performing:
                await asyncio.wait(performing, timeout=self._limits.drain_s)

    async def _watch(self) -> None:
        """Look for what is posted from outside."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                if self._driven and self.store.failed is None and self.store.changed():
                    for driver in list(self._driven):
                        driver.posted()
            except JournalError as error:
                for driver in list(self._driven):
                    driver.live.broken = error
                    driver.live.stop_with(Halt(to="drain", text=str(error)))
                    driver.halted()

    # --- verbs

    async def get(self, run_id: str) -> Receipt[Any]:
        """Return a run's receipt, at any time. RunNotFound if there is none."""
        return self._on_store.get(run_id)

    async def list(self, status: str | None = None) -> builtins.list[Receipt[Any]]:
        """Return receipts from the rows alone (no failures, no attempts), oldest first; at most 10,000."""
        return self._on_store.list(status)

    async def journal(self, run_id: str) -> builtins.list[Entry]:
        """Return a run's records, oldest first; what was posted from outside comes last."""
        return self._on_store.journal(run_id)

    async def answer(
        self, run_id: str, ask: str | None, verdict: str, value: object = ABSENT, *, by: str = ""
    ) -> Receipt[Any]:
        """Answer a question, as `Runner.answer`."""
        return self._on_store.answer(run_id, ask, verdict, value, by=by)

    async def cancel(self, run_id: str, *, compensate: bool = False, by: str = "") -> Receipt[Any]:
        """Order a run to stop, as `Runner.cancel`."""
        return self._on_store.cancel(run_id, compensate=compensate, by=by)

    async def top_up(self, run_id: str, *, by: str = "", **add: float) -> Receipt[Any]:
        """Add to a run's budget, as `Runner.top_up`."""
        return self._on_store.top_up(run_id, add, by=by)

    async def group(
        self, name: str, *, calls: int | None = None, tokens: int | None = None, cost_usd: float | None = None
    ) -> Group:
        """Set the budget of a group, as `Runner.group`."""
        return self._on_store.group(name, {"calls": calls, "tokens": tokens, "cost_usd": cost_usd})

    async def top_up_group(self, name: str, **add: float) -> Group:
        """Add to a group's budget, as `Runner.top_up_group`."""
        return self._on_store.top_up_group(name, add)

    async def groups(self) -> builtins.list[Group]:
        """Return the groups of the store and what they have spent, by name; at most 1,000."""
        return [*self.store.groups()]

    async def signal(self, run_id: str, name: str, value: object = ABSENT, *, by: str = "") -> Receipt[Any]:
        """Send a signal to a run, as `Runner.signal`."""
        return self._on_store.signal(run_id, name, value, by=by)

    async def pause(self, *, scope: str = "", by: str = "") -> None:
        """Put the brake on, as `Runner.pause`."""
        self.store.pause(by, scope=scope)

    async def unpause(self, *, scope: str = "") -> bool:
        """Take the brake off, as `Runner.unpause`; return whether it was on."""
        return self.store.unpause(scope=scope)

    async def discard(self, run_id: str, *, by: str = "") -> None:
        """Delete a final run and its records, as `Runner.discard`."""
        self.store.discard(run_id, by=by)

    async def redrive(
        self, run_id: str, source: str = "step", *, edits: Mapping[str, object] | None = None, by: str = ""
    ) -> Receipt[Any]:
        """Let a run go on, as `Runner.redrive`."""
        return self._on_store.redrive(run_id, source, edits=edits, by=by)


async def _loop(live: Live, bound: Bound[Any], *, restart: bool) -> Any:
    live.main.owner = asyncio.current_task()
    _context.enter(live.main)
    try:
        if live.compensating:
            driver: Any = live.driver
            await driver.drive(undo_all(live), live.main)
        return await bound.loop.entry(AsyncRun(live, restart_at_checkpoint=restart), **bound.values)
    except SystemExit as error:
        return _Exit(error)


class _Exit:
    """The loop asked for the end of the process; raised in a task, that would end the event loop and its other runs."""

    def __init__(self, error: SystemExit) -> None:
        self.error = error


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel what is driven and wait until it is let go of."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    tasks.clear()


def _cancelled_loop(live: Live) -> Returned:
    """The loop raised CancelledError although nobody cancelled the runner."""
    if live.halt is not None or live.detached:
        return Returned(unfinished=True)
    return Returned(error=RuntimeError("the loop ended by CancelledError, which nobody outside it ordered"))
