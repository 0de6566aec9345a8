"""What a person reads after a mistake of their own says where it was and what to type instead."""

from __future__ import annotations

import asyncio

import pytest

from yaoki import AsyncRun, AsyncRunner, DeclarationError, Effect, Run, Runner, loop, tool
from yaoki.records import State


@tool(effect=Effect.READ_ONLY)
def buggy(key: int) -> int:
    return {}[key]


@loop
def work(run: Run) -> int:
    return buggy(3)


@loop
async def work_async(run: AsyncRun) -> int:
    return buggy(3)


def test_a_bug_in_a_tool_is_named_with_its_line(tmp_path):
    line = buggy.fn.__code__.co_firstlineno + 2
    with Runner(f"sqlite:///{tmp_path}/y.db") as runner:
        receipt = runner.run(work.bind(), run_id="r")
    assert receipt.status is State.DEAD
    assert receipt.failures[0].failure.message == f"KeyError: 3 (test_teaching.py:{line})"


def test_a_loop_without_its_arguments_is_refused_with_what_to_type(tmp_path):
    with Runner(f"sqlite:///{tmp_path}/y.db") as runner, pytest.raises(DeclarationError, match=r"work\.bind\("):
        runner.run(work, run_id="r")

    async def go() -> None:
        async with AsyncRunner(f"sqlite:///{tmp_path}/y.db") as runner:
            await runner.run(work_async, run_id="r")

    with pytest.raises(DeclarationError, match=r"work_async\.bind\("):
        asyncio.run(go())
