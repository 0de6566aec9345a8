"""What both runners share: the store, its bounds, where a run stands, and being told to stop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from yaoki.clock import Clock, SystemClock
from yaoki.errors import DeclarationError, InputMismatch, OutsideBranch, Paused, RunBusy
from yaoki.records import State
from yaoki.runtime import _context
from yaoki.runtime._history import History
from yaoki.runtime._live import Halt, Limits
from yaoki.runtime._report import receipt_of
from yaoki.runtime._survivors import own_group
from yaoki.runtime._verbs import Verbs
from yaoki.runtime._waits import skipping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaoki.events import Observer
    from yaoki.journal import Claim, Journal, RunRow
    from yaoki.notify import Notice, Notify
    from yaoki.runtime._live import Live
    from yaoki.runtime._loop import Bound, Loop
    from yaoki.runtime._receipt import Receipt
    from yaoki.runtime._telling import Telling

__all__ = ["Base", "driven_by", "loop_of", "next_move"]

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
        notify: Notify | str | Callable[[Notice], object] | Sequence[str | Callable[[Notice], object]] | None = None,
        interactive: bool = False,
        clock: Clock | None = None,
        restart_at_checkpoint: bool = False,
        verbs_only: bool = False,
        submits_only: bool = False,
    ) -> None:
        for name, value in (("park_after_s", park_after_s), ("drain_s", drain_s)):
            if not value >= 0:
                msg = f"{type(self).__name__}: {name} is {value}; it is not negative"
                raise DeclarationError(msg)
        self._settings: dict[str, Any] = {
            "park_after_s": park_after_s,
            "sync_every_ms": sync_every_ms,
            "result_max_bytes": result_max_bytes,
            "drain_s": drain_s,
            "on_wait": on_wait,
            "interactive": interactive,
            "observers": observers,
            "clock": clock,
            "restart_at_checkpoint": restart_at_checkpoint,
        }
        self._clock = clock or SystemClock()
        self._limits = Limits(
            park_after_s=park_after_s,
            result_max_bytes=result_max_bytes,
            drain_s=drain_s,
            interactive=interactive,
            pgid=own_group(),
        )
        self._on_wait = on_wait
        self._observers = tuple(observers)
        self._restart = restart_at_checkpoint
        self._store = store
        self._sync_every_ms = sync_every_ms
        self._verbs_only = verbs_only
        self._worker = not (verbs_only or submits_only)
        self._journal: Journal | None = None
        self._stop = _Stop()
        self._telling = self._tellers(notify)

    def _tellers(self, notify: object) -> Telling | None:
        """Return who tells people; a runner that drives nothing tells nobody, and needs none of its modules."""
        if not notify or not self._worker:
            return None
        from yaoki.runtime._telling import Telling, settings_of

        settings = settings_of(notify)  # type: ignore[arg-type]
        if settings is None:
            return None
        telling = Telling(settings, store=self._store, clock=self._clock)
        self._observers = (*self._observers, telling.seen)
        return telling

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
                worker=self._worker,
                sync_every_ms=self._sync_every_ms,
            )
            if self._telling is not None:
                self._telling.start(self._journal)

    def _close(self) -> None:
        if self._telling is not None:
            self._telling.stop(self._limits.drain_s)
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

    @property
    def _draining(self) -> bool:
        """Whether this runner was told to stop."""
        return self._stop.asked

    @property
    def _drain_s(self) -> float:
        """How long attempts in flight may take to settle."""
        return self._limits.drain_s

    def _submit(self, bound: Bound[R], run_id: str | None, group: str) -> Receipt[R]:
        loop_of(bound).resolve()
        row = self._admit_run(bound, run_id, group=group)
        self.store.sync()
        return self._receipt(row.name, bound.loop)

    def _admit_run(self, bound: Bound[Any], run_id: str | None, *, group: str = "") -> RunRow:
        """Find or create the run, and refuse another loop's or another input's id."""
        here = _context.here()
        if here is not None:
            msg = "runner.run was called inside a run; call the undecorated function, or submit a run of its own"
            raise OutsideBranch(msg)
        loop = bound.loop
        name = run_id or f"{loop.name}-{self._clock.new_id()[:8]}"
        row = self.store.create(name, loop=loop.name, input=bound.data, file=loop.file, group=group)
        if row.loop != loop.name:
            msg = f"run {name} belongs to loop {row.loop}, not {loop.name}; choose another run id. Nothing was changed."
            raise InputMismatch(msg, name)
        if group and row.group != group:
            whose = f"of group {row.group!r}" if row.group else "of no group"
            msg = f"run {name} is {whose}, not of {group!r}; choose another run id. Nothing was changed."
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
        when it wakes; whoever else waits goes on waiting. While the brake is on, everybody waits.
        """
        try:
            return self.store.claim(row.id)
        except ValueError:
            return None
        except Paused as brake:
            if not self._stop.said:
                import logging

                logging.getLogger("yaoki").warning("run %s: %s", row.name, brake)
            self._stop.said = True
            return None
        except RunBusy:
            if joined:
                return None
            raise

    def _report(self, name: str, loop: Loop[Any, Any], history: History | None) -> Receipt[Any]:
        """Return the receipt; a run left waiting by this very call is shown to `on_wait` first."""
        receipt = self._receipt(name, loop, history)
        if history is not None and receipt.status is State.WAITING:
            self._tell(receipt)
        return receipt

    def _tell_waiting(self, name: str, loop: Loop[Any, Any], history: History) -> None:
        """Show a run that was left waiting to `on_wait`."""
        if self._on_wait is not None:
            self._tell(self._receipt(name, loop, history))

    def _tell(self, receipt: Receipt[Any]) -> None:
        if self._on_wait is None:
            return
        try:
            self._on_wait(receipt)
        except Exception:  # who is told never decides about a run
            import logging

            logging.getLogger("yaoki").exception("run %s: on_wait raised; the run waits all the same", receipt.run_id)

    def _receipt(self, name: str, loop: Loop[Any, Any], history: History | None = None) -> Receipt[Any]:
        row = self._on_store.row(name)
        if history is None:
            history = History.of(self.store.load(row.id))
        return receipt_of(row, history, loop=loop, budget=loop.budget)


def driven_by(runner: Base) -> dict[str, int]:
    """Return the runs a runner drives now, by id, with a number that changes as they move; from any thread."""
    stop = runner._stop  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its own module
    return {live.name: len(live.asked) + live.history.seq for live in tuple(stop.lives)}


class _Stop:
    """Whether a runner was told to stop, and what it drives; shared by a runner and its twins."""

    def __init__(self) -> None:
        self.asked = False
        self.said = False
        self.lives: set[Live] = set()

    def ask(self) -> None:
        """Begin nothing more. May be called in a signal handler: it takes no lock."""
        self.asked = True
        for live in tuple(self.lives):
            live.stop_with(DRAIN)

    def enter(self, live: Live) -> None:
        """A run is driven from now on."""
        self.lives.add(live)
        if self.asked:
            live.stop_with(DRAIN)


DRAIN = Halt(to="drain", text="its process was told to stop")


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
