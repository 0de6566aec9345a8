"""How far a failure reaches: whether another call would meet the same one."""

from __future__ import annotations

from yaoki.records import Scope

__all__ = ["fails_too"]


def fails_too(failed: str, reach: Scope, other: str) -> bool:
    """
    Return whether what failed at one scope stands in the way of a call at another.

    A scope is `vendor/model/key`; what it leaves out is not compared. A key belongs to its vendor: another
    vendor's key of the same name is another key.

    Args:
        failed: The scope of the call that failed.
        reach: How far its failure reaches, as classified.
        other: The scope of the call that would be made instead.
    """
    mine, theirs = failed.split("/"), other.split("/")
    if reach in (Scope.REQUEST, Scope.PROCESS) or mine[0] != theirs[0]:
        return False
    if reach is Scope.VENDOR:
        return True
    at = 1 if reach is Scope.MODEL else 2
    return len(mine) <= at or len(theirs) <= at or mine[at] == theirs[at]
