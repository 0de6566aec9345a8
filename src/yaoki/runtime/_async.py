"""The async driver: performs a step's effects in the task that awaits it, and knows when a run is quiet."""

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
from yaoki.runtime._held import Held
from yaoki.runtime._ladder import Made, begin_at_once, ladder
from yaoki.runtime._settling import Kept, judge
from yaoki.runtime._step import make_step
from yaoki.runtime._sync import SyncDriver, commit_inline, cut_branch, not_made, poll_posts
from yaoki.runtime._waits import skipping

if TYPE_CHECKING:
    from yaoki.policy import Admission
    from yaoki.records import Record
    from yaoki.runtime._commits import Commits
    from yaoki.runtime._live import Branch, Live
    from yaoki.runtime._step import Step
    from yaoki.runtime._timeouts import AsyncTimeout
    from yaoki.runtime._tool import Tool

__all__ = ["AsyncDriver", "ToolCancelled"]

_QUIET_TICKS = 4
"""How many turns of the event loop a run must stay quiet: user code between two steps takes one or two."""


class ToolCancelled(Exception):  # noqa: N818 - a failure's name
    """A tool raised CancelledError although nobody cancelled it."""


class AsyncDriver:
    """Drives one run's steps in the event loop."""

    live: Live

    def __init__(self, commits: Commits) -> None:
        self.commits = commits
        self.plain = SyncDriver()
        self.branches: set[Branch] = set()
        self.held: list[Held] = []
        self.active = 0
        self.quiet: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleepers: set[asyncio.Future[None]] = set()
        self.attempting: set[asyncio.Task[Any]] = set()
        self.performing: set[asyncio.Task[Any]] = set()
        self.stopping = False
        self.ops = 0
        self.replayed_timeouts: list[AsyncTimeout] = []
        self.unfired_timeouts: list[AsyncTimeout] = []

    def whoami(self) -> object:
        """Return the calling task."""
        try:
            return asyncio.current_task()
        except RuntimeError:
            return None

    def use(
        self,
        branch: Branch,
        tool: Tool[Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        owner: object = None,
        call_id: str = "",
        for_model: bool = False,
    ) -> Any:
        """Make a call a step: an awaitable of its outcome; a plain tool's is brought about at once, blocking."""
        branch.enter(tool.name)
        live = self.live
        step = make_step(branch, tool, args, kwargs, owner=owner, call_id=call_id, for_model=for_model)
        if branch.cut:
            cut_branch(live, tool.name)
        live.ask(step.key)
        if self.unfired_timeouts:
            self.look_at_unfired()
        if not tool.is_async:
            self.plain.live = live
            self.commits.flush()
            return self.plain.perform(step, branch)
        return _Performance(self, step, branch).run()

    async def drive(self, steps: Steps, branch: Branch) -> Any:
        """Perform effects that belong to no call of the loop."""
        return await _Performance(self, None, branch, steps).run()

    # --- quiet

    def enter_op(self, branch: Branch) -> None:
        """An operation of a branch is under way."""
        self.ops += 1
        branch.active += 1
        self.active += 1
        self.commits.active += 1

    def leave_op(self, branch: Branch) -> None:
        """It ended, or was suspended."""
        branch.active -= 1
        self.active -= 1
        self.commits.active -= 1
        if self.held or self.live.halt is not None:
            self.check_quiet()
        if self.replayed_timeouts:
            self.look_at_timeouts()

    def check_quiet(self, ticks: int = _QUIET_TICKS, ops: int = -1) -> None:
        """If every branch has ended or is suspended, and nothing happens for a few ticks, say so."""
        if self.unfired_timeouts:
            self.look_at_unfired()
        if self.quiet.done() or not self._is_quiet():
            return
        if ops != self.ops:
            ticks = _QUIET_TICKS
        if ticks:
            asyncio.get_running_loop().call_soon(self.check_quiet, ticks - 1, self.ops)
        else:
            self.quiet.set_result(None)

    def _is_quiet(self) -> bool:
        if self.live.halt is not None:
            return self.active == 0
        if not self.held or self.replayed_timeouts:
            return False
        return all(b.active == 0 and (b.held > 0 or b.children > 0) for b in self.branches)

    def halted(self) -> None:
        """Wake what only waits, so that it sees the halt."""
        for sleeper in list(self.sleepers):
            if not sleeper.done():
                sleeper.set_result(None)
        self.check_quiet()

    def settled(self, key: str, record: Record) -> None:
        """Wake the calls that share a step's answer: it may have come; and those that wait for what it reserved."""
        for held in self.held:
            suspend = held.suspend
            room = suspend.room and type(record) is Settle
            if (room or (suspend.waits_for == "join" and suspend.text == key)) and not held.wake.done():
                held.wake.set_result(None)

    def wake_joined(self, key: str) -> None:
        """Wake the calls that share a step's answer: nobody drives it any more, however that came."""
        for held in self.held:
            if held.suspend.waits_for == "join" and held.suspend.text == key:
                _wake(held.wake)

    def posted(self) -> None:
        """Look for answers, top-ups and cancels, and wake whom they concern."""
        live = self.live
        shared = [held for held in self.held if held.suspend.freed >= 0]
        if shared and live.journal.freed(live.group) > min(held.suspend.freed for held in shared):
            for held in shared:
                _wake(held.wake)
        came = poll_posts(live)
        if not came and live.halt is None and not any(held.suspend.waits_for == "pause" for held in self.held):
            return
        for held in list(self.held):
            if not _may_go_on(self.live, held):
                held.seen = self.live.history.post_seq
            elif held.wake is not None and not held.wake.done():
                held.wake.set_result(None)
        if self.live.halt is not None:
            self.halted()

    async def commit(self, key: str, record: Record) -> None:
        """Append a record outside a step."""
        live = self.live
        seq = live.note(key, record)
        try:
            await self.commits.commit(live, seq, key, record, Barrier.WRITTEN)
        except asyncio.CancelledError:
            self.commits.flush()
            raise
        except JournalError as error:
            live.broken = error
            raise
        except Fenced:
            live.detached = True
            raise
        live.show(key, record)

    def note_cut(self, branch: Branch) -> None:
        """An operation was cancelled: by nobody we know means that a replay could not repeat it."""
        if self.cause_of(branch)[0] is Cause.LOOP:
            branch.cut = True

    def look_at_timeouts(self, ticks: int = _QUIET_TICKS, ops: int = -1) -> None:
        """
        Let a recorded `run.timeout` fire again once all that was done inside it has been done again.

        That is when nothing under way is left in its branch and those below, for a few ticks: what was
        recorded before the firing has been handed over, what came after does not begin before it.
        """
        timeout = min(self.replayed_timeouts, key=lambda one: one.recorded_seq, default=None)
        if timeout is None or any(b.active and b.within(timeout.branch) for b in self.branches):
            return
        if ops != self.ops:
            ticks = _QUIET_TICKS
        if ticks:
            asyncio.get_running_loop().call_soon(self.look_at_timeouts, ticks - 1, self.ops)
        else:
            timeout.fire_again()

    def look_at_unfired(self) -> None:
        """Let a `run.timeout` that ran out during the replay fire, now that the replay has caught up."""
        if self.caught_up():
            for timeout in self.unfired_timeouts:
                asyncio.get_running_loop().call_soon(timeout.fire)
            self.unfired_timeouts.clear()

    def caught_up(self) -> bool:
        """Whether all that this segment recorded has been asked for."""
        return not self.live.history.unasked(self.live.asked)

    async def hold(self, suspend: Suspend, branch: Branch) -> None:
        """Suspend a branch until somebody acts or a time comes; counts as nothing under way."""
        loop = asyncio.get_running_loop()
        held = Held(suspend, branch, loop.create_future())
        self.held.append(held)
        branch.held += 1
        timer = None
        if suspend.until_ms:
            left_s = (suspend.until_ms - self.live.now_ms()) / 1000
            timer = loop.call_later(max(0.0, left_s), _wake, held.wake)
        if suspend.waits_for in ("halt", "code"):
            self.halted()
        gate = branch_gate(branch) if suspend.waits_for != "replay" else None
        if gate is not None:
            gate.release()
        self.leave_op(branch)
        try:
            await held.wake
        finally:
            branch.held -= 1
            self.held.remove(held)
            if timer is not None:
                timer.cancel()
            self.enter_op(branch)
        if gate is not None:
            await gate.acquire()

    async def wait_until(self, until_ms: int, reason: str, branch: Branch, *, through: bool = False) -> None:
        """Wait in memory, or suspended if the wait is long; see `Wait` for what goes `through`."""
        live = self.live
        ends_ms = min((timeout.until_ms for timeout in branch.all_timeouts()), default=until_ms)
        cut = ends_ms < until_ms
        while not skipping():
            left_s = (min(until_ms, ends_ms) - live.now_ms()) / 1000
            if live.stopped(through=through):
                return
            if left_s <= 0:
                if cut:  # a run.timeout around it ends first: that is what comes, never the end of this wait
                    await self.hold(Suspend("replay"), branch)
                return
            if left_s > live.limits.park_after_s:
                await self.hold(Suspend("time", until_ms=min(until_ms, ends_ms), text=reason), branch)
                continue
            sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.sleepers.add(sleeper)
            timer = asyncio.get_running_loop().call_later(left_s, _wake, sleeper)
            try:
                await sleeper
            finally:
                timer.cancel()
                self.sleepers.discard(sleeper)

    def cause_of(self, branch: Branch) -> tuple[Cause, str]:
        """Return who cancelled an operation of this branch."""
        if self.stopping or self.live.stopping or self.live.detached:
            return Cause.RUNNER, ""
        for timeout in branch.all_timeouts():
            if timeout.fired:
                return Cause.TIMEOUT, timeout.key
        return Cause.LOOP, ""


class _Performance:
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
        self._driver.commits.look()
        begin = begin_at_once(live, step)
        if begin is None:
            return await self._drive(ladder(live, step))
        live.scopes.begun(step)
        await self._write(Write(step.key, begin, barrier_of(begin)))
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

    async def _enter(self, enter: Enter) -> Admission | None:
        """Append a begin that may be refused in its own transaction; what is pending goes before it."""
        driver = self._driver
        driver.commits.flush()
        refused = enter_inline(driver.live, enter.step, enter.begin, Barrier.WRITTEN)
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
        commits.look()
        settles = isinstance(write.record, Settle) and not live.scopes.plain(write.key, write.record)
        if self._cancelled is not None or settles:
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
        if self._driver.held:
            self._driver.settled(write.key, write.record)

    async def _call(self, call: Call) -> object:
        driver, step = self._driver, call.step
        if self._cancelled is None and driver.live.stopping:
            self._cancelled = asyncio.CancelledError("the run is let go of")
        if self._cancelled is not None or step.changed:
            return self._not_made(call)
        task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        driver.attempting.add(task)
        token = _context.enter(_context.InAttempt(step))
        try:
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
        except Exception as error:  # noqa: BLE001 - classified by the ladder
            if task.cancelling() > cancelling and dressed_cancel(error):
                cut = asyncio.CancelledError(f"{step.tool.name} answered its cancel with {type(error).__name__}")
                cut.__cause__ = error
                return self._cut(cut)
            return Raised(error, cause=Cause.LOOP) if is_control_flow(error) else Raised(error)
        except BaseException as error:  # noqa: BLE001 - settled, then passed through
            self._cancelled = error
            return Raised(error, cause=Cause.RUNNER)
        finally:
            _context.leave(token)
            driver.attempting.discard(task)

    def _not_made(self, call: Call) -> Raised:
        """Return what came of an attempt that was begun and is not made: the cancel comes first."""
        if self._cancelled is None:
            return not_made(call)
        cause, key = self._driver.cause_of(self._branch)
        self._branch.cut = self._branch.cut or cause is Cause.LOOP
        return Raised(self._cancelled, started=False, cause=cause, timeout_key=key)

    def _cut(self, error: asyncio.CancelledError) -> Raised:
        """Settle the attempt as cancelled from outside; the cancel goes on once that is written."""
        cause, key = self._driver.cause_of(self._branch)
        self._branch.cut = self._branch.cut or cause is Cause.LOOP
        self._cancelled = error
        return Raised(error, cause=cause, timeout_key=key)


def branch_gate(branch: Branch) -> asyncio.Semaphore | None:
    """Return the limit a branch counts against."""
    here: Branch | None = branch
    while here is not None:
        gate: asyncio.Semaphore | None = here.gate
        if gate is not None:
            return gate
        here = here.parent
    return None


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _may_go_on(live: Live, held: Held) -> bool:
    suspend = held.suspend
    if suspend.waits_for == "person":
        asked = live.history.questions.get(suspend.question)
        return asked is None or not asked.open
    return suspend.waits_for in ("budget", "signal", "pause")
