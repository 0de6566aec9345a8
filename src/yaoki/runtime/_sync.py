"""The sync driver: performs a step's effects in the caller's thread; no event loop, nothing awaited."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from yaoki.classify import is_control_flow
from yaoki.errors import DeclarationError, Fenced, JournalError, Passing, Stopped
from yaoki.policy import Admission
from yaoki.records import Begin, Cause, Fired, Settle
from yaoki.runtime import _context
from yaoki.runtime._attempt import barrier_of, call_of
from yaoki.runtime._effects import Barrier, Call, Enter, Raised, Steps, Suspend, Wait, Write
from yaoki.runtime._entering import enter_inline
from yaoki.runtime._failures import arguments_changed
from yaoki.runtime._groups import charge_of
from yaoki.runtime._held import Held
from yaoki.runtime._ladder import Made, begin_at_once, ladder
from yaoki.runtime._live import Branch, Halt, Live
from yaoki.runtime._past import CUT
from yaoki.runtime._settling import Kept, judge
from yaoki.runtime._step import make_step
from yaoki.runtime._waits import skipping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.records import Record
    from yaoki.runtime._step import Step
    from yaoki.runtime._tool import Tool

__all__ = [
    "POLL_S",
    "SyncDriver",
    "call_plainly",
    "commit_inline",
    "cut_branch",
    "leave_cut",
    "not_made",
    "poll_posts",
    "raise_if_timed_out",
]

POLL_S = 0.5
"""How often a driver looks for answers, top-ups, signals and cancels; they are taken up within 1 s."""


def commit_inline(live: Live, key: str, record: Record, barrier: Barrier = Barrier.WRITTEN) -> None:
    """
    Fold and append one record at once; with `SYNCED`, wait until it is on disk.

    Raises:
        JournalError: It could not be written; the run is as it was and nothing more is promised.
        Fenced: Another process took the run.
    """
    if live.detached:
        raise Fenced(f"run {live.name} is no longer driven here")
    seq = live.note(key, record)
    written = False
    try:
        charge = charge_of(live) if live.group else None
        if type(record) is Settle:
            live.scopes.settle(key, record, seq, charge)
        else:
            live.journal.append(live.run, live.epoch, seq, [(key, record)], charge)
        written = True
        if barrier is Barrier.SYNCED:
            live.journal.sync()
        elif barrier is Barrier.STARTED:
            live.journal.soon()
        else:
            live.journal.mark()
    except JournalError as error:
        live.broken = error
        raise
    except BaseException:
        # Fenced; or Ctrl-C between folding and writing: nothing more is written, as after a death.
        if not written:
            live.detached = True
        raise
    if live.observers:
        live.show(key, record)


def leave_cut(live: Live, key: str) -> None:
    """Record that a `run.timeout` took the loop away from a step, unless its attempt was settled so."""
    past = live.history.steps.get(key)
    if past is not None and not past.cut_by_timeout and not live.detached:
        commit_inline(live, f"{key}{CUT}", Fired(at=live.now_ms()))


def cut_branch(live: Live, what: str) -> None:
    """A bare cancel cannot be repeated by a replay: the run is parked at the branch's next step."""
    text = (
        f"a cancel that Yaoki did not order interrupted this branch before {what}; a replay could not repeat it. "
        "Use run.timeout(seconds) instead of asyncio.timeout around steps."
    )
    live.stop_with(Halt(to="code", text=text, diff=text))


def poll_posts(live: Live) -> bool:
    """Take up what was posted from outside since the last look; return whether there was anything."""
    posts = live.journal.posts(live.run, live.history.post_seq)
    for seq, key, record in posts:
        live.history.apply(seq, key, record)
    if live.history.cancel is not None and not live.compensating:
        live.stop_with(Halt(to="cancelled", text="cancelled by a person", stopped_by="cancel"))
    if live.halt is None and live.journal.paused() is not None:
        live.stop_with(Halt(to="drain", text="the store is paused"))
    return bool(posts)


def call_plainly(call: Call) -> object:
    """Make a sync attempt here; its exception comes back as `Raised`."""
    step = call.step
    token = _context.enter(_context.InAttempt(step))
    try:
        if call.injected is None:
            return step.tool.fn(*step.given, **step.named)
        return step.tool.fn(*step.given, **step.named, **call.injected)
    except Passing:
        raise
    except Exception as error:  # noqa: BLE001 - classified by the ladder
        return Raised(error, cause=Cause.LOOP) if is_control_flow(error) else Raised(error)
    except BaseException as error:  # noqa: BLE001 - Ctrl-C, SystemExit: settled, then passed through
        return Raised(error, cause=Cause.RUNNER)
    finally:
        _context.leave(token)


def not_made(call: Call) -> Raised:
    """Return what came of an attempt whose arguments were changed since the call: none was made."""
    failure = arguments_changed(call.step)
    return Raised(TypeError(failure.message), started=False, failure=failure)


class SyncDriver:
    """Drives one run's steps in the threads that call them; `held` says what they wait for once parked."""

    live: Live

    def __init__(self) -> None:
        self.held: list[Held] = []
        self._looked_s = 0.0

    def whoami(self) -> object:
        """Return the calling thread."""
        return threading.get_ident()

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
        """Make a call a step and bring it to its outcome."""
        branch.enter(tool.name)
        if tool.is_async:
            msg = f"{tool.name} is async, but its loop is plain `def`; make the loop `async def` or the tool plain"
            raise DeclarationError(msg)
        live = self.live
        now_s = live.clock.monotonic_s()
        if now_s - self._looked_s > POLL_S:
            self._looked_s = now_s
            with live.lock:
                if live.journal.changed():
                    poll_posts(live)
        step = make_step(branch, tool, args, kwargs, owner=owner, call_id=call_id, for_model=for_model)
        if branch.timeouts or branch.parent is not None:
            raise_if_timed_out(branch, step.key)
        if branch.cut:
            cut_branch(live, tool.name)
        return self.perform(step, branch)

    def perform(self, step: Step, branch: Branch) -> Any:
        """Bring a step to its outcome; a new one that nothing stands in the way of takes no ladder."""
        live, key, lock = self.live, step.key, self.live.lock
        made: Made | None = None
        lock.acquire()
        try:
            begin = begin_at_once(live, step)
            live.driven.add(key)
            entered = None if begin is None else _enter(live, step, begin, barrier_of(begin), clear=True)
            if begin is not None and type(entered) is not Admission:
                outcome = entered or self._call(call_of(step, None, begin, begin.at), branch)
                kept = judge(live, step, begin, outcome)
                if type(kept) is Kept:
                    commit_inline(live, key, kept.settle, kept.barrier)
                    return kept.value
                made = Made(begin, outcome, kept)
        except Passing as signal:
            branch.passing = signal
            raise
        finally:
            live.driven.discard(key)
            lock.release()
        return self.drive(ladder(live, step, made), branch, key)

    def drive(self, steps: Steps, branch: Branch, key: str = "") -> Any:
        """Perform a step's effects until it returns or raises."""
        live = self.live
        send = steps.send
        stopped: Raised | None = None
        live.lock.acquire()
        try:
            effect = next(steps)
            while True:
                if isinstance(effect, Write):
                    commit_inline(live, effect.key, effect.record, effect.barrier)
                    effect = send(None)
                elif isinstance(effect, Enter):
                    entered = _enter(live, effect.step, effect.begin, effect.barrier)
                    stopped = entered if type(entered) is Raised else None
                    effect = send(None if stopped is not None else entered)
                elif isinstance(effect, Call):
                    effect = send(stopped or self._call(effect, branch))
                else:
                    self._stay(effect, branch, key)
                    effect = send(None)
        except StopIteration as stop:
            return stop.value
        except Passing as signal:
            branch.passing = signal
            raise
        finally:
            steps.close()
            live.lock.release()

    def _stay(self, effect: Wait | Suspend, branch: Branch, key: str) -> None:
        """Wait for a time, or for somebody."""
        try:
            if isinstance(effect, Wait):
                self._wait(effect, branch)
            else:
                self._suspend(effect, branch)
        except TimeoutError:  # a run.timeout around it
            leave_cut(self.live, key)
            raise

    def _call(self, call: Call, branch: Branch) -> object:
        """Make an attempt, the lock given up meanwhile."""
        if call.step.changed:
            return not_made(call)
        lock = self.live.lock
        lock.release()
        try:
            return self._made(call, branch)
        finally:
            lock.acquire()

    def _made(self, call: Call, branch: Branch) -> object:
        tool = call.step.tool
        if call.injected is not None and "timeout_s" in call.injected:
            limit_s = least_left_s(branch)
            call.injected["timeout_s"] = call.timeout_s if limit_s is None else min(call.timeout_s, limit_s)
        if tool.interrupt == "thread":
            return call_in_thread(call)
        return call_plainly(call)

    def _wait(self, wait: Wait, branch: Branch) -> None:
        """Sleep in slices, looking for posts; a long wait parks instead, and a `run.timeout` may end it."""
        live = self.live
        ends_ms = min((timeout.until_ms for timeout in branch.all_timeouts()), default=wait.until_ms)
        until_ms = min(wait.until_ms, ends_ms)
        while not skipping() and not live.stopped(through=wait.through):
            branch.refuse_if_stopped()
            left_s = (until_ms - live.now_ms()) / 1000
            if left_s <= 0:
                if ends_ms < wait.until_ms:
                    raise_if_timed_out(branch, "")
                return
            if left_s > live.limits.park_after_s:
                self._suspend(Suspend("time", until_ms=until_ms, text=wait.reason), branch)
            live.lock.release()
            try:
                live.clock.sleep(min(left_s, POLL_S))
            finally:
                live.lock.acquire()
            if live.journal.changed():
                poll_posts(live)

    def _suspend(self, suspend: Suspend, branch: Branch) -> None:
        live = self.live
        if suspend.waits_for == "signal" and live.journal.changed() and poll_posts(live):
            return
        if suspend.waits_for == "person" and live.journal.changed() and poll_posts(live):
            asked = live.history.questions.get(suspend.question)
            if asked is not None and not asked.open:
                return
        if suspend.waits_for not in ("halt", "code"):
            raise_if_timed_out(branch, "")
        if suspend.waits_for == "replay" and branch.ended_by_raise:
            branch.passing = Stopped(f"run {live.name}: nothing new begins in branch {branch.path!r} on replay")
            raise branch.passing
        if suspend.waits_for == "replay":
            branch.cut = True
            cut_branch(live, "a step that a timeout had cancelled")
        self.held.append(Held(suspend, branch))
        branch.passing = live.signal()
        raise branch.passing

    def forget(self, branches: Sequence[Branch]) -> None:
        """The run waits for nothing in branches that were stopped."""
        self.held = [one for one in self.held if not any(one.branch.within(branch) for branch in branches)]

    def hold(self, suspend: Suspend, branch: Branch) -> None:
        """Park a branch outside a step: raises."""
        with self.live.lock:
            self._suspend(suspend, branch)

    def wait_until(self, until_ms: int, reason: str, branch: Branch) -> None:
        """Wait outside a step; told to stop meanwhile, the branch stays where it is."""
        live = self.live
        with live.lock:
            self._wait(Wait(until_ms, reason), branch)
            if live.halt is not None and live.now_ms() < until_ms:
                self._suspend(Suspend("halt"), branch)


def _enter(live: Live, step: Step, begin: Begin, barrier: Barrier, *, clear: bool = False) -> Admission | Raised | None:
    """
    Append a begin if it is let, as `enter_inline` does; Ctrl-C once it is written comes back as what the call raised.

    Nothing was sent then, and that is known.
    """
    try:
        return enter_inline(live, step, begin, barrier, clear=clear)
    except BaseException as error:
        if live.detached or isinstance(error, Exception | Passing):
            raise
        return Raised(error, started=False, cause=Cause.RUNNER)


def least_left_s(branch: Branch) -> float | None:
    """Return the seconds left of the tightest `run.timeout` around a branch."""
    return min((timeout.left_s() for timeout in branch.all_timeouts()), default=None)


def raise_if_timed_out(branch: Branch, key: str) -> None:
    """Raise at a new step once a `run.timeout` around it has run out; recorded steps replay first."""
    if key and key in branch.live.history.steps:
        return
    for timeout in branch.all_timeouts():
        timeout.raise_if_due()


def call_in_thread(call: Call) -> object:
    """Make an attempt in a helper thread and leave it at its timeout; it may still be at work then."""
    import contextvars

    box: list[object] = []
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: box.append(context.run(call_plainly, call)), name=f"yaoki-{call.step.tool.name}", daemon=True
    )
    thread.start()
    thread.join(call.timeout_s)
    if not box and thread.is_alive():
        return Raised(TimeoutError(f"no answer within {call.timeout_s:g} s"), timed_out=True, thread_alive=True)
    thread.join()
    return box[0]
