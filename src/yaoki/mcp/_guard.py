"""A tool server under a policy: each of its tools a step, with an effect kind, a deadline, and retries of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from msgspec import Struct

from yaoki.classify import classify
from yaoki.errors import DeclarationError, RetryableError
from yaoki.mcp._connection import Connect, Connection
from yaoki.records import Effect, FailureKind
from yaoki.runtime import INJECTED, Told, Tool, Toolbox, ToolCall, refusal, tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from yaoki.policy import Retry

__all__ = ["Guard", "Listed", "guard"]

_TIMEOUT_S = 60.0
_PAGES_MOST = 100
_LOST = ("mcp.closed", "mcp.session", "mcp.not_initialised", "net.", "streams.", "stream.", "os.")
"""Reasons after which a session is of no use."""
_HEALS = frozenset({FailureKind.TRANSIENT, FailureKind.RATE_LIMITED, FailureKind.OVERLOADED})
_FREE = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT})


class Listed(Struct, frozen=True, omit_defaults=True):
    """A tool as its server lists it."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    read_only: bool = False
    idempotent: bool = False

    @property
    def effect(self) -> Effect:
        """What its annotations say of it; without a word it is AT_MOST_ONCE."""
        if self.read_only:
            return Effect.READ_ONLY
        return Effect.IDEMPOTENT if self.idempotent else Effect.AT_MOST_ONCE


class _Box(Toolbox):
    """Tools that take their arguments as one object, and whose schemas are the server's."""

    def __init__(self, listed: list[Listed], *tools: Tool[Any, Any]) -> None:
        super().__init__(*tools)
        self._listed = listed

    def specs(self) -> list[dict[str, Any]]:
        """Return what the server says of its tools."""
        empty: dict[str, Any] = {"type": "object", "properties": {}}
        return [
            {"name": one.name, "description": one.description, "input_schema": one.input_schema or empty}
            for one in self._listed
        ]

    def look_up(self, call: ToolCall) -> tuple[Tool[Any, Any], object, dict[str, Any]]:
        """Return the tool and its one argument; whether that fits is the server's to say."""
        if not isinstance(cast("object", call.args), dict):
            text = f"{call.name}: the arguments must be a JSON object"
            raise refusal(FailureKind.SEMANTIC, "tool.arguments", text)
        given = {"arguments": cast("dict[str, Any]", call.args)}
        found, own, _ = super().look_up(ToolCall(call.id, call.name, given))
        return found, own, given


class Guard:
    """A tool server's tools, guarded; made by `guard`."""

    def __init__(
        self,
        connect: Connect,
        *,
        name: str,
        timeout_s: float,
        retry: Retry | None,
        policies: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.name = name
        self.connection = Connection(connect)
        self._timeout_s = timeout_s
        self._retry = retry
        self._policies = policies
        self.raw = False
        """Whether results are kept whole, for who hands them on."""
        self._tools: dict[tuple[str, Effect], Tool[Any, Any]] = {}
        listing = tool(effect=Effect.READ_ONLY, timeout_s=timeout_s, scope=name, name=f"{name}.list_tools")
        self._listing = cast("Tool[Any, Any]", listing(self._list_tools))

    async def __aenter__(self) -> Self:
        """Use it; it connects when it is needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Close the connection."""
        await self.connection.close()

    @property
    def polls(self) -> frozenset[str]:
        """Tools that are there to be asked again: `policies` gives them `agent=ForModel(poll=True)`."""
        agents = {name: policy.get("agent") for name, policy in self._policies.items()}
        return frozenset(name for name, agent in agents.items() if agent is not None and agent.poll)

    async def listed(self) -> list[Listed]:
        """Return the server's tools; a recorded step inside a run."""
        return cast("list[Listed]", await self._listing())

    async def toolbox(self) -> Toolbox:
        """Return them as a toolbox for `run.call_tools` and `yaoki.agent`; which there are is a recorded step."""
        listed = await self.listed()
        return _Box(listed, *(self.tool_of(one) for one in listed))

    def tool_of(self, listed: Listed) -> Tool[Any, Any]:
        """Return a tool of the server as a tool of ours: a step that takes `arguments`, an object."""
        policy = dict(self._policies.get(listed.name, {}))
        key_argument = policy.pop("key_argument", "")
        effect = policy.pop("effect", listed.effect)
        known = self._tools.get((listed.name, effect))
        if known is None:
            declared: dict[str, Any] = {
                "timeout_s": self._timeout_s,
                "retry": self._retry,
                "scope": self.name,
                **policy,
            }
            fn = self._keyed(listed.name, key_argument) if effect is Effect.KEYED else self._plain(listed.name, effect)
            known = cast("Tool[Any, Any]", tool(effect=effect, name=listed.name, **declared)(fn))
            self._tools[listed.name, effect] = known
        return known

    def _plain(self, name: str, effect: Effect) -> Any:  # noqa: ANN401 - a tool's function
        async def call(arguments: dict[str, Any]) -> Told:
            return await self._call(name, arguments, heals=effect in _FREE)

        return call

    def _keyed(self, name: str, key_argument: str) -> Any:  # noqa: ANN401 - a tool's function
        if not key_argument:
            msg = f"guard: {name} is KEYED, so key_argument= must name the argument that carries its key"
            raise DeclarationError(msg)

        async def call(arguments: dict[str, Any], *, idempotency_key: str = INJECTED) -> Told:
            return await self._call(name, {**arguments, key_argument: idempotency_key}, heals=True)

        return call

    async def _call(self, name: str, arguments: dict[str, Any], *, heals: bool) -> Told:
        """
        Call a tool of the server.

        A result that is an error is the tool's word to the model, so it is a result; only where the call may be made
        again, and it says that it was turned away for now, is it a failure, and retried.
        """
        try:
            session = await self.connection.session()
            result = await session.call_tool(name, arguments, read_timeout_seconds=self._timeout_s)
        except Exception as error:
            self._look(error)
            raise
        told = _told(result, raw=self.raw)
        if told.is_error and heals:
            failure = classify(result)
            if failure.kind in _HEALS:
                raise RetryableError(told.text[:2000], delay_s=failure.retry_after_s)
        return told

    async def _list_tools(self) -> list[Listed]:
        found: list[Listed] = []
        try:
            session = await self.connection.session()
            page: Any = await session.list_tools()
            for _ in range(_PAGES_MOST):
                found += [_listed(one) for one in page.tools]
                cursor: Any = getattr(page, "next_cursor", None)
                if not cursor:
                    break
                from mcp_types import PaginatedRequestParams

                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except Exception as error:
            self._look(error)
            raise
        return found

    def _look(self, error: Exception) -> None:
        """Let a session go that an error says is over."""
        reason = classify(error).reason
        if reason.startswith(_LOST):
            self.connection.lost()


def _listed(one: Any) -> Listed:  # noqa: ANN401 - the SDK's
    notes = one.annotations
    return Listed(
        name=str(one.name),
        description=str(one.description or ""),
        input_schema=dict(one.input_schema or {}),
        read_only=bool(notes is not None and notes.read_only_hint),
        idempotent=bool(notes is not None and notes.idempotent_hint),
    )


def _told(result: Any, *, raw: bool) -> Told:  # noqa: ANN401 - the SDK's
    """Return a result as text; what is no text (an image, a link) is said to be there."""
    texts: list[str] = []
    blocks: list[Any] = getattr(result, "content", None) or []
    for block in blocks:
        text: object = getattr(block, "text", None)
        texts.append(text if isinstance(text, str) else f"[{getattr(block, 'type', 'content')}]")
    structured: Any = getattr(result, "structured_content", None)
    if raw:
        structured = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Told("\n".join(texts), bool(getattr(result, "is_error", False)), structured)


def guard(
    connect: Connect,
    *,
    name: str = "mcp",
    timeout_s: float = _TIMEOUT_S,
    retry: Retry | None = None,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
) -> Guard:
    """
    Put policies in front of an MCP server's tools, for an async loop.

        FILES = guard(stdio("npx", "-y", "@modelcontextprotocol/server-filesystem", "."), name="files")

        @loop
        async def agent(run: AsyncRun, task: str) -> str:
            return await aconverse(run, model, task, tools=await FILES.toolbox())

    What a tool does is taken from its annotations (`readOnlyHint`, `idempotentHint`); one that says nothing is
    AT_MOST_ONCE. Each call is a step: recorded, bounded by `timeout_s`, retried where that is safe, on a new connection
    if the server has gone. A protocol error is a failure of the call; a result that is an error goes to the model.

    Args:
        connect: `stdio(…)`, `http(url)`, or what opens an initialised session of the official SDK; called again for
            each connection.
        name: Of the server: its scope for breakers, and part of what is listed.
        timeout_s: Of each call, above 0, at most a day; a server that hangs is given up then.
        retry: Of each call, where a tool's policy has none; default `Retry()`.
        policies: By tool, what `@tool` takes (`effect`, `timeout_s`, `retry`, `approve`, `escalate`, `check`, …), in
            place of what the annotations say. A KEYED one names its `key_argument`.

    Raises:
        DeclarationError: A bound that is none, or a KEYED tool without its argument.
    """
    if isinstance(timeout_s, bool) or not 0 < timeout_s <= 86_400:  # noqa: PLR2004 - a day, as said
        msg = f"guard: timeout_s={timeout_s!r} lies above 0, and at most a day"
        raise DeclarationError(msg)
    for tool_name, policy in (policies or {}).items():
        if policy.get("effect") is Effect.KEYED and not policy.get("key_argument"):
            msg = f"guard: {tool_name} is KEYED, so key_argument= must name the argument that carries its key"
            raise DeclarationError(msg)
    return Guard(connect, name=name, timeout_s=timeout_s, retry=retry, policies=policies or {})
