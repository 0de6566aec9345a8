"""The proxy's two sides: a guarded server behind it, and any MCP client in front; each call a run of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from yaoki.agent import StallGuard, action_of, signature_of
from yaoki.errors import YaokiError
from yaoki.mcp import Guard, Listed  # noqa: TC001 - annotations that are read
from yaoki.records import State
from yaoki.runtime import AsyncRun, Local, Told, loop

if TYPE_CHECKING:
    from yaoki.runtime import AsyncRunner

__all__ = ["Proxy", "call"]

_SEEN_MOST = 200


@loop(name="mcp-proxy")
async def call(run: AsyncRun, listed: Listed, arguments: dict[str, Any], server: Local[Guard]) -> Told:  # noqa: ARG001
    """Make one call of a client's."""
    told: Told = await server.tool_of(listed)(arguments)
    return told


class Proxy:
    """Answers a client's requests from the guarded server."""

    def __init__(self, guard: Guard, runner: AsyncRunner, session: str) -> None:
        self._guard = guard
        self._runner = runner
        self._session = session
        self._stall = StallGuard()
        self._seen: list[str] = []
        self._known: dict[str, Listed] = {}
        self._calls = 0

    def server(self, version: str) -> Any:  # noqa: ANN401 - the SDK's
        """Return the server that a client talks to."""
        from mcp.server.lowlevel import Server

        return Server(
            f"{self._guard.name} (guarded)",
            version=version,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(self, _context: object, params: Any) -> Any:  # noqa: ANN401 - the SDK's
        session = await self._guard.connection.session()
        page: Any = await session.list_tools(params=params)
        for one in await self._guard.listed():
            self._known[one.name] = one
        return page

    async def _call_tool(self, _context: object, params: Any) -> Any:  # noqa: ANN401 - the SDK's
        from mcp_types import CallToolResult

        name, arguments = str(params.name), dict(params.arguments or {})
        listed = await self._listed(name)
        if listed is None:
            known = ", ".join(sorted(self._known)) or "none"
            return _word(f"there is no tool {name!r}; there are: {known}")
        action = action_of(name, arguments)
        again = self._stall.refused(self._seen, action) if listed.name not in self._guard.polls else ""
        if again:
            self._seen.append(again)
            return _word(
                f"{name} was not executed: the same calls, with the same results, are going round in a circle."
            )
        told = await self._run(listed, arguments)
        if isinstance(told, str):
            return _word(told)
        self._seen.append(signature_of(action, told.text))
        del self._seen[:-_SEEN_MOST]
        return CallToolResult.model_validate(told.data) if told.data is not None else _word(told.text)

    async def _listed(self, name: str) -> Listed | None:
        if name not in self._known:
            for one in await self._guard.listed():
                self._known[one.name] = one
        return self._known.get(name)

    async def _run(self, listed: Listed, arguments: dict[str, Any]) -> Told | str:
        """Return what the tool said, or what is said in its place."""
        self._calls += 1
        run_id = f"{self._session}-{self._calls}"
        try:
            receipt = await self._runner.run(call.bind(listed, arguments, self._guard), run_id=run_id)
        except YaokiError as error:
            return f"{listed.name} was not called: {error}"
        if receipt.status is State.COMPLETED:
            return cast("Told", receipt.value)
        if receipt.status is State.WAITING:
            return (
                f"{listed.name}: {receipt.text} Nobody knows yet, and it is not called again by itself. "
                f"A person can say: yaoki show {run_id}"
            )
        said = receipt.failure.message if receipt.failure is not None else receipt.text
        return f"{listed.name} failed: {said}. See: yaoki show {run_id}"


def _word(text: str) -> Any:  # noqa: ANN401 - the SDK's
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
