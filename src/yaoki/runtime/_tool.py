"""`@tool`: a function with a written policy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import msgspec
from msgspec import Struct

from yaoki.codec import Codec, codec_for
from yaoki.errors import DeclarationError, EncodingError
from yaoki.policy import Breaker, Retry, Rung, ladder_of
from yaoki.records import Begin, Effect
from yaoki.runtime import _context
from yaoki.runtime._acting import refuse_rungs
from yaoki.runtime._alone import call_alone, recover_sync
from yaoki.runtime._checks import Check, Happened, NotHappened, check_tool
from yaoki.runtime._signature import Parameters, hints_of
from yaoki.runtime._undo_tool import undo_tool
from yaoki.runtime._usage import Reserve, reservation

__all__ = ["BoundTool", "Feedback", "ForModel", "Happened", "NotHappened", "Tool", "tool"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")


class Feedback(Struct, frozen=True, kw_only=True):
    """What a repaired attempt is told: the newest rejected output (None where the tool itself raised), and why."""

    output: object
    error: str
    attempt: int


class ForModel(Struct, frozen=True, kw_only=True):
    """
    How a tool's output is judged, and what its doubt becomes.

    `validate` is given the decoded value and rejects it by raising, or by returning False. A rejected
    output is `semantic`: it is asked for again with the error, at most `repairs_max` times (0 to 100), where
    the tool takes `feedback`. `unsure="tell"` lets the model be told that an outcome is unknown instead of
    asking a person; nothing is repeated either way.

    `reserve` says what an attempt takes of the run's budget before it is made: a mapping of `tokens` and `cost_usd`,
    or a function of the arguments that returns one. It does not begin unless that is left; it is settled with what
    was used. An attempt that did not happen gives it back; of one that may have happened, or whose process died, it
    stays spent. `usage` is given the result and returns a `Usage`, a mapping of its fields, a vendor's usage object,
    or None; without it the usage in a response of OpenAI's, Anthropic's or Google's clients is read. What says
    nothing of its use counts as reserved.
    """

    validate: Callable[[Any], object] | None = None
    repairs_max: int = 2
    poll: bool = False
    unsure: Literal["ask", "tell"] = "ask"
    usage: Callable[[Any], object] | None = None
    reserve: Reserve | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that cannot work."""
        if self.reserve is not None and not callable(self.reserve):
            reservation("ForModel", self.reserve)
        if not 0 <= self.repairs_max <= _REPAIRS_MOST:
            msg = f"ForModel: repairs_max is {self.repairs_max}; it lies between 0 and {_REPAIRS_MOST}"
            raise DeclarationError(msg)


_REPAIRS_MOST = 100
_BREAKER = Breaker()
_here = _context.here
_driving = _context.driving
EffectLike: TypeAlias = Effect | Callable[..., Effect]
ScopeLike: TypeAlias = str | Callable[..., str]
Undoing: TypeAlias = "Callable[..., Any]"
"""Takes the tool's result, then its arguments; a plain function, or a tool with a policy of its own."""
Approve: TypeAlias = bool | Callable[..., bool]


_BEGIN_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Begin) if type(field.default) is int}


def _as_default(name: str, value: int) -> int:
    """Return the very object that is the default of a begin's field, if it equals: by that it is left out on disk."""
    default: int = _BEGIN_DEFAULTS[name]
    return default if default == value else value


class Tool(Generic[P, R]):
    """
    A function with a written policy. Call it to use it: inside a run it is a step, outside one its policy alone.

    Made by `tool`. `fn` is the undecorated function.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        effect: EffectLike | None = None,
        check: Check | None = None,
        check_after_s: float = 5,
        key: Callable[..., object] | Sequence[str] | str | None = None,
        scope: ScopeLike | None = None,
        retry: Retry | None = None,
        breaker: Breaker | None = _BREAKER,
        timeout_s: float = 120,
        interrupt: Literal["thread"] | None = None,
        orphan: Literal["ask", "allow"] = "ask",
        approve: Approve | None = None,
        escalate: Sequence[Rung] | Rung | None = None,
        agent: ForModel | None = None,
        undo: Undoing | None = None,
        name: str | None = None,
        skip: int | None = None,
    ) -> None:
        self.fn = fn
        self.name: str = name or str(getattr(fn, "__name__", "tool"))
        _refuse_shapes(fn, self.name)
        self.is_async = inspect.iscoroutinefunction(fn)
        self.alone: Callable[P, R] = _async_alone(self) if self.is_async else fn
        """The function as it is called outside a run: an async one is bounded and retried in there."""
        self.is_method = _looks_like_method(fn) if skip is None else False
        self.params = Parameters(fn, self.name, skip=int(self.is_method) if skip is None else skip)
        self.approve = approve or None
        self._plain: Callable[P, R] | None = None if self.params.injected or approve else self.alone
        self._plain_read = self._plain if effect is Effect.READ_ONLY else None
        self.effect = effect
        self.undeclared = effect is None and check is None
        self.key_of = key
        self.scope = scope
        self.retry = retry or Retry()
        self.breaker = breaker
        self.timeout_s = timeout_s
        self.deadline_ms = int(self.retry.deadline_s * 1000)
        self.recorded = (
            self.retry.attempts_max,
            _as_default("base_ms", int(self.retry.base_s * 1000)),
            _as_default("cap_ms", int(self.retry.cap_s * 1000)),
            _as_default("check_after_ms", int(check_after_s * 1000)),
            _as_default("timeout_ms", int(timeout_s * 1000)),
        )
        self.interrupt = interrupt
        self.orphan = orphan
        self.rungs = None if escalate is None else ladder_of(escalate)
        self.agent = agent or _PLAIN
        self.counts_usage = agent is not None
        """Whether its results are looked at for what they used."""
        self.check_after_s = check_after_s
        self.hidden = self.params.local | self.params.injected
        self._codec: Codec | None = None
        self.check = self._checked_by(check) if check is not None else None
        self._refuse_contradictions()
        self._codec = self._resolve_codec(final=False)
        self.undo = undo_tool(self, undo) if undo is not None else None
        refuse_rungs(self, self.rungs or ())
        functools.update_wrapper(self, fn)
        self.__signature__ = self.params.signature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Use the tool: a step inside a run, its policy alone outside one."""
        here = _here()
        if here is not None:
            return here.use(self, args, kwargs)  # type: ignore[return-value]
        # What `call_alone` does, written out: this is the success path of every call.
        plain = self._plain_read
        if plain is None and not _driving():
            plain = self._plain
        if plain is not None:
            try:
                return plain(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - classified, and raised again unless it heals
                return recover_sync(self, args, kwargs, error)  # type: ignore[return-value]
        return call_alone(self, args, kwargs)  # type: ignore[return-value]

    def outside(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Use the tool without a run, and say that this is meant: its policy alone, nothing is journaled."""
        return cast("R", call_alone(self, args, kwargs, meant=True))

    @overload
    def __get__(self, instance: None, owner: type) -> Tool[P, R]: ...
    @overload
    def __get__(self: Tool[Concatenate[Any, Q], R], instance: object, owner: type | None = None) -> BoundTool[Q, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """Bind a method's `self`: passed, never journaled, no part of the key."""
        return self if instance is None else BoundTool(self, instance)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def codec_if_known(self) -> Codec | None:
        """The return annotation's codec, or None while a forward reference does not resolve yet."""
        return self._codec

    @property
    def codec(self) -> Codec:
        """The return annotation's codec."""
        if self._codec is None:
            self._codec = self._resolve_codec(final=True)
        assert self._codec is not None
        return self._codec

    def effect_of(self, values: dict[str, object]) -> Effect:
        """Return the effect kind as resolved for these arguments."""
        if isinstance(self.effect, Effect):
            return self.effect
        if self.effect is None:
            return Effect.AT_MOST_ONCE if self.check is None else Effect.CHECKED
        resolved = self.effect(**values)
        if not isinstance(cast("object", resolved), Effect):
            msg = f"tool {self.name}: effect= returned {resolved!r}; it must return an Effect"
            raise DeclarationError(msg)
        if resolved is Effect.KEYED and "idempotency_key" not in self.params.injected:
            msg = f"tool {self.name}: effect= returned KEYED, but it takes no key: `*, idempotency_key: str = INJECTED`"
            raise DeclarationError(msg)
        if resolved is Effect.CHECKED and self.check is None:
            msg = f"tool {self.name}: effect= returned CHECKED, but it has no check="
            raise DeclarationError(msg)
        return resolved

    def scope_of(self, values: dict[str, object]) -> str:
        """Return who is failing when this call fails: `vendor/model/key`; empty is the tool's name."""
        if self.scope is None:
            return ""
        return self.scope if isinstance(self.scope, str) else str(self.scope(**values))

    def reserves(self, values: dict[str, object]) -> dict[str, float] | None:
        """
        Return what an attempt with these arguments reserves of the budget, if anything.

        Raises:
            DeclarationError: `reserve=` returned no mapping of tokens and cost_usd.
        """
        reserve = self.agent.reserve
        if reserve is None:
            return None
        return reservation(f"tool {self.name}", reserve(**values) if callable(reserve) else reserve) or None

    def key_values(self, values: dict[str, object]) -> object:
        """Return the arguments that identify the action."""
        if self.key_of is None:
            hidden = self.hidden
            return {name: value for name, value in values.items() if name not in hidden} if hidden else values
        if callable(self.key_of):
            return self.key_of(**values)
        names = (self.key_of,) if isinstance(self.key_of, str) else self.key_of
        return {name: values[name] for name in names}

    def _checked_by(self, check: Check) -> Tool[Any, Any]:
        if isinstance(check, Tool | BoundTool):
            msg = f"tool {self.name}: check={check.name} is itself a tool; give the plain function"
            raise DeclarationError(msg)
        return check_tool(self, check)

    def _resolve_codec(self, *, final: bool) -> Codec | None:
        hints = hints_of(self.fn)
        if hints is None:
            if not final:
                return None
            msg = f"tool {self.name}: its annotations name something that does not exist; import or define it"
            raise DeclarationError(msg)
        try:
            return codec_for(hints.get("return", inspect.Parameter.empty))
        except EncodingError as error:
            msg = f"tool {self.name}: its return annotation cannot be journaled: {error}"
            raise DeclarationError(msg) from None

    def _refuse_contradictions(self) -> None:
        injected = self.params.injected
        if self.effect is Effect.KEYED and "idempotency_key" not in injected:
            msg = (
                f"tool {self.name} is KEYED but takes no key. Add `*, idempotency_key: str = INJECTED` "
                "and send it to the receiver, or declare another effect."
            )
            raise DeclarationError(msg)
        if self.effect is Effect.CHECKED and self.check is None:
            msg = f"tool {self.name} is CHECKED but has no check=. Give one, or declare another effect."
            raise DeclarationError(msg)
        if self.check is not None and isinstance(self.effect, Effect) and self.effect is not Effect.CHECKED:
            msg = (
                f"tool {self.name} has check= and effect={self.effect.name}. "
                "With a check it is CHECKED: leave effect out."
            )
            raise DeclarationError(msg)
        if self.is_method and self.key_of is None and self.effect not in (Effect.READ_ONLY, Effect.IDEMPOTENT):
            return
        names = () if self.key_of is None or callable(self.key_of) else self.key_of
        for name in (names,) if isinstance(names, str) else names:
            if name not in self.params.signature.parameters:
                msg = f"tool {self.name}: key= names {name!r}, which is none of its parameters"
                raise DeclarationError(msg)


class BoundTool(Generic[P, R]):
    """A method tool with its `self`."""

    __slots__ = ("owner", "tool")

    def __init__(self, tool: Tool[Any, R], owner: object) -> None:
        self.tool = tool
        self.owner = owner

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Use the tool with its `self`."""
        here = _context.here()
        if here is None:
            return cast("R", call_alone(self.tool, args, kwargs, owner=self.owner))
        return cast("R", here.use(self.tool, args, kwargs, owner=self.owner))

    def outside(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Use the tool with its `self`, without a run, and say that this is meant: its policy alone."""
        return cast("R", call_alone(self.tool, args, kwargs, owner=self.owner, meant=True))

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


class _Decorate(Protocol):
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...


class _DecorateChecked(Protocol[T]):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> Tool[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> Tool[P, T]: ...


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    check: Callable[..., Awaitable[Happened[T] | NotHappened]] | Callable[..., Happened[T] | NotHappened],
    effect: Callable[..., Effect] | None = None,
    check_after_s: float = 5,
    key: Callable[..., object] | Sequence[str] | str | None = None,
    scope: ScopeLike | None = None,
    retry: Retry | None = None,
    breaker: Breaker | None = _BREAKER,
    timeout_s: float = 120,
    interrupt: Literal["thread"] | None = None,
    orphan: Literal["ask", "allow"] = "ask",
    approve: Approve | None = None,
    escalate: Sequence[Rung] | Rung | None = None,
    agent: ForModel | None = None,
    undo: Undoing | None = None,
    name: str | None = None,
) -> _DecorateChecked[T]: ...
@overload
def tool(
    *,
    effect: EffectLike | None = None,
    key: Callable[..., object] | Sequence[str] | str | None = None,
    scope: ScopeLike | None = None,
    retry: Retry | None = None,
    breaker: Breaker | None = _BREAKER,
    timeout_s: float = 120,
    interrupt: Literal["thread"] | None = None,
    orphan: Literal["ask", "allow"] = "ask",
    approve: Approve | None = None,
    escalate: Sequence[Rung] | Rung | None = None,
    agent: ForModel | None = None,
    undo: Undoing | None = None,
    name: str | None = None,
) -> _Decorate: ...
def tool(fn: Callable[..., Any] | None = None, /, **policy: Any) -> Any:
    """
    Give a function a policy: how safe it is to repeat, how often and how long it is tried, what happens then.

    Args:
        fn: Sync or async; generators are refused. Its result must be JSON by its annotation.
        effect: An `Effect`, or a function of the arguments. Nothing: *undeclared*, AT_MOST_ONCE.
        check: Makes it CHECKED, or lets `effect` return that: takes the tool's parameters but injected ones, returns
            `Happened(value)` or `NotHappened()`, and is asked before a doubtful call is made again. It may declare
            `idempotency_key: str = INJECTED`, the key of the action it is asked about, and `timeout_s`.
        check_after_s: The check runs not before this long after the attempt's end.
        key: Which arguments identify the action: a name, names, or a function of the arguments.
        scope: `vendor/model/key`, or a function of the arguments; by default the tool's name.
        retry: Its ladder's bounds.
        breaker: When its scope is given a rest, for every run of the store; None neither counts nor waits for that.
        timeout_s: Bound on one attempt. An async attempt is cancelled; a sync one is not interrupted.
        interrupt: `"thread"` runs a sync attempt in a helper thread, so that it can be left at its timeout.
        orphan: After a redrive from a checkpoint or the start, whether another call of this tool than the earlier
            pass made asks a person first (`"ask"`), or goes on (`"allow"`).
        approve: `True`, or a function of the arguments that says whether this call needs it: a person is asked before
            its first attempt (`yaoki answer RUN approve`, or `refuse "because …"`). A refusal is `StepFailed`
            (`approval.refused`), told to a model; an equal call of the same pass is refused with it.
        escalate: Rungs for when the ladder ends; by default the loop's, else `StepFailed`.
        agent: How its output is judged for a model.
        undo: Undoes one completed call when the run compensates: takes the result, then the tool's parameters but
            injected ones. A plain function is tried once, or, if it takes `idempotency_key`, is KEYED; a tool has its
            own policy.
        name: Its name in the journal; by default the function's.

    Raises:
        DeclarationError: A policy that contradicts itself or cannot work.
    """
    if fn is not None:
        return Tool(fn)

    def decorate(fn: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(fn, **policy)

    return decorate


def _async_alone(tool: Tool[P, R]) -> Callable[P, R]:
    """Import what an async tool needs, with the first of them: `import yaoki` leaves asyncio alone."""
    from yaoki.runtime._alone_async import async_alone

    return cast("Callable[P, R]", async_alone(tool))


def _looks_like_method(fn: Callable[..., object]) -> bool:
    names = list(inspect.signature(fn).parameters)
    return bool(names) and names[0] == "self" and "." in getattr(fn, "__qualname__", "")


def _refuse_shapes(fn: Callable[..., object], name: str) -> None:
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        msg = f"tool {name} is a generator: a stream's value is journaled whole. Return the complete value instead."
        raise DeclarationError(msg)
    if not callable(fn):
        msg = f"tool: {fn!r} is not callable"
        raise DeclarationError(msg)


_PLAIN = ForModel()
