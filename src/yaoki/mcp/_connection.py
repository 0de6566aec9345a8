"""One connection to a tool server: opened when it is needed, and again when the server has gone."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

__all__ = ["Connect", "Connection", "http", "stdio"]

Connect: TypeAlias = "Callable[[], AbstractAsyncContextManager[Any]]"
"""Opens a session of the official SDK, initialised; called again for each connection."""
_CLOSE_S = 5.0


def stdio(command: str, *args: str, env: Mapping[str, str] | None = None, cwd: str | None = None) -> Connect:
    """Return how a server is started that speaks over its standard input and output; its errors go to ours."""

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Any]:
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        server = StdioServerParameters(command=command, args=list(args), env=dict(env) if env else None, cwd=cwd)
        async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            yield session

    return connect


def http(url: str) -> Connect:
    """Return how a server is reached over streamable HTTP."""

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Any]:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            yield session

    return connect


class Connection:
    """
    A session that is there when it is asked for, one for each event loop.

    A task of its own opens and closes it, since the SDK's task groups end where they began.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self.opened = 0
        """How often it was opened."""

    async def session(self) -> Any:  # noqa: ANN401 - the SDK's
        """
        Return the session, opened if it is not.

        Raises:
            Exception: What opening it met; the next call tries again.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # another event loop, as after `asyncio.run`: the old one took its session along
            self._loop, self._opening, self._task = loop, None, None
        if self._opening is None or (self._task is not None and self._task.done()):
            self.opened += 1
            self._opening = loop.create_future()
            self._over = asyncio.Event()
            self._task = loop.create_task(self._hold(self._opening, self._over))
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None
            raise

    def lost(self) -> None:
        """Let the session go, since it is of no use any more; the next call opens another."""
        self._over.set()
        self._opening = None

    async def close(self) -> None:
        """Close it, within 5 s."""
        task = self._task
        self.lost()
        if task is not None and not task.done() and self._loop is asyncio.get_running_loop():
            await asyncio.wait((task,), timeout=_CLOSE_S)
            task.cancel()

    async def _hold(self, opening: asyncio.Future[Any], over: asyncio.Event) -> None:
        try:
            async with self._connect() as session:
                if not opening.done():
                    opening.set_result(session)
                await over.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - told to who waits, if anybody still does
            if not opening.done():
                opening.set_exception(_told(error))
                opening.exception()  # seen, also where nobody waits any more


def _told(error: BaseException) -> Exception:
    """Return what went wrong, out of the groups that task groups put it in."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("tuple[BaseException, ...]", error.exceptions)[0]  # a group is never empty
    return error if isinstance(error, Exception) else ConnectionError(f"{type(error).__name__}: {error}")
