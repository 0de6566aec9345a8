"""A deadline is a failure, a cancel from outside is control flow: as each library really raises them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import anyio
import httpx
import pytest
import trio

from tests.classify.wild_server import serving
from yaoki.classify import Executed, FailureKind, classify, is_control_flow

K, MAYBE = FailureKind, Executed.MAYBE


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    with serving() as port:
        yield f"http://127.0.0.1:{port}/hang"


async def by_aiohttp(url: str, timeout_s: float = 20.0) -> None:
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, data=b"x") as answer:
        await answer.read()


async def by_httpx(url: str, timeout_s: float = 20.0) -> None:
    async with httpx.AsyncClient(timeout=timeout_s, trust_env=False) as client:
        await client.post(url, content=b"x")


each_client = pytest.mark.parametrize("call", [by_aiohttp, by_httpx], ids=["aiohttp", "httpx"])


def raised(main: Callable[[], Awaitable[object]]) -> BaseException:
    """Return what the coroutine raised, a cancel included."""

    async def run() -> BaseException:
        try:
            await main()
        except BaseException as error:
            return error
        raise AssertionError("it did not fail")

    return asyncio.run(run())


@each_client
def test_a_client_s_own_deadline_is_a_failure(silent: str, call: Callable[..., Awaitable[None]]) -> None:
    error = raised(lambda: call(silent, 0.05))
    assert not is_control_flow(error)
    assert (classify(error).kind, classify(error).executed) == (K.TRANSIENT, MAYBE)


@each_client
def test_a_cancel_from_outside_is_control_flow(silent: str, call: Callable[..., Awaitable[None]]) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(call(silent))
        await asyncio.sleep(0.05)
        task.cancel()
        await task

    assert is_control_flow(raised(main))


@each_client
def test_a_deadline_around_the_call_is_a_failure(silent: str, call: Callable[..., Awaitable[None]]) -> None:
    async def by_timeout() -> None:
        async with asyncio.timeout(0.05):
            await call(silent)

    async def by_wait_for() -> None:
        await asyncio.wait_for(call(silent), 0.05)

    async def by_anyio() -> None:
        with anyio.fail_after(0.05):
            await call(silent)

    for main in (by_timeout, by_wait_for, by_anyio):
        error = raised(main)
        assert type(error) is TimeoutError
        assert not is_control_flow(error)
        assert (classify(error).kind, classify(error).executed) == (K.TRANSIENT, MAYBE)


def test_a_cancel_while_a_deadline_of_the_library_runs_out_stays_a_cancel(silent: str) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(by_aiohttp(silent, 0.05))
        await asyncio.sleep(0.02)
        asyncio.get_running_loop().call_later(0.03, task.cancel)
        await task

    error = raised(main)
    assert is_control_flow(error) or classify(error).kind is K.TRANSIENT


def test_a_group_of_a_cancelled_task_group_is_what_failed_in_it() -> None:
    async def fails() -> None:
        raise ConnectionRefusedError(111, "refused")

    async def by_asyncio() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(20))
            group.create_task(fails())

    async def by_anyio() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 20)
            group.start_soon(fails)

    for main in (by_asyncio, by_anyio):
        error = raised(main)
        assert isinstance(error, ExceptionGroup)
        assert not is_control_flow(error)
        assert (classify(error).kind, classify(error).executed) == (K.TRANSIENT, Executed.NO)


def test_trio_s_cancel_is_control_flow_and_its_deadline_a_failure() -> None:
    caught: list[BaseException] = []

    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep(20)
            except trio.Cancelled as error:
                caught.append(error)
                raise

    async def late() -> None:
        with trio.fail_after(0.01):
            await trio.sleep(20)

    trio.run(cancelled)
    assert is_control_flow(caught[0])
    with pytest.raises(trio.TooSlowError) as slow:
        trio.run(late)
    assert not is_control_flow(slow.value)
    assert (classify(slow.value).kind, classify(slow.value).executed) == (K.TRANSIENT, MAYBE)


def test_a_thread_s_future_is_cancelled_or_late() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        gate = concurrent.futures.Future[None]()
        busy = pool.submit(gate.result)
        waiting = pool.submit(int)
        waiting.cancel()
        with pytest.raises(concurrent.futures.CancelledError) as cancelled:
            waiting.result()
        with pytest.raises(TimeoutError) as late:
            busy.result(timeout=0.01)
        gate.set_result(None)
    assert is_control_flow(cancelled.value)
    assert (classify(late.value).kind, classify(late.value).executed) == (K.TRANSIENT, MAYBE)
