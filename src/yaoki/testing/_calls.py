"""What really entered and left each tool, noted beside the journal and independent of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from yaoki.errors import EncodingError
from yaoki.records import Effect
from yaoki.testing._world import append_line, read_lines

if TYPE_CHECKING:
    from pathlib import Path

    from yaoki.testing._seam import Attempt

__all__ = ["CallLog", "Entry"]


class Entry(Struct, frozen=True):
    """A tool entered, or left."""

    what: str
    """entered · returned · raised"""
    tool: str
    step: str
    key: str
    effect: Effect
    value: Any = None


class CallLog:
    """The log of one case, written by each of its processes; a watcher of attempts."""

    def __init__(self, home: Path) -> None:
        self._path = home / "calls.jsonl"

    def before(self, attempt: Attempt) -> None:
        """Note that the function is entered."""
        self._note("entered", attempt, None)

    def after(self, attempt: Attempt, value: object) -> None:
        """Note what it returned; a result that cannot be journaled is noted as none."""
        try:
            plain = None if attempt.encode is None else msgspec.json.decode(attempt.encode(value))
        except EncodingError:
            plain = None
        self._note("returned", attempt, plain)

    def raised(self, attempt: Attempt, error: BaseException) -> None:  # noqa: ARG002 - the watcher's shape
        """Note that it raised."""
        self._note("raised", attempt, None)

    def entries(self) -> list[Entry]:
        """Return all that was noted, oldest first."""
        return [msgspec.convert(line, Entry) for line in read_lines(self._path)]

    def returned(self, step: str) -> Entry | None:
        """Return the newest time an attempt of this step returned, or None."""
        return next((e for e in reversed(self.entries()) if (e.what, e.step) == ("returned", step)), None)

    def was_entered(self, step: str) -> bool:
        """Whether an attempt of this step got as far as the tool's function."""
        return any((e.what, e.step) == ("entered", step) for e in self.entries())

    def entered(self) -> int:
        """Return how many calls were made."""
        return sum(1 for entry in self.entries() if entry.what == "entered")

    def effects(self) -> Counter[tuple[str, str]]:
        """
        Return the effects by tool and key: those whose function returned.

        A receiver of a KEYED or IDEMPOTENT tool brings one about once, however often it is called.
        """
        acted = [e for e in self.entries() if e.what == "returned" and e.effect is not Effect.READ_ONLY]
        counted = Counter((e.tool, e.key) for e in acted)
        folded = {(e.tool, e.key) for e in acted if e.effect in (Effect.KEYED, Effect.IDEMPOTENT)}
        return Counter({effect: 1 if effect in folded else times for effect, times in counted.items()})

    def cut(self) -> Counter[tuple[str, str]]:
        """Return the calls that a death ended inside, before their effect or after it, by tool and key."""
        left = {"entered": 1, "returned": -1, "raised": -1}
        acted = [e for e in self.entries() if e.effect is not Effect.READ_ONLY]
        counted: Counter[tuple[str, str]] = Counter()
        for entry in acted:
            counted[entry.tool, entry.key] += left[entry.what]
        return +counted

    def _note(self, what: str, attempt: Attempt, value: object) -> None:
        append_line(
            self._path,
            msgspec.to_builtins(Entry(what, attempt.tool, attempt.step, attempt.key, attempt.effect, value)),
        )
