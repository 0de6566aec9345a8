"""What a store knows of a scope that is not well: kept for every process, gone once it is well again."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Circuit"]


class Circuit(Struct, frozen=True, kw_only=True, gc=False):
    """
    One scope: its failures in a row, since when it is open, who probes it, until when it cools down.

    Times are milliseconds UTC, 0 is none. `policy/_breaker.py` says how one follows from the other.
    """

    scope: str
    """`vendor`, `vendor/model` or `vendor/model/key`; or a tool's name."""
    failures: int = 0
    """In a row, of those that count."""
    opened_ms: int = 0
    """Since when nothing but a probe begins here; 0: it is closed."""
    until_ms: int = 0
    """Of an open one: no probe before."""
    cool_ms: int = 0
    """Nothing begins here before, open or not: the server said so."""
    reason: str = ""
    """Of the last failure that counted, or that said when to come back."""
    probe_worker: int = 0
    """Who has the probe's place; it is lost with that worker's life."""
    probe_run: int = 0
    probe_step: str = ""
    probe_until_ms: int = 0
    """When the place is lost in any case."""

    @property
    def well(self) -> bool:
        """Whether there is nothing to remember but, perhaps, a time to come back."""
        return not self.failures and not self.opened_ms
