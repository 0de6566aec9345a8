"""
What `yaoki mcp-proxy` adds to a call: the official client, a real server over stdio, with and without the proxy.

    python bench/mcp_proxy.py [--calls N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVER = Path(__file__).parents[1] / "tests" / "mcp_guard" / "server.py"


async def took_ms(command: list[str], tool: str, calls: int) -> float:
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        await session.call_tool(tool, {"name": "first"})
        times: list[float] = []
        for n in range(calls):
            began = time.perf_counter()
            await session.call_tool(tool, {"name": f"f{n}"})
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    for tool in ("read", "delete"):
        with tempfile.TemporaryDirectory() as folder:
            store = f"sqlite:///{Path(folder) / 'proxy.db'}"
            proxy = ["-m", "yaoki", "mcp-proxy", "--store", store, "--", sys.executable, str(SERVER)]
            rounds: list[tuple[float, float]] = []
            for _ in range(3):
                bare = asyncio.run(took_ms([str(SERVER)], tool, options.calls))
                rounds.append((bare, asyncio.run(took_ms(proxy, tool, options.calls))))
        bare, guarded = (statistics.median(one) for one in zip(*rounds, strict=True))
        print(f"{tool:<8} bare {bare:6.2f} ms   through the proxy {guarded:6.2f} ms   added {guarded - bare:5.2f} ms")


if __name__ == "__main__":
    main()
