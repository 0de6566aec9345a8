"""`yaoki mcp-proxy`: policies in front of any MCP server, for any MCP client."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session

__all__ = ["mcp_proxy"]

_PATIENCE_S = 30
_PORT_MOST = 65_535


def mcp_proxy(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="The server's command, after two dashes.")
    ] = None,
    *,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="A server over streamable HTTP instead.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What the server is called in the store.")] = "mcp",
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="A call is given up after this long.")] = 60,
    listen: Annotated[
        int | None, typer.Option("--listen", metavar="PORT", help="Serve HTTP on loopback instead of standard input.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Stand between an MCP client and a server: deadlines, safe retries, restarts, and a record of every call.

    Put it before the server's own command where the client is told of it:

        yaoki mcp-proxy --name files -- npx -y @modelcontextprotocol/server-filesystem .
    """
    here = session(store, as_json=as_json)
    if bool(command) == bool(url):
        raise CommandError("usage", "say which server: yaoki mcp-proxy -- COMMAND…, or --url URL; one of them")
    if listen is not None and not 0 <= listen <= _PORT_MOST:
        raise CommandError("usage", f"--listen {listen}: a port is 0 to {_PORT_MOST}")
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise CommandError("usage", "the official SDK is not installed: pip install 'yaoki[mcp]'")
    import asyncio

    asyncio.run(_serve(here.store, list(command or ()), url or "", name=name, timeout_s=timeout_s, listen=listen))
    return Exit.DONE


async def _serve(store: str, command: list[str], url: str, *, name: str, timeout_s: float, listen: int | None) -> None:
    import os

    from yaoki.cli._mcp_serving import Proxy
    from yaoki.clock import SystemClock
    from yaoki.mcp import guard, http, stdio
    from yaoki.policy import Retry
    from yaoki.runtime import AsyncRunner

    connect = http(url) if url else stdio(command[0], *command[1:], env=dict(os.environ))
    retry = Retry(attempts_max=3, cap_s=5, deadline_s=3 * timeout_s + _PATIENCE_S)  # a client waits for it
    guarded = guard(connect, name=name, timeout_s=timeout_s, retry=retry)
    guarded.raw = True
    session = f"{name}-{SystemClock().now_ms():x}-{os.getpid()}"
    async with guarded, AsyncRunner(store) as runner:
        server = Proxy(guarded, runner, session).server("0.1.0")
        if listen is None:
            from mcp.server.stdio import stdio_server

            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
            return
        import uvicorn

        app = server.streamable_http_app()
        await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=listen, log_level="warning")).serve()
