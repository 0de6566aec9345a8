"""Loops that end as their input says; served by the command in the tests beside."""

from __future__ import annotations

import os
import signal

from yaoki import AsyncRun, Effect, Run, loop, tool


@tool
def act(how: str) -> str:
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "reset":
        raise ConnectionResetError(104, "reset")
    return how


@loop(crashes_max=1)
def work(run: Run, how: str) -> str:
    return act(how)


@tool(effect=Effect.READ_ONLY)
async def aact(how: str) -> str:
    raise PermissionError(13, "no")


@loop
async def awork(run: AsyncRun, how: str) -> str:
    return await aact(how)


@loop
def denied(run: Run) -> str:
    raise PermissionError(13, "no")
