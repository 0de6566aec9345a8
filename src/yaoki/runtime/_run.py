"""`Run` and `AsyncRun`: what a loop may ask of its run."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

import msgspec
from msgspec import Raw

from yaoki.errors import DeclarationError, OutsideBranch, StepFailed
from yaoki.records import Gap, Hold, Record, Refused, Scope, Spend, Value
from yaoki.runtime import _context
from yaoki.runtime._effects import Suspend
from yaoki.runtime._fan import branch_names, fan_async, fan_sync
from yaoki.runtime._ladder import drifted
from yaoki.runtime._live import Branch, Live
from yaoki.runtime._step import fingerprint
from yaoki.runtime._sync import commit_inline, cut_branch
from yaoki.runtime._timeouts import AsyncTimeout, SyncTimeout
from yaoki.runtime._toolbox import Settled, Toolbox, ToolCall, ToolResult, result_of
from yaoki.runtime._turns import AsyncTurns, Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Sequence
    from uuid import UUID

    from yaoki.records import Failure

__all__ = ["AsyncRun", "Run"]

T = TypeVar("T")
S = TypeVar("S")
_CALLS_MOST = 128
_KEY_CHARS = 100
_SLEEP_MOST_S = 10 * 366 * 86_400
_COST_MOST_USD = 1e12


class _Base:
    """What both share: everything that needs no waiting."""

    def __init__(self, live: Live, *, restart_at_checkpoint: bool = False) -> None:
        self._live = live
        self._restart = restart_at_checkpoint

    @property
    def id(self) -> str:
        """The run's id."""
        return self._live.name

    @property
    def failures(self) -> list[Failure]:
        """
        Failures met so far by the steps the loop has asked for, also those that healed; oldest first.

        Deaths of the process are left out: the loop must see the same when it is replayed.
        """
        asked = self._live.asked
        met = self._live.history.met
        return [
            one.failure
            for past, one in met
            if one.failure.scope is not Scope.PROCESS and past.step.split("!", 1)[0] in asked
        ]

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of each bounded budget, by field. Recorded, so that a replay sees the same."""
        live = self._live

        def read() -> dict[str, float]:
            budget, spent = live.budget, live.history.spent
            left = {field: budget.left(spent, field) for field in budget.as_dict() if field != "wall_s"}
            if budget.wall_s is not None:
                left["wall_s"] = max(0.0, budget.wall_s - live.history.elapsed_wall_s(live.now_ms()))
            return left

        found: dict[str, float] = self._recorded("remaining", read)
        return found

    def now(self) -> datetime:
        """Return the time, UTC; a replay sees the same."""
        found: int = self._recorded("now", self._live.now_ms)
        return datetime.fromtimestamp(found / 1000, UTC)

    def random(self) -> float:
        """Return a random number in [0, 1); a replay sees the same."""
        found: float = self._recorded("random", self._live.clock.rng().random)
        return found

    def uuid(self) -> UUID:
        """Return a fresh id; a replay sees the same."""
        from uuid import UUID

        found: str = self._recorded("uuid", self._live.clock.new_id)
        return UUID(found)

    def gap(self, text: str) -> None:
        """Note that something is missing from the result; it stands on the receipt. At most 2,000 characters."""
        self._once("gap", lambda at: Gap(at=at, text=text[:2000]))

    def spend(self, *, calls: int = 0, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """Report what the loop used of its budget itself; counted once, also when replayed."""
        if calls < 0 or tokens < 0 or not 0 <= cost_usd < _COST_MOST_USD:
            msg = "run.spend: amounts are finite and not negative"
            raise DeclarationError(msg)
        self._once("spend", lambda at: Spend(at=at, calls=calls, tokens=tokens, cost_usd=cost_usd))

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """
        Name a branch for the steps inside; in a task you started, the only way to call steps.

        Raises:
            OutsideBranch: Called outside the run.
        """
        parent = self._place("scope", own=False)
        child = parent.child(branch_names(parent, f"scope[{_escape(name)}]"))
        child.owner = self._live.driver.whoami()
        branches: set[Branch] | None = getattr(self._live.driver, "branches", None)
        if branches is not None:
            branches.add(child)
        # Also for a scope in a task of its own: what the parent does between steps, a resume repeats.
        parent.children += 1
        token = _context.enter(child)
        try:
            yield
        finally:
            _context.leave(token)
            parent.children -= 1
            if branches is not None:
                branches.discard(child)
                driver: Any = self._live.driver
                driver.check_quiet()

    # --- shared machinery

    def _place(self, what: str, *, own: bool = True) -> Branch:
        here = _context.here()
        if not isinstance(here, Branch) or here.live is not self._live:
            msg = f"run {self._live.name}: run.{what} was used outside its loop; nothing was executed"
            raise OutsideBranch(msg)
        if own:
            here.enter(f"run.{what}")
            if here.cut:
                cut_branch(self._live, f"run.{what}")
        return here

    def _recorded(self, name: str, read: Callable[[], Any]) -> Any:
        key, record = self._once(name, lambda at: Value(at=at, value=Raw(msgspec.json.encode(read()))))
        if not isinstance(record, Value):
            self._drift(key, type(record).__name__.lower(), f"run.{name}")
        return msgspec.json.decode(record.value)

    def _once(self, name: str, make: Callable[[int], Record]) -> tuple[str, Record]:
        """Return the recorded point, or record it now."""
        live = self._live
        branch = self._place(name)
        key = branch.next_key(f"run.{name}")
        with live.lock:
            live.ask(key)
            found = live.history.points.get(key)
            if found is not None:
                return key, found[1]
            left_out = "" if branch.replaying else live.left_out(key)
            if left_out:
                self._drift(key, left_out, f"run.{name}")
            self._flush()
            record = make(live.now_ms())
            commit_inline(live, key, record)
        return key, record

    def _flush(self) -> None:
        commits = getattr(self._live.driver, "commits", None)
        if commits is not None:
            commits.flush()

    def _drift(self, key: str, recorded: str, called: str) -> NoReturn:
        steps = drifted(self._live, key, recorded, called)
        next(steps)
        raise self._live.signal()

    def _sleep_hold(self, seconds: float) -> tuple[Branch, int]:
        if not 0 <= seconds <= _SLEEP_MOST_S:
            msg = f"run.sleep({seconds}): seconds lie between 0 and {_SLEEP_MOST_S:,} (ten years)"
            raise DeclarationError(msg)

        def make(at: int) -> Hold:
            return Hold(at=at, since=at, until=at + int(seconds * 1000), reason="sleep")

        branch = self._place("sleep")
        _, record = self._once("sleep", make)
        assert isinstance(record, Hold)
        return branch, record.until

    def _timeout_key(self, seconds: float) -> tuple[Branch, str]:
        if not 0 < seconds <= _SLEEP_MOST_S:
            msg = f"run.timeout({seconds}): seconds are above zero, and at most {_SLEEP_MOST_S:,} (ten years)"
            raise DeclarationError(msg)
        branch = self._place("timeout")
        return branch, branch.next_key("run.timeout")

    def _refuse_call(self, branch: Branch, call: ToolCall, error: StepFailed) -> ToolResult:
        """Record a model's call that could not become an attempt, and tell the model."""
        key = branch.next_key("run.refused")
        live = self._live
        with live.lock:
            live.ask(key)
            if key not in live.history.points:
                self._flush()
                shown = f"{call.name}(…)"
                refused = Refused(at=live.now_ms(), failure=error.failure, call=shown[:300], call_id=str(call.id)[:200])
                commit_inline(live, key, refused)
        return result_of(call, error)

    def _call_keys(self, calls: Sequence[ToolCall]) -> list[str]:
        if len(calls) > _CALLS_MOST:
            msg = f"run.call_tools takes at most {_CALLS_MOST} calls at once; there are {len(calls)}"
            raise DeclarationError(msg)
        return [str(i) for i in range(len(calls))]


class Run(_Base):
    """A run as a plain `def` loop sees it. Nothing is awaited; steps block."""

    def turns(self, default: S) -> Turns[S]:
        """
        Iterate over turns: `for state in run.turns(default):`, `state` changed in place and saved after each body.

        A resume starts at the last saved turn. Leaving by break, return or exception saves nothing, nor does the
        last turn of the budget: the iterator then stops, and what the loop returns is its partial value.

        Raises:
            StateError: An immutable default, a second `turns`, a state that was rebound, open steps.
        """
        return Turns(self._place("turns"), default, restart=self._restart)

    def sleep(self, seconds: float) -> None:
        """Wait. Long waits leave memory; a restart waits only the rest."""
        branch, until_ms = self._sleep_hold(seconds)
        driver: Any = self._live.driver
        driver.wait_until(until_ms, "sleep", branch)

    def timeout(self, seconds: float) -> SyncTimeout:
        """
        Bound a block: `with run.timeout(60):`. Looked at between steps: TimeoutError at the first new step after it.

        A sync attempt is not interrupted; one that takes `timeout_s` is told what is left.
        """
        branch, key = self._timeout_key(seconds)
        return SyncTimeout(branch, key, seconds)

    def map(
        self,
        fn: Callable[[T], Any],
        items: Iterable[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        limit: int = 8,
    ) -> list[Settled]:
        """
        Apply `fn` to each item in a branch of its own, in up to `limit` threads; results in order, as `Settled`.

        A branch's StepFailed becomes its `Settled.failure`; anything else stops the rest and propagates.

        Args:
            key: Names a branch so that it is found again; by default the index. Duplicates are refused.
            limit: 1 to 1,000.
        """
        branch = self._place("map")
        listed = list(items)
        names = map_names(branch, listed, key)
        outcomes = fan_sync(branch, names, [partial(fn, item) for item in listed], limit)
        return [_settled(outcome) for outcome in outcomes]

    def call_tools(self, tools: Toolbox, calls: Sequence[ToolCall], *, limit: int = 16) -> list[ToolResult]:
        """
        Run a model's tool calls in parallel, one branch each, and return their results in order.

        A model's mistakes come back as results with `is_error` set, never as exceptions: an unknown
        name is `capability`, wrong arguments are `semantic`. Calls that settled earlier in this run
        return what was recorded; nothing is executed.

        Durability: each call's attempt is recorded before it starts. If the process dies during a
        call, that attempt is spent, and what happens next depends on the tool's effect kind.

        Args:
            tools: What may be called.
            calls: At most 128. Their ids are recorded; they need not be unique.
            limit: How many run at once.

        Raises:
            OutsideBranch: Called from a thread this run did not start.
        """
        branch = self._place("call_tools")
        keys = self._call_keys(calls)
        name = branch_names(branch, "call")
        names = [f"{name}[{key}]" for key in keys]
        outcomes = fan_sync(branch, names, [partial(self._one, tools, call) for call in calls], limit)
        return [_result(call, outcome) for call, outcome in zip(calls, outcomes, strict=True)]

    def _one(self, tools: Toolbox, call: ToolCall) -> object:
        here = _context.here()
        assert isinstance(here, Branch)
        try:
            tool, own, args = tools.look_up(call)
        except StepFailed as error:
            return self._refuse_call(here, call, error)
        return self._live.driver.use(here, tool, (), args, owner=own, call_id=str(call.id)[:200], for_model=True)


class AsyncRun(_Base):
    """A run as an `async def` loop sees it."""

    def turns(self, default: S) -> AsyncTurns[S]:
        """
        Iterate over turns: `async for state in run.turns(default):`; as `Run.turns`.

        Raises:
            StateError: An immutable default, a second `turns`, a state that was rebound, open steps.
        """
        return AsyncTurns(self._place("turns"), default, restart=self._restart)

    async def sleep(self, seconds: float) -> None:
        """Wait. Long waits leave memory; a restart waits only the rest."""
        branch, until_ms = self._sleep_hold(seconds)
        driver: Any = self._live.driver
        driver.enter_op(branch)
        try:
            await driver.wait_until(until_ms, "sleep", branch)
            if self._live.halt is not None:
                await driver.hold(Suspend("halt"), branch)
        except BaseException:
            driver.note_cut(branch)
            raise
        finally:
            driver.leave_op(branch)

    def timeout(self, seconds: float) -> AsyncTimeout:
        """
        Bound a block: `async with run.timeout(60):`. What is under way is cancelled, and TimeoutError raised.

        A replay raises it at the same point; a bare `asyncio.timeout` around steps cannot be, and parks the run.
        """
        branch, key = self._timeout_key(seconds)
        return AsyncTimeout(branch, key, seconds)

    @overload
    async def map(
        self,
        fn: Callable[[T], Awaitable[Any]],
        items: Iterable[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        limit: int = 8,
    ) -> list[Settled]: ...
    @overload
    async def map(
        self, fn: Callable[[T], Any], items: Iterable[T], *, key: Callable[[T], Hashable] | None = None, limit: int = 8
    ) -> list[Settled]: ...
    async def map(
        self,
        fn: Callable[[T], Any],
        items: Iterable[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        limit: int = 8,
    ) -> list[Settled]:
        """
        Apply `fn` to each item in a branch of its own, up to `limit` at once; results in order, as `Settled`.

        A branch's StepFailed becomes its `Settled.failure`; anything else cancels the rest and propagates. A branch
        that waits for somebody waits alone and does not count against `limit`.

        Args:
            key: Names a branch so that it is found again; by default the index. Duplicates are refused.
            limit: 1 to 1,000.
        """
        branch = self._place("map")
        listed = list(items)
        names = map_names(branch, listed, key)
        outcomes = await fan_async(branch, names, [partial(fn, item) for item in listed], limit)
        return [_settled(outcome) for outcome in outcomes]

    async def call_tools(self, tools: Toolbox, calls: Sequence[ToolCall], *, limit: int = 16) -> list[ToolResult]:
        """
        Run a model's tool calls in parallel, one branch each, and return their results in order.

        A model's mistakes come back as results with `is_error` set, never as exceptions: an unknown
        name is `capability`, wrong arguments are `semantic`. Calls that settled earlier in this run
        return what was recorded; nothing is executed.

        Durability: each call's attempt is recorded before it starts. If the process dies during a
        call, that attempt is spent, and what happens next depends on the tool's effect kind.

        Args:
            tools: What may be called.
            calls: At most 128. Their ids are recorded; they need not be unique.
            limit: How many run at once.

        Raises:
            OutsideBranch: Called from a task this run did not start.
        """
        branch = self._place("call_tools")
        keys = self._call_keys(calls)
        name = branch_names(branch, "call")
        names = [f"{name}[{key}]" for key in keys]
        thunks = [partial(self._one, tools, call) for call in calls]
        outcomes = await fan_async(branch, names, thunks, limit)
        return [_result(call, outcome) for call, outcome in zip(calls, outcomes, strict=True)]

    async def _one(self, tools: Toolbox, call: ToolCall) -> object:
        here = _context.here()
        assert isinstance(here, Branch)
        try:
            tool, own, args = tools.look_up(call)
        except StepFailed as error:
            return self._refuse_call(here, call, error)
        used = self._live.driver.use(here, tool, (), args, owner=own, call_id=str(call.id)[:200], for_model=True)
        return await used if inspect.isawaitable(used) else used


def map_names(branch: Branch, items: Sequence[Any], key: Callable[[Any], Hashable] | None) -> list[str]:
    """Return the items' branch names, unique within the map."""
    keys = [_escape(str(i if key is None else key(item))) for i, item in enumerate(items)]
    if len(set(keys)) != len(keys):
        twice = next(k for k in keys if keys.count(k) > 1)
        msg = f"run.map: two items have the key {twice!r}; keys name branches and must differ"
        raise DeclarationError(msg)
    name = branch_names(branch, "map")
    return [f"{name}[{k}]" for k in keys]


def _escape(text: str) -> str:
    for mark in "%/#!":
        text = text.replace(mark, f"%{ord(mark):02x}")
    if len(text) > _KEY_CHARS:  # long keys stay apart by their hash
        return f"{text[: _KEY_CHARS - 25]}~{fingerprint('key', text.encode())}"
    return text


def _settled(outcome: object) -> Settled:
    return Settled(failure=outcome.failure) if isinstance(outcome, StepFailed) else Settled(value=outcome)


def _result(call: ToolCall, outcome: object) -> ToolResult:
    return outcome if isinstance(outcome, ToolResult) else result_of(call, outcome)
