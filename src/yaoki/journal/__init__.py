"""The store of runs and their records: SQLite, written ahead, fenced, synced when it has to be."""

from __future__ import annotations

from yaoki.journal._codec import POSTS
from yaoki.journal._journal import Journal
from yaoki.journal._rows import Brake, Brief, Claim, RunRow, Tombstone, WorkerRow
from yaoki.journal._scoping import NO_SCOPES, ScopeView

__all__ = ["NO_SCOPES", "POSTS", "Brake", "Brief", "Claim", "Journal", "RunRow", "ScopeView", "Tombstone", "WorkerRow"]
