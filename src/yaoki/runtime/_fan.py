"""Branches side by side: what `map` and `call_tools` are made of."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from yaoki.errors import DeclarationError, Passing, StepFailed
from yaoki.runtime import _context
from yaoki.runtime._effects import Suspend
from yaoki.runtime._group_of import BranchGroup
from yaoki.runtime._live import Halt
from yaoki.runtime._places import Place, give_up, leave

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

    A branch that parks ends its thread, whatever its code makes of that; when the others have ended the parent parks
    too. Any other exception lets the steps under way end, begins no more, and propagates.
    """
    from concurrent.futures import ThreadPoolExecutor

    _refuse_limit(limit)
    group = BranchGroup(parent, names)
    parks: list[Passing] = []
    wrong: list[BaseException] = []

    def one(branch: Branch, thunk: Callable[[], Any]) -> Any:
        return None if wrong else _one_sync(group, branch, thunk, parks, wrong)

    if limit == 1 or len(thunks) <= 1:
        outcomes = [one(branch, thunk) for branch, thunk in zip(group.branches, thunks, strict=True)]
    else:
        with ThreadPoolExecutor(min(limit, len(thunks)), thread_name_prefix="yaoki-branch") as pool:
            waiting = [
                pool.submit(contextvars.copy_context().run, one, branch, thunk)
                for branch, thunk in zip(group.branches, thunks, strict=True)
            ]
            try:
                outcomes = [future.result() for future in waiting]
            except BaseException as stop:  # Ctrl-C in the waiting thread: nothing new begins, what was begun settles
                wrong.append(stop)
                parent.live.stop_with(Halt(to="drain", text="interrupted"))
                raise
    driver: Any = parent.live.driver
    if wrong:
        with parent.live.lock:
            group.raised(wrong[0])
            driver.forget(group.branches)
        raise wrong[0]
    if group.park_if_it_raised_before():
        driver.hold(Suspend("code"), parent)
    if parks:
        parent.passing = parks[0]
        raise parks[0]
    return outcomes


def _one_sync(
    group: BranchGroup,
    branch: Branch,
    thunk: Callable[[], Any],
    parks: list[Passing],
    wrong: list[BaseException],
) -> Any:
    """Run one branch here: its value or StepFailed; or None, and why it parked or what it raised, in these lists."""
    branch.owner = branch.live.driver.whoami()
    token = _context.enter(branch)
    try:
        outcome = thunk()
    except StepFailed as error:
        outcome = error
    except Passing as signal:
        parks.append(signal)
        return None
    except BaseException as error:  # noqa: BLE001 - handed to the parent by the caller
        outcome = None
        if branch.passing is None or not isinstance(error, Exception):
            wrong.append(error)
            group.stop()
    finally:
        _context.leave(token)
    if branch.passing is not None:  # its code has swallowed that, and made something of it
        parks.append(branch.passing)
    return outcome


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

    group = BranchGroup(parent, names)
    for branch in group.branches:
        branch.place = Place(gate)
    parent.children += 1
    parent.starting = len(group.branches)
    pairs = zip(group.branches, thunks, strict=True)
    tasks = [asyncio.create_task(_one_async(branch, thunk, gate, failed)) for branch, thunk in pairs]
    try:
        outcomes = await _all_of(tasks)
    except asyncio.CancelledError:
        driver.note_cut(parent)
        raise
    except BaseException as error:
        driver.commits.flush()
        group.raised(error)
        raise
    finally:
        parent.children -= 1
        parent.starting = 0
    if group.park_if_it_raised_before():
        driver.enter_op(parent)
        try:
            await driver.hold(Suspend("code"), parent)
        finally:
            driver.leave_op(parent)
    return outcomes


async def _one_async(branch: Branch, thunk: Callable[[], Any], gate: asyncio.Semaphore, failed: list[Branch]) -> Any:
    """Run one branch in this task, once it has a place: its value or StepFailed; nothing once one has `failed`."""
    import asyncio

    driver: Any = branch.live.driver
    await gate.acquire()
    assert branch.parent is not None
    branch.parent.starting -= 1
    if failed:
        return None
    branch.owner = asyncio.current_task()
    driver.branches.add(branch)
    _context.enter(branch)
    try:
        return await _outcome(branch, thunk)
    except Exception:
        failed.append(branch)
        raise
    except Passing:
        # A plain tool of an async loop that waits: its code has unwound, so the branch stays as it is until
        # the others have ended and the run is taken up again.
        if branch.live.detached:
            raise
        branch.held += 1
        give_up(branch, driver.branches)
        driver.check_quiet()
        return await asyncio.get_running_loop().create_future()
    finally:
        driver.branches.discard(branch)
        leave(branch, driver.branches)
        driver.check_quiet()


async def _outcome(branch: Branch, thunk: Callable[[], Any]) -> Any:
    """Return what a branch came to: its value, or its StepFailed; never what it made of a park it swallowed."""
    try:
        value = thunk()
        value = await value if hasattr(value, "__await__") else value
    except StepFailed as error:
        value = error
    except Exception:
        if branch.passing is None or branch.live.detached:
            raise
        value = None
    if branch.passing is not None and not branch.live.detached:
        raise branch.passing
    return value


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
