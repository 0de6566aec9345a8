"""The store of runs and their records: SQLite, written ahead, fenced, synced when it has to be."""

from __future__ import annotations

from yaoki.journal._codec import POSTS
from yaoki.journal._groups import GROUP_FIELDS, NANO, Charge, Group
from yaoki.journal._journal import Journal
from yaoki.journal._rows import Brake, Brief, Claim, RunRow, Tombstone, WorkerRow

__all__ = [
    "GROUP_FIELDS",
    "NANO",
    "POSTS",
    "Brake",
    "Brief",
    "Charge",
    "Claim",
    "Group",
    "Journal",
    "RunRow",
    "Tombstone",
    "WorkerRow",
]
