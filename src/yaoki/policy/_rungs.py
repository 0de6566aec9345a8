"""What is tried when a ladder ends: rungs, declared as data, and which of them comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from yaoki.errors import DeclarationError
from yaoki.policy._bounds import require_number
from yaoki.records import FailureKind

__all__ = [
    "ASK_EXPIRES_S",
    "Abort",
    "Ask",
    "Cached",
    "Compensate",
    "DeadLetter",
    "Degrade",
    "Fallback",
    "Rung",
    "ladder_of",
    "next_rung",
]

ASK_EXPIRES_S = 7 * 86_400.0
"""A person's answer expires in 7 days unless written otherwise."""

_EXPIRES_MOST_S = 10 * 366 * 86_400.0
_RUNGS_MOST = 32
MOVES_ON = frozenset(FailureKind) - {FailureKind.PROGRAMMING, FailureKind.FATAL}
"""Failures after which another tool is tried: a bug is not hidden by one."""


class Fallback(Struct, frozen=True, kw_only=True):
    """Another tool for the same action, or the same tool with other arguments; `yaoki.escalate.fallback`."""

    tools: tuple[Any, ...] = ()
    """The members, in order; none: the tool itself."""
    changes: dict[str, Any] = {}
    """Arguments given in place of the call's own."""
    on: frozenset[FailureKind] = MOVES_ON

    def __post_init__(self) -> None:
        """Refuse a fallback to the very same call."""
        if not self.tools and not self.changes:
            raise DeclarationError(
                "fallback: name the tool to fall back to, or what to change: fallback(other) or fallback(model=…)."
            )


class Cached(Struct, frozen=True, kw_only=True):
    """An earlier or precomputed value stands in; `yaoki.escalate.cached`."""

    fn: Callable[..., Any]
    gap: str | None = None


class Degrade(Struct, frozen=True, kw_only=True):
    """A value written in advance stands in, and the gap is noted; `yaoki.escalate.degrade`."""

    value: Any
    gap: str | None = None


class Compensate(Struct, frozen=True, kw_only=True):
    """The run's completed effects are undone, in reverse order; then the next rung."""


class Ask(Struct, frozen=True, kw_only=True):
    """A person is asked; `yaoki.escalate.ask` says what each answer does."""

    text: str | None = None
    """The question; None: written from the failure."""
    expires_s: float = ASK_EXPIRES_S

    def __post_init__(self) -> None:
        """Refuse a question that cannot be asked or never expires."""
        require_number("ask", "expires_s", self.expires_s, most=_EXPIRES_MOST_S, zero=False)
        if self.text is not None and not self.text.strip():
            raise DeclarationError("ask: the text is empty. Write what the person should decide, or leave it out.")


class DeadLetter(Struct, frozen=True, kw_only=True):
    """The run ends `dead`, with this step named; a person may redrive it."""


class Abort(Struct, frozen=True, kw_only=True):
    """`StepFailed` is raised in the loop."""


Rung: TypeAlias = Fallback | Cached | Degrade | Compensate | Ask | DeadLetter | Abort

_LAST = (DeadLetter, Abort, Degrade)
"""Rungs behind which none is ever reached."""
_OF_ONE_TOOL = (Fallback, Cached)


def ladder_of(escalate: Rung | Sequence[Rung] = (), *, whose: str = "") -> tuple[Rung, ...]:
    """
    Return the declared rungs in order, ending in one that always ends the step: `abort()` unless written.

    A fallback of several members becomes a rung for each: a position names one call.

    Args:
        escalate: As written.
        whose: The loop they are declared for, whose tools take different arguments; empty: a tool's own.

    Raises:
        DeclarationError: Something that is no rung, or a rung behind one that ends the step.
    """
    declared: Sequence[object] = escalate if isinstance(escalate, Sequence) else (escalate,)
    ladder: list[Rung] = []
    for i, one in enumerate(declared, 1):
        rung = _rung(i, one)
        if whose and isinstance(rung, _OF_ONE_TOOL):
            name = type(rung).__name__.lower()
            raise DeclarationError(
                f"loop {whose}: {name}() belongs to one tool, whose arguments it takes. Write it in @tool(escalate=…)."
            )
        ladder += _split(rung)
    for i, rung in enumerate(ladder[:-1], 1):
        if isinstance(rung, _LAST):
            name = type(rung).__name__
            raise DeclarationError(
                f"escalate: rung {i + 1} is never reached, since {name} before it ends the step. Put {name} last."
            )
    if not ladder or not isinstance(ladder[-1], _LAST):
        ladder.append(Abort())
    if len(ladder) > _RUNGS_MOST:
        raise DeclarationError(f"escalate: {len(ladder)} rungs; {_RUNGS_MOST} is the most.")
    return tuple(ladder)


def next_rung(rungs: Sequence[Rung], after: int) -> Rung | None:
    """Return the rung that would follow a position (-1: none was tried yet), if it is not the end of the step."""
    following = rungs[after + 1] if after + 1 < len(rungs) else None
    return None if isinstance(following, DeadLetter | Abort) else following


def _split(rung: Rung) -> list[Rung]:
    if isinstance(rung, Fallback) and len(rung.tools) > 1:
        return [Fallback(tools=(one,), changes=rung.changes, on=rung.on) for one in rung.tools]
    return [rung]


def _rung(i: int, rung: object) -> Rung:
    if isinstance(rung, Rung):
        return rung
    raise DeclarationError(
        f"escalate: rung {i} is {rung!r}. Call what yaoki.escalate offers: fallback(…), cached(…), degrade(…), "
        "compensate(), ask(), dead_letter(), abort()."
    )
