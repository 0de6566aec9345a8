"""A run in real processes, one after another, on one store and in one world."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec

from tests.crash.processes import Life
from tests.crash.world import World
from tests.guarantees.colours import RUN, Colour, url_of
from yaoki import Receipt, Runner

__all__ = ["Lives"]


class Lives:
    """Start processes of `program.py` and see how each ended."""

    def __init__(self, directory: Path, loop: str, colour: Colour) -> None:
        self.store = directory / "s.db"
        self.outside = directory / "world.jsonl"
        self.arguments = (str(self.store), str(self.outside), loop, "async" if colour.is_async else "sync")

    @property
    def world(self) -> World:
        return World(self.outside)

    def live(self, *arguments: str) -> Receipt | None:
        """One process to its end: the receipt it printed, or None if it was killed by SIGKILL."""
        life = self.start(*arguments)
        if life.end() == -signal.SIGKILL:
            return None
        assert life.code == 0, life.err
        return msgspec.json.decode(life.out, type=Receipt)

    def start(self, *arguments: str) -> Life:
        """One process, left running."""
        return Life("tests.guarantees.program", *self.arguments, *arguments)

    def answer(self, verdict: str, *value: object) -> None:
        with Runner.verbs(url_of(self.store)) as runner:
            runner.answer(RUN, None, verdict, *value)
