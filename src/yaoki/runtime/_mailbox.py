"""Signals of a run: in the order they came, and which wait has taken which. Part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container

    from yaoki.records import Signal, Value

__all__ = ["TAKEN", "Mailbox"]

TAKEN = "!signal"
"""Ends the key under which a wait records what it took."""


class Mailbox:
    """Signals by the seq of their record."""

    def __init__(self) -> None:
        self._came: list[tuple[int, Signal]] = []
        self._taken: dict[int, str] = {}

    def put(self, seq: int, signal: Signal) -> None:
        """A signal came."""
        self._came.append((seq, signal))

    def take(self, key: str, record: Value) -> None:
        """A wait took one, or ended without."""
        seq: int = msgspec.json.decode(record.value)["seq"]
        if seq:
            self._taken[seq] = key

    def give_back(self, keys: Container[str] | None) -> None:
        """What the waits of an abandoned pass took is there again; `None` is all of it."""
        self._taken = {} if keys is None else {seq: key for seq, key in self._taken.items() if key not in keys}

    def oldest(self, name: str) -> tuple[int, Signal] | None:
        """Return the oldest signal of that name that no wait has taken."""
        return next((one for one in self._came if one[1].name == name and one[0] not in self._taken), None)

    @property
    def untaken(self) -> int:
        """How many signals no wait has taken."""
        return len(self._came) - len(self._taken)
