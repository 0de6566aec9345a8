"""What code inside an attempt may know of the run around it. For tools that Yaoki brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.runtime import _context

if TYPE_CHECKING:
    from yaoki.journal import Journal

__all__ = ["Around", "around"]


class Around(Struct, frozen=True):
    """The attempt this is called in: its run's journal, the run's id, its step, of which a check is a part."""

    journal: Journal
    run: str
    step: str


def around() -> Around | None:
    """Return the attempt this is called in; None outside one."""
    here = _context.here()
    if not isinstance(here, _context.InAttempt):
        return None
    live = here.step.branch.live
    return Around(live.journal, live.name, here.step.key.partition("!")[0])
