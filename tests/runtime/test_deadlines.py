"""The bound on an async attempt: what it cancels, what it leaves alone, and what it costs to be there."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import threading
import time
import weakref

import pytest

from yaoki import Effect, Retry, tool
from yaoki.runtime import _deadlines
from yaoki.runtime._alone import AttemptTimeout
from yaoki.runtime._deadlines import Deadlines, bounded

LONG_S = 30
SHORT_S = 0.01


async def sleeping(delay_s: float = LONG_S) -> str:
    await asyncio.sleep(delay_s)
    return "slept"


def of_this_loop() -> Deadlines:
    return _deadlines._BY_LOOP[id(asyncio.get_running_loop())]


def waiting() -> int:
    """Return how many deadlines this loop has on its heap."""
    found = _deadlines._BY_LOOP.get(id(asyncio.get_running_loop()))
    return 0 if found is None else len(found)


def in_a_loop(test):
    """Run an async test in a loop of its own, and see that it leaves its task's cancel count as it was."""

    @functools.wraps(test)
    def run() -> None:
        async def main() -> None:
            await test()
            assert asyncio.current_task().cancelling() == 0

        asyncio.run(main())

    del run.__wrapped__  # pytest would see a coroutine function
    return run


# --- what it bounds


@in_a_loop
async def test_an_attempt_is_cut_at_its_timeout_not_before_and_at_most_10_ms_after():
    await bounded(sleeping(0), LONG_S)  # the timer is armed for much later: it must be armed anew
    lates = []
    for _ in range(5):
        before = time.monotonic()
        with pytest.raises(AttemptTimeout, match=r"no answer within 0\.01 s") as caught:
            await bounded(sleeping(), SHORT_S)
        lates.append(time.monotonic() - before - SHORT_S)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert min(lates) >= 0
    assert sorted(lates)[1] < 0.01  # two of five: the machine may be busy


@in_a_loop
async def test_what_answers_in_time_is_returned_and_leaves_nothing_behind():
    assert await bounded(sleeping(0), LONG_S) == "slept"
    assert await bounded(sleeping(0.001), LONG_S) == "slept"
    assert waiting() == 0


@in_a_loop
async def test_a_call_that_never_suspends_needs_no_deadline():
    async def at_once() -> int:
        return 7

    assert await bounded(at_once(), 1e-9) == 7
    assert id(asyncio.get_running_loop()) not in _deadlines._BY_LOOP


@in_a_loop
async def test_time_spent_before_the_first_suspension_counts():
    async def busy_first() -> None:
        time.sleep(2 * SHORT_S)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0.005)

    with pytest.raises(AttemptTimeout):
        await bounded(busy_first(), SHORT_S)


@in_a_loop
async def test_without_a_timeout_it_is_a_plain_await():
    assert await bounded(sleeping(0), None) == "slept"


@in_a_loop
async def test_any_awaitable_is_bounded():
    ready = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.001, ready.set_result, "ready")
    assert await bounded(ready, LONG_S) == "ready"
    with pytest.raises(AttemptTimeout):
        await bounded(asyncio.get_running_loop().create_future(), SHORT_S)


@in_a_loop
async def test_many_attempts_with_different_timeouts_are_each_cut_at_their_own():
    order: list[int] = []

    async def one(i: int) -> None:
        with pytest.raises(AttemptTimeout):
            await bounded(sleeping(), 0.002 * i)
        order.append(i)

    await asyncio.gather(*(one(i) for i in (7, 2, 9, 4, 1)))
    assert order == [1, 2, 4, 7, 9]
    assert id(asyncio.get_running_loop()) not in _deadlines._BY_LOOP  # with nothing to wait for it is gone


@in_a_loop
async def test_a_task_nobody_else_holds_is_still_cut():
    """Its loop holds it by the deadline, as by any timer."""
    seen: list[str] = []

    async def forgotten() -> None:
        try:
            await bounded(asyncio.get_running_loop().create_future(), SHORT_S)
        except AttemptTimeout:
            seen.append("cut")

    asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(forgotten()) and None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(3 * SHORT_S)
    assert seen == ["cut"]


# --- whose cancel it was


@in_a_loop
async def test_a_cancel_from_outside_stays_a_cancel():
    task = asyncio.ensure_future(bounded(sleeping(), LONG_S))
    await asyncio.sleep(0)
    task.cancel("by me")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert task.cancelling() == 1
    assert waiting() == 0


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_cancel_from_outside_at_the_same_tick_wins(first):
    """Both cancels are asked for before the task runs again; ours is taken back, theirs counts."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(bounded(sleeping(), LONG_S))
        await asyncio.sleep(0)
        [(_, _, deadline)] = of_this_loop()._heap
        both = [deadline.fire, task.cancel]
        for cancel in both if first == "ours" else reversed(both):
            loop.call_soon(cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert deadline.fired
        assert task.cancelled()
        assert task.cancelling() == 1

    asyncio.run(main())


@in_a_loop
async def test_the_callers_own_timeout_is_a_plain_timeout():
    for before_s, after_s in ((SHORT_S, LONG_S), (LONG_S, SHORT_S)):
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(before_s):
                await bounded(sleeping(), after_s)
        assert isinstance(caught.value, AttemptTimeout) is (after_s == SHORT_S)


@in_a_loop
async def test_the_callers_own_timeout_due_at_the_same_tick_wins():
    loop = asyncio.get_running_loop()

    def both() -> None:
        outer.reschedule(loop.time())  # which cancels in the loop's next turn, as ours does
        loop.call_soon(of_this_loop()._heap[0][2].fire)

    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(LONG_S) as outer:
            loop.call_later(0, both)
            await bounded(sleeping(), LONG_S)
    assert type(caught.value) is TimeoutError


@in_a_loop
async def test_nested_bounds_each_answer_for_their_own():
    with pytest.raises(AttemptTimeout, match=r"0\.01 s"):
        await bounded(bounded(sleeping(), LONG_S), SHORT_S)

    async def outer() -> str:
        with pytest.raises(AttemptTimeout):
            await bounded(sleeping(), SHORT_S)
        return "the outer one goes on"

    assert await bounded(outer(), LONG_S) == "the outer one goes on"


@in_a_loop
async def test_nested_bounds_due_together_raise_one_timeout_and_no_cancel():
    async def outer() -> None:
        try:
            await bounded(sleeping(), SHORT_S)
        finally:
            assert asyncio.current_task().cancelling() == 1  # the outer bound's, still to be answered for

    task = asyncio.ensure_future(bounded(outer(), LONG_S))
    await asyncio.sleep(0)
    for _, _, deadline in sorted(of_this_loop()._heap):
        deadline.fire()
        deadline.left = True
    with pytest.raises(AttemptTimeout, match="30 s"):
        await task
    assert task.cancelling() == 0


@in_a_loop
async def test_a_task_group_around_a_cut_attempt_sees_a_failure_and_not_a_cancel():
    siblings: list[str] = []

    async def sibling() -> None:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            siblings.append("cancelled")
            raise

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sibling())
            group.create_task(bounded(sleeping(), SHORT_S))

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.ensure_future(parent())  # Python 3.11 leaves its parent's cancel count at 1
    assert [type(error) for error in caught.value.exceptions] == [AttemptTimeout]
    assert siblings == ["cancelled"]


@in_a_loop
async def test_a_task_group_that_fails_cancels_an_attempt_as_an_outsider():
    seen: list[str] = []

    async def attempt() -> None:
        try:
            await bounded(sleeping(), LONG_S)
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async def fails() -> None:
        raise ValueError

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(attempt())
            await asyncio.sleep(0)
            group.create_task(fails())

    with pytest.raises(ExceptionGroup):
        await asyncio.ensure_future(parent())
    assert seen == ["CancelledError"]


@in_a_loop
async def test_a_task_group_inside_a_cut_attempt_ends_with_it():
    async def inside() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeping())
            await asyncio.sleep(LONG_S)

    with pytest.raises(AttemptTimeout):
        await bounded(inside(), SHORT_S)


# --- what the tool makes of it


@pytest.mark.parametrize("late", [False, True], ids=["before the bound", "after the bound"])
def test_a_timeout_error_of_the_tools_own_stays_its_own(late):
    async def raises() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(LONG_S if late else 0)
        raise TimeoutError("the database said so")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="the database said so") as caught:
            await bounded(raises(), SHORT_S)
        assert not isinstance(caught.value, AttemptTimeout)
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(main())


@in_a_loop
async def test_a_tool_that_swallows_the_cancel_and_returns_has_returned():
    async def stubborn() -> str:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "anyway"

    assert await bounded(stubborn(), SHORT_S) == "anyway"
    await asyncio.sleep(0)  # and no cancel is left over for whoever awaits next


@in_a_loop
async def test_a_tool_that_cancels_itself_is_not_timed_out():
    async def gives_up() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await bounded(gives_up(), LONG_S)


@in_a_loop
async def test_a_bound_that_races_with_the_answer_cuts_or_lets_it_through_whole():
    """The answer is there, the task not yet resumed, and the bound comes: a timeout, as with asyncio.timeout."""
    answer = asyncio.get_running_loop().create_future()

    async def attempt() -> object:
        return await answer

    task = asyncio.ensure_future(bounded(attempt(), LONG_S))
    await asyncio.sleep(0)
    [(_, _, deadline)] = of_this_loop()._heap
    answer.set_result("there")
    deadline.fire()
    with pytest.raises(AttemptTimeout):
        await task
    assert task.cancelling() == 0


@in_a_loop
async def test_a_deadline_that_comes_due_after_the_end_cancels_nobody():
    assert await bounded(sleeping(0.0), SHORT_S) == "slept"
    await asyncio.sleep(3 * SHORT_S)


@in_a_loop
async def test_a_closed_attempt_closes_its_tool():
    seen: list[str] = []

    async def attempt() -> None:
        try:
            await asyncio.sleep(LONG_S)
        finally:
            seen.append("closed")

    call = bounded(attempt(), LONG_S)
    call.send(None)
    assert len(of_this_loop()) == 1
    call.close()
    assert seen == ["closed"]
    assert waiting() == 0


def test_outside_a_task_it_says_so():
    async def main() -> None:
        call = bounded(sleeping(), LONG_S)
        failed = asyncio.get_running_loop().create_future()

        def by_hand() -> None:
            try:
                call.send(None)
            except RuntimeError as error:
                failed.set_result(str(error))

        asyncio.get_running_loop().call_soon(by_hand)
        assert "inside a task" in await failed

    asyncio.run(main())


@in_a_loop
async def test_context_variables_set_by_an_attempt_are_kept():
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="")

    async def attempt() -> None:
        seen.set("before")
        await asyncio.sleep(0)
        seen.set(seen.get() + " and after")

    await bounded(attempt(), LONG_S)
    assert seen.get() == "before and after"


# --- what it costs


@in_a_loop
async def test_at_most_one_timer_is_armed_however_many_attempts_wait():
    loop = asyncio.get_running_loop()
    before = sum(not timer.cancelled() for timer in loop._scheduled)
    futures = [loop.create_future() for _ in range(50)]
    tasks = [asyncio.ensure_future(bounded(future, LONG_S - i / 10)) for i, future in enumerate(futures)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(of_this_loop()) == 50
    assert sum(not timer.cancelled() for timer in loop._scheduled) == before + 1
    for future in futures:
        future.set_result(None)
    await asyncio.gather(*tasks)


@in_a_loop
async def test_no_timer_outlives_the_attempts_it_is_for():
    """A loop with a clock of its own, as tests have, would leap to it."""
    loop = asyncio.get_running_loop()
    for _ in range(3):
        assert await bounded(sleeping(0), LONG_S) == "slept"
    await asyncio.sleep(0)
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []
    assert id(loop) not in _deadlines._BY_LOOP
    with pytest.raises(AttemptTimeout):
        await bounded(sleeping(), SHORT_S)


@in_a_loop
async def test_attempts_that_ended_do_not_fill_the_memory():
    """One that waits long must not keep those that came and went meanwhile."""
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(100)]
    tasks = [asyncio.ensure_future(bounded(future, LONG_S)) for future in futures]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for i in range(2000):
        if i % 20 == 0:
            futures.append(loop.create_future())
            tasks.append(asyncio.ensure_future(bounded(futures[-1], 1 + i)))
            futures.pop(0).set_result(None)
        await bounded(sleeping(0), LONG_S)
    heap = of_this_loop()
    assert len(heap) <= 2 * 100 + _deadlines._SLACK + 2
    for future in futures:
        future.set_result(None)
    await asyncio.gather(*tasks)
    assert len(heap) <= _deadlines._SLACK


@in_a_loop
async def test_attempts_that_were_cut_are_not_counted_as_waiting():
    long = asyncio.ensure_future(bounded(sleeping(), LONG_S))
    cut = [asyncio.ensure_future(bounded(sleeping(), 0.002)) for _ in range(9)]
    assert {type(error) for error in await asyncio.gather(*cut, return_exceptions=True)} == {AttemptTimeout}
    assert (len(of_this_loop()), of_this_loop()._live) == (1, 1)
    long.cancel()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("pending", [False, True], ids=["one being cancelled", "one still waiting"])
def test_a_closed_loop_takes_its_deadlines_with_it(pending):
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending" is what is meant
    tasks = [loop.create_task(bounded(sleeping(), LONG_S))]
    loop.run_until_complete(asyncio.sleep(0))
    if not pending:
        tasks[0].cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=0))
        tasks = [loop.create_task(bounded(sleeping(), LONG_S))]
        loop.run_until_complete(asyncio.sleep(0))
        tasks[0].cancel()
    gone = weakref.ref(_deadlines._BY_LOOP[id(loop)])
    key = id(loop)
    loop.close()
    del loop, tasks
    gc.collect()
    assert gone() is None
    assert key not in _deadlines._BY_LOOP


def test_loops_in_many_threads_do_not_disturb_each_other():
    cut: list[int] = []

    async def attempts() -> int:
        count = 0
        for i in range(20):
            try:
                await bounded(sleeping(LONG_S if i % 2 else 0), 0.002)
            except AttemptTimeout:
                count += 1
        return count

    threads = [threading.Thread(target=lambda: cut.append(asyncio.run(attempts()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert cut == [10] * 8


def test_loops_one_after_another_in_one_thread_each_have_their_own():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        tasks = [loop.create_task(bounded(sleeping(0.002), LONG_S)) for loop in (first, second)]
        for loop in (first, second):
            loop.run_until_complete(asyncio.sleep(0))
        assert _deadlines._BY_LOOP[id(first)] is not _deadlines._BY_LOOP[id(second)]
        assert [task.get_loop().run_until_complete(task) for task in tasks] == ["slept", "slept"]
        for loop in (first, second, first):
            with pytest.raises(AttemptTimeout):
                loop.run_until_complete(bounded(sleeping(), SHORT_S))
    finally:
        first.close()
        second.close()


# --- by way of a tool


def test_a_tools_timeout_raised_at_the_end_is_a_timeout_error_with_its_note():
    @tool(effect=Effect.READ_ONLY, timeout_s=SHORT_S, retry=Retry.never)
    async def slow() -> str:
        return await sleeping()

    with pytest.raises(TimeoutError, match="no answer within") as caught:
        asyncio.run(slow())
    assert "gave up after 1 attempt " in caught.value.__notes__[0]


def test_a_cancelled_tool_is_not_retried():
    calls: list[int] = []

    @tool(effect=Effect.READ_ONLY)
    async def slow() -> str:
        calls.append(1)
        return await sleeping()

    async def main() -> None:
        task = asyncio.ensure_future(slow())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == [1]
