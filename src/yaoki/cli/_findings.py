"""What a process that imported a file found out about it. No typer, no rich: the importing process uses it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Examined", "Fit", "Found", "Ladder", "Rise"]


class Found(Struct, frozen=True, kw_only=True):
    """One thing to know about a loop or a tool of a file."""

    level: str
    """note · warn · error: `yaoki run` would refuse it."""
    code: str
    subject: str
    text: str
    file: str = ""
    line: int = 0


class Rise(Struct, frozen=True, kw_only=True):
    """One attempt of a ladder at its worst, and the wait after it."""

    attempt: int
    begins_s: float
    takes_s: float
    """Its timeout, or what the deadline leaves of it."""
    wait_s: float = 0.0
    """The longest wait before the next; 0: none follows."""


class Fit(Struct, frozen=True, kw_only=True):
    """What one step of a tool can want of a loop's budget, or of its supervisor, beside what there is."""

    loop: str
    field: str
    wants: float
    bound: float | None
    """None: no bound."""
    fits: bool


class Ladder(Struct, kw_only=True):
    """A tool's policy: how often and how long one step is tried, and what follows."""

    tool: str
    file: str = ""
    line: int = 0
    effect: str = ""
    """The kind's name, or `by its arguments`."""
    undeclared: bool = False
    timeout_s: float = 0.0
    attempts_max: int = 0
    deadline_s: float = 0.0
    base_s: float = 0.0
    cap_s: float = 0.0
    same_error_limit: int = 0
    unknown_attempts: int = 0
    repairs_max: int = 0
    """0: its output is not validated, or never asked for again."""
    worst_case_s: float = 0.0
    reached: int = 0
    """Attempts that begin before the deadline when each takes its timeout."""
    rises: list[Rise] = []
    """The first of those, at most 12."""
    after_maybe: str = ""
    """What follows a failure that may have acted: repeat · same_key · check · ask · tell."""
    rungs: list[str] = []
    rungs_of: str = ""
    """Who declared them: tool, the loop's name, or default."""
    killed_after_s: float | None = None
    """When a supervisor kills the worker of an attempt that hangs; None: the attempt itself is ended at its timeout."""
    hedge: float = 0.0
    """The quantile behind which a second call is made beside a slow one; 0: none is."""
    fits: list[Fit] = []


class Examined(Struct, kw_only=True):
    """One file, imported in a process of its own."""

    file: str
    loops: list[str] = []
    tools: list[str] = []
    ladders: list[Ladder] = []
    """Of the tool asked for, or of each tool of the loop; only `yaoki explain` asks."""
    findings: list[Found] = []
    threads: list[str] = []
    """Threads that importing it left running, by name."""
    rate: float = 0.0
    """Steps a second of an empty loop before the file was imported; 0: not measured."""
    rate_beside: float = 0.0
    """And beside whatever importing it left running."""
    error: str = ""
    """Why it could not be imported, or has not the loop asked for; what stands above is empty then."""
    code: str = ""
    """The code of that error."""
