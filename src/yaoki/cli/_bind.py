"""JSON input as arguments of a loop. Pure; imported by the worker."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, cast

from yaoki.cli._exits import CommandError

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["arguments_of", "missing_of"]

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def arguments_of(signature: Signature, value: object, loop: str) -> tuple[list[object], dict[str, object]]:
    """
    Return positional and keyword arguments for a loop from its JSON input.

    An object whose keys are parameter names is keyword arguments. Otherwise a loop of one parameter takes
    the value as it is, and a loop of several takes an array in order, or one plain value if it needs only one.

    Raises:
        CommandError: It fits neither way, or a parameter without a default is left out.
    """
    parameters = list(signature.parameters.values())
    names = [p.name for p in parameters if p.kind not in _VARIADIC]
    required = [p.name for p in parameters if p.name in names and p.default is Parameter.empty]
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    takes = _takes(signature, loop)
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        if names and given and set(given) <= set(names):
            return _named(given, required, takes)
    if len(names) == 1:
        return ([value], {}) if positional else ([], {names[0]: value})
    if isinstance(value, list):
        items = cast("list[object]", value)
        if len(items) <= len(positional) and set(required) <= set(positional[: len(items)]):
            return items, {}
        raise CommandError("input.mismatch", f"--input has {len(items)} values, and {takes} does not take that many")
    if isinstance(value, dict):
        return _unnamed(cast("dict[str, object]", value), names, required, takes)
    if len(required) == 1:
        return [], {required[0]: value}
    if not names:
        raise CommandError("input.mismatch", f"{takes} takes no input; leave --input out")
    raise CommandError("input.mismatch", f'--input must name the parameters of {takes}: {{"{names[0]}": …}}')


def missing_of(signature: Signature, loop: str) -> tuple[list[object], dict[str, object]]:
    """
    Return the arguments of a loop that was given no input: none, if it needs none.

    Raises:
        CommandError: It has parameters without a default.
    """
    required = [
        p.name for p in signature.parameters.values() if p.kind not in _VARIADIC and p.default is Parameter.empty
    ]
    if required:
        shape = ", ".join(f'"{name}": …' for name in required)
        takes = _takes(signature, loop)
        raise CommandError("input.missing", f"{takes} needs input: --input '{{{shape}}}'")
    return [], {}


def _takes(signature: Signature, loop: str) -> str:
    return f"{loop}({', '.join(_spoken(p) for p in signature.parameters.values())})"


def _named(given: dict[str, object], required: list[str], takes: str) -> tuple[list[object], dict[str, object]]:
    missing = [name for name in required if name not in given]
    if missing:
        raise CommandError("input.mismatch", f"--input lacks {', '.join(missing)}; the loop is {takes}")
    return [], given


def _unnamed(
    given: dict[str, object], names: list[str], required: list[str], takes: str
) -> tuple[list[object], dict[str, object]]:
    unknown = [key for key in given if key not in names]
    if unknown:
        raise CommandError("input.mismatch", f"--input has {', '.join(unknown)}, which {takes} does not take")
    return _named(given, required, takes)


def _spoken(parameter: Parameter) -> str:
    kind = "" if parameter.annotation is Parameter.empty else f": {_annotation(parameter.annotation)}"
    default = "" if parameter.default is Parameter.empty else " = …"
    return f"{parameter.name}{kind}{default}"


def _annotation(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)
