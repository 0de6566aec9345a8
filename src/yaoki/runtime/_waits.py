"""The waits between attempts, so that a test can skip them all."""

from __future__ import annotations

from yaoki.clock import Clock, SystemClock

__all__ = ["SYSTEM_CLOCK", "set_skipping", "skipping", "wait_async", "wait_sync"]

SYSTEM_CLOCK: Clock = SystemClock()
_skipping = False


def skipping() -> bool:
    """Whether waits are skipped (`yaoki.testing.no_waits`)."""
    return _skipping


def set_skipping(on: bool) -> bool:  # noqa: FBT001 - a switch
    """Switch skipping; return what it was."""
    global _skipping
    before, _skipping = _skipping, on
    return before


def wait_sync(delay_s: float, clock: Clock = SYSTEM_CLOCK) -> None:
    """Block for `delay_s`, unless waits are skipped."""
    if delay_s > 0 and not _skipping:
        clock.sleep(delay_s)


async def wait_async(delay_s: float) -> None:
    """Suspend for `delay_s`, unless waits are skipped."""
    import asyncio

    await asyncio.sleep(0 if _skipping else max(0.0, delay_s))
