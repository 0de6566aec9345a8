"""What supervisor and worker say to each other: a job one way, a report the other. No typer, no rich."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

__all__ = ["Job", "Report"]


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker is to do. Travels through its stdin: arguments are public, and bounded in length."""

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


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a worker ended. A worker that ends without one died."""

    end: Literal["done", "refused", "drained"]
    """done: the run is final or waits · refused: it could not be driven, see `code` · drained: it was told to stop."""
    code: str = ""
    message: str = ""
    exit_code: int = 0
