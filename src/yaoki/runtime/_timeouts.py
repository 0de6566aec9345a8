"""`run.timeout`: a bound on a block that a replay repeats at the same point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from yaoki.records import Fired, Hold, Value
from yaoki.runtime._live import NEVER_MS
from yaoki.runtime._sync import commit_inline

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from yaoki.runtime._live import Branch

__all__ = ["AsyncTimeout", "SyncTimeout"]


class _Timeout:
    """Recorded when entered (so that a restart does not start it anew) and when it fires."""

    def __init__(self, branch: Branch, key: str, seconds: float) -> None:
        self.branch = branch
        self.live = branch.live
        self.key = key
        self.fired_key = f"{key}!fired"
        self.left_key = f"{key}!left"
        self.seconds = seconds
        self.recorded_seq = 0
        self.until_ms = 0
        self.fired = False

    def _start(self) -> tuple[int, object] | None:
        """Record the entry; return the record of its firing, if the journal has one."""
        live = self.live
        live.ask(self.key)
        found = live.history.points.get(self.key)
        if found is None:
            now_ms = live.now_ms()
            until_ms = now_ms + int(self.seconds * 1000)
            commit_inline(live, self.key, Hold(at=now_ms, since=now_ms, until=until_ms, reason="timeout"))
            self.until_ms = until_ms
        else:
            assert isinstance(found[1], Hold)
            self.until_ms = found[1].until
        self.branch.timeouts.append(self)
        return live.history.points.get(self.fired_key)

    @property
    def fired_before(self) -> bool:
        """Whether the journal says that it fired, and it has not yet done so again."""
        return bool(self.recorded_seq) and not self.fired

    def left_s(self) -> float:
        """Return the seconds left, never negative."""
        return max(0.0, (self.until_ms - self.live.now_ms()) / 1000)

    def _record_firing(self) -> None:
        self.fired = True
        if self.fired_key not in self.live.history.points:
            commit_inline(self.live, self.fired_key, Fired(at=self.live.now_ms()))

    def _message(self) -> str:
        return f"run {self.live.name}: run.timeout({self.seconds:g}) ran out"


class SyncTimeout(_Timeout):
    """Looked at between steps: a sync attempt is not interrupted, but is told what is left."""

    def __init__(self, branch: Branch, key: str, seconds: float) -> None:
        super().__init__(branch, key, seconds)
        self._recorded = False

    def __enter__(self) -> None:
        """Start, or take up, the bound."""
        with self.live.lock:
            recorded = self._start()
            if recorded is not None:
                assert isinstance(recorded[1], Fired)
                self._recorded = True
                self.until_ms = min(self.until_ms, recorded[1].at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bound."""
        self.branch.timeouts.remove(self)

    @property
    def fired_before(self) -> bool:
        """Whether the journal says that it was raised, and it has not been raised again."""
        return self._recorded and not self.fired

    def raise_if_due(self) -> None:
        """Raise at the first new step after the bound, or where the journal says it was raised."""
        if self._recorded or self.left_s() <= 0:
            with self.live.lock:
                self._record_firing()
            raise TimeoutError(self._message())


class AsyncTimeout(_Timeout):
    """Cancels the block's task, as asyncio.timeout does; the attempt under way is settled with its cause."""

    def __init__(self, branch: Branch, key: str, seconds: float) -> None:
        super().__init__(branch, key, seconds)
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancelling = 0
        self._left = False

    async def __aenter__(self) -> None:
        """Start, or take up, the bound."""
        import asyncio

        driver: Any = self.live.driver
        driver.commits.flush()
        recorded = self._start()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        left = self.live.history.points.get(self.left_key)
        if left is not None:
            self.until_ms = NEVER_MS
        elif recorded is None:
            self._timer = asyncio.get_running_loop().call_later(self.left_s(), self._ran_out)
        else:
            self.recorded_seq, record = recorded
            assert isinstance(record, Fired)
            self.until_ms = min(self.until_ms, record.at)
            driver.replayed_timeouts.append(self)
            driver.look_at_timeouts()

    def _ran_out(self) -> None:
        driver: Any = self.live.driver
        if driver.caught_up():
            self.fire()
        else:  # what the journal has happened before it could fire
            driver.unfired_timeouts.append(self)

    def fire(self) -> None:
        """Record the firing and cancel the block."""
        if self.fired or self._left or self.live.stopping or self._task is None:
            return
        driver: Any = self.live.driver
        try:
            driver.commits.flush()
            self._record_firing()
        finally:
            # Also when it cannot be written: a timer's exception reaches nobody, and the block must not wait on.
            self._task.cancel()

    def fire_again(self) -> None:
        """Fire as the journal says it did: all that was recorded inside the block was done again."""
        driver: Any = self.live.driver
        driver.replayed_timeouts.remove(self)
        self.fire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bound; our own cancel becomes TimeoutError."""
        import asyncio

        if self._timer is not None:
            self._timer.cancel()
        self._left = True
        self.branch.timeouts.remove(self)
        driver: Any = self.live.driver
        for waiting in (driver.replayed_timeouts, driver.unfired_timeouts):
            if self in waiting:
                waiting.remove(self)
        task = self._task
        assert task is not None
        if self.fired and kind is not None and issubclass(kind, asyncio.CancelledError):
            if task.uncancel() <= self._cancelling and not self.live.detached and not driver.stopping:
                raise TimeoutError(self._message()) from error
        elif self.fired and kind is None:
            task.uncancel()
        elif self.recorded_seq and kind is None:
            # Live it fired in the moment in which all inside ended; the journal says which came first.
            raise TimeoutError(self._message())
        elif (kind is None or issubclass(kind, Exception)) and not (
            self.fired or self.live.stopping or self.live.detached or self.left_key in self.live.history.points
        ):
            # Left in time: a replay however late must leave it too.
            driver.commits.flush()
            commit_inline(self.live, self.left_key, Value(at=self.live.now_ms(), value=Raw(b"null")))
