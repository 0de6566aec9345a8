"""The sync runner: takes runs up, drives them until they are final or wait, and offers the verbs on its store."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from yaoki.errors import DeclarationError, Passing, RunBusy
from yaoki.records import ABSENT, State
from yaoki.runtime import _context
from yaoki.runtime._base import Base, loop_of, next_move
from yaoki.runtime._concluding import Returned, conclude
from yaoki.runtime._drive import take_up, undo_all
from yaoki.runtime._run import Run
from yaoki.runtime._sync import POLL_S, SyncDriver
from yaoki.runtime._work import LOOK_S, Board, Docket, Slots, served_loops

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping
    from types import TracebackType

    from yaoki.journal import Claim
    from yaoki.records import Entry, Group
    from yaoki.runtime._live import Halt, Live
    from yaoki.runtime._loop import Bound, Loop
    from yaoki.runtime._receipt import Receipt
    from yaoki.runtime._work import Until

__all__ = ["Runner"]

R = TypeVar("R")


class Runner(Base):
    """
    Drives plain `def` loops in the calling thread; a context manager.

    Args:
        store: `sqlite:///path`; by default `$YAOKI_STORE`, else `sqlite:///yaoki.db`.
        park_after_s: A longer wait puts the run to `sleeping`, out of memory.
        sync_every_ms: How long a read-only result may be lost to a power cut.
        on_wait: Called with the receipt when a run is left waiting for somebody; what it raises is logged.
        observers: Shown each record once written, in the run's own thread; what they raise is logged.
        notify: Who is told of runs that need somebody: an address, a callable that takes a `yaoki.notify.Notice`,
            several of them, or `yaoki.notify.Notify`. Sent from threads of their own; closing waits up to `drain_s`.
        result_max_bytes: A larger result is recorded as happened, its value lost.
        drain_s: How long attempts in flight may take to settle when the runner is stopped.
        interactive: Whether a person watches: the run then waits with a question in place of each wait of a ladder
            above 2 s (try again now, a value, skip, abort), which goes on by itself when that wait is over.

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
        Told to `drain`, it returns the receipt of a run that is left pending (or sleeping). While the store is
        paused it waits.

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
                self._clock.sleep(min(POLL_S, max(0.0, (row.wake_ms - now_ms) / 1000)))
            elif (claim := self._claim(row, joined=joined)) is None:
                self._clock.sleep(POLL_S / 10)
            else:
                tried_code = tried_code or (row.state is State.WAITING and row.waits_for == "code")
                live = self._residency(claim, bound)
            row = self._on_store.row(row.name)

    def submit(self, bound: Bound[R], *, run_id: str | None = None, group: str = "") -> Receipt[R]:
        """
        Create a run that a worker will drive, and return its receipt; on disk when this returns.

        Called again with the same id and input, it returns the receipt of that run.

        Raises:
            InputMismatch: The id is taken by another loop or other input, or was discarded; nothing was changed.
            DeclarationError: The loop cannot work, or the id is no id.
        """
        return self._submit(bound, run_id, group)

    def work(self, *loops: Loop[..., Any], until: Until = "stopped", concurrency: int = 1) -> dict[str, int]:
        """
        Take up runs of these loops, whoever submitted them, and drive them; return how many were left in each state.

        Any number of workers may serve one store. Answers, wake-ups and runs left by a death are taken up within
        a second. A run that waits for other code is tried once a call. With `concurrency` above 1 each run is driven
        in a thread of its own, over a connection of its own.

        Args:
            loops: By name; with Local parameters as `loop.with_locals(…)`.
            until: `idle` returns when nothing can go on now (what sleeps is left to the next call); `stopped`
                goes on until `drain`.
            concurrency: How many runs at once, 1 to 10,000.

        Raises:
            DeclarationError: A loop is async, has unfilled Local parameters, or two have one name.
            JournalError: The store cannot be written any more.
        """
        served = served_loops(loops, is_async=False, until=until, concurrency=concurrency)
        slots = Slots()
        if concurrency == 1:
            docket = Docket(self.store, served)
            self._serve(docket, slots, until)
            return dict(docket.tally)
        return self._in_threads(served, slots, until, concurrency)

    def drain(self) -> None:
        """
        Begin and claim nothing more; `run` and `work` return when what is in flight has settled.

        Runs are left pending, and no crash is counted. May be called from another thread or a signal handler.
        """
        self._stop.ask()

    def _twin(self) -> Runner:
        """Return a runner with the same settings, unopened, that stops with this one."""
        twin = Runner(self._store, **self._settings)
        twin._stop = self._stop
        twin._observers = self._observers
        return twin

    def _in_threads(self, served: dict[str, Any], slots: Slots, until: Until, concurrency: int) -> dict[str, int]:
        """Serve in threads, each with a runner, and so a connection and a worker's lock, of its own."""
        board = Board(self.store, served)

        def one() -> None:
            try:
                with self._twin() as twin:
                    docket = Docket(twin.store, served, board)
                    twin._serve(docket, slots, until)  # noqa: SLF001 - its own kind
                    slots.add(docket.tally)
            except BaseException as error:  # noqa: BLE001 - raised where `work` was called
                slots.failed = slots.failed or error
                self.drain()

        threads = [threading.Thread(target=one, name=f"yaoki-worker-{n}", daemon=True) for n in range(concurrency)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(LOOK_S)
        except BaseException:  # Ctrl-C: what is in flight may settle
            self.drain()
            for thread in threads:
                thread.join(self._drain_s)
            raise
        if slots.failed is not None:
            raise slots.failed
        return dict(slots.tally)

    def _serve(self, docket: Docket, slots: Slots, until: Until) -> None:
        while not self._draining:
            claims = docket.take(1)
            if claims:
                slots.count(1)
                try:
                    self._drive_one(docket, claims[0])
                finally:
                    slots.count(-1)
            elif until == "idle" and not slots.driving:
                return
            else:
                self._clock.sleep(LOOK_S)

    def _drive_one(self, docket: Docket, claim: Claim) -> None:
        """Drive one claimed run in this thread, whatever becomes of it."""
        try:
            bound, halt = docket.call_of(claim)
            live = self._residency(claim, bound, halt)
        except RunBusy:  # fenced: another process took it over
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one run's trouble is not the others'
            docket.put_aside(claim, error)
            return
        row = docket.driven(claim.row.name)
        if row is not None and row.state is State.WAITING:
            self._tell_waiting(row.name, bound.loop, live.history)

    def _residency(self, claim: Claim, bound: Bound[Any], halt: Halt | None = None) -> Live:
        """Drive a claimed run until it is final, waits or sleeps; with `halt`, only leave it as that says."""
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
        if halt is not None:
            live.stop_with(halt)
        self._stop.enter(live)
        try:
            returned = self._body(live, bound, driver)
        finally:
            _context.note_driving(-1)
            self._stop.lives.discard(live)
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
            if live.compensating:
                driver.drive(undo_all(live), live.main)
            value = bound.loop.entry(Run(live, restart_at_checkpoint=self._restart), **bound.values)
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
        Answer a question; on disk when this returns.

        A doubt: `happened` with the value, `not-happened`, `skip`, `abort`. An approval: `approve`, `refuse` with a
        text that says why. What a loop or a rung asked: `value` with it, `skip`, `abort`.

        Raises:
            AnswerRefused: No such question, several without `ask`, answered or expired, or of another type.
        """
        return self._on_store.answer(run_id, ask, verdict, value, by=by)

    def cancel(self, run_id: str, *, compensate: bool = False, by: str = "") -> Receipt[Any]:
        """
        Order a run to stop: nothing new begins, attempts in flight settle.

        With `compensate`, whoever drives it then undoes what it did, newest first, before it is `cancelled`.
        """
        return self._on_store.cancel(run_id, compensate=compensate, by=by)

    def top_up(self, run_id: str, *, by: str = "", **add: float) -> Receipt[Any]:
        """
        Add to a run's budget: `top_up("night-7", calls=50)`. On disk when this returns.

        Raises:
            DeclarationError: No such budget, or an amount that is none.
            AnswerRefused: The run is final (a capped one may be topped up, then redriven).
        """
        return self._on_store.top_up(run_id, add, by=by)

    def group(
        self, name: str, *, calls: int | None = None, tokens: int | None = None, cost_usd: float | None = None
    ) -> Group:
        """
        Set the budget of a group (all of its runs together, whoever drives them), and return how it stands.

        `runner.group("night", cost_usd=20)`, then `submit(…, group="night")`. What is left out stays as it is; said
        again it changes nothing, and top-ups stay. When it is used up, each run of the group waits for a
        `top_up_group`, or ends `capped`, as its own `on_empty` says. On disk when this returns.

        Raises:
            DeclarationError: A bound that cannot work, or no name for a group.
        """
        return self._on_store.group(name, {"calls": calls, "tokens": tokens, "cost_usd": cost_usd})

    def top_up_group(self, name: str, **add: float) -> Group:
        """
        Add to a group's budget: `top_up_group("night", cost_usd=5)`. On disk when this returns.

        Raises:
            DeclarationError: No such group, one without that bound, or an amount that is none.
        """
        return self._on_store.top_up_group(name, add)

    def groups(self) -> builtins.list[Group]:
        """Return the groups of the store and what they have spent, by name; at most 1,000."""
        return [*self.store.groups()]

    def signal(self, run_id: str, name: str, value: object = ABSENT, *, by: str = "") -> Receipt[Any]:
        """
        Send a signal to a run, kept until a `run.wait_signal(name)` takes it; on disk when this returns.

        Raises:
            AnswerRefused: The run is final, waits for a signal of another type, or has 10,000 that nobody took.
            EncodingError: The value is no JSON, or above 16 MB.
        """
        return self._on_store.signal(run_id, name, value, by=by)

    def pause(self, *, scope: str = "", by: str = "") -> None:
        """
        Put the brake on: nothing is taken up, and what is driven drains within a second. Nothing is lost.

        On a `scope` alone, as tools declare it: no attempt begins there; runs that come to one wait for `unpause`.
        """
        self.store.pause(by, scope=scope)

    def unpause(self, *, scope: str = "") -> bool:
        """Take the brake off, the store's or a scope's; return whether it was on."""
        return self.store.unpause(scope=scope)

    def discard(self, run_id: str, *, by: str = "") -> None:
        """
        Delete a final run and its records for good. Its id is never used again.

        Raises:
            AnswerRefused: It is not final.
        """
        self.store.discard(run_id, by=by)

    def redrive(
        self, run_id: str, source: str = "step", *, edits: Mapping[str, object] | None = None, by: str = ""
    ) -> Receipt[Any]:
        """
        Let a dead, cancelled, capped or waiting run go on with a new ladder for its step; spent stays spent.

        From `checkpoint` or `start` in a new pass of the code as it is; from `start` also with other arguments:
        `edits`, by the loop's parameters, what is left out stays. What the run did is adopted, or stands as an orphan.

        Raises:
            RunBusy: A living process drives it.
            AnswerRefused: There is nothing to redrive.
        """
        return self._on_store.redrive(run_id, source, edits=edits, by=by)
