"""`Run` and `AsyncRun`: what a loop may ask of its run."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from yaoki.errors import DeclarationError, StepFailed
from yaoki.records import Cause
from yaoki.runtime import _context
from yaoki.runtime._ask import ASK_EXPIRES_S, NOTHING, Asks
from yaoki.runtime._effects import Suspend
from yaoki.runtime._fan import branch_names, fan_async, fan_sync
from yaoki.runtime._live import Branch
from yaoki.runtime._run_base import escape, settled
from yaoki.runtime._timeouts import AsyncTimeout, SyncTimeout
from yaoki.runtime._tool import BoundTool, Tool
from yaoki.runtime._toolbox import Settled, Toolbox, ToolCall, ToolResult, result_of
from yaoki.runtime._turns import AsyncTurns, Turns
from yaoki.runtime._verify import about_of, verify_tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence

    from yaoki.runtime._verify import Check, Verdict

__all__ = ["AsyncRun", "Run"]

T = TypeVar("T")
S = TypeVar("S")
V = TypeVar("V")
P = ParamSpec("P")


class Run(Asks):
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

    @overload
    def ask(
        self,
        question: str,
        into: type[T],
        *,
        options: Sequence[str] | None = None,
        default: T = ...,
        expires_s: float = ...,
    ) -> T: ...
    @overload
    def ask(
        self, question: str, *, options: Sequence[str] | None = None, default: str = ..., expires_s: float = ...
    ) -> str: ...
    @overload
    def ask(
        self,
        question: str,
        into: Any,
        *,
        options: Sequence[str] | None = None,
        default: Any = ...,
        expires_s: float = ...,
    ) -> Any: ...
    def ask(
        self,
        question: str,
        into: Any = str,
        *,
        options: Sequence[str] | None = None,
        default: Any = NOTHING,
        expires_s: float = ASK_EXPIRES_S,
    ) -> Any:
        """
        Ask a person, and return the answer: `yaoki answer RUN VALUE`, or `runner.answer(run_id, None, "value", …)`.

        Recorded at this point of the loop: nobody is asked twice, and a replay returns the same. Meanwhile the branch
        waits, and the run leaves memory. The first answer wins; one of another type is refused where it is given.

        Args:
            question: 1 to 2,000 characters; the same at each replay (a changed text is a changed question).
            into: The answer's type.
            options: At most 100 texts, one of which is the answer.
            default: What stands when nobody answers in time; without one the run is then a dead letter.
            expires_s: How long the answer may take, up to ten years; 7 days unless written otherwise.

        Raises:
            StepFailed: A person said `abort`.
            DeclarationError: A question that cannot be asked; nothing was recorded.
        """
        asking = self._asking(question, into, options, default, expires_s)
        branch, key = self._ask_point(asking)
        while True:
            done, value = self._ask_outcome(branch, key, asking)
            if done:
                return value
            driver: Any = self._live.driver
            try:
                driver.hold(self._ask_suspend(branch, key), branch)
            except TimeoutError:  # a run.timeout around it
                self._ask_cut(key)
                raise

    @overload
    def wait_signal(self, name: str, into: type[T], *, timeout_s: float | None = None) -> T: ...
    @overload
    def wait_signal(self, name: str, into: Any = None, *, timeout_s: float | None = None) -> Any: ...
    def wait_signal(self, name: str, into: Any = None, *, timeout_s: float | None = None) -> Any:
        """
        Wait for a signal, sent by `runner.signal` or `yaoki signal RUN NAME VALUE`, and return its value.

        Signals are kept until they are taken: the n-th wait for a name takes the n-th signal of that name. A replay
        returns the same. Meanwhile the run is `waiting`, out of memory.

        Args:
            name: At most 200 printable characters.
            into: The value's type; by default plain JSON.
            timeout_s: How long to wait, up to ten years; by default without end.

        Raises:
            TimeoutError: No signal came in time; recorded, so a replay raises it too.
            EncodingError: The signal that came is of another type. It is left for the next wait; where code that has
                been changed since takes it, a replay does. One sent while the run waits is refused to the sender.
        """
        branch, key, until_ms = self._signal_wait(name, into, timeout_s)
        while True:
            done, value = self._signal_taken(branch, key, name, until_ms, into)
            if done:
                return value
            driver: Any = self._live.driver
            driver.hold(self._signal_suspend(branch, name, until_ms), branch)

    def try_call(self, tool: Callable[P, V], /, *args: P.args, **kwargs: P.kwargs) -> Settled[V]:
        """
        Use a tool as a step, and return its value or, where its ladder ended without one, its failure.

        Raises:
            DeclarationError: `tool` is no tool.
        """
        _refuse_other(tool)
        try:
            return Settled(value=tool(*args, **kwargs))
        except StepFailed as error:
            return Settled(failure=error.failure)

    def verify(self, output: object, check: Check) -> Verdict:
        """
        Ask whether an output is kept: by a check of `yaoki.verify`, or a function of it; recorded with the evidence.

        A step like any other: asked again after a death, retried where the check itself fails, never asked again
        once it has said. `timeout_s` of the check bounds it (600 s by default).

        Raises:
            DeclarationError: No check, an async one, or an output that cannot be journaled.
            StepFailed: The check could not say.
        """
        told: Verdict = verify_tool(check, awaited=False)(about_of(output, check), check, output)
        return told

    def map(
        self,
        fn: Callable[[T], Any],
        items: Iterable[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        limit: int = 8,
    ) -> list[Settled[Any]]:
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
        return [settled(outcome) for outcome in outcomes]

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


class AsyncRun(Asks):
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

    async def verify(self, output: object, check: Check) -> Verdict:
        """Ask whether an output is kept, as `Run.verify`; a plain check is asked in a thread."""
        told: Verdict = await verify_tool(check, awaited=True)(about_of(output, check), check, output)
        return told

    def timeout(self, seconds: float) -> AsyncTimeout:
        """
        Bound a block: `async with run.timeout(60):`. What is under way is cancelled, and TimeoutError raised.

        A replay raises it at the same point; a bare `asyncio.timeout` around steps cannot be, and parks the run.
        """
        branch, key = self._timeout_key(seconds)
        return AsyncTimeout(branch, key, seconds)

    @overload
    async def ask(
        self,
        question: str,
        into: type[T],
        *,
        options: Sequence[str] | None = None,
        default: T = ...,
        expires_s: float = ...,
    ) -> T: ...
    @overload
    async def ask(
        self, question: str, *, options: Sequence[str] | None = None, default: str = ..., expires_s: float = ...
    ) -> str: ...
    @overload
    async def ask(
        self,
        question: str,
        into: Any,
        *,
        options: Sequence[str] | None = None,
        default: Any = ...,
        expires_s: float = ...,
    ) -> Any: ...
    async def ask(
        self,
        question: str,
        into: Any = str,
        *,
        options: Sequence[str] | None = None,
        default: Any = NOTHING,
        expires_s: float = ASK_EXPIRES_S,
    ) -> Any:
        """Ask a person, as `Run.ask`; other branches go on."""
        asking = self._asking(question, into, options, default, expires_s)
        branch, key = self._ask_point(asking)
        driver: Any = self._live.driver
        while True:
            done, value = self._ask_outcome(branch, key, asking)
            if done:
                return value
            driver.enter_op(branch)
            try:
                await driver.hold(self._ask_suspend(branch, key), branch)
            except BaseException:
                driver.note_cut(branch)
                if driver.cause_of(branch)[0] is Cause.TIMEOUT:
                    self._ask_cut(key)
                raise
            finally:
                driver.leave_op(branch)

    @overload
    async def wait_signal(self, name: str, into: type[T], *, timeout_s: float | None = None) -> T: ...
    @overload
    async def wait_signal(self, name: str, into: Any = None, *, timeout_s: float | None = None) -> Any: ...
    async def wait_signal(self, name: str, into: Any = None, *, timeout_s: float | None = None) -> Any:
        """Wait for a signal, as `Run.wait_signal`; other branches go on."""
        branch, key, until_ms = self._signal_wait(name, into, timeout_s)
        driver: Any = self._live.driver
        while True:
            done, value = self._signal_taken(branch, key, name, until_ms, into)
            if done:
                return value
            driver.enter_op(branch)
            try:
                await driver.hold(self._signal_suspend(branch, name, until_ms), branch)
                if self._live.halt is not None:
                    await driver.hold(Suspend("halt"), branch)
            except BaseException:
                driver.note_cut(branch)
                raise
            finally:
                driver.leave_op(branch)

    @overload
    async def try_call(self, tool: Callable[P, Awaitable[V]], /, *args: P.args, **kwargs: P.kwargs) -> Settled[V]: ...
    @overload
    async def try_call(self, tool: Callable[P, V], /, *args: P.args, **kwargs: P.kwargs) -> Settled[V]: ...
    async def try_call(self, tool: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Settled[Any]:
        """Use a tool as a step, as `Run.try_call`."""
        _refuse_other(tool)
        try:
            used = tool(*args, **kwargs)
            return Settled(value=await used if inspect.isawaitable(used) else used)
        except StepFailed as error:
            return Settled(failure=error.failure)

    @overload
    async def map(
        self,
        fn: Callable[[T], Awaitable[Any]],
        items: Iterable[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        limit: int = 8,
    ) -> list[Settled[Any]]: ...
    @overload
    async def map(
        self, fn: Callable[[T], Any], items: Iterable[T], *, key: Callable[[T], Hashable] | None = None, limit: int = 8
    ) -> list[Settled[Any]]: ...
    async def map(
        self,
        fn: Callable[[T], Any],
        items: Iterable[T],
        *,
        key: Callable[[T], Hashable] | None = None,
        limit: int = 8,
    ) -> list[Settled[Any]]:
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
        return [settled(outcome) for outcome in outcomes]

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
    keys = [escape(str(i if key is None else key(item))) for i, item in enumerate(items)]
    if len(set(keys)) != len(keys):
        twice = next(k for k in keys if keys.count(k) > 1)
        msg = f"run.map: two items have the key {twice!r}; keys name branches and must differ"
        raise DeclarationError(msg)
    name = branch_names(branch, "map")
    return [f"{name}[{k}]" for k in keys]


def _result(call: ToolCall, outcome: object) -> ToolResult:
    return outcome if isinstance(outcome, ToolResult) else result_of(call, outcome)


def _refuse_other(tool: object) -> None:
    if not isinstance(tool, Tool | BoundTool):
        msg = f"run.try_call takes a tool and its arguments, not {tool!r}: run.try_call(my_tool, 1)"
        raise DeclarationError(msg)
