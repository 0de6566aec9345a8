"""
Clients that keep retries of their own, found in what a tool can reach.

Known by the attributes they document, never by importing them, and read without running code of theirs. A
client made inside the tool is seen only where its class says how often it retries by default.
"""

from __future__ import annotations

import functools
import inspect
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from yaoki.runtime._reach import codes_of, fields_of, functions_of, named_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from yaoki.runtime._reach import Reached

__all__ = ["Keeper", "keepers_of", "retries_of"]

_FOLLOWED = ("_client", "client")
"""Where a client's part (`client.chat.completions`, a wrapper) keeps the client."""
_DEPTH = 3
_URLLIB3 = 3
"""`urllib3.Retry.DEFAULT`, which stands where nothing was said."""
_BOTO = 4
"""botocore's default: five attempts (its "legacy" mode)."""
_OFF = "max_retries"
_NO_CLIENTS = (FunctionType, BuiltinFunctionType, ModuleType, type)


class Keeper(Struct, frozen=True):
    """A client that retries by itself: what the code calls it, its class, how often, and how that is switched off."""

    name: str
    kind: str
    retries: int
    off: str


def keepers_of(reached: Reached) -> list[Keeper]:
    """Return the clients a tool can reach that retry by themselves; each once."""
    fn = reached.tool.fn
    found: dict[str, Keeper] = {}
    for name, value in _candidates(fn, reached.owner):
        known = retries_of(value)
        if known is not None and known[0] > 0:
            found.setdefault(name, Keeper(name, _kind(value), *known))
    for one in functions_of(fn):
        for keeper in _made_inside(one):
            found.setdefault(keeper.name, keeper)
    return list(found.values())


def retries_of(value: object, depth: int = _DEPTH) -> tuple[int, str] | None:
    """Return how often a client retries by itself, and how that is switched off; `None` if it says nothing of it."""
    if type(value) is functools.partial:
        return retries_of(cast("functools.partial[object]", value).func, depth)
    if type(value) is MethodType:
        return retries_of(value.__self__, depth)
    if issubclass(type(value), _NO_CLIENTS):
        return None
    fields = fields_of(value)
    for look in (_sdk, _requests, _httpx, _urllib3, _boto):
        known = look(fields)
        if known is not None:
            return known
    for name in _FOLLOWED:
        if depth and name in fields and fields[name] is not value:
            return retries_of(fields[name], depth - 1)
    return None


def _sdk(fields: Mapping[str, object]) -> tuple[int, str] | None:
    """Openai, anthropic, and the many clients generated or written like them."""
    count = fields.get("max_retries")
    return (count, f"{_OFF}=0") if type(count) is int else None


def _requests(fields: Mapping[str, object]) -> tuple[int, str] | None:
    adapters = fields.get("adapters")
    if not isinstance(adapters, dict):
        return None
    mounted = cast("dict[str, object]", adapters).values()
    totals = [fields_of(fields_of(one).get("max_retries")).get("total") for one in mounted]
    counts = [total for total in totals if type(total) is int]
    return (max(counts), "HTTPAdapter(max_retries=0)") if counts else None


def _httpx(fields: Mapping[str, object]) -> tuple[int, str] | None:
    pool = fields_of(fields.get("_transport")).get("_pool")
    count = fields_of(pool).get("_retries")
    return (count, "HTTPTransport(retries=0)") if type(count) is int else None


def _urllib3(fields: Mapping[str, object]) -> tuple[int, str] | None:
    options = fields.get("connection_pool_kw")
    if not isinstance(options, dict):
        return None
    said: object = cast("dict[str, object]", options).get("retries")
    count = _URLLIB3 if said is None else said if type(said) is int else fields_of(said).get("total")
    return (count if type(count) is int else 0, "retries=False")


def _boto(fields: Mapping[str, object]) -> tuple[int, str] | None:
    config = fields_of(fields.get("meta")).get("_client_config")
    settings = fields_of(config)
    if "retries" not in settings:
        return None
    said = settings["retries"]
    options = cast("dict[str, object]", said) if isinstance(said, dict) else {}
    attempts, retries = options.get("total_max_attempts"), options.get("max_attempts")
    count = attempts - 1 if isinstance(attempts, int) else retries if isinstance(retries, int) else _BOTO
    return (count, 'Config(retries={"total_max_attempts": 1})')


def _candidates(fn: Callable[..., Any], owner: object) -> Iterator[tuple[str, object]]:
    """Yield what a tool can call: what its code names, one level of what those hold, its `self`, its defaults."""
    for one in functions_of(fn):
        words = {name for code in codes_of(one) for name in code.co_names}
        for name, value in named_by(one).items():
            yield name, value
            if type(value) is not FunctionType and retries_of(value) is None:
                yield from ((f"{name}.{key}", held) for key, held in fields_of(value).items() if key in words)
    if owner is not None:
        yield from ((f"self.{key}", held) for key, held in fields_of(owner).items())
    yield from (
        (parameter.name, parameter.default)
        for parameter in inspect.signature(fn).parameters.values()
        if parameter.default is not parameter.empty
    )


def _made_inside(fn: Callable[..., Any]) -> Iterator[Keeper]:
    """Yield classes the code names whose clients retry by default, unless it says somewhere how often."""
    codes = codes_of(fn)
    kept: list[object] = [const for code in codes for const in code.co_consts]
    spoken = {word for const in kept if isinstance(const, tuple) for word in cast("tuple[object, ...]", const)}
    if _OFF in spoken:
        return
    words = {name for code in codes for name in code.co_names}
    for name, value in named_by(fn).items():
        held = fields_of(value).items() if type(value) is ModuleType else ()
        for called, one in [(name, value), *((f"{name}.{key}", inner) for key, inner in held if key in words)]:
            if issubclass(type(one), type) and (count := _default_retries(cast("type", one))) > 0:
                yield Keeper(called, _name_of(cast("type", one)), count, f"{_OFF}=0")


def _default_retries(cls: type) -> int:
    init = inspect.getattr_static(cls, "__init__", None)
    named: object = getattr(init, "__kwdefaults__", None)
    count = cast("dict[str, object]", named).get(_OFF) if isinstance(named, dict) else None
    return count if type(count) is int else 0


def _kind(value: object) -> str:
    if type(value) is functools.partial:
        return _kind(cast("functools.partial[object]", value).func)
    if type(value) is MethodType:
        return _kind(value.__self__)
    return _name_of(type(value))


def _name_of(cls: type) -> str:
    return f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"
