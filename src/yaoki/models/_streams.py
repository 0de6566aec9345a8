"""
Streams with limits of their own: until the first token, between tokens, in all.

A stream is an answer once it is whole by the vendor's own marks (a stop reason and every block closed), whether or not
its last event came; anything else that ends it makes it no answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from yaoki.clock import SystemClock
from yaoki.errors import StreamBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from yaoki.models._vendors import Reader

__all__ = ["Limits", "Shown", "gathered", "gathered_async"]

_TAIL_S = 1.0
"""How long a whole answer waits for what may still be said of it, as its usage."""
_KEPT = 10_000
_CLOCK = SystemClock()


class Limits(Struct, frozen=True):
    """Seconds."""

    first_s: float
    silence_s: float
    total_s: float


class Shown:
    """What has been shown of an answer while it came."""

    def __init__(self, show: Callable[[str], None] | None, broken: Callable[[StreamBroken], None] | None) -> None:
        self.text = ""
        self._show = show
        self._broken = broken

    def more(self, text: str) -> None:
        """Show words."""
        self.text += text
        if self._show is not None:
            self._show(text)

    def broke(self, error: StreamBroken) -> StreamBroken:
        """Tell who has seen some of it that it was no answer: what comes next begins anew."""
        error.partial = self.text
        if self.text and self._broken is not None:
            self._broken(error)
        elif self.text and self._show is not None:
            self._show(f"\n[cut off here, and no answer: {error}]\n")
        return error


class _Watch:
    """How long the next event may take."""

    def __init__(self, limits: Limits, reader: Reader, shown: Shown) -> None:
        self._limits = limits
        self._reader = reader
        self._shown = shown
        self._began_s = self._token_s = _CLOCK.monotonic_s()
        self._tokens = False

    def left_s(self) -> float:
        limits, now_s = self._limits, _CLOCK.monotonic_s()
        bound_s = limits.silence_s if self._tokens else limits.first_s
        left_s = min(self._token_s + bound_s - now_s, self._began_s + limits.total_s - now_s)
        if self._reader.whole(ended=True) is not None:
            left_s = min(left_s, _TAIL_S)
        return max(0.0, left_s)

    def take(self, event: object) -> None:
        data = _plain(event)
        if _is_token(data):
            self._tokens, self._token_s = True, _CLOCK.monotonic_s()
        text = self._reader.take(data)
        if text:
            self._shown.more(text)

    def late(self) -> dict[str, Any]:
        """Return what stands when nothing more came in time, if it is whole."""
        body, limits = self._reader.whole(ended=True), self._limits
        if body is not None:
            return body
        if _CLOCK.monotonic_s() - self._began_s >= limits.total_s:
            raise self._shown.broke(StreamBroken(f"not whole within {limits.total_s:g} s", "total")) from None
        if not self._tokens:
            raise self._shown.broke(StreamBroken(f"no token within {limits.first_s:g} s", "first")) from None
        raise self._shown.broke(StreamBroken(f"no token for {limits.silence_s:g} s", "silent")) from None

    def end(self, error: Exception | None = None) -> dict[str, Any]:
        """Return what stands at the end of the stream, if it is whole."""
        body = self._reader.whole(ended=True)
        if body is not None:
            return body
        if error is None:
            raise self._shown.broke(StreamBroken("the stream ended before the answer was whole", "cut"))
        if isinstance(error, ValueError):  # an event that is no JSON, or of another shape
            raise self._shown.broke(StreamBroken(f"an event cannot be read: {error}", "malformed")) from None
        raise self._shown.broke(StreamBroken(f"{type(error).__name__}: {error}", "cut")) from error


def _plain(event: object) -> dict[str, Any]:
    dump = getattr(event, "model_dump", None)
    found: object = dump(mode="json") if callable(dump) else event
    if not isinstance(found, dict):
        msg = f"an event is {type(event).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - read as malformed
    return cast("dict[str, Any]", found)


def _is_token(event: dict[str, Any]) -> bool:
    kind = str(event.get("type") or "")
    if kind:
        return kind in ("content_block_start", "content_block_delta") or kind.endswith(".delta")
    choices = cast("list[dict[str, Any]]", event.get("choices") or [])
    delta = cast("dict[str, Any]", choices[0].get("delta") or {}) if choices else {}
    return any(value for name, value in delta.items() if name != "role")


async def gathered_async(
    start: Callable[[], Awaitable[Any]], reader: Reader, limits: Limits, shown: Shown
) -> dict[str, Any]:
    """
    Start a stream, read it to its end, and return the answer.

    Raises:
        StreamBroken: It did not come whole, or not in time.
        Exception: The vendor's, if it did not begin.
    """
    import asyncio

    watch = _Watch(limits, reader, shown)
    try:
        stream = await asyncio.wait_for(start(), watch.left_s())
    except TimeoutError:
        return watch.late()
    events = stream.__aiter__()
    try:
        while (body := reader.whole(ended=False)) is None:
            try:
                event = await asyncio.wait_for(anext(events), watch.left_s())
                watch.take(event)
            except StopAsyncIteration:
                return watch.end()
            except TimeoutError:
                return watch.late()
            except Exception as error:  # noqa: BLE001 - the vendor's
                return watch.end(error)
        await _drained(events)
        return body
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            await close()


async def _drained(events: AsyncIterator[object]) -> None:
    """Read what is left of a whole answer, so that its connection can be used again; not for long."""
    import asyncio

    with suppress(Exception):
        async with asyncio.timeout(_TAIL_S):
            async for _ in events:
                pass


def gathered(start: Callable[[], Any], reader: Reader, limits: Limits, shown: Shown) -> dict[str, Any]:
    """
    Start a stream and read it to its end, as `gathered_async`.

    A thread of its own reads it, so that silence can be told; left behind, it ends at the client's own timeout.

    Raises:
        StreamBroken: It did not come whole, or not in time.
        Exception: The vendor's, if it did not begin.
    """
    import queue

    watch = _Watch(limits, reader, shown)
    pump = _Pump(start)
    try:
        while (body := reader.whole(ended=False)) is None:
            try:
                what, event = pump.came.get(timeout=watch.left_s())
                if what == "refused":
                    raise event
                if what == "end":
                    return watch.end(event)
                watch.take(event)
            except queue.Empty:
                return watch.late()
            except ValueError as error:
                return watch.end(error)
        return body
    finally:
        pump.left.set()


class _Pump:
    """The thread that reads a stream, and closes it."""

    def __init__(self, start: Callable[[], Any]) -> None:
        import queue
        import threading

        self.came: queue.Queue[tuple[str, Any]] = queue.Queue(_KEPT)
        self.left = threading.Event()
        self._start = start
        threading.Thread(target=self._read, name="yaoki-stream", daemon=True).start()

    def _read(self) -> None:
        try:
            stream = self._start()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self.came.put(("refused", error))
            return
        try:
            for event in stream:
                if self.left.is_set():
                    break
                self.came.put(("event", event))
            self.came.put(("end", None))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self.came.put(("end", error))
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()
