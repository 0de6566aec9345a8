"""
One test, two worlds: tools and loops are written once and live as plain `def` or as `async def`.

A loop's body is an `async def` that awaits `got(…)` of everything durable. In the sync world nothing ever waits
there, so the body is driven to its end by one `send`; the runner, the driver and the tools are the sync ones.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.clocks import FakeClock, FakeTimeLoop
from yaoki import AsyncRunner, Receipt, Runner, Toolbox, ToolCall, loop, tool
from yaoki.clock import SystemClock
from yaoki.journal import Journal
from yaoki.records import Entry, Record, TopUp

__all__ = ["House", "got", "plainly"]


async def got(value: Any) -> Any:
    """Return the value of a durable operation, awaited where it has to be."""
    return await value if inspect.isawaitable(value) else value


def plainly(body: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return an `async def` that never waits as a plain function."""

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        running = body(*args, **kwargs)
        try:
            running.send(None)
        except StopIteration as stop:
            return stop.value
        running.close()
        raise AssertionError("the sync world waited")

    return call


class House:
    """A store, a clock, a log of effects, and one of the two worlds."""

    def __init__(self, kind: str, path: Path, *, real_time: bool = False) -> None:
        self.kind = kind
        self.path = path
        self.real_time = real_time
        self.clock: Any = SystemClock() if real_time else FakeClock()
        self.url = f"sqlite:///{path / 'store.db'}"
        self._log = path / "effects.log"
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def is_async(self) -> bool:
        return self.kind == "async"

    # --- making tools and loops

    def tool(self, fn: Callable[..., Any] | None = None, **policy: Any) -> Any:
        """`@tool` for this world, of a function that does not wait; or of a coroutine function, async world only."""

        def make(fn: Callable[..., Any]) -> Any:
            if not self.is_async or inspect.iscoroutinefunction(fn):
                return tool(**policy)(fn)

            @functools.wraps(fn)
            async def calm(*args: Any, **kwargs: Any) -> Any:
                return fn(*args, **kwargs)

            return tool(**policy)(calm)

        return make if fn is None else make(fn)

    def check(self, fn: Callable[..., Any]) -> Any:
        """Make a check for this world."""
        if not self.is_async:
            return fn

        @functools.wraps(fn)
        async def calm(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return calm

    def loop(self, body: Any = None, **policy: Any) -> Any:
        """`@loop` for this world."""

        def make(body: Any) -> Any:
            return loop(**policy)(body if self.is_async else plainly(body))

        return make if body is None else make(body)

    def fn(self, body: Any) -> Any:
        """Make what `run.map` takes, in this world."""
        return body if self.is_async else plainly(body)

    def turns(self, run: Any, state: Any) -> Any:
        """`run.turns`, for `async for` in both worlds."""
        return run.turns(state) if self.is_async else _AsyncOver(run.turns(state))

    def timeout(self, run: Any, seconds: float) -> Any:
        """`run.timeout`, for `async with` in both worlds."""
        return run.timeout(seconds) if self.is_async else _AsyncWith(run.timeout(seconds))

    # --- effects that outlive a process

    def note(self, text: str) -> int:
        """Do something to the world; return how often exactly this was done."""
        with self._lock:
            with self._log.open("a") as log:
                log.write(text + "\n")
            return self.done.count(text)

    @property
    def done(self) -> list[str]:
        """What was done to the world, in order."""
        return self._log.read_text().splitlines() if self._log.exists() else []

    # --- running

    def run(self, bound: Any, run_id: str = "r", **options: Any) -> Receipt[Any]:
        """Run it until it is final or waits."""
        if not self.is_async:
            with Runner(self.url, clock=self.clock, **options) as runner:
                return runner.run(bound, run_id=run_id)
        return self.drive(lambda runner: runner.run(bound, run_id=run_id), **options)

    def drive(self, work: Callable[[AsyncRunner], Coroutine[Any, Any, Any]], **options: Any) -> Any:
        """Do something with an async runner, in an event loop of its own."""
        acks: list[asyncio.Future[None]] = []

        def busy() -> bool:
            acks[:] = [ack for ack in acks if not ack.done()]
            return bool(acks)

        async def whole() -> Any:
            async with AsyncRunner(self.url, clock=self.clock, **options) as runner:
                sync_async = runner.store.sync_async

                def watched(waiting: Any) -> None:
                    acks.extend(waiting)
                    sync_async(waiting)

                runner.store.sync_async = watched
                return await work(runner)

        factory = None if self.real_time else lambda: FakeTimeLoop(self.clock, busy)
        with asyncio.Runner(loop_factory=factory) as event_loop:
            return event_loop.run(whole())

    def die(self, bound: Any, run_id: str = "r", **options: Any) -> int:
        """Run it in a process of its own, which is expected to die of SIGKILL; return how it ended."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.run(bound, run_id, **options)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """Die here and now, as `kill -9` does it; only in the process that `die` started."""
        assert os.getpid() != self._pid, "the test itself would be killed: this was to happen once, in the child"
        os.kill(os.getpid(), signal.SIGKILL)

    # --- from outside

    def outside(self, work: Callable[[Runner], Any]) -> Any:
        """Do something with the verbs, as another process would."""
        with Runner(self.url, clock=self.clock, verbs_only=True) as verbs:
            return work(verbs)

    def get(self, run_id: str = "r") -> Receipt[Any]:
        return self.outside(lambda verbs: verbs.get(run_id))

    def answer(self, verdict: str, *value: Any, ask: str | None = None, run_id: str = "r") -> Receipt[Any]:
        return self.outside(lambda verbs: verbs.answer(run_id, ask, verdict, *value))

    def cancel(self, run_id: str = "r") -> Receipt[Any]:
        return self.outside(lambda verbs: verbs.cancel(run_id))

    def redrive(self, run_id: str = "r") -> Receipt[Any]:
        return self.outside(lambda verbs: verbs.redrive(run_id))

    def top_up(self, run_id: str = "r", **add: float) -> None:
        """Post what the verb `top-up` will post."""
        journal = Journal.open(self.url, clock=self.clock, create=False, worker=False)
        try:
            row = journal.get(run_id)
            assert row is not None
            journal.post(row.id, TopUp(at=self.clock.now_ms(), add=dict(add)))
        finally:
            journal.close()

    def journal(self, run_id: str = "r") -> list[Entry]:
        found: list[Entry] = self.outside(lambda verbs: verbs.journal(run_id))
        return found

    def records(self, kind: type[Record], run_id: str = "r") -> list[Any]:
        return [entry.record for entry in self.journal(run_id) if isinstance(entry.record, kind)]

    def later(self, seconds: float) -> None:
        """Let time pass while nobody runs."""
        self.clock.advance(seconds)


class _AsyncOver:
    def __init__(self, items: Any) -> None:
        self._items = iter(items)

    def __aiter__(self) -> _AsyncOver:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None


class _AsyncWith:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aenter__(self) -> Any:
        return self._inner.__enter__()

    async def __aexit__(self, *error: object) -> Any:
        return self._inner.__exit__(*error)


def calls(*wanted: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    """Tool calls as a model would make them."""
    return [ToolCall(id=f"call_{i}", name=name, args=args) for i, (name, args) in enumerate(wanted)]


def box(*tools: Any) -> Toolbox:
    return Toolbox(*tools)
