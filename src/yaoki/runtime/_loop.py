"""`@loop`: the user's durable function, and a typed call of it."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import msgspec
from msgspec import Struct

from yaoki.codec import Codec, canonical, codec_for
from yaoki.errors import DeclarationError, EncodingError, OutsideBranch
from yaoki.policy import Budget, Rung, ladder_of
from yaoki.runtime import _context
from yaoki.runtime._reach import reached_by
from yaoki.runtime._signature import Parameters, hints_of
from yaoki.runtime._verify import gated, verify_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from yaoki.runtime._preflight import Finding
    from yaoki.runtime._run import AsyncRun, Run
    from yaoki.runtime._tool import Tool
    from yaoki.runtime._verify import Check

__all__ = ["Bound", "Loop", "loop"]

P = ParamSpec("P")
R = TypeVar("R")

_CRASHES_MOST = 1_000
_REPLANS_MOST = 100


class Bound(Struct, Generic[R], frozen=True):
    """A loop with its arguments, ready to run or submit."""

    loop: Loop[Any, R]
    values: dict[str, Any]
    data: bytes
    """The arguments as journaled; a run id belongs to these."""


class Loop(Generic[P, R]):
    """A durable function; `bind` its arguments and give that to a runner. `fn` is the undecorated function."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        budget: Budget | None = None,
        escalate: Sequence[Rung] | Rung | None = None,
        crashes_max: int = 8,
        replans_max: int = 0,
        verify: Check | None = None,
        name: str | None = None,
        locals_: dict[str, Any] | None = None,
    ) -> None:
        self.fn = fn
        self.name: str = name or fn.__name__
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            msg = f"loop {self.name} is a generator; a loop returns its value"
            raise DeclarationError(msg)
        if not 1 <= crashes_max <= _CRASHES_MOST:
            msg = f"loop {self.name}: crashes_max is {crashes_max}; it lies between 1 and {_CRASHES_MOST}"
            raise DeclarationError(msg)
        if not 0 <= replans_max <= _REPLANS_MOST:
            msg = f"loop {self.name}: replans_max is {replans_max}; it lies between 0 and {_REPLANS_MOST}"
            raise DeclarationError(msg)
        if not list(inspect.signature(fn).parameters):
            msg = f"loop {self.name} takes no run: its first parameter is the run, `def {self.name}(run: Run, …)`"
            raise DeclarationError(msg)
        self.is_async = inspect.iscoroutinefunction(fn)
        self.budget = budget or Budget()
        self.rungs = ladder_of(escalate or (), whose=self.name)
        self.crashes_max = crashes_max
        self.replans_max = replans_max
        self.verify = verify
        self.entry = fn
        """What a runner calls: the function, and the gate its value passes."""
        if verify is not None:
            verify_tool(verify, awaited=self.is_async)
            self.entry = gated(fn, verify)
        self.params = Parameters(fn, self.name, skip=1)
        self.signature = self.params.signature
        self.locals = locals_ or {}
        self._codecs: dict[str, Codec] = {}
        functools.update_wrapper(self, fn)

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        """Refuse: a loop is run by a runner; inside another run, call the undecorated function."""
        if _context.here() is not None:
            msg = f"loop {self.name} was called inside a run; call the undecorated function: {self.name}.fn(run, …)"
            raise OutsideBranch(msg)
        msg = f"loop {self.name} is run by a runner: runner.run({self.name}.bind(…))"
        raise DeclarationError(msg)

    def __repr__(self) -> str:
        return f"<loop {self.name}>"

    @property
    def file(self) -> str:
        """The source file."""
        code = getattr(self.fn, "__code__", None)
        return code.co_filename if code is not None else ""

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """
        Return a typed call. Arguments are journaled (those annotated `Local` excepted) and come back decoded.

        Raises:
            TypeError: They do not fit the loop.
            EncodingError: One cannot be journaled.
        """
        values = self.params.bind(args, {**self.locals, **kwargs})
        local = self.params.local
        encoded = {
            name: msgspec.Raw(self._codec(name).encode(value)) for name, value in values.items() if name not in local
        }
        data = canonical(msgspec.json.decode(msgspec.json.encode(encoded)))
        return Bound(self, self._decoded(data, values), data)

    def bind_data(self, data: bytes) -> Bound[R]:
        """
        Return the call a journaled input stands for; Local arguments come from `with_locals`.

        Raises:
            EncodingError: Its arguments are not those the function takes, or not of the annotated types.
        """
        self.refuse_open_locals()
        values = self._decoded(data, dict(self.locals))
        try:
            self.signature.bind(**values)
        except TypeError as wrong:
            msg = f"loop {self.name} takes {self.signature}: {wrong}"
            raise EncodingError(msg) from None
        return Bound(self, values, data)

    def refuse_open_locals(self) -> None:
        """
        Refuse to be served while a Local parameter has no value.

        Raises:
            DeclarationError: Naming them.
        """
        missing = self.params.local - self.locals.keys()
        if missing:
            msg = f"loop {self.name} needs {', '.join(sorted(missing))}: serve it as {self.name}.with_locals(…)"
            raise DeclarationError(msg)

    def with_locals(self, **values: Any) -> Loop[P, R]:
        """Return the loop with clients and secrets for its `Local` parameters filled in."""
        unknown = values.keys() - self.params.local
        if unknown:
            msg = f"loop {self.name}: {min(unknown)!r} is no Local parameter of it"
            raise DeclarationError(msg)
        made = Loop[P, R](
            self.fn,
            budget=self.budget,
            crashes_max=self.crashes_max,
            replans_max=self.replans_max,
            verify=self.verify,
            name=self.name,
            locals_={**self.locals, **values},
        )
        made.rungs = self.rungs
        return made

    def codec(self) -> Codec:
        """Return the codec of the loop's own result."""
        return self._codec("return")

    def tools(self) -> list[Tool[Any, Any]]:
        """Return the tools its function names, itself or through the plain functions of its module."""
        return [reached.tool for reached in reached_by(self.fn)]

    def owner_of(self, tool: Tool[Any, Any]) -> object:
        """Return the instance that a tool its function names is bound to, or None."""
        return next((reached.owner for reached in reached_by(self.fn) if reached.tool is tool), None)

    def resolve(self) -> None:
        """
        Resolve every annotation, its tools' too.

        Raises:
            DeclarationError: Something that cannot work, now that every annotation can be resolved.
        """
        for tool in self.tools():
            tool.codec  # noqa: B018 - resolves the annotation, or raises
        for name in self.params.signature.parameters:
            if name not in self.params.local:
                self._codec(name)
        self.codec()

    def findings(self) -> list[Finding]:
        """
        Return what a person should know before the run starts, with its place in the source.

        Raises:
            DeclarationError: As for `resolve`.
        """
        from yaoki.runtime._preflight import findings

        self.resolve()
        return findings(self, reached_by(self.fn))

    def preflight(self) -> list[str]:
        """
        Return what a person should know before the run starts, one line each.

        Raises:
            DeclarationError: As for `resolve`.
        """
        from yaoki.runtime._preflight import texts

        return texts(self.findings())

    def _codec(self, name: str) -> Codec:
        codec = self._codecs.get(name)
        if codec is None:
            hints = hints_of(self.fn)
            if hints is None:
                msg = f"loop {self.name}: its annotations name something that does not exist; import or define it"
                raise DeclarationError(msg)
            try:
                codec = self._codecs[name] = codec_for(hints.get(name, inspect.Parameter.empty))
            except EncodingError as error:
                what = "its return annotation" if name == "return" else f"parameter {name}"
                msg = f"loop {self.name}: {what} cannot be journaled: {error}"
                raise DeclarationError(msg) from None
        return codec

    def _decoded(self, data: bytes, values: dict[str, Any]) -> dict[str, Any]:
        parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        codecs = {name: self._codec(name) for name in parts if name in self.signature.parameters}
        return {
            **values,
            **{name: codecs[name].decode(part) if name in codecs else part for name, part in parts.items()},
        }


class _Decorate(Protocol):
    @overload
    def __call__(self, fn: Callable[Concatenate[AsyncRun, P], Coroutine[Any, Any, R]], /) -> Loop[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Run, P], R], /) -> Loop[P, R]: ...


@overload
def loop(fn: Callable[Concatenate[AsyncRun, P], Coroutine[Any, Any, R]], /) -> Loop[P, R]: ...
@overload
def loop(fn: Callable[Concatenate[Run, P], R], /) -> Loop[P, R]: ...
@overload
def loop(
    *,
    budget: Budget | None = None,
    escalate: Sequence[Rung] | Rung | None = None,
    crashes_max: int = 8,
    replans_max: int = 0,
    verify: Check | None = None,
    name: str | None = None,
) -> _Decorate: ...
def loop(fn: Callable[..., Any] | None = None, /, **policy: Any) -> Any:
    """
    Make a function a loop: durable, bounded, resumed next to the failure.

    Between durable operations it depends only on its input, its state and their results; time, chance and
    ids come from `run.now`, `run.random`, `run.uuid`.

    Args:
        fn: Takes the run first. Sync or async.
        budget: What one run may use.
        escalate: Rungs for tools that declare none.
        crashes_max: A run whose processes die so often in a row without settling an attempt is `dead`.
        replans_max: How often a run that a failed step would end `dead` goes through a new pass instead, from its last
            checkpoint (or the start): what it did is adopted, what the new pass does not ask for is an orphan, and
            `run.replanned` tells why. Not after a bug. 0 to 100.
        verify: Who decides whether the value is kept: a check of `yaoki.verify`, or a function of the value. One that
            does not pass is told to a new pass, where `replans_max` allows one; else the run ends `capped`,
            with that value as its partial one and the evidence as its failure. A value for which no turn was left is
            not asked about.
        name: Its name in the journal; by default the function's.

    Raises:
        DeclarationError: A loop that cannot work.
    """
    if fn is not None:
        return Loop[Any, Any](fn)

    def decorate(fn: Callable[..., Any]) -> Loop[Any, Any]:
        return Loop(fn, **policy)

    return decorate
