"""What undoes a tool's calls, as it is declared: itself a tool, with a policy of its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from yaoki.errors import DeclarationError
from yaoki.records import Effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.runtime._tool import Tool

__all__ = ["result_name", "undo_tool"]


def undo_tool(owner: Tool[Any, Any], undo: Callable[..., Any]) -> Tool[Any, Any]:
    """
    Return the tool that undoes a call of `owner`.

    A plain function that takes the key is KEYED, any other AT_MOST_ONCE: whether a doubtful undo happened is asked.

    Raises:
        DeclarationError: It takes other parameters than the result and the tool's, or undoes nothing.
    """
    from yaoki.runtime._tool import BoundTool, Tool

    if owner.effect is Effect.READ_ONLY:
        msg = f"tool {owner.name} is READ_ONLY: there is nothing to undo. Leave undo= out, or declare its effect."
        raise DeclarationError(msg)
    given: Any = undo
    if isinstance(given, BoundTool):
        msg = f"tool {owner.name}: undo= is a bound method; give the method as the class defines it"
        raise DeclarationError(msg)
    made: Tool[Any, Any]
    if isinstance(given, Tool):
        made = given  # pyright: ignore[reportUnknownVariableType] - held against its owner below
    else:
        keyed = "idempotency_key" in inspect.signature(undo).parameters
        made = Tool(undo, effect=Effect.KEYED if keyed else Effect.AT_MOST_ONCE, escalate=(), name=f"{owner.name}.undo")
    if made.is_async is not owner.is_async:
        kind = "async" if owner.is_async else "plain `def`"
        msg = f"tool {owner.name} is {kind}, its undo is not; make them alike"
        raise DeclarationError(msg)
    wanted = [name for name in owner.params.signature.parameters if name != "self"]
    taken = [name for name in made.params.signature.parameters if name != "self"]
    if made.is_method is not owner.is_method or not taken or set(taken[1:]) != set(wanted) or taken[0] in wanted:
        said = ", ".join(["result", *wanted])
        msg = f"tool {owner.name}: undo= must take its result first, then its parameters: ({said})"
        raise DeclarationError(msg)
    return made


def result_name(undo: Tool[Any, Any]) -> str:
    """Return the name of the parameter that takes the result."""
    return next(name for name in undo.params.signature.parameters if name != "self")
