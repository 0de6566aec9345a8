"""What a supervisor reads in the journal of its run: who took it, and how far it got. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yaoki.records import Claimed, Settle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaoki.records import Entry

__all__ = ["Watch"]


@dataclass(slots=True)
class Watch:
    """Fed with new journal entries, knows the newest claim and how many attempts their own process settled."""

    claim: Claimed | None = None
    settled: int = 0

    def feed(self, entries: Iterable[Entry]) -> None:
        """Take entries not fed before, in order."""
        for _, _, record in entries:
            if isinstance(record, Claimed):
                self.claim = record
            elif isinstance(record, Settle) and (record.failure is None or record.failure.reason != "process.died"):
                self.settled += 1
