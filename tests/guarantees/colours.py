"""
Each promise is kept twice, for plain `def` and for `async def`; a test says it once.

A loop's body is written as a generator that yields each call: plain, the call has happened by then and its
value comes back; async, what is yielded is awaited, and its value or exception comes back.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from pathlib import Path

import pytest

from yaoki import AsyncRunner, Receipt, Runner, loop, tool
from yaoki.records import Begin, Settle
from yaoki.runtime import Bound, Loop, Tool

__all__ = ["RUN", "Colour", "Hand", "begins", "both", "records_of", "settles", "url_of"]

RUN = "run-1"


class Hand:
    """A clock moved by hand: it stands still until somebody sleeps on it, or a test moves it."""

    def __init__(self, start_ms: int = 1_800_000_000_000) -> None:
        self.ms = start_ms
        self.slept_s: list[float] = []
        self._rng = random.Random(1)

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)
        self.ms += round(delay_s * 1000)

    def rng(self) -> random.Random:
        return self._rng

    def new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


class Colour:
    """Makes tools, loops, branches and runs of one colour."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async

    def tool(self, fn, /, **policy) -> Tool:
        return tool(**policy)(self._twin(fn)) if self.is_async else tool(**policy)(fn)

    def check(self, fn):
        return self._twin(fn) if self.is_async else fn

    def loop(self, body, /, **policy) -> Loop:
        return loop(**policy)(self.body(body))

    def body(self, body):
        """Make a loop's or a branch's function of a generator's steps."""
        assert inspect.isgeneratorfunction(body)
        return _awaited(body) if self.is_async else _plain(body)

    def run(self, store: Path, bound: Bound, *, run_id: str = RUN, prepare=lambda journal: None, **options) -> Receipt:
        """One process's life with a run."""
        if not self.is_async:
            with Runner(url_of(store), **options) as runner:
                prepare(runner.store)
                return runner.run(bound, run_id=run_id)

        async def drive() -> Receipt:
            async with AsyncRunner(url_of(store), **options) as runner:
                prepare(runner.store)
                return await runner.run(bound, run_id=run_id)

        return asyncio.run(drive())

    @staticmethod
    def _twin(fn):
        @functools.wraps(fn)
        async def twin(*args, **kwargs):
            await asyncio.sleep(0)
            return fn(*args, **kwargs)

        return twin


def _plain(body):
    @functools.wraps(body)
    def plain(*args, **kwargs):
        steps = body(*args, **kwargs)
        try:
            value = next(steps)
            while True:
                value = steps.send(value)
        except StopIteration as stop:
            return stop.value

    return plain


def _awaited(body):
    @functools.wraps(body)
    async def awaited(*args, **kwargs):
        steps = body(*args, **kwargs)
        try:
            asked = next(steps)
            while True:
                try:
                    value = await asked
                except Exception as error:
                    asked = steps.throw(error)
                else:
                    asked = steps.send(value)
        except StopIteration as stop:
            return stop.value

    return awaited


both = pytest.mark.parametrize("colour", [Colour(is_async=False), Colour(is_async=True)], ids=["sync", "async"])


def url_of(store: Path) -> str:
    return f"sqlite:///{store}"


def records_of(store: Path, kind: type, run_id: str = RUN) -> list:
    """Return a run's records of one kind, oldest first."""
    with Runner.verbs(url_of(store)) as runner:
        return [record for _, _, record in runner.journal(run_id) if isinstance(record, kind)]


def begins(store: Path) -> list[Begin]:
    return records_of(store, Begin)


def settles(store: Path) -> list[Settle]:
    return records_of(store, Settle)
