"""
What is tried when a step's ladder ends, in the order written.

    @tool(escalate=[ask("The CRM refuses this order. What now?"), dead_letter()])
    def book(order_id: str) -> str: ...

The position is journaled: a restart goes on at the rung it had reached. An action that may have happened is
asked about before any rung is tried.
"""

from __future__ import annotations

from yaoki.policy import Abort, Ask, DeadLetter

__all__ = ["abort", "ask", "dead_letter"]


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
