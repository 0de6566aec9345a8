"""A tool server whose tools fail in every way: over stdio, or over HTTP on the port of its argument."""

from __future__ import annotations

import os
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

server = MCPServer("wild")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def fail(text: str) -> str:
    raise ToolError(text)


@server.tool()
def protocol(code: int, text: str) -> str:
    raise MCPError(code, text)


@server.tool()
def leave() -> str:
    os._exit(3)


@server.tool()
def hang() -> str:
    time.sleep(60)
    return ""


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
