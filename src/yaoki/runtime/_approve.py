"""
Approvals: a call that a person must allow is held back before its first begin.

The question is bound to the step and its arguments; its answer is in the journal, so nobody is asked twice. A refusal
holds for equal calls of the same pass, whoever makes them, until somebody redrives the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from yaoki.errors import DeclarationError
from yaoki.records import ABSENT, Adopt, Executed, FailureKind, Hold
from yaoki.runtime._doubt import question_of
from yaoki.runtime._effects import Write
from yaoki.runtime._failures import own_failure

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.records import Answer, Failure
    from yaoki.runtime._effects import EffectOf
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step

__all__ = ["approval_asked", "approval_refused"]


def approval_asked(live: Live, step: Step, past: Past | None) -> Generator[EffectOf, Any, bool]:
    """Hold a new call back unless a person has allowed it; return whether it is held back (or refused already)."""
    if step.tool.approve is None or (past is not None and past.approved):
        return False
    refused = live.history.inbox.refused.get(step.action)
    if refused is not None:
        yield Write(step.key, _as_before(live, step, refused))
        return True
    if not _needed(step):
        return False
    if past is None:
        yield Write(step.key, _held(live, step))
        past = live.history.steps[step.key]
    question = question_of(live, step, past, "approve", text=f"may {step.call} be done?")
    plain = msgspec.structs.replace(question, executed=Executed.NO, type="", schema=ABSENT)
    yield Write(step.key, plain)
    return True


def _needed(step: Step) -> bool:
    approve = step.tool.approve
    if not callable(approve):
        return True
    needed = cast("object", approve(**step.values))
    if not isinstance(needed, bool):
        msg = f"tool {step.tool.name}: approve= returned {needed!r}; it must return True or False. Nothing was done."
        raise DeclarationError(msg)
    return needed


def approval_refused(step: Step, answer: Answer) -> Failure:
    """Return what the loop, or the model, is told of a call that a person did not allow."""
    reason = "" if answer.value is ABSENT else f": {msgspec.json.decode(answer.value)}"
    message = f"{step.call} was refused by a person{reason}. It was not done, and must not be asked for again."
    return own_failure(FailureKind.PERMANENT, "approval.refused", message, Executed.NO)


def _held(live: Live, step: Step) -> Hold:
    now_ms = live.now_ms()
    args = "" if step.args == step.action else step.args
    return Hold(at=now_ms, since=now_ms, reason="question", action=step.action, args=args, call=step.call)


def _as_before(live: Live, step: Step, refused: Answer) -> Adopt:
    return Adopt(
        at=live.now_ms(),
        source=refused.question,
        failure=approval_refused(step, refused),
        action=step.action,
        args="" if step.args == step.action else step.args,
        call=step.call,
    )
