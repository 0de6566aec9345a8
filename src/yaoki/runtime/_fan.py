"""Branches side by side: what `map` and `call_tools` are made of."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from yaoki.errors import DeclarationError, Passing, StepFailed
from yaoki.runtime import _context
from yaoki.runtime._live import Halt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from yaoki.runtime._live import Branch

__all__ = ["branch_names", "fan_async", "fan_sync"]

_LIMIT_MOST = 1_000


def branch_names(parent: Branch, kind: str) -> str:
    """Return the name of the next group of branches of a kind: `map#0`."""
    n = parent.counts.get(f"branch {kind}", 0)
    parent.counts[f"branch {kind}"] = n + 1
    return f"{kind}#{n}"


def _refuse_limit(limit: int) -> None:
    if not 1 <= limit <= _LIMIT_MOST:
        msg = f"limit is {limit}; it lies between 1 and {_LIMIT_MOST}"
        raise DeclarationError(msg)


def fan_sync(parent: Branch, names: Sequence[str], thunks: Sequence[Callable[[], Any]], limit: int) -> list[Any]:
    """
    Run each thunk in its own branch, in up to `limit` threads; return values, StepFailed as values.

    A branch that parks ends its thread; when the others have ended the parent parks too. Any other exception
    lets those under way end, starts no more, and propagates.
    """
    from concurrent.futures import ThreadPoolExecutor

    _refuse_limit(limit)
    parks: list[Passing] = []
    wrong: list[BaseException] = []

    def one(name: str, thunk: Callable[[], Any]) -> Any:
        if wrong:
            return None
        branch = parent.child(name)
        branch.owner = parent.live.driver.whoami()
        token = _context.enter(branch)
        try:
            return thunk()
        except StepFailed as error:
            return error
        except Passing as signal:
            parks.append(signal)
            return None
        except BaseException as error:  # noqa: BLE001 - handed to the parent below
            wrong.append(error)
            return None
        finally:
            _context.leave(token)

    if limit == 1 or len(thunks) <= 1:
        outcomes = [one(name, thunk) for name, thunk in zip(names, thunks, strict=True)]
    else:
        with ThreadPoolExecutor(min(limit, len(thunks)), thread_name_prefix="yaoki-branch") as pool:
            waiting = [
                pool.submit(contextvars.copy_context().run, one, name, thunk)
                for name, thunk in zip(names, thunks, strict=True)
            ]
            try:
                outcomes = [future.result() for future in waiting]
            except BaseException as stop:  # Ctrl-C in the waiting thread: nothing new begins, what was begun settles
                wrong.append(stop)
                parent.live.stop_with(Halt(to="drain", text="interrupted"))
                raise
    if wrong:
        raise wrong[0]
    if parks:
        parent.passing = parks[0]
        raise parks[0]
    return outcomes


async def fan_async(parent: Branch, names: Sequence[str], thunks: Sequence[Callable[[], Any]], limit: int) -> list[Any]:
    """
    Run each thunk in its own branch and task, up to `limit` at once; return values, StepFailed as values.

    Any other exception cancels the rest, waits for them to end, and propagates.
    """
    import asyncio

    _refuse_limit(limit)
    driver: Any = parent.live.driver
    gate = asyncio.Semaphore(limit)
    failed: list[Branch] = []

    async def one(branch: Branch, thunk: Callable[[], Any]) -> Any:
        await gate.acquire()
        if failed:
            return None
        branch.owner = asyncio.current_task()
        driver.branches.add(branch)
        _context.enter(branch)
        try:
            value = thunk()
            return await value if hasattr(value, "__await__") else value
        except StepFailed as error:
            return error
        except Exception:
            failed.append(branch)
            raise
        except Passing:
            # A plain tool of an async loop that waits: its code has unwound, so the branch stays as it is until
            # the others have ended and the run is taken up again.
            if parent.live.detached:
                raise
            branch.held += 1
            driver.check_quiet()
            return await asyncio.get_running_loop().create_future()
        finally:
            driver.branches.discard(branch)
            gate.release()
            driver.check_quiet()

    children = [parent.child(name) for name in names]
    for child in children:
        child.gate = gate
    parent.children += 1
    tasks = [asyncio.create_task(one(child, thunk)) for child, thunk in zip(children, thunks, strict=True)]
    try:
        return await _all_of(tasks)
    finally:
        parent.children -= 1


async def _all_of(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    import asyncio

    if not tasks:
        return []
    try:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except BaseException:
        await _cancel_all(tasks)
        raise
    wrong = next((t for t in tasks if t in done and (t.cancelled() or t.exception() is not None)), None)
    if wrong is not None:
        await _cancel_all(list(pending))
        return [wrong.result()]
    return [task.result() for task in tasks]


async def _cancel_all(tasks: list[asyncio.Task[Any]]) -> None:
    import asyncio

    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
