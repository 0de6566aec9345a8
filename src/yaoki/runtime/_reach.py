"""What a function's code can reach: the globals and closure cells it names, and the plain functions among them."""

from __future__ import annotations

import dis
import functools
import inspect
from typing import TYPE_CHECKING, Any

from yaoki.runtime._acting import members_of
from yaoki.runtime._tool import BoundTool, Tool
from yaoki.runtime._toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType

__all__ = ["Reached", "codes_of", "fields_of", "functions_of", "named_by", "reached_by", "tools_in"]


class Reached:
    """A tool that a loop's code reaches, and the instance it is bound to, if it is a method."""

    __slots__ = ("owner", "tool")

    def __init__(self, tool: Tool[Any, Any], owner: object = None) -> None:
        self.tool = tool
        self.owner = owner


def codes_of(fn: object) -> list[CodeType]:
    """Return a function's code and that of the functions inside it."""
    code: Any = getattr(fn, "__code__", None)
    found: list[CodeType] = []
    waiting = [code] if code is not None else []
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += [const for const in one.co_consts if inspect.iscode(const)]
    return found


def named_by(fn: object) -> dict[str, object]:
    """Return the globals and closure cells that a function's code names, its inner functions' too."""
    codes = codes_of(fn)
    if not codes:
        return {}
    names = {name for one in codes for name in _outer_names(one)}
    space: dict[str, object] = {**getattr(fn, "__globals__", {})}
    for name, cell in zip(codes[0].co_freevars, getattr(fn, "__closure__", None) or (), strict=False):
        try:
            space[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return {name: space[name] for name in sorted(names) if name in space}


@functools.lru_cache(maxsize=1024)
def _outer_names(code: CodeType) -> frozenset[str]:
    """Return the globals and cells the code loads; `co_names` has its attributes' names too."""
    loaded = {str(one.argval) for one in dis.get_instructions(code) if one.opname in _LOADS}
    return frozenset({*loaded, *code.co_freevars})


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})


def functions_of(fn: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yield the function and the plain functions of its module that it names, and those they name."""
    module = getattr(fn, "__module__", "")
    waiting: list[Callable[..., Any]] = [fn]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [
            value for value in named_by(one).values() if inspect.isfunction(value) and value.__module__ == module
        ]


def reached_by(fn: Callable[..., Any]) -> list[Reached]:
    """Return the tools a loop's function names, itself or through the plain functions of its module; each once."""
    found: dict[str, Reached] = {}
    for one in functions_of(fn):
        for value in _mentioned(one):
            for reached in tools_in(value):
                found.setdefault(reached.tool.name, reached)
    for reached in list(found.values()):
        for member in members_of(reached.tool):
            found.setdefault(member.tool.name, Reached(member.tool, member.owner))
    return list(found.values())


def _mentioned(fn: object) -> Iterator[object]:
    """Yield what a function names: globals and cells, and what it may take from these by a dot: `tools.charge`."""
    attributes = {name for code in codes_of(fn) for name in code.co_names}
    for value in named_by(fn).values():
        yield value
        fields = fields_of(value)
        yield from (fields[name] for name in sorted(attributes & fields.keys()))


def tools_in(value: object) -> Iterable[Reached]:
    """Return the tools a global names: one, or a toolbox of them."""
    listed: Sequence[object] = value.tools if isinstance(value, Toolbox) else [value]
    found: list[Reached] = []
    for one in listed:
        if isinstance(one, BoundTool):
            found.append(Reached(one.tool, one.owner))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif isinstance(one, Tool):
            found.append(Reached(one))  # pyright: ignore[reportUnknownArgumentType] - its parameters do not matter here
    return found


def fields_of(value: object) -> dict[str, object]:
    """
    Return what an object holds itself, read without running any code of it.

    By its type, never by `isinstance`: that asks a proxy for its `__class__`, and a lazy one then loads its library.
    """
    try:
        held: object = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return dict(held) if isinstance(held, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
