"""Re-enter a run from its journal at every step: what a loop keeps outside the journal is lost each time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from yaoki.runtime import _performing, _sync
from yaoki.runtime._ladder import begin_at_once
from yaoki.runtime._live import Halt

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from yaoki.records import Begin
    from yaoki.runtime._live import Live
    from yaoki.runtime._step import Step

__all__ = ["always_replay"]


@contextmanager
def always_replay() -> Generator[None, None, None]:
    """
    Let each residency of a run in this process begin one new step; then leave, claim and replay it.

    A loop that depends on anything but its input, its state and the results of its steps shows it here, with no
    process killed: its replay does not fit, or its value differs. The cost is the square of a segment's steps. It is a
    switch of the process, as `no_waits` is.
    """
    begun: dict[str, int] = {}

    def begin_one(live: Live, step: Step) -> Begin | None:
        if step.key not in live.history.steps and not step.fixed_key:
            if begun.get(live.name) == live.epoch:
                live.stop_with(Halt(to="drain", text="re-entered from its journal, as always_replay says"))
            begun[live.name] = live.epoch
        return begin_at_once(live, step)

    _set(begin_one)
    try:
        yield
    finally:
        _set(begin_at_once)


def _set(begin: Callable[[Live, Step], Begin | None]) -> None:
    """Let both drivers ask this in place of `begin_at_once`."""
    for driver in (_sync, _performing):
        setattr(driver, "begin_at_once", begin)  # noqa: B010 - a name's place, not a new one
