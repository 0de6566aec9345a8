"""The async driver: performs a step's effects in the task that awaits it, and knows when a run is quiet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from yaoki.errors import Fenced, JournalError
from yaoki.records import Cause, Settle
from yaoki.runtime._effects import Barrier, Steps, Suspend
from yaoki.runtime._held import Held
from yaoki.runtime._performing import Performance
from yaoki.runtime._places import give_up, take_back
from yaoki.runtime._step import make_step
from yaoki.runtime._sync import SyncDriver, cut_branch, poll_posts
from yaoki.runtime._waits import skipping

if TYPE_CHECKING:
    from yaoki.records import Record
    from yaoki.runtime._commits import Commits
    from yaoki.runtime._live import Branch, Live
    from yaoki.runtime._timeouts import AsyncTimeout
    from yaoki.runtime._tool import Tool

__all__ = ["AsyncDriver"]

_QUIET_TICKS = 4
"""How many turns of the event loop a run must stay quiet: user code between two steps takes one or two."""


class AsyncDriver:
    """Drives one run's steps in the event loop."""

    live: Live

    def __init__(self, commits: Commits) -> None:
        self.commits = commits
        self.plain = SyncDriver()
        self.branches: set[Branch] = set()
        self.held: list[Held] = []
        self.active = 0
        self._patience: asyncio.TimerHandle | None = None
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
        return Performance(self, step, branch).run()

    async def drive(self, steps: Steps, branch: Branch) -> Any:
        """Perform effects that belong to no call of the loop."""
        return await Performance(self, None, branch, steps).run()

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
        loop = asyncio.get_running_loop()
        if ticks:
            loop.call_soon(self.check_quiet, ticks - 1, self.ops)
        elif not self._may_be_at_work():
            self.quiet.set_result(None)
        elif self._patience is None:
            self._patience = loop.call_later(self.live.limits.park_after_s, self._waited_enough, self.ops)

    def _may_be_at_work(self) -> bool:
        """
        Whether code beside a waiting scope in a task of its own may await something of its own.

        Nobody can tell that from awaiting the task; it is given as long as a wait is sat out in memory.
        """
        return self.live.halt is None and any(b.held == 0 and b.children == b.apart for b in self.branches if b.apart)

    def _waited_enough(self, ops: int) -> None:
        self._patience = None
        if ops != self.ops:
            self.check_quiet()
        elif not self.quiet.done() and self._is_quiet():
            self.quiet.set_result(None)

    def _is_quiet(self) -> bool:
        if self.live.halt is not None:
            return self.active == 0
        if not (self.held or self.plain.held) or self.replayed_timeouts:
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
        if suspend.waits_for != "replay":
            give_up(branch, self.branches)
        self.leave_op(branch)
        try:
            await held.wake
        finally:
            branch.held -= 1
            self.held.remove(held)
            if timer is not None:
                timer.cancel()
            self.enter_op(branch)
        await take_back(branch)

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


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _may_go_on(live: Live, held: Held) -> bool:
    suspend = held.suspend
    if suspend.waits_for == "person":
        asked = live.history.questions.get(suspend.question)
        return asked is None or not asked.open
    return suspend.waits_for in ("budget", "signal", "pause")
