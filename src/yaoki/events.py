"""What observers may see: each record of a run once it is written. Logging, metrics and progress hang here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from yaoki.records import Circuit, Record  # noqa: TC001 - msgspec reads the annotations, where events are decoded

__all__ = ["Event", "Observer", "tell"]


class Event(Struct, frozen=True):
    """A record that this process has just written (it survives the process; it may not be synced yet)."""

    run_id: str
    loop: str
    key: str
    """The step's identity, or empty for the run itself."""
    record: Record
    circuits: tuple[Circuit, ...] = ()
    """Breakers that this record opened (`opened_ms`) or closed, for every run of the store."""


Observer: TypeAlias = Callable[[Event], None]
"""Called in the run's own thread or event loop, so it must be quick. What it raises is logged and changes nothing."""


def tell(observers: Sequence[Observer], event: Event) -> None:
    """Show an event to each observer; one that raises is logged, and the others still see it."""
    for observer in observers:
        try:
            observer(event)
        except Exception:  # an observer never decides about a run
            import logging

            logging.getLogger("yaoki").exception("run %s: an observer raised; the run goes on", event.run_id)
