"""One step performed in the event loop: its effects, one after the other, and what a cancel makes of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from yaoki.classify import is_control_flow
from yaoki.errors import Fenced, JournalError, Passing
from yaoki.records import Cause, Settle
from yaoki.runtime import _context
from yaoki.runtime._alone import AttemptTimeout
from yaoki.runtime._attempt import barrier_of, call_of
from yaoki.runtime._deadlines import bounded, dressed_cancel
from yaoki.runtime._effects import Barrier, Call, Enter, Raised, Steps, Suspend, Wait, Write
from yaoki.runtime._entering import enter_inline
from yaoki.runtime._hedging import pace_of
from yaoki.runtime._hedging_async import ToolCancelled, hedged
from yaoki.runtime._ladder import Made, begin_at_once, ladder
from yaoki.runtime._settling import Kept, judge
from yaoki.runtime._sync import commit_inline, leave_cut, not_made, pay

if TYPE_CHECKING:
    from yaoki.policy import Admission
    from yaoki.runtime._async import AsyncDriver
    from yaoki.runtime._live import Branch
    from yaoki.runtime._step import Step

__all__ = ["Performance", "ToolCancelled"]


class Performance:
    """One step being performed."""

    __slots__ = ("_branch", "_cancelled", "_driver", "_step", "_steps")

    def __init__(self, driver: AsyncDriver, step: Step | None, branch: Branch, steps: Steps | None = None) -> None:
        self._driver = driver
        self._step = step
        self._steps = steps
        self._branch = branch
        self._cancelled: BaseException | None = None

    async def run(self) -> Any:
        """Perform effects until the step returns or raises; a cancel settles what was begun first."""
        driver, branch = self._driver, self._branch
        if driver.live.stopping:
            raise Fenced(f"run {driver.live.name} is no longer driven here")
        driver.enter_op(branch)
        task = asyncio.current_task()
        assert task is not None
        driver.performing.add(task)
        try:
            if branch.overdue():
                await asyncio.sleep(0)  # steps that never suspend would keep the timeout's timer waiting
            value = await self._perform()
            if self._cancelled is not None:
                raise self._cancelled
        except asyncio.CancelledError:
            driver.note_cut(branch)
            if self._step is not None and driver.cause_of(branch)[0] is Cause.TIMEOUT:
                driver.commits.flush()
                leave_cut(driver.live, self._step.key)
            raise
        finally:
            driver.performing.discard(task)
            if self._step is not None:
                driver.live.driven.discard(self._step.key)
                driver.wake_joined(self._step.key)
            driver.leave_op(branch)
        return value

    async def _perform(self) -> Any:
        """Bring the step to its outcome; a new one that nothing stands in the way of takes no ladder."""
        live, step = self._driver.live, self._step
        if step is None:
            assert self._steps is not None
            return await self._drive(self._steps)
        live.driven.add(step.key)
        alone = self._driver.commits.alone
        if not alone:
            self._driver.commits.look()
        begin = begin_at_once(live, step)
        if begin is None:
            return await self._drive(ladder(live, step))
        if not alone:
            live.scopes.begun(step)
            await self._write(Write(step.key, begin, barrier_of(begin)))
        elif await self._enter(Enter(step, begin, barrier_of(begin)), clear=True) is not None:
            return await self._drive(ladder(live, step))
        outcome = await self._call(call_of(step, None, begin, begin.at))
        kept = judge(live, step, begin, outcome)
        if type(kept) is Kept:
            await self._write(Write(step.key, kept.settle, kept.barrier))
            return kept.value
        return await self._drive(ladder(live, step, Made(begin, outcome, kept)))

    async def _drive(self, steps: Steps) -> Any:
        try:
            effect = next(steps)
            while True:
                if isinstance(effect, Write):
                    await self._write(effect)
                    effect = steps.send(None)
                elif isinstance(effect, Enter):
                    effect = steps.send(await self._enter(effect))
                elif isinstance(effect, Call):
                    effect = steps.send(await self._call(effect))
                else:
                    await self._stay(effect)
                    effect = steps.send(None)
        except StopIteration as stop:
            return stop.value
        finally:
            steps.close()

    async def _stay(self, effect: Wait | Suspend) -> None:
        """Wait for a time, or for somebody."""
        if self._cancelled is not None:
            raise self._cancelled
        if isinstance(effect, Wait):
            await self._driver.wait_until(effect.until_ms, effect.reason, self._branch, through=effect.through)
        else:
            await self._driver.hold(effect, self._branch)

    async def _enter(self, enter: Enter, *, clear: bool = False) -> Admission | None:
        """Append a begin that may be refused in its own transaction; what is pending goes before it."""
        driver = self._driver
        driver.commits.flush()
        refused = enter_inline(driver.live, enter.step, enter.begin, Barrier.WRITTEN, clear=clear)
        if refused is None and enter.barrier is Barrier.SYNCED and self._cancelled is None:
            try:
                await driver.commits.synced()
            except JournalError as error:
                driver.live.broken = error
                raise
            except asyncio.CancelledError as error:
                self._cancelled = error
        return refused

    async def _write(self, write: Write) -> None:
        live = self._driver.live
        commits = self._driver.commits
        if self._cancelled is not None or self._stands_alone(write):
            commits.flush()
            commit_inline(live, write.key, write.record, write.barrier)
            if self._driver.held:
                self._driver.settled(write.key, write.record)
            return
        if live.detached:
            raise Fenced(f"run {live.name} is no longer driven here")
        seq = live.note(write.key, write.record)
        try:
            await commits.commit(live, seq, write.key, write.record, write.barrier)
        except asyncio.CancelledError as error:
            commits.flush()
            self._cancelled = error
        except JournalError as error:
            live.broken = error
            raise
        except BaseException:
            # Fenced; or Ctrl-C between folding and writing: nothing more is written, as after a death.
            live.detached = True
            raise
        live.show(write.key, write.record)
        if live.owed and isinstance(write.record, Settle):
            commits.flush()
            pay(live, write.key)
        if self._driver.held:
            self._driver.settled(write.key, write.record)

    def _stands_alone(self, write: Write) -> bool:
        """Whether this is a settle with a transaction of its own: nobody writes beside it, or it changes a scope."""
        if type(write.record) is not Settle:
            return False
        live, commits = self._driver.live, self._driver.commits
        if commits.alone and write.barrier is not Barrier.SYNCED:
            return True
        commits.look()
        return not live.scopes.plain(write.key, write.record)

    async def _call(self, call: Call) -> object:
        driver, step = self._driver, call.step
        unmade = self._unmade(call)
        if unmade is not None:
            return unmade
        task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        driver.attempting.add(task)
        token = _context.enter(_context.InAttempt(step))
        try:
            if step.tool.pace is not None:
                return await self._paced(call)
            extra = call.injected or {}
            return await bounded(step.tool.fn(*step.given, **step.named, **extra), call.timeout_s)
        except Passing:
            raise
        except AttemptTimeout as error:
            return Raised(error, timed_out=True)
        except asyncio.CancelledError as error:
            if not task.cancelling():
                return Raised(ToolCancelled(f"{step.tool.name} raised CancelledError by itself"))
            return self._cut(error)
        except BaseException as error:  # noqa: BLE001 - settled and decided about
            return self._raised(error, step, task.cancelling() - cancelling)
        finally:
            _context.leave(token)
            driver.attempting.discard(task)
            self._look_for_cancel(step, task.cancelling() - cancelling)

    def _raised(self, error: BaseException, step: Step, cancels: int) -> Raised:
        """Return what an attempt raised, for its ladder; what came of beginning a second call passes on."""
        live = self._driver.live
        if live.broken is error or (live.detached and not isinstance(error, Exception)):
            raise error
        if not isinstance(error, Exception):
            self._cancelled = error
            return Raised(error, cause=Cause.RUNNER)
        if cancels > 0 and dressed_cancel(error):
            cut = asyncio.CancelledError(f"{step.tool.name} answered its cancel with {type(error).__name__}")
            cut.__cause__ = error
            return self._cut(cut)
        return Raised(error, cause=Cause.LOOP) if is_control_flow(error) else Raised(error)

    async def _paced(self, call: Call) -> object:
        """Make an attempt that is measured, with a second call beside it where it is slow."""
        step, clock, pace = call.step, self._driver.live.clock, pace_of(call)
        after_s = None if pace is None else pace.begun()
        started_s = clock.monotonic_s()
        outcome: Any
        if pace is None or after_s is None:
            extra = call.injected or {}
            outcome = await bounded(step.tool.fn(*step.given, **step.named, **extra), call.timeout_s)
        else:
            outcome = await hedged(self._driver, call, pace, after_s)
        if type(outcome) is Raised:
            if outcome.cause is Cause.RUNNER:
                self._cancelled = outcome.error
        elif pace is not None:
            pace.took(clock.monotonic_s() - started_s)
        return outcome

    def _unmade(self, call: Call) -> Raised | None:
        """Return what comes of an attempt that was begun and is not to be made; None: make it."""
        live = self._driver.live
        if live.stopping:
            self._cancelled = self._cancelled or asyncio.CancelledError("the run is let go of")
        if self._cancelled is not None:
            return self._cut(self._cancelled, started=False)
        return not_made(call) if call.step.changed else None

    def _look_for_cancel(self, step: Step, cancels: int) -> None:
        """Go on with a `run.timeout`'s cancel that a tool has answered: what it gave is kept, but the block is over."""
        if cancels > 0 and self._cancelled is None and self._driver.cause_of(self._branch)[0] is Cause.TIMEOUT:
            self._cancelled = asyncio.CancelledError(f"{step.tool.name} answered its cancel")

    def _cut(self, error: BaseException, *, started: bool = True) -> Raised:
        """Settle the attempt as cancelled from outside; the cancel goes on once that is written."""
        cause, key = self._driver.cause_of(self._branch)
        self._branch.cut = self._branch.cut or cause is Cause.LOOP
        self._cancelled = error
        return Raised(error, started=started, cause=cause, timeout_key=key)
