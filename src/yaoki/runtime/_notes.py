"""What failed since the last success, as one message for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.records import Executed, Scope

if TYPE_CHECKING:
    from yaoki.runtime._history import History
    from yaoki.runtime._receipt import Met

__all__ = ["NOTES_MAX", "notes_of"]

NOTES_MAX = 10
"""Failures that are told, the newest."""
_MESSAGE_MAX = 300
_CALL_MAX = 200
_HEAD = "What failed and has not succeeded since. Do not repeat it as it was:"
_HAPPENED = {
    Executed.NO: "It did not happen.",
    Executed.MAYBE: "It may have happened: check before you do it again.",
    Executed.YES: "It happened; only its result was not accepted.",
}


def notes_of(history: History) -> str:
    """
    Return the notes, nothing if nothing is left to note: the last failure of each call that has not succeeded since.

    A death of the process is no failure of a call, and left out.
    """
    succeeded = {past.action for past, _ in history.failures.met() if past.settled}
    succeeded |= {past.action for past in history.steps.values() if past.settled}
    last: dict[str, Met] = {}
    for past, met in history.failures.met():
        if past.settled or past.action in succeeded or met.failure.scope is Scope.PROCESS or "!" in met.step:
            continue
        call = met.call or met.step
        last.pop(call, None)
        last[call] = met
    lines = [_line(call, met) for call, met in list(last.items())[-NOTES_MAX:]]
    left_out = len(last) - len(lines)
    if left_out:
        lines.insert(0, f"- ({left_out} more, earlier)")
    return "\n".join([_HEAD, *lines]) if lines else ""


def _line(call: str, met: Met) -> str:
    failure = met.failure
    message = " ".join((failure.message or failure.reason).split())
    shown = message if len(message) <= _MESSAGE_MAX else message[:_MESSAGE_MAX] + "…"
    named = call if len(call) <= _CALL_MAX else call[:_CALL_MAX] + "…"
    return f"- {named}: {shown} {_HAPPENED[failure.executed]}"
