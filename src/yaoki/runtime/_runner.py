"""Runners: they take runs up, drive them until they are final or wait, and offer the verbs on their store."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

from yaoki.clock import Clock, SystemClock
from yaoki.errors import DeclarationError, InputMismatch, OutsideBranch, Passing, RunBusy
from yaoki.records import ABSENT, State
from yaoki.runtime import _context
from yaoki.runtime._drive import Returned, conclude, take_up
from yaoki.runtime._history import History
from yaoki.runtime._live import Limits
from yaoki.runtime._report import receipt_of
from yaoki.runtime._run import Run
from yaoki.runtime._sync import POLL_S, SyncDriver
from yaoki.runtime._verbs import Verbs
from yaoki.runtime._waits import skipping

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from yaoki.events import Observer
    from yaoki.journal import Claim, Journal, RunRow
    from yaoki.records import Entry
    from yaoki.runtime._live import Live
    from yaoki.runtime._loop import Bound, Loop
    from yaoki.runtime._receipt import Receipt

__all__ = ["Base", "Runner", "loop_of", "next_move"]

R = TypeVar("R")
RESULT_MAX_BYTES = 16 * 1024 * 1024


class Base:
    """What both runners share: the store, its bounds, and where a run stands."""

    def __init__(
        self,
        store: str | None = None,
        *,
        park_after_s: float = 30,
        sync_every_ms: int = 100,
        result_max_bytes: int = RESULT_MAX_BYTES,
        drain_s: float = 5,
        on_wait: Callable[[Receipt[Any]], None] | None = None,
        observers: Sequence[Observer] = (),
        clock: Clock | None = None,
        restart_at_checkpoint: bool = False,
        verbs_only: bool = False,
    ) -> None:
        for name, value in (("park_after_s", park_after_s), ("drain_s", drain_s)):
            if not value >= 0:
                msg = f"{type(self).__name__}: {name} is {value}; it is not negative"
                raise DeclarationError(msg)
        self._clock = clock or SystemClock()
        self._limits = Limits(park_after_s=park_after_s, result_max_bytes=result_max_bytes, drain_s=drain_s)
        self._on_wait = on_wait
        self._observers = tuple(observers)
        self._restart = restart_at_checkpoint
        self._store = store
        self._sync_every_ms = sync_every_ms
        self._verbs_only = verbs_only
        self._journal: Journal | None = None

    def _open(self) -> None:
        if self._journal is None:
            # Loaded before anything runs: a loop's failure is logged even when no file can be opened any more.
            for module in ("logging", "traceback"):
                import_module(module)
            from yaoki.journal import Journal

            self._journal = Journal.open(
                self._store,
                clock=self._clock,
                create=not self._verbs_only,
                worker=not self._verbs_only,
                sync_every_ms=self._sync_every_ms,
            )

    def _close(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    @property
    def store(self) -> Journal:
        """The open journal."""
        if self._journal is None:
            name = type(self).__name__
            msg = f"{name} is not open; use it as a context manager: with {name}(…) as runner:"
            raise DeclarationError(msg)
        return self._journal

    @property
    def _on_store(self) -> Verbs:
        return Verbs(self.store, self._clock)

    def _admit_run(self, bound: Bound[Any], run_id: str | None) -> RunRow:
        """Find or create the run, and refuse another loop's or another input's id."""
        here = _context.here()
        if here is not None:
            msg = "runner.run was called inside a run; call the undecorated function, or submit a run of its own"
            raise OutsideBranch(msg)
        loop = bound.loop
        name = run_id or f"{loop.name}-{self._clock.new_id()[:8]}"
        row = self.store.create(name, loop=loop.name, input=bound.data, file=loop.file)
        if row.loop != loop.name:
            msg = f"run {name} belongs to loop {row.loop}, not {loop.name}; choose another run id. Nothing was changed."
            raise InputMismatch(msg, name)
        if row.input != bound.data:
            msg = (
                f"run {name} was started with other input ({_short(row.input)}, not {_short(bound.data)}); "
                "choose another run id, or give the same input. Nothing was changed."
            )
            raise InputMismatch(msg, name)
        return row

    def _claim(self, row: RunRow, *, joined: bool) -> Claim | None:
        """
        Take a run; None if somebody else did meanwhile, and it is to be looked at again.

        A run that ended between the look and the claim is reported. One that was slept beside is somebody's to drive
        when it wakes; whoever else waits goes on waiting.
        """
        try:
            return self.store.claim(row.id)
        except ValueError:
            return None
        except RunBusy:
            if joined:
                return None
            raise

    def _report(self, name: str, loop: Loop[Any, Any], history: History | None) -> Receipt[Any]:
        """Return the receipt; a run left waiting by this very call is shown to `on_wait` first."""
        receipt = self._receipt(name, loop, history)
        if history is not None and receipt.status is State.WAITING and self._on_wait is not None:
            try:
                self._on_wait(receipt)
            except Exception:  # who is told never decides about a run
                import logging

                logging.getLogger("yaoki").exception("run %s: on_wait raised; the run waits all the same", name)
        return receipt

    def _receipt(self, name: str, loop: Loop[Any, Any], history: History | None = None) -> Receipt[Any]:
        row = self._on_store.row(name)
        if history is None:
            history = History.of(self.store.load(row.id))
        return receipt_of(row, history, loop=loop, budget=loop.budget)


def loop_of(bound: Bound[R]) -> Loop[Any, R]:
    """Return the loop to run, or say what was forgotten."""
    if not hasattr(bound, "loop"):
        name = getattr(bound, "name", getattr(bound, "__name__", "loop"))
        msg = (
            f"runner.run takes a loop with its arguments: runner.run({name}.bind(…)), not {type(bound).__name__} itself"
        )
        raise DeclarationError(msg)
    return bound.loop


def _short(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text if len(text) <= 80 else text[:79] + "…"  # noqa: PLR2004


def next_move(row: RunRow, now_ms: int, *, tried_code: bool, driven_here: bool) -> str:
    """
    Return what `run` does about a run in this state: `claim`, `report`, or `sleep`.

    Final: its receipt. Waiting for a person, budget or signal: its receipt, unless its question has expired.
    Waiting for code: one new replay. Sleeping: sit it out, out of memory.
    """
    match row.state:
        case State.COMPLETED | State.CAPPED | State.DEAD | State.CANCELLED:
            return "report"
        case State.WAITING:
            if row.waits_for == "code":
                return "report" if tried_code or driven_here else "claim"
            return "claim" if row.wake_ms and now_ms >= row.wake_ms else "report"
        case State.SLEEPING:
            return "claim" if now_ms >= row.wake_ms or skipping() else "sleep"
        case State.PENDING | State.RUNNING:
            return "claim"


class Runner(Base):
    """
    Drives plain `def` loops in the calling thread; a context manager.

    Args:
        store: `sqlite:///path`; by default `$YAOKI_STORE`, else `sqlite:///yaoki.db`.
        park_after_s: A longer wait puts the run to `sleeping`, out of memory.
        sync_every_ms: How long a read-only result may be lost to a power cut.
        on_wait: Called with the receipt when a run is left waiting for somebody; what it raises is logged.
        observers: Shown each record once written, in the run's own thread; what they raise is logged.
        result_max_bytes: A larger result is recorded as happened, its value lost.
        drain_s: How long attempts in flight may take to settle when the runner is stopped.

    Raises:
        StoreRefused, StoreCorrupt, JournalError: The store cannot be opened; nothing was changed.
    """

    def __enter__(self) -> Self:
        """Open the store and become a worker on it."""
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sync and close the store; no correctness depends on it."""
        self._close()

    @classmethod
    def verbs(cls, store: str | None = None) -> Runner:
        """Return a runner that only offers the verbs: it creates no store and drives nothing."""
        return cls(store, verbs_only=True)

    def run(self, bound: Bound[R], *, run_id: str | None = None) -> Receipt[R]:
        """
        Drive a run until it is final or waits for somebody, and return its receipt; through sleep it stays.

        Called again with the same id it goes on where the journal is. After a crash that is all there is to do.

        Raises:
            RunBusy: A living process drives it; nothing was changed.
            InputMismatch: The id is taken by another loop or other input; nothing was changed.
            JournalError: The journal cannot be written; the run stays as it was.
            DeclarationError: The loop is async (use AsyncRunner), or cannot work.
        """
        loop = loop_of(bound)
        if loop.is_async:
            msg = f"loop {loop.name} is async; run it with AsyncRunner: await runner.run(…)"
            raise DeclarationError(msg)
        loop.preflight()
        row = self._admit_run(bound, run_id)
        tried_code = joined = False
        live: Live | None = None
        while True:
            now_ms = self._clock.now_ms()
            move = next_move(row, now_ms, tried_code=tried_code, driven_here=live is not None)
            if move == "report":
                mine = live is not None and live.epoch == row.epoch
                return self._report(row.name, loop, live.history if live is not None and mine else None)
            if move == "sleep":
                joined = True
                self._clock.sleep(min(POLL_S, max(0.0, (row.wake_ms - now_ms) / 1000)))
            elif (claim := self._claim(row, joined=joined)) is None:
                self._clock.sleep(POLL_S / 10)
            else:
                tried_code = tried_code or (row.state is State.WAITING and row.waits_for == "code")
                live = self._drive(claim, bound)
            row = self._on_store.row(row.name)

    def _drive(self, claim: Claim, bound: Bound[Any]) -> Live:
        driver = SyncDriver()
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
        live.main.owner = threading.get_ident()
        _context.note_driving(1)
        try:
            returned = self._body(live, bound, driver)
        finally:
            _context.note_driving(-1)
            live.stopping = True
        try:
            conclude(live, returned)
        finally:
            live.detached = True
        return live

    def _body(self, live: Live, bound: Bound[Any], driver: SyncDriver) -> Returned:
        if live.halt is not None:
            return Returned(unfinished=True)
        token = _context.enter(live.main)
        try:
            value = bound.loop.fn(Run(live, restart_at_checkpoint=self._restart), **bound.values)
        except Passing as signal:
            if not live.halted and not driver.held:
                return Returned(error=signal)
            return Returned(held=driver.held, unfinished=True)
        except BaseException as error:  # noqa: BLE001 - every end is recorded by `conclude`
            if live.main.passing is not None and isinstance(error, Exception):
                return Returned(held=driver.held, unfinished=True)
            return Returned(error=error)
        finally:
            _context.leave(token)
        if live.main.passing is not None:
            return Returned(held=driver.held, unfinished=True)
        return Returned(value=value)

    # --- verbs

    def get(self, run_id: str) -> Receipt[Any]:
        """
        Return a run's receipt, at any time.

        Raises:
            RunNotFound: No such run.
        """
        return self._on_store.get(run_id)

    def list(self, status: str | None = None) -> builtins.list[Receipt[Any]]:
        """Return receipts from the rows alone (no failures, no attempts), oldest first; at most 10,000."""
        return self._on_store.list(status)

    def journal(self, run_id: str) -> builtins.list[Entry]:
        """Return a run's records, oldest first; what was posted from outside comes last."""
        return self._on_store.journal(run_id)

    def answer(
        self, run_id: str, ask: str | None, verdict: str, value: object = ABSENT, *, by: str = ""
    ) -> Receipt[Any]:
        """
        Answer a question: happened (with the value), not-happened, skip, abort. On disk when this returns.

        Raises:
            AnswerRefused: No such question, several without `ask`, answered or expired, or of another type.
        """
        return self._on_store.answer(run_id, ask, verdict, value, by=by)

    def cancel(self, run_id: str, *, by: str = "") -> Receipt[Any]:
        """Order a run to stop: nothing new begins, attempts in flight settle."""
        return self._on_store.cancel(run_id, by=by)

    def top_up(self, run_id: str, *, by: str = "", **add: float) -> Receipt[Any]:
        """
        Add to a run's budget: `top_up("night-7", calls=50)`. On disk when this returns.

        Raises:
            DeclarationError: No such budget, or an amount that is none.
            AnswerRefused: The run is final (a capped one may be topped up, then redriven).
        """
        return self._on_store.top_up(run_id, add, by=by)

    def redrive(self, run_id: str, source: str = "step", *, by: str = "") -> Receipt[Any]:
        """
        Let a dead, cancelled, capped or waiting run go on with a new ladder for its step; spent stays spent.

        Raises:
            RunBusy: A living process drives it.
            AnswerRefused: There is nothing to redrive.
        """
        return self._on_store.redrive(run_id, source, by=by)
