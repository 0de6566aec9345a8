"""The store of runs and their records: SQLite, written ahead, fenced, synced when it has to be."""

from __future__ import annotations

from yaoki.journal._codec import POSTS
from yaoki.journal._journal import Journal
from yaoki.journal._noting import Notable, Target
from yaoki.journal._rows import Brake, Brief, Claim, RunRow, Tombstone, WorkerRow
from yaoki.journal._scoping import NO_SCOPES, Change, ScopeView

__all__ = [
    "NO_SCOPES",
    "POSTS",
    "Brake",
    "Brief",
    "Change",
    "Claim",
    "Journal",
    "Notable",
    "RunRow",
    "ScopeView",
    "Target",
    "Tombstone",
    "WorkerRow",
]
