"""The world of the project's own shapes, as `crash_matrix` takes one: what their tools do stands in its log."""

from __future__ import annotations

from pathlib import Path

from tests.crash.world import STAGE
from tests.crash.world import Points as StagePoints
from tests.crash.world import World as StageWorld
from yaoki.runtime import Ask
from yaoki.testing import World, point

__all__ = ["OUTSIDE", "answer"]


class _Stage(World):
    """A world that puts itself behind the stage in each process of a case."""

    def open(self, folder: Path) -> None:
        super().open(folder)
        STAGE.world = _Receivers(folder / "asked.jsonl")
        STAGE.points = _Places()


class _Places(StagePoints):
    def reach(self, where: str) -> None:
        point(where)


class _Receivers(StageWorld):
    """What was asked is kept by the stage's own world; what was done, and what is found of it, is the matrix's."""

    def note(self, what: str, tool: str, key: str, value: object) -> None:
        if what == "done":
            OUTSIDE.act(tool, key, value)
        else:
            super().note(what, tool, key, value)

    def result(self, tool: str, key: str) -> tuple[bool, object]:
        deed = OUTSIDE.find(tool, key)
        return (False, None) if deed is None else (True, deed.value)


OUTSIDE = _Stage()


def answer(ask: Ask) -> str | None:
    """Refuse what is forbidden; the rest is answered from what happened."""
    return "refuse" if ask.why == "approve" and ask.call.startswith("forbidden") else None
