"""A function's parameters as a step sees them: what is identified, what is injected, what is only passed."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin

import msgspec

from yaoki.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

__all__ = ["INJECTED", "Local", "Parameters", "hints_of", "show_call"]

T = TypeVar("T")


class _Injected:
    """The default of a parameter Yaoki fills in."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "INJECTED"


INJECTED: Any = _Injected()
"""
Default of a parameter that Yaoki fills in: `idempotency_key: str`, `feedback: Feedback | None`,
`timeout_s: float`. It is hidden from the signature, so no model is shown it.
"""


class _LocalMark:
    __slots__ = ()


_LOCAL = _LocalMark()
Local = Annotated[T, _LOCAL]
"""`Local[T]`: a client or a secret; passed to the function, never journaled, no part of the key."""

_INJECTABLE = frozenset({"idempotency_key", "feedback", "timeout_s"})
_SHOWN_CHARS = 60
_CALL_CHARS = 300


def hints_of(fn: Callable[..., object]) -> dict[str, Any] | None:
    """Return the resolved annotations, or None while a forward reference does not resolve yet."""
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except (NameError, AttributeError, TypeError):
        return None


def is_local(annotation: object) -> bool:
    """Whether an annotation is `Local[...]`."""
    if get_origin(annotation) is Annotated:
        return any(isinstance(mark, _LocalMark) for mark in get_args(annotation)[1:])
    return isinstance(annotation, str) and annotation.removeprefix("yaoki.").startswith("Local[")


class Parameters:
    """Binds calls the way Python would, without the cost of `Signature.bind` on the way of every step."""

    __slots__ = (
        "_defaults",
        "_listed",
        "_names",
        "_odd",
        "_positional",
        "_required",
        "injected",
        "local",
        "name",
        "signature",
    )

    def __init__(self, fn: Callable[..., object], name: str, *, skip: int = 0) -> None:
        whole = inspect.signature(fn)
        parameters = list(whole.parameters.values())[skip:]
        self.name = name
        self.injected = frozenset(p.name for p in parameters if p.default is INJECTED)
        unknown = self.injected - _INJECTABLE
        if unknown:
            msg = (
                f"{name}: nothing is injected as {min(unknown)!r}; "
                f"injected parameters are {', '.join(sorted(_INJECTABLE))}"
            )
            raise DeclarationError(msg)
        hints = hints_of(fn) or {}
        self.local = frozenset(p.name for p in parameters if is_local(hints.get(p.name, p.annotation)))
        shown = [p for p in parameters if p.name not in self.injected]
        self.signature = whole.replace(parameters=shown)
        kinds = inspect.Parameter
        self._odd = any(p.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD, kinds.POSITIONAL_ONLY) for p in shown)
        self._positional = tuple(p.name for p in shown if p.kind is kinds.POSITIONAL_OR_KEYWORD)
        self._listed = tuple(p.name for p in shown)
        self._names = frozenset(self._listed)
        self._defaults = {p.name: p.default for p in shown if p.default is not kinds.empty}
        self._required = len(shown)

    def bind(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """
        Return every argument by name, in the order they are declared, defaults bound, injected ones left out.

        Raises:
            TypeError: As Python would for a call that does not fit.
        """
        if self._odd or len(args) > len(self._positional):
            return self._bind_slowly(args, kwargs)
        if not kwargs and len(args) == self._required:
            return dict(zip(self._positional, args, strict=True))
        values = {**self._defaults, **dict(zip(self._positional, args, strict=False))}
        if kwargs:
            if not self._names.issuperset(kwargs) or not kwargs.keys().isdisjoint(self._positional[: len(args)]):
                return self._bind_slowly(args, kwargs)
            values.update(kwargs)
        if len(values) != self._required:
            return self._bind_slowly(args, kwargs)
        return {name: values[name] for name in self._listed}

    def _bind_slowly(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """Bind as `inspect` does, for its error messages and for odd signatures."""
        sent = self.injected.intersection(kwargs)
        if sent:
            msg = f"{self.name}() fills in {min(sent)!r} itself; leave it out of the call"
            raise TypeError(msg)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{self.name}() {error}"
            raise TypeError(msg) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    @property
    def by_name(self) -> bool:
        """Whether every argument has a name of its own, and can be given by it."""
        return not self._odd

    @property
    def positional(self) -> tuple[str, ...]:
        """Names that may be given by position, in order."""
        return self._positional


def show_call(name: str, values: dict[str, object], hidden: frozenset[str]) -> str:
    """Return a call for people, bounded to 300 characters: `charge(order_id="A-1009", cents=4200)`."""
    parts = [f"{key}={_show(value)}" for key, value in values.items() if key not in hidden]
    text = f"{name}({', '.join(parts)})"
    return text if len(text) <= _CALL_CHARS else text[: _CALL_CHARS - 2] + "…)"


def _show(value: object) -> str:
    kind = type(value)
    if kind is str:
        text = str(value)
        if len(text) > _SHOWN_CHARS:
            text = text[: _SHOWN_CHARS - 1] + "…"
        return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
    if kind is int or kind is float:
        return repr(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]  # type: ignore[index]
    if isinstance(value, list | tuple | set | frozenset | dict):
        size = len(cast("Sized", value))
        return f"{{{size} keys}}" if isinstance(value, dict) else f"[{size} items]"
    return f"{kind.__name__}(…)"
