"""
What is tried when a step's ladder ends, in the order written.

    @tool(escalate=[ask("The CRM refuses this order. What now?"), dead_letter()])
    def book(order_id: str) -> str: ...

The position is journaled: a restart goes on at the rung it had reached. An action that may have happened is
asked about before any rung is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.errors import DeclarationError
from yaoki.policy import Abort, Ask, Cached, Compensate, DeadLetter, Degrade, Fallback
from yaoki.records import FailureKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["abort", "ask", "cached", "compensate", "dead_letter", "degrade", "fallback"]

_FALLBACK_ON = tuple(kind for kind in FailureKind if kind not in (FailureKind.PROGRAMMING, FailureKind.FATAL))


def fallback(*tools: object, on: Iterable[FailureKind] = _FALLBACK_ON, **changes: object) -> Fallback:
    """
    Try another tool for the same action: another vendor, another model, another way.

        @tool(effect=Effect.READ_ONLY, scope="anthropic/sonnet", escalate=[fallback(ask_gpt), degrade("")])
        def ask_sonnet(messages: list[dict]) -> str: ...

    Each member has its own attempts, deadline, effect kind, check and idempotency key. One whose breaker is open, or
    whose scope is the one that failed, is passed over. The one that was begun stays chosen for the step, also after
    a restart; the next step starts with the first again. It is never tried while the action may have happened.

    Args:
        tools: The members, in order: `@tool` functions with the same parameters whose results fit this tool's
            annotation. None: this tool itself, with `changes`.
        on: Kinds of failures that move on; else the rung is passed over. By default all but `programming`
            and `fatal`.
        changes: Arguments given in place of the call's own: `fallback(model="gpt-5-mini")`.

    Raises:
        DeclarationError: Neither a tool nor a change; a member that is no tool or takes other arguments.
    """
    return Fallback(tools=tools, changes=changes, on=_kinds(on))


def _kinds(on: Iterable[str]) -> frozenset[FailureKind]:
    try:
        found = frozenset(FailureKind(one) for one in on)
    except ValueError as wrong:
        raise DeclarationError(f"fallback: on= holds {wrong}; write members of FailureKind.") from None
    if not found:
        raise DeclarationError("fallback: on= is empty, so it never moves on. Leave it out for the default.")
    return found


def cached(fn: Callable[..., Any], *, gap: str | None = None) -> Cached:
    """
    Let an earlier or precomputed value stand in.

    Args:
        fn: Takes the tool's arguments, injected ones left out, and returns a value of the tool's type. It reads only,
            and is not retried; one that raises (`LookupError`: nothing is there) leaves it to the next rung.
        gap: Noted on the receipt, and told to a model, when the value is used; None: nothing is.
    """
    return Cached(fn=fn, gap=gap)


def degrade(value: object, *, gap: str | None = None) -> Degrade:
    """
    Go on with a value written in advance, and note the gap on the receipt; a model is told.

    The step has a value, but its action did not happen: an equal call later is made, with the same key.

    Args:
        value: Of the tool's type.
        gap: What is missing, for people; None: written from the failure.

    Raises:
        DeclarationError: At the tool's declaration: the value is not of its type.
    """
    return Degrade(value=value, gap=gap)


def compensate() -> Compensate:
    """
    Undo what the run has done, newest first, by the `undo=` of each tool; then the next rung.

    Effects in doubt are asked about first. Each undo is a step of its own: journaled, keyed, retried. One that fails
    does not stop the others; then the run is a dead letter that lists what is left to be undone by hand, unless the
    next rung asks a person. Effects whose tool has no `undo` are listed as gaps.
    """
    return Compensate()


def ask(text: str | None = None, *, expires_s: float = 604_800) -> Ask:
    """
    Ask a person, and let the run wait: `yaoki answer RUN` with one of the answers below.

    A value: the step returns it. *Not happened*: one more attempt; if that fails too, the next rung. *Skip*: the
    loop goes on, told that there is no result. *Abort*: `StepFailed` in the loop. Unanswered, the run is a
    dead letter.

    Args:
        text: The question; by default written from the failure.
        expires_s: How long the answer may take; 7 days unless written otherwise.

    Raises:
        DeclarationError: An empty text, or a time that cannot work.
    """
    return Ask(text=text, expires_s=expires_s)


def dead_letter() -> DeadLetter:
    """End the run `dead` with this step named; the loop does not see the failure. A person may redrive it."""
    return DeadLetter()


def abort() -> Abort:
    """Raise `StepFailed` in the loop: the default last rung. Uncaught, it ends the run `dead`."""
    return Abort()
