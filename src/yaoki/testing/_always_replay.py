"""Re-enter a run from its journal at every step: what a loop keeps outside the journal is lost each time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from yaoki.runtime import _performing, _sync
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
    originals = _sync.begin_at_once, _performing.begin_at_once

    def wrapped(original: Callable[[Live, Step], Begin | None]) -> Callable[[Live, Step], Begin | None]:
        def begin_one(live: Live, step: Step) -> Begin | None:
            known = step.key in live.history.steps
            if not known and not step.fixed_key:
                if begun.get(live.name) == live.epoch:
                    live.stop_with(Halt(to="drain", text="re-entered from its journal, as always_replay says"))
                begun[live.name] = live.epoch
            return original(live, step)

        return begin_one

    _set(wrapped(originals[0]), wrapped(originals[1]))
    try:
        yield
    finally:
        _set(*originals)


def _set(sync: Any, async_: Any) -> None:  # noqa: ANN401 - the engine's own function, or ours around it
    setattr(_sync, "begin_at_once", sync)  # noqa: B010 - a name's place, not a new one
    setattr(_performing, "begin_at_once", async_)  # noqa: B010 - the same
