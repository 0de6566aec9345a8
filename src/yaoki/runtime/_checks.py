"""What a `check=` may take and answers: the function a user writes, as a read-only tool of its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from yaoki.errors import DeclarationError
from yaoki.records import Effect
from yaoki.runtime._signature import INJECTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.runtime._tool import Tool

__all__ = ["Check", "Happened", "NotHappened", "check_tool"]

V_co = TypeVar("V_co", covariant=True)
Check: TypeAlias = "Callable[..., Any]"

_INJECTABLE = frozenset({"idempotency_key", "timeout_s"})


class Happened(Struct, Generic[V_co], frozen=True):
    """A check's verdict: the action happened, and this is its result."""

    value: V_co


class NotHappened(Struct, frozen=True):
    """A check's verdict: the action did not happen and never will; it may be sent again."""


def check_tool(owner: Tool[Any, Any], check: Check) -> Tool[Any, Any]:
    """
    Make a check a read-only tool, so that it is retried and recorded like any other.

    It takes the tool's own parameters, and what it declares as injected: `idempotency_key`, which is the key of
    the action it is asked about, and `timeout_s`, its own.

    Raises:
        DeclarationError: It takes something else.
    """
    name = getattr(check, "__name__", "check")
    signature = inspect.signature(check)
    bound = owner.is_method and next(iter(signature.parameters), "") == "self"
    injected = frozenset(p.name for p in signature.parameters.values() if p.default is INJECTED)
    _refuse_other(owner, name, signature, injected, {"self"} if bound else set())
    wire = _async_wire(owner, check, name) if inspect.iscoroutinefunction(check) else _sync_wire(owner, check, name)
    made = type(owner)(
        wire,
        effect=Effect.READ_ONLY,
        scope=owner.scope or owner.name,
        breaker=owner.breaker,
        retry=owner.retry,
        timeout_s=owner.timeout_s,
        escalate=(),  # never the loop's: a check that cannot say is the doubt's question
        name=f"{owner.name}.check",
        skip=0,
    )
    made.is_method = bound
    made.params.injected = injected
    made.hidden = owner.params.local | owner.params.injected
    return made


def _refuse_other(
    owner: Tool[Any, Any], name: str, signature: inspect.Signature, injected: frozenset[str], own: set[str]
) -> None:
    unknown = injected - _INJECTABLE
    if unknown:
        msg = (
            f"tool {owner.name}: nothing is injected into check={name} as {min(unknown)!r}; "
            f"it may take {', '.join(sorted(_INJECTABLE))}"
        )
        raise DeclarationError(msg)
    wanted = set(owner.params.signature.parameters) - {"self"}
    taken = set(signature.parameters) - own - injected
    odd = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in signature.parameters.values())
    if odd or taken == wanted:
        return
    missing = ", ".join(sorted(wanted - taken)) or "nothing"
    more = ", ".join(sorted(taken - wanted)) or "nothing"
    msg = (
        f"tool {owner.name}: check={name} must take the tool's parameters except injected ones "
        f"(missing: {missing}; unknown: {more}); what is injected into it has the default INJECTED"
    )
    raise DeclarationError(msg)


def _sync_wire(owner: Tool[Any, Any], check: Check, name: str) -> Callable[..., object]:
    def asked(*own: object, **values: object) -> object:
        return _verdict_on_wire(owner, name, check(*own, **values))

    return asked


def _async_wire(owner: Tool[Any, Any], check: Check, name: str) -> Callable[..., object]:
    async def asked(*own: object, **values: object) -> object:
        return _verdict_on_wire(owner, name, await check(*own, **values))

    return asked


def _verdict_on_wire(owner: Tool[Any, Any], name: str, verdict: object) -> object:
    """Return what is journaled: null for not happened, `{"happened": value}` else."""
    if isinstance(verdict, NotHappened):
        return None
    if isinstance(verdict, Happened):
        happened = cast("Happened[object]", verdict)
        data = owner.codec.encode(happened.value)
        owner.codec.decode(data)  # one of another type is no answer, and this check has failed
        return {"happened": msgspec.json.decode(data)}
    msg = (
        f"check={name} of tool {owner.name} returned {type(verdict).__name__}; "
        "it must return Happened(value) or NotHappened()"
    )
    raise TypeError(msg)
