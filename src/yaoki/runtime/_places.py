"""Who counts against a limit: a branch at work has a place, one that only waits has given it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from yaoki.runtime._live import Branch

__all__ = ["Place", "give_up", "leave", "take_back"]


class Place:
    """A branch's place under a limit; `away` while it has been given up."""

    __slots__ = ("away", "gate", "lock")

    def __init__(self, gate: asyncio.Semaphore) -> None:
        import asyncio

        self.gate = gate
        self.away = False
        self.lock = asyncio.Lock()
        """Held while the place is taken back: once, whoever wakes."""


def give_up(branch: Branch, live: set[Branch]) -> None:
    """A branch waits: give up its place, and those around it that now wait for nothing but such branches."""
    places = _around(branch)
    holder = next(places, None)
    if holder is None:
        return
    _away(holder)
    for holder in places:
        if not _only_waits(holder, live):
            return
        _away(holder)


def leave(branch: Branch, live: set[Branch]) -> None:
    """A branch has ended: its place is free, and those around it may now only wait."""
    _away(branch)
    parent = branch.parent
    for holder in _around(parent) if parent is not None else ():
        if not _only_waits(holder, live):
            return
        _away(holder)


async def take_back(branch: Branch) -> None:
    """A branch goes on: take back its place and those around it, the outermost first; waits for them."""
    for holder in reversed(list(_around(branch))):
        place = holder.place
        if place.away and not (holder is branch and branch.held):
            async with place.lock:
                if place.away:
                    await place.gate.acquire()
                    place.away = False


def _around(branch: Branch) -> Iterator[Branch]:
    """Return the branches that have a place, from this one outwards."""
    here: Branch | None = branch
    while here is not None:
        if here.place is not None:
            yield here
        here = here.parent


def _away(branch: Branch) -> None:
    place = branch.place
    if not place.away:
        place.away = True
        place.gate.release()


def _only_waits(branch: Branch, live: set[Branch]) -> bool:
    """Whether all that a branch does is wait for branches of its own, and each of those only waits too."""
    if branch.active or branch.starting or not branch.children:
        return False
    below = [one for one in live if one is not branch and one.within(branch)]
    return all(one.place.away if one.place is not None else _suspended(one) for one in below)


def _suspended(branch: Branch) -> bool:
    return branch.active == 0 and (branch.held > 0 or branch.children > 0)
