"""What is tried when a ladder ends: rungs, declared as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from yaoki.errors import DeclarationError
from yaoki.policy._bounds import require_number

__all__ = ["ASK_EXPIRES_S", "Abort", "Ask", "DeadLetter", "Rung", "ladder_of"]

ASK_EXPIRES_S = 7 * 86_400.0
"""A person's answer expires in 7 days unless written otherwise."""

_EXPIRES_MOST_S = 10 * 366 * 86_400.0


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


Rung: TypeAlias = Ask | DeadLetter | Abort

_TERMINAL = (DeadLetter, Abort)


def ladder_of(escalate: Rung | Sequence[Rung] = ()) -> tuple[Rung, ...]:
    """
    Return the declared rungs in order, ending in a terminal one: `abort()` unless written.

    Raises:
        DeclarationError: Something that is no rung, or a rung behind one that ends the step.
    """
    declared: Sequence[object] = escalate if isinstance(escalate, Sequence) else (escalate,)
    ladder = [_rung(i, rung) for i, rung in enumerate(declared, 1)]
    for i, rung in enumerate(ladder[:-1], 1):
        if isinstance(rung, _TERMINAL):
            name = type(rung).__name__
            raise DeclarationError(
                f"escalate: rung {i + 1} is never reached, since {name} before it ends the step. Put {name} last."
            )
    if not ladder or not isinstance(ladder[-1], _TERMINAL):
        ladder.append(Abort())
    return tuple(ladder)


def _rung(i: int, rung: object) -> Rung:
    if isinstance(rung, Rung):
        return rung
    raise DeclarationError(
        f"escalate: rung {i} is {rung!r}. Call what yaoki.escalate offers: ask(), dead_letter(), abort()."
    )
