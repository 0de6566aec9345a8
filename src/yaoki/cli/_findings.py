"""What a process that imported a file found out about it. No typer, no rich: the importing process uses it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Examined", "Found"]


class Found(Struct, frozen=True, kw_only=True):
    """One thing to know about a loop or a tool of a file."""

    level: str
    """note · warn · error: `yaoki run` would refuse it."""
    code: str
    subject: str
    text: str
    file: str = ""
    line: int = 0


class Examined(Struct, kw_only=True):
    """One file, imported in a process of its own."""

    file: str
    loops: list[str] = []
    tools: list[str] = []
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
