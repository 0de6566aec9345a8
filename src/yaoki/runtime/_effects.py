"""
What the engine asks of a driver, by meaning.

A step is a generator that decides and yields these; a driver performs them and sends back what came of
it. They are the points a crash can fall between, and what another engine would map to its own.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from yaoki.records import Begin, Cause, Failure, Record
    from yaoki.runtime._step import Step

__all__ = ["Barrier", "Call", "EffectOf", "Enter", "Raised", "Steps", "Suspend", "Wait", "Write"]


class Barrier(IntEnum):
    """How far a record must have got before the engine goes on."""

    WRITTEN = 0
    """In the WAL: survives the process. Synced within `sync_every_ms`."""
    STARTED = 1
    """Written, and its sync started without waiting for it."""
    SYNCED = 2
    """On disk: survives power loss. Awaited."""


class Write:
    """Append one record under a step's identity."""

    __slots__ = ("barrier", "key", "record")

    def __init__(self, key: str, record: Record, barrier: Barrier = Barrier.WRITTEN) -> None:
        self.key = key
        self.record = record
        self.barrier = barrier


class Enter:
    """
    Append a step's begin, if the run's group has room for it and its scope lets it, in that very transaction.

    Answered with None once it is appended; else with the `Admission` that says why it is not, nothing being taken.
    """

    __slots__ = ("barrier", "begin", "step")

    def __init__(self, step: Step, begin: Begin, barrier: Barrier) -> None:
        self.step = step
        self.begin = begin
        self.barrier = barrier


class Call:
    """Make one attempt; answered with its value, or `Raised`."""

    __slots__ = ("injected", "step", "timeout_s")

    def __init__(self, step: Step, injected: dict[str, object] | None, timeout_s: float) -> None:
        self.step = step
        self.injected = injected
        self.timeout_s = timeout_s


class Wait:
    """
    Wait until a time. A long wait parks the branch; a driver may also return early when told to stop.

    One that goes `through` is an undo's: of stops only a drain, or code that has drifted, ends it early.
    """

    __slots__ = ("reason", "through", "until_ms")

    def __init__(self, until_ms: int, reason: str, *, through: bool = False) -> None:
        self.until_ms = until_ms
        self.through = through
        self.reason = reason


class Suspend:
    """This branch cannot go on until somebody acts (or a time comes, if given)."""

    __slots__ = ("freed", "question", "room", "scope", "text", "until_ms", "waits_for")

    def __init__(
        self,
        waits_for: Literal["person", "budget", "signal", "code", "halt", "time", "replay", "join", "pause"],
        *,
        question: str = "",
        until_ms: int = 0,
        text: str = "",
        scope: str = "",
        room: bool = False,
        freed: int = -1,
    ) -> None:
        self.freed = freed
        """How often the group whose budget is waited for had freed; -1: it is the run's own."""
        self.room = room
        """Of a budget: calls in flight may give enough of it back; it is looked at again when they settle."""
        self.waits_for = waits_for
        self.question = question
        self.until_ms = until_ms
        self.text = text
        self.scope = scope


EffectOf: TypeAlias = Write | Enter | Call | Wait | Suspend
"""What a step's generator may yield."""
Steps: TypeAlias = Generator[EffectOf, Any, Any]
"""A step under way."""


class Raised(Struct, frozen=True):
    """An attempt that raised. `cause` is set when it was cancelled from outside, `failure` when it was not made."""

    error: BaseException
    started: bool = True
    timed_out: bool = False
    """Yaoki's own attempt timeout."""
    thread_alive: bool = False
    cause: Cause | None = None
    timeout_key: str = ""
    failure: Failure | None = None
