"""What supervisor and worker say to each other: a job one way, beats and a report the other. No typer, no rich."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

__all__ = ["HUNG_AFTER_S", "Beat", "Job", "Report", "Said", "Service"]

HUNG_AFTER_S = 240.0
"""
A run that is driven, makes no attempt and writes nothing for so long is hung: waits above `park_after_s` (30 s)
leave memory, and between its steps a loop has little to do. So is a worker that says nothing for so long.
"""


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the worker of `yaoki run` is to do. Through its stdin: arguments are public, and bounded."""

    target: str
    run_id: str
    store: str
    input: Raw | UnsetType = UNSET
    """The JSON input; unset means what the run has, or no arguments for a new one."""
    notes: bool = False
    """Whether to say what a person should know before the run starts: the first worker does."""
    name_it: bool = False
    """Whether the run's id is among that: it was made up, or somebody watches."""
    debug: bool = False
    hung_after_s: float = HUNG_AFTER_S
    notify: list[str] = []
    """Who is told of a run that needs somebody."""
    interactive: bool = False
    """Whether a person watches, and is asked in place of each longer wait."""


class Service(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the worker of `yaoki worker` is to do."""

    files: list[str]
    store: str
    until: Literal["idle", "stopped"]
    concurrency: int
    drain_s: float = 5.0
    notes: bool = False
    tell: bool = False
    """Whether each run that ends or waits gets a line."""
    debug: bool = False
    hung_after_s: float = HUNG_AFTER_S
    notify: list[str] = []


class Beat(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="beat"):
    """A worker's sign of life, about once a second."""

    patience_s: float
    """For how long it may say nothing before it is hung."""
    settled: int = 0
    """Attempts that this process has settled so far."""
    active: int = 0
    """Runs it drives."""
    left: dict[str, int] = {}
    """How many runs it has left, by where."""
    hung: str = ""
    """Why it must be killed: what has taken too long, for people."""


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="report"):
    """How a worker ended. A worker that ends without one died."""

    end: Literal["done", "refused", "drained"]
    """done: the work is done · refused: it could not be, see `code` · drained: it was told to stop."""
    code: str = ""
    message: str = ""
    exit_code: int = 0
    left: dict[str, int] = {}


Said: TypeAlias = Beat | Report
