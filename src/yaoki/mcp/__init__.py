"""
MCP servers under a policy (`pip install 'yaoki[mcp]'`): `guard` for a client of yours, `yaoki mcp-proxy` for any other.

    from yaoki.mcp import guard, http, stdio

    FILES = guard(stdio("npx", "-y", "@modelcontextprotocol/server-filesystem", "."), name="files")
"""

from __future__ import annotations

from yaoki.mcp._connection import Connect, http, stdio
from yaoki.mcp._guard import Guard, Listed, guard

__all__ = ["Connect", "Guard", "Listed", "guard", "http", "stdio"]
