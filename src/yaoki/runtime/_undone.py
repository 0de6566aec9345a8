"""What a run has undone, or could not. Part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaoki.records import Ended, Undo
    from yaoki.runtime._past import Slots

__all__ = ["Undone"]

_MARK = "!undo."


class Undone:
    """The undos on record, by the step they undid; those that failed are forgotten by a redrive, and tried anew."""

    def __init__(self) -> None:
        self.by_step: dict[str, Undo] = {}
        self._tries: dict[str, int] = {}

    def note(self, key: str, record: Undo, slots: Slots) -> None:
        """Note one; the slot of what was undone is closed."""
        self.by_step[key] = record
        self._tries[key] = self.tries(key) + 1
        owner = slots.owner(record.action, record.slot) if record.action else None
        if owner is not None and record.outcome == "done":
            owner.undone = True

    def tries(self, key: str) -> int:
        """Return how often an undo of a step has ended."""
        return self._tries.get(key, 0)

    def note_redrive(self) -> None:
        """Keep what is done."""
        self.by_step = {key: undo for key, undo in self.by_step.items() if undo.outcome == "done"}

    def at_the_end(self, ended: Ended | None, last_step: str) -> bool:
        """Whether a run ended in undoing what it had done: no code went on after that, knowing it."""
        undone = [undo for undo in self.by_step.values() if undo.outcome == "done"]
        if ended is None or not undone:
            return False
        return _MARK in last_step or any(undo.cause in ("", ended.step) for undo in undone)
