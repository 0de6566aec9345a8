"""The world outside: what receivers were asked, and what they did. It outlives every process of a run."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

__all__ = ["STAGE", "Points", "SimulatedCrash", "Stage", "World"]


class SimulatedCrash(BaseException):
    """The process is dead from here on; raised at every further point so that it does nothing more."""


class World:
    """Every call that reached a receiver, in order; in a file where the processes are real."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.events: list[tuple[str, str, str, object]] = []
        if path is not None and path.exists():
            self.reload()

    def reload(self) -> None:
        """Read what other processes did."""
        assert self.path is not None
        if self.path.exists():
            self.events = [tuple(json.loads(line)) for line in self.path.read_text().splitlines()]

    def note(self, what: str, tool: str, key: str, value: object) -> None:
        event = (what, tool, key, value)
        self.events.append(event)
        if self.path is not None:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, json.dumps(event).encode() + b"\n")
            finally:
                os.close(fd)

    @property
    def calls(self) -> int:
        """Calls that got as far as their receiver."""
        return sum(1 for what, *_ in self.events if what == "asked")

    def asked(self, tool: str) -> int:
        return sum(1 for what, name, *_ in self.events if what == "asked" and name == tool)

    def done(self) -> Counter[tuple[str, str]]:
        """Effects by tool and key, and how often each was brought about."""
        return Counter((tool, key) for what, tool, key, _ in self.events if what == "done")

    def result(self, tool: str, key: str) -> tuple[bool, object]:
        """Whether that effect was brought about, and what it returned: what a truthful person finds out."""
        for what, name, itskey, value in self.events:
            if (what, name, itskey) == ("done", tool, key):
                return True, value
        return False, None


class Points:
    """Counts the places where a process can die, and dies at one of them."""

    def __init__(self, die_at: int = 0, die: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.RLock()
        self.count = 0
        self.dead = False
        self.where = ""
        self.trail: list[str] = []
        self._die_at = die_at
        self._die = die

    def reach(self, where: str) -> None:
        with self.lock:
            if self.dead:
                raise SimulatedCrash(where)
            self.count += 1
            self.trail.append(where)
            if self.count == self._die_at:
                self.dead = True
                self.where = where
                self._die()
                raise SimulatedCrash(where)


class Stage:
    """Where tools act: a world, and the points of the process that is alive now."""

    def __init__(self) -> None:
        self.world = World()
        self.points = Points()

    def call(self, tool: str, key: str, value: object, *, effect: str) -> object:
        """
        One call arriving at its receiver: it may die before, at or after the effect.

        effect: `none` · `dedup` (a second call with the key changes nothing) · `each` (every call acts).
        """
        self.points.reach(f"{tool} called")
        with self.points.lock:
            if self.points.dead:
                raise SimulatedCrash(tool)
            self.world.note("asked", tool, key, None)
            found, before = self.world.result(tool, key)
            if effect == "each" or (effect == "dedup" and not found):
                self.world.note("done", tool, key, value)
            elif effect == "dedup":
                value = before
        self.points.reach(f"{tool} done")
        return value

    def nth(self, tool: str, key: str) -> int:
        """How often this call has arrived; what a receiver that fails the first time goes by."""
        return sum(1 for what, name, itskey, _ in self.world.events if (what, name, itskey) == ("asked", tool, key))


STAGE = Stage()
