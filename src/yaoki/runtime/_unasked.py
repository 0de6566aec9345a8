"""What the journal holds and the code has not asked for yet, by the lines of the loop's code it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FANS", "Unasked", "fan_of", "line_of"]

FANS = ("map#", "call#")
"""How the names of branches begin that the code before them waits for."""


def line_of(key: str) -> str:
    """Return the line of steps an identity belongs to, all of it but the name: `1.0/map#0[2]/`; the loop's, `1.0//`."""
    return key[: key.rindex("/") + 1]


def fan_of(part: str) -> str:
    """Return the `map` or `call_tools` that a branch's own name says it belongs to, `map#0`; nothing for a scope."""
    return part.partition("[")[0] if part.startswith(FANS) else ""


class Unasked:
    """
    Identities by line, and for each line the branches its code waits for: `map` and `call_tools`, however deep.

    Branches of a scope hang on no line: a task of the loop's own may drive them, at any time.
    """

    __slots__ = ("_below", "_lines")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._lines: dict[str, dict[str, None]] = {}
        self._below: dict[str, dict[str, dict[str, None]]] = {}
        for key in keys:
            line = line_of(key)
            known = self._lines.get(line)
            if known is None:
                known = self._lines[line] = {}
                for above, fan in _waiting_for(line):
                    self._below.setdefault(above, {}).setdefault(fan, {})[line] = None
            known[key] = None

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return bool(self._lines)

    def discard(self, key: str) -> None:
        """The code has asked for it."""
        line = line_of(key)
        left = self._lines.get(line)
        if left is None:
            return
        left.pop(key, None)
        if left:
            return
        del self._lines[line]
        for above, fan in _waiting_for(line):
            fans = self._below[above]
            del fans[fan][line]
            if not fans[fan]:
                del fans[fan]
            if not fans:
                del self._below[above]

    def left(self, line: str, within: str = "") -> str:
        """
        Return the first identity that code on this line has yet to ask for, or branches it waits for; or nothing.

        Those `within` one `map` or `call_tools` are left out: it is the one under way.
        """
        own = self._lines.get(line)
        if own:
            return next(iter(own))
        for fan, lines in self._below.get(line, {}).items():
            if fan != within:
                return next(iter(self._lines[next(iter(lines))]))
        return ""


def _waiting_for(line: str) -> Iterable[tuple[str, str]]:
    """Return the lines whose code waits for this one, the nearest first, each with the fan it waits in."""
    while True:
        above, _, part = line[:-1].rpartition("/")
        fan = fan_of(part) if above else ""
        if not fan:
            return
        line = f"{above}/" if "/" in above else f"{above}//"
        yield line, fan
