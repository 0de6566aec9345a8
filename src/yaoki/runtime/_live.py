"""A run while a process drives it: its history, its bounds, and why it must stop, if it must."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from msgspec import Raw, Struct, field

from yaoki.codec import canonical
from yaoki.errors import Fenced, OutsideBranch, Park, Passing, Stopped
from yaoki.events import Event, tell
from yaoki.policy import Admission, Budget, admit
from yaoki.runtime._groups import Counted
from yaoki.runtime._scopes import Scopes
from yaoki.runtime._unasked import Unasked, fan_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.clock import Clock
    from yaoki.events import Observer
    from yaoki.journal import Journal
    from yaoki.records import Failure, Record, Settle
    from yaoki.runtime._history import History
    from yaoki.runtime._loop import Loop
    from yaoki.runtime._step import Step
    from yaoki.runtime._tool import Tool

__all__ = ["NEVER_MS", "Branch", "Driver", "Halt", "Limits", "Live"]

NEVER_MS = 1 << 53
"""A time that does not come: the end of a `run.timeout` that was left in time."""

UNBOUNDED = Budget(turns=None, retries=None, wall_s=None)


class Limits(Struct, frozen=True, kw_only=True):
    """What a runner sets for every run it drives."""

    park_after_s: float = 30
    result_max_bytes: int = 16 * 1024 * 1024
    drain_s: float = 5
    interactive: bool = False
    """Whether a person watches, and is asked in place of each longer wait of a ladder."""
    pgid: int = 0
    """Process group of what attempts start, if it is this worker's alone."""


class Halt(Struct, frozen=True, kw_only=True):
    """Why nothing new begins in this residency, and what becomes of the run once all is quiet."""

    to: Literal["code", "dead", "cancelled", "capped", "drain"]
    text: str
    stopped_by: str = ""
    step: str = ""
    diff: str = ""
    failure: Failure | None = None
    value: bytes | None = None
    """What a capped run leaves; else it is the state that was saved last."""


class Driver(Protocol):
    """What performs effects for a run; sync or async."""

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
        """Make a call a step: its value, or an awaitable of it."""
        ...

    def whoami(self) -> object:
        """Return the task or thread that calls."""
        ...


class Branch:
    """
    A named line of steps inside a run. Only its own task or thread may call steps in it.

    `active` counts its operations under way, `held` those suspended until somebody acts, `children` operations that
    only wait for branches of their own, `apart` those of them that tasks of the loop's own drive, `starting` branches
    below that have yet to start; `place` is its own under a limit. `passing` is what parked it, raised again at each
    next operation. `stopped` says that a branch beside it raised, so nothing begins in it or below any more; `ended`
    names their `map` where this is so in the journal.
    """

    __slots__ = (
        "active",
        "apart",
        "children",
        "counts",
        "cut",
        "ended",
        "held",
        "live",
        "owner",
        "parent",
        "passing",
        "path",
        "place",
        "starting",
        "stopped",
        "timeouts",
    )

    def __init__(self, live: Live, path: str, parent: Branch | None) -> None:
        self.live = live
        self.path = path
        self.parent = parent
        self.counts: dict[str, int] = {}
        self.owner: object = None
        self.cut = False
        self.passing: Passing | None = None
        self.stopped = False
        self.ended = ""
        self.timeouts: list[Any] = []
        self.place: Any = None
        self.starting = 0
        self.apart = 0
        self.active = 0
        self.held = 0
        self.children = 0

    def use(
        self, tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, owner: object = None
    ) -> object:
        """Use a tool here: a step of this branch."""
        return self.live.driver.use(self, tool, args, kwargs, owner=owner)

    def next_key(self, name: str) -> str:
        """Return the identity of the next operation of a name in this branch."""
        n = self.counts.get(name, 0)
        self.counts[name] = n + 1
        return f"{self.live.prefix}{self.path}/{name}#{n}"

    def all_timeouts(self) -> list[Any]:
        """Return the `run.timeout` blocks around this branch, the innermost first."""
        found: list[Any] = []
        here: Branch | None = self
        while here is not None:
            found.extend(reversed(here.timeouts))
            here = here.parent
        return found

    def overdue(self) -> bool:
        """Whether a `run.timeout` around this branch has run out without having fired."""
        here: Branch | None = self
        while here is not None:
            for timeout in here.timeouts:
                if not timeout.fired and not timeout.recorded_seq and timeout.left_s() <= 0:
                    return True
            here = here.parent
        return False

    @property
    def replaying(self) -> bool:
        """Whether the journal says that a `run.timeout` or a raise ended this branch, which has yet to happen again."""
        here: Branch | None = self
        while here is not None:
            if here.ended or (here.timeouts and any(one.recorded_seq and not one.fired for one in here.timeouts)):
                return True
            here = here.parent
        return False

    @property
    def ended_by_raise(self) -> str:
        """The `map` or `call_tools` around this branch in which one raised, in the journal: nothing new begins here."""
        here: Branch | None = self
        while here is not None and not here.ended:
            here = here.parent
        return here.ended if here is not None else ""

    @property
    def ended_before(self) -> bool:
        """Whether a `run.timeout` around this branch ended what it waits for, in the journal, and has yet to do so."""
        return any(timeout.fired_before for timeout in self.all_timeouts())

    def ends_ms(self) -> int:
        """Return when the first `run.timeout` around this branch ends that has not yet; 0 if there is none."""
        now_ms = self.live.now_ms()
        ends = [timeout.until_ms for timeout in self.all_timeouts() if now_ms < timeout.until_ms < NEVER_MS]
        return min(ends, default=0)

    def within(self, other: Branch) -> bool:
        """Whether this branch is that one, or below it."""
        here: Branch | None = self
        while here is not None and here is not other:
            here = here.parent
        return here is not None

    def child(self, name: str) -> Branch:
        """Return a branch below this one."""
        path = f"{self.path}/{name}" if self.path else name
        return Branch(self.live, path, self)

    def enter(self, what: str) -> None:
        """
        Refuse an operation that does not belong here.

        Raises:
            OutsideBranch: The caller is another task or thread than the branch's own.
            Passing: The run has been let go of, or a signal was swallowed.
        """
        live = self.live
        if live.broken is not None:
            raise live.broken
        if live.detached or live.stopping:
            raise Fenced(f"run {live.name} is no longer driven here")
        if self.passing is not None:
            raise self.passing
        self.refuse_if_stopped()
        if self.owner != live.driver.whoami():
            where = f"branch {self.path!r}" if self.path else "the loop"
            msg = (
                f"run {live.name}: {what} was called from another task or thread than {where}'s own; nothing was "
                "executed. Use run.map or run.call_tools for parallel steps, or `with run.scope(name):` in a task "
                "you started."
            )
            raise OutsideBranch(msg)

    def refuse_if_stopped(self) -> None:
        """
        Refuse what would go on in a branch that its group has done with.

        Raises:
            Stopped: A branch beside it, or beside one around it, raised.
        """
        here: Branch | None = self
        while here is not None:
            if here.stopped:
                raise Stopped(f"run {self.live.name}: a branch beside {here.path!r} raised; nothing more begins in it")
            here = here.parent

    def next_left_out(self) -> str:
        """
        Return what the journal holds of the code that follows here, or nothing: a new call would come before it.

        That is what is left on this branch's own line, in branches it would wait for, and likewise on each line
        that waits for this one. Branches beside it are in no order, nor is a scope in a task of its own.
        """
        unasked, prefix = self.live.recorded, self.live.prefix
        here, within = self, ""
        while unasked:
            found = unasked.left(f"{prefix}{here.path}/", within)
            parent = here.parent
            if found or parent is None:
                return found
            within = fan_of(here.path[len(parent.path) :].lstrip("/"))
            if not within and here.owner != parent.owner:
                return ""
            here = parent
        return ""


class Live(Struct, kw_only=True, eq=False):
    """One run, driven here."""

    journal: Journal
    run: int
    name: str
    epoch: int
    group: str = ""
    """The group whose budget it shares."""
    counted: Counted = Counted()
    """What of this run its group has been charged with."""
    loop: Loop[Any, Any]
    history: History
    declared: Budget
    limits: Limits
    clock: Clock
    driver: Driver
    observers: Sequence[Observer] = ()
    asked: set[str] = field(default_factory=set[str])
    driven: set[str] = field(default_factory=set[str])
    left: set[str] = field(default_factory=set[str])
    """Steps whose ladder was gone through here, and has ended or was cut."""
    recorded: Unasked = field(default_factory=Unasked)
    """What the journal held of this segment and the prelude at the claim, and the code has not asked for yet."""
    halt: Halt | None = None
    detached: bool = False
    stopping: bool = False
    broken: Exception | None = None
    capped: str = ""
    turning: bool = False
    compensating: bool = False
    """A cancel that asks for it is carried out here: the loop is not entered, what it did is undone."""
    given: dict[str, Step] = field(default_factory=dict[str, "Step"])
    """Calls of tools with an `undo` that were begun here, by identity."""
    owed: dict[str, tuple[str, Settle]] = field(default_factory=dict[str, "tuple[str, Settle]"])
    """By step: how the second call beside its attempt is settled, once the attempt is."""
    prefix: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)
    main: Branch = cast("Branch", None)
    """Made with the run it refers to."""
    scopes: Scopes = cast("Scopes", None)
    """Made with the run it refers to."""

    def __post_init__(self) -> None:
        """Start in the main branch, at the segment the history has reached."""
        self.main = Branch(self, "", None)
        self.scopes = Scopes(self)
        self.move_to(0)

    def move_to(self, segment: int) -> None:
        """Enter a segment: names in the main branch count anew."""
        self.prefix = f"{self.history.pass_}.{segment}/"
        self.main.counts = {}

    @property
    def budget(self) -> Budget:
        """The declared budget with what was topped up."""
        budget = self.declared
        for top_up in self.history.top_ups:
            budget = budget.topped_up(top_up.add)
        return budget

    @property
    def halted(self) -> bool:
        """Whether nothing new may begin in this residency."""
        return self.halt is not None

    def now_ms(self) -> int:
        """Return the clock's milliseconds."""
        return self.clock.now_ms()

    def recall(self) -> None:
        """Note what the journal holds of each branch, so that a call it does not hold is known to come too early."""
        history = self.history
        known = (*history.steps, *history.points)
        self.recorded = Unasked(key for key in known if "!" not in key and key not in self.asked)

    def ask(self, key: str) -> None:
        """Note that the code asked for a step or point."""
        self.asked.add(key)
        if self.recorded:
            self.recorded.discard(key)

    def leave_out(self, branches: Sequence[Branch]) -> None:
        """What is recorded of branches that were stopped need not be asked for: a replay stops them too, elsewhere."""
        paths = tuple(f"{self.prefix}{branch.path}/" for branch in branches)
        for key in (*self.history.steps, *self.history.points):
            if key.startswith(paths):
                self.ask(key)

    def note(self, key: str, record: Record) -> int:
        """Number a record of this process and fold it; the caller commits it before anything depends on it."""
        seq = self.history.seq + 1
        self.history.apply(seq, key, record)
        return seq

    def flush(self) -> None:
        """Write what was noted here and waits to be committed with others: the store says what the history says."""
        commits = getattr(self.driver, "commits", None)
        if commits is not None:
            commits.flush()

    def show(self, key: str, record: Record) -> None:
        """Show a written record to the observers."""
        turned, self.scopes.turned = self.scopes.turned, ()
        if self.observers:
            event = Event(run_id=self.name, loop=self.loop.name, key=key, record=record, circuits=turned)
            tell(self.observers, event)

    def undoing(self, step: Step) -> bool:
        """Whether a step undoes another: neither a cancel nor an empty budget keeps it from that, only a drain."""
        return bool(step.fixed_key) and (self.halt is None or self.halt.to not in ("drain", "code"))

    def stopped(self, *, through: bool = False) -> bool:
        """Whether waits are over because nothing new begins; those of undoing go on through all but a drain."""
        return self.halt is not None and (not through or self.halt.to in ("drain", "code"))

    def given_to(self, step: Step) -> Raw:
        """Return a call's arguments as they are journaled, and remember all of them while this process lives."""
        self.given[step.key] = step
        hidden = step.tool.hidden
        return Raw(canonical({name: value for name, value in step.values.items() if name not in hidden}))

    @property
    def cost_bounded(self) -> bool:
        """Whether a bound on cost hangs on what calls report."""
        return self.declared.cost_usd is not None or bool(self.group)

    def admit(
        self, step: Step, *, first: bool, deadline_ms: int, now_ms: int, reserved: dict[str, float] | None = None
    ) -> Admission:
        """Ask whether an attempt may begin now."""
        history = self.history
        if step.fixed_key:
            return admit(
                budget=UNBOUNDED,
                spent=history.spent,
                elapsed_wall_s=0,
                cancelled=False,
                first=first,
                deadline_ms=deadline_ms,
                now_ms=now_ms,
            )
        return admit(
            budget=self.budget if history.top_ups else self.declared,
            spent=history.spent,
            elapsed_wall_s=history.elapsed_wall_s(now_ms),
            cancelled=history.cancel is not None,
            first=first,
            deadline_ms=deadline_ms,
            now_ms=now_ms,
            reserved=reserved,
            in_flight=history.in_flight,
        )

    def stop_with(self, halt: Halt) -> None:
        """Begin nothing more; the first reason stands."""
        if self.halt is None:
            self.halt = halt

    def signal(self) -> Passing:
        """Return what a branch that cannot go on raises."""
        if self.detached:
            return Fenced(f"run {self.name} is no longer driven here")
        if self.halt is not None and self.halt.to == "cancelled":
            return Stopped(f"run {self.name} was cancelled")
        return Park(f"run {self.name} waits")
