"""Signals of a run: in the order they came, and which wait has taken which. Part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from yaoki.records import ABSENT, Hold, Value

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from yaoki.records import Record, Signal

__all__ = ["TAKEN", "Mailbox", "Taken", "data_of", "schema_wanted", "taken_of"]

TAKEN = "!signal"
"""Ends the key under which a wait records what it took."""


_NOTHING = Raw(b"null")


class Taken(Struct, frozen=True, omit_defaults=True):
    """How a wait for a signal ended; what a `Value` under its key holds."""

    seq: int = 0
    """The signal it took; 0 where none came in time, or none fitted."""
    value: Raw = _NOTHING
    misfit: int = 0
    """The signal that was not of the type it wanted, and which it left."""
    why: str = ""


def taken_of(record: Record) -> Taken:
    """Return how a wait ended."""
    assert isinstance(record, Value)
    return msgspec.json.decode(record.value, type=Taken)


def schema_wanted(points: Mapping[str, tuple[int, Record]], signals: Mailbox, name: str) -> Raw:
    """Return the schema of what the next signal of a name is to be, if a wait for it is open and says so."""
    if signals.oldest(name) is not None:
        return ABSENT
    for key, (_, record) in points.items():
        if not isinstance(record, Hold) or record.reason != "signal" or record.call != name:
            continue
        if f"{key}{TAKEN}" not in points:
            return record.schema
    return ABSENT


def data_of(signal: Signal | None) -> Raw:
    """Return a signal's value as JSON; one that has none says null."""
    return _NOTHING if signal is None or signal.value is ABSENT else signal.value


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
        seq = taken_of(record).seq
        if seq:
            self._taken[seq] = key

    def give_back(self, keys: Container[str] | None) -> None:
        """What the waits of an abandoned pass took is there again; `None` is all of it."""
        self._taken = {} if keys is None else {seq: key for seq, key in self._taken.items() if key not in keys}

    def oldest(self, name: str) -> tuple[int, Signal] | None:
        """Return the oldest signal of that name that no wait has taken."""
        return next((one for one in self._came if one[1].name == name and one[0] not in self._taken), None)

    def untaken_at(self, seq: int) -> Signal | None:
        """Return that signal, if no wait has taken it."""
        return None if seq in self._taken else next((one[1] for one in self._came if one[0] == seq), None)

    @property
    def untaken(self) -> int:
        """How many signals no wait has taken."""
        return len(self._came) - len(self._taken)
