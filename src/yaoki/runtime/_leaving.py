"""
What a pass did and the next does not ask for in the same place: it is left behind, and its effects stay known.

A pass is left whole by a redrive from a checkpoint or the start; only its end, where a run whose turns were used up is
given more: what the loop did after its last turn it will do after a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaoki.runtime._history import History
    from yaoki.runtime._past import Past

__all__ = ["OVER", "leave_end", "leave_pass"]

OVER = "!over"
"""Ends the key under which it is recorded that no turn was left; a second record there says that there are more."""


def _leave(history: History, past: Past) -> None:
    """Let a step's slot be unclaimed until an equal call takes it."""
    if past.slot < 0 or "!" in past.step:
        return
    past.stale = True
    history.kept[past.step] = past
    if past.orphaned:
        history.stale_tools.add(past.tool)


def leave_pass(history: History, *, whole: bool) -> None:
    """What the pass did since its last checkpoint, or since its start, is unclaimed from now on."""
    left = [*history.steps.values(), *(history.slots.owners() if whole else ())]
    for earlier in history.kept.values():
        if whole or earlier.shared_by in history.steps:
            earlier.shared_by = ""
    history.inbox.leave_pass(left)
    for past in left:
        _leave(history, past)
    history.signals.give_back(None if whole else set(history.points))
    history.steps.clear()
    history.points.clear()


def leave_end(history: History, key: str) -> None:
    """Leave behind what was done since it was recorded under `key` that no turn was left."""
    since, _ = history.points.pop(key)
    left = [past for past in history.steps.values() if past.first_seq > since]
    points = {point for point, (seq, _) in history.points.items() if seq > since}
    for past in left:
        del history.steps[past.step]
        _leave(history, past)
    for point in points:
        del history.points[point]
    history.signals.give_back(points)
    history.inbox.leave_end(left, points)
