"""Which tool acts for a step: the one that was called, or, once its ladder is over, a fallback's member."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from yaoki.errors import DeclarationError, EncodingError
from yaoki.policy import Abort, Compensate, Degrade, Fallback, fails_too, next_rung

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.policy import Rung
    from yaoki.records import Failure
    from yaoki.runtime._live import Live
    from yaoki.runtime._step import Step
    from yaoki.runtime._tool import Tool

__all__ = [
    "Member",
    "act_on",
    "has_other_scope",
    "has_rung",
    "member_of",
    "members_of",
    "refuse_rungs",
    "rungs_of",
    "values_for",
    "would_fail_too",
]

_NO_RUNGS = (Abort(),)


class Member:
    """A fallback's tool, its `self` if it is a method, and the arguments it is given in place of the call's own."""

    __slots__ = ("changes", "owner", "tool")

    def __init__(self, tool: Tool[Any, Any], owner: object, changes: dict[str, Any]) -> None:
        self.tool = tool
        self.owner = owner
        self.changes = changes


def rungs_of(live: Live, step: Step) -> Sequence[Rung]:
    """Return a step's rungs: its tool's, else the loop's; a sub-step (a check, an undo) never takes the loop's."""
    rungs = step.declared.rungs
    if rungs is not None:
        return rungs
    return _NO_RUNGS if "!" in step.key else live.loop.rungs


def member_of(declared: Tool[Any, Any], rung: Fallback) -> Member:
    """Return who acts on a fallback's rung."""
    from yaoki.runtime._tool import BoundTool

    if not rung.tools:
        return Member(declared, None, rung.changes)
    found: Any = rung.tools[0]
    if isinstance(found, BoundTool):
        bound = cast("BoundTool[..., Any]", found)
        return Member(bound.tool, bound.owner, rung.changes)
    return Member(cast("Tool[Any, Any]", found), None, rung.changes)


def members_of(tool: Tool[Any, Any]) -> list[Member]:
    """Return the other tools that may act for a tool's steps."""
    found = [member_of(tool, rung) for rung in tool.rungs or () if isinstance(rung, Fallback)]
    return [one for one in found if one.tool is not tool]


def act_on(live: Live, step: Step, rung: int, name: str = "") -> bool:
    """
    Let the tool of a rung act for the step from here on; 0 is the one that was called.

    Args:
        live: The run.
        step: The step; its identity, arguments' fingerprint and slot stay.
        rung: As in a begin.
        name: The tool that a begin has recorded there; empty: whichever is declared.

    Returns:
        Whether the code still declares it.
    """
    if step.own is None:
        if not rung:
            return True
        step.own = step.given, step.named, step.values
    step.tool = step.declared
    step.given, step.named, step.values = step.own
    if not rung:
        return True
    rungs = rungs_of(live, step)
    found = rungs[rung - 1] if rung <= len(rungs) else None
    if not isinstance(found, Fallback):
        return False
    member = member_of(step.declared, found)
    if name and name != member.tool.name:
        return False
    own = step.given[:1] if step.declared.is_method else ()
    step.tool = member.tool
    step.values = {**step.values, **member.changes}
    step.named = step.values
    step.given = (member.owner,) if member.owner is not None else own if member.tool is step.declared else ()
    return True


def would_fail_too(step: Step, failure: Failure, rung: Fallback) -> str:
    """
    Return the scope of a fallback that a failure reaches, or nothing.

    Only scopes that are declared are compared: who wrote a fallback and no scope means it to be tried.
    """
    failed = step.tool.scope_of(step.values)
    if not failed:
        return ""
    member = member_of(step.declared, rung)
    other = member.tool.scope_of(values_for(step, member))
    return other if other and fails_too(failed, failure.scope, other) else ""


def values_for(step: Step, member: Member) -> dict[str, Any]:
    """Return the arguments a fallback's member is given for a step."""
    values = step.values if step.own is None else step.own[2]
    return {**values, **member.changes}


def has_other_scope(live: Live, step: Step, failure: Failure, after: int) -> bool:
    """Whether a rung behind a position calls where this failure does not reach."""
    return any(
        isinstance(rung, Fallback) and failure.kind in rung.on and not would_fail_too(step, failure, rung)
        for rung in rungs_of(live, step)[after + 1 :]
    )


def has_rung(live: Live, step: Step, after: int) -> bool:
    """Whether something other than the end of the step comes next."""
    return next_rung(rungs_of(live, step), after) is not None


def refuse_rungs(tool: Tool[Any, Any], rungs: Sequence[Rung]) -> None:
    """
    Hold a tool's rungs against its parameters and its result.

    Raises:
        DeclarationError: A fallback that is no tool, or takes other arguments; a value of another type.
    """
    for rung in rungs:
        if isinstance(rung, Fallback):
            _refuse_fallback(tool, rung)
        elif isinstance(rung, Degrade):
            _refuse_value(tool, rung)
        elif isinstance(rung, Compensate) and tool.name.endswith(".undo"):
            msg = f"tool {tool.name} undoes, so it cannot itself compensate()"
            raise DeclarationError(msg)


def _refuse_fallback(tool: Tool[Any, Any], rung: Fallback) -> None:
    from yaoki.runtime._tool import BoundTool, Tool

    for one in rung.tools:
        if not isinstance(one, Tool | BoundTool):
            msg = f"tool {tool.name}: fallback({one!r}) is no tool; decorate it with @tool"
            raise DeclarationError(msg)
    member = member_of(tool, rung)
    if member.tool.is_async is not tool.is_async:
        kind = "async" if tool.is_async else "plain `def`"
        msg = f"tool {tool.name} is {kind}, its fallback {member.tool.name} is not; make them alike"
        raise DeclarationError(msg)
    if member.tool.approve is not None and member.tool is not tool:
        msg = f"tool {tool.name}: its fallback {member.tool.name} has an approve= of its own; write it on {tool.name}"
        raise DeclarationError(msg)
    wanted = {name for name in tool.params.signature.parameters if name != "self"}
    taken = {name: parameter for name, parameter in member.tool.params.signature.parameters.items() if name != "self"}
    needed = {name for name, parameter in taken.items() if parameter.default is inspect.Parameter.empty}
    unknown = (wanted | member.changes.keys()) - taken.keys()
    missing = needed - wanted - member.changes.keys()
    if unknown or missing:
        said = ", ".join(sorted(unknown)) or "nothing"
        lacks = ", ".join(sorted(missing)) or "nothing"
        msg = (
            f"tool {tool.name}: its fallback {member.tool.name} takes other arguments "
            f"(it does not take: {said}; it also needs: {lacks}). Give both the same parameters."
        )
        raise DeclarationError(msg)


def _refuse_value(tool: Tool[Any, Any], rung: Degrade) -> None:
    codec = tool.codec_if_known
    if codec is None:
        return
    try:
        codec.decode(codec.encode(rung.value))
    except EncodingError as wrong:
        msg = f"tool {tool.name}: degrade({rung.value!r}) is no value of its type: {wrong}"
        raise DeclarationError(msg) from None
