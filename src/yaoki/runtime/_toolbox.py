"""The tools a model may call: looked up by name, their arguments checked, their schemas shown."""

from __future__ import annotations

import inspect
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Struct

from yaoki.classify import fingerprint, redact
from yaoki.codec import canonical, codec_for
from yaoki.errors import DeclarationError, EncodingError, StepFailed
from yaoki.records import Executed, Failure, FailureKind
from yaoki.runtime._signature import hints_of
from yaoki.runtime._tool import BoundTool, Tool

__all__ = ["Settled", "StandIn", "Told", "ToolCall", "ToolResult", "Toolbox", "refusal", "result_of"]


V = TypeVar("V")


class ToolCall(Struct, frozen=True):
    """A call as a model asked for it. Its id is recorded; it need not be unique."""

    id: str
    name: str
    args: Any = {}
    """An object; whatever else a model wrote is answered as its mistake."""


class ToolResult(Struct, frozen=True):
    """What a model is told: the value as text, or what went wrong."""

    id: str
    text: str
    is_error: bool = False
    value: Any = None
    failure: Failure | None = None


class Told(Struct, frozen=True, omit_defaults=True):
    """A tool's own word to a model, in place of its value as JSON; also that something went wrong: that is a result."""

    text: str
    is_error: bool = False
    data: Any = None
    """What the tool returned beside the text."""


class Settled(Struct, Generic[V], frozen=True):
    """The end of a branch or a call: its value, or the failure of the step that ended it."""

    value: V = cast("Any", None)
    """None where there is a failure."""
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.failure is None


class Toolbox:
    """
    A set of tools by name.

    Raises:
        DeclarationError: Two tools of one name, something that is no tool, or one with parameters that have no name.
    """

    def __init__(self, *tools: Tool[Any, Any] | BoundTool[Any, Any]) -> None:
        self._by_name: dict[str, Tool[Any, Any] | BoundTool[Any, Any]] = {}
        for one in tools:
            if not isinstance(cast("object", one), Tool | BoundTool):
                msg = f"Toolbox: {one!r} is no tool; decorate it with @tool"
                raise DeclarationError(msg)
            if one.name in self._by_name:
                msg = (
                    f"Toolbox: two tools are named {one.name!r}; give one another name=, "
                    "since a model tells them apart by it"
                )
                raise DeclarationError(msg)
            if not _plain(one).params.by_name:
                msg = (
                    f"Toolbox: tool {one.name} takes *args, **kwargs or positional-only parameters; a model gives "
                    "arguments by name, so name each of them"
                )
                raise DeclarationError(msg)
            self._by_name[one.name] = one

    @property
    def tools(self) -> list[Tool[Any, Any] | BoundTool[Any, Any]]:
        """The tools, in order."""
        return list(self._by_name.values())

    def specs(self) -> list[dict[str, Any]]:
        """Return name, description and input schema of each tool; injected and Local parameters are left out."""
        return [_spec(_plain(one)) for one in self._by_name.values()]

    def look_up(self, call: ToolCall) -> tuple[Tool[Any, Any], object, dict[str, Any]]:
        """
        Return the tool, its `self` if it is a method, and the call's arguments as the tool's types.

        Raises:
            StepFailed: `capability` for an unknown name, `semantic` for arguments that do not fit, or that the
                functions of the tool's policy (`effect`, `scope`, `key`, …) raise at.
        """
        found = self._by_name.get(call.name) if isinstance(cast("object", call.name), str) else None
        if found is None:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise refusal(FailureKind.CAPABILITY, "tool.unknown", f"there is no tool {call.name!r}; there are: {known}")
        tool = _plain(found)
        own = found.owner if isinstance(found, BoundTool) else None
        values = _arguments(tool, call.args)
        _refuse_unjudged(tool, values)
        return tool, own, values


def _plain(one: Tool[Any, Any] | BoundTool[Any, Any]) -> Tool[Any, Any]:
    return one.tool if isinstance(one, BoundTool) else one


def refusal(kind: FailureKind, reason: str, message: str) -> StepFailed:
    """Return the failure of a call that could not become an attempt."""
    message = message.encode("utf-8", "replace").decode()  # a model's text may hold half a surrogate pair
    failure = Failure(
        kind=kind,
        reason=reason,
        message=redact(message)[:2000],
        executed=Executed.NO,
        evidence=f"yaoki: {reason}",
        fingerprint=fingerprint(f"{reason} {message}"),
    )
    return StepFailed(message, failure=failure)


def _arguments(tool: Tool[Any, Any], args: object) -> dict[str, Any]:
    if not isinstance(args, dict):
        raise refusal(FailureKind.SEMANTIC, "tool.arguments", f"{tool.name}: the arguments must be a JSON object")
    shown = tool.params.signature.parameters
    hints = hints_of(tool.fn) or {}
    values: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", args).items():
        if name not in shown or name in tool.params.local:
            known = ", ".join(n for n in shown if n not in tool.params.local)
            text = f"{tool.name} takes no argument {name!r}; it takes: {known or 'none'}"
            raise refusal(FailureKind.SEMANTIC, "tool.arguments", text)
        try:
            values[name] = codec_for(hints.get(name, inspect.Parameter.empty)).decode(_PLAIN_JSON.encode(value))
        except (EncodingError, TypeError, ValueError) as error:
            raise refusal(FailureKind.SEMANTIC, "tool.arguments", f"{tool.name}, argument {name!r}: {error}") from None
    missing = [
        name
        for name, parameter in shown.items()
        if parameter.default is inspect.Parameter.empty and name not in values and name not in tool.params.local
    ]
    if missing:
        raise refusal(FailureKind.SEMANTIC, "tool.arguments", f"{tool.name} needs the argument {missing[0]!r}")
    return values


def _refuse_unjudged(tool: Tool[Any, Any], args: dict[str, Any]) -> None:
    """Refuse arguments at which a function of the tool's policy raises: nothing of the call is recorded yet."""
    judges: dict[str, object] = {"key": tool.key_of, "effect": tool.effect, "scope": tool.scope}
    judges |= {"approve": tool.approve, "reserve": tool.agent.reserve}
    if not any(callable(judge) for judge in judges.values()):
        return
    values = tool.params.bind((), args)
    for name, judge in judges.items():
        if not callable(judge):
            continue
        try:
            found = tool.effect_of(values) if name == "effect" else judge(**values)
            if name == "key":
                canonical(found)
        except Exception as error:  # noqa: BLE001 - a model's arguments are no reason to end the run
            text = f"{tool.name}: its {name}= cannot judge these arguments: {type(error).__name__}: {error}"
            raise refusal(FailureKind.SEMANTIC, "tool.arguments", text) from None


_PLAIN_JSON = codec_for(Any)


def _spec(tool: Tool[Any, Any]) -> dict[str, Any]:
    hints = hints_of(tool.fn) or {}
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in tool.params.signature.parameters.items():
        if name in tool.params.local:
            continue
        schema = dict(codec_for(hints.get(name, inspect.Parameter.empty)).schema())
        definitions.update(schema.pop("$defs", {}))  # type: ignore[call-overload]
        properties[name] = schema
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if definitions:
        schema["$defs"] = definitions
    return {"name": tool.name, "description": inspect.getdoc(tool.fn) or "", "input_schema": schema}


class StandIn(NamedTuple):
    """A value that no attempt made, on its way to a model."""

    value: object
    gap: str


def result_of(call: ToolCall, outcome: object) -> ToolResult:
    """Return what the model is told of a call's end."""
    if isinstance(outcome, StandIn):
        told = result_of(call, outcome.value)
        return msgspec.structs.replace(told, text=f"{told.text}\n[{outcome.gap}]")
    if isinstance(outcome, StepFailed):
        failure = outcome.failure
        return ToolResult(id=call.id, text=failure.message or failure.reason, is_error=True, failure=failure)
    if isinstance(outcome, Told):
        return ToolResult(id=call.id, text=outcome.text, is_error=outcome.is_error, value=outcome.data)
    text = outcome if isinstance(outcome, str) else _as_text(outcome)
    return ToolResult(id=call.id, text=text, value=outcome)


def _as_text(value: object) -> str:
    return codec_for(inspect.Parameter.empty).encode(value).decode()
