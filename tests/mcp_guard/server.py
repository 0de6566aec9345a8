"""A tool server with tools of every kind, that writes what it does to a file: over stdio, or HTTP on a port."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("files")
LOG = Path(os.environ.get("SERVER_LOG", os.devnull))


def note(text: str) -> int:
    with LOG.open("a") as log:
        log.write(f"{text}\n")
    return LOG.read_text().splitlines().count(text) if LOG.is_file() else 0


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read(name: str) -> str:
    """Read a file."""
    note(f"read {name}")
    return f"the text of {name}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def die_once(name: str) -> str:
    """Die at the first call."""
    if note(f"die {name}") == 1:
        os._exit(3)
    return "alive"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def busy_once(name: str) -> str:
    if note(f"busy {name}") == 1:
        raise ToolError("Rate limit reached, try again in 1s")
    return "free"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=False))
def put(name: str) -> str:
    """Put a file."""
    if note(f"put {name}") == 1:
        os._exit(3)
    return "put"


@server.tool()
def delete(name: str) -> str:
    """Delete a file."""
    if note(f"delete {name}") == 1 and name == "deadly":
        os._exit(3)
    return "deleted"


@server.tool()
def charge(cents: int, request_id: str = "") -> str:
    if note(f"charge {cents} {request_id}") == 1:
        os._exit(3)
    return f"charged {cents}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def hang(name: str) -> str:
    note(f"hang {name}")
    time.sleep(60)
    return ""


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def fail(text: str) -> str:
    raise ToolError(text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
