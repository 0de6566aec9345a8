"""Rows of the `run` table as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from yaoki.records import State

if TYPE_CHECKING:
    from yaoki.journal._sqlite import Row

__all__ = ["COLUMNS", "Brake", "Brief", "Claim", "RunRow", "Tombstone", "WorkerRow", "row_of"]

COLUMNS = (
    "id, name, loop, state, wake_ms, epoch, owner, deaths, input, value, note, waits_for, file, grp,"
    " created_ms, started_ms, ended_ms, changed_ms, cost_nusd"
)
"""In the order of `RunRow`'s fields."""


class RunRow(Struct, frozen=True):
    """One run as the store has it at the moment of reading. Times are milliseconds UTC, 0 is none."""

    id: int
    name: str
    loop: str
    state: State
    wake_ms: int
    epoch: int
    owner: int
    """The worker that drives it; 0 is nobody. It may have died: only a claim finds out."""
    deaths: int
    """How many owners died while they drove it."""
    input: bytes
    value: bytes | None
    note: str
    waits_for: str
    file: str
    group: str
    created_ms: int
    started_ms: int
    ended_ms: int
    changed_ms: int
    """When the state last changed."""
    cost_nusd: int = 0
    """What it had cost when it was last left, in billionths of a dollar."""


class Brief(NamedTuple):
    """A run without its input and its value, for whoever goes through all of them."""

    id: int
    name: str
    loop: str
    state: State
    note: str
    ended_ms: int
    changed_ms: int


class Claim(Struct, frozen=True):
    """A run taken by this worker."""

    row: RunRow
    """As it is after the claim."""
    died: bool
    """The previous owner died while it held the run."""


class WorkerRow(Struct, frozen=True):
    """One worker, as the store has it, and whether it lives. Times are milliseconds UTC, 0 is none."""

    id: int
    pid: int
    host: str
    mark: str
    """`$YAOKI_MARK` of its process tree; empty if nobody supervises it."""
    started_ms: int
    ended_ms: int
    stop_ms: int
    """When it was ordered to stop."""
    alive: bool
    """Its lock is held; a worker stopped by SIGSTOP, or hung, is alive."""
    runs: int
    """How many runs it drives, or left by its death."""


class Brake(Struct, frozen=True):
    """What must not begin; the scope `""` is everything."""

    scope: str
    by: str
    at_ms: int


class Tombstone(Struct, frozen=True):
    """A run that was discarded or pruned. Its id is never used again."""

    name: str
    loop: str
    state: State
    by: str
    at_ms: int


def row_of(values: Row) -> RunRow:
    """Build a row from the columns in `COLUMNS`."""
    fields = list(values)
    fields[3] = State(fields[3])
    return RunRow(*fields)
