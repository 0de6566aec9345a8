"""
What a turn costs as the state grows, beside its floor, and what the store weighs at the end.

    python bench/turns.py [--turns N] [--bytes N] [--rounds N] [--directory DIR] [--json] [--check]

A turn is one read-only step whose reply, a message of `--bytes` bytes of JSON, is appended to the state; so each
reply is a step's result and in the state. The floor is one encoding of the state as it is at that turn: an edit in
place is found by looking, so no turn can cost less. `steady` replaces its message instead of keeping it. `model` is a
pydantic model, which is dumped and validated whole at every turn.

`ms` is the median turn of the 20 around the one named, of all rounds; `p99` is of the last 100. `--check` exits 1 above
a limit: 1.6 MB for a thousand turns of a kilobyte, 2 ms for each MB of state above a turn of the first ten.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from yaoki import AsyncRun, AsyncRunner, Budget, Effect, Run, Runner, loop, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.runtime import Loop

MS_PER_MB = 2.0
STORE_MB = 1.6
NOISE_MS = 0.2
_EMPTY = len(b'{"role":"assistant","content":""}')
_WINDOW = 10


@dataclass
class Message:
    role: str
    content: str


@dataclass
class Chat:
    messages: list[Message] = field(default_factory=list)
    last: str = ""


@tool(effect=Effect.READ_ONLY)
def reply(n: int, size: int) -> Message:
    return Message("assistant", f"{n} ".ljust(size - _EMPTY, "w"))


@tool(effect=Effect.READ_ONLY, name="reply")
async def reply_async(n: int, size: int) -> Message:
    return Message("assistant", f"{n} ".ljust(size - _EMPTY, "w"))


STARTED_S: list[float] = []
BUDGET = Budget(turns=1_000_000)


@loop(budget=BUDGET)
def growing(run: Run, turns: int, size: int) -> int:
    for chat in run.turns(Chat()):
        STARTED_S.append(time.perf_counter())
        if len(chat.messages) == turns:
            break
        chat.messages.append(reply(len(chat.messages), size))
    return turns


@loop(budget=BUDGET)
async def growing_async(run: AsyncRun, turns: int, size: int) -> int:
    async for chat in run.turns(Chat()):
        STARTED_S.append(time.perf_counter())
        if len(chat.messages) == turns:
            break
        chat.messages.append(await reply_async(len(chat.messages), size))
    return turns


@loop(budget=BUDGET)
def growing_dict(run: Run, turns: int, size: int) -> int:
    for chat in run.turns({"messages": [], "last": None}):
        STARTED_S.append(time.perf_counter())
        messages: Any = chat["messages"]
        if len(messages) == turns:
            break
        messages.append(asdict(reply(len(messages), size)))
    return turns


@loop(budget=BUDGET)
def steady(run: Run, turns: int, size: int) -> int:
    for n, chat in enumerate(run.turns(Chat([Message("user", "u" * 1_000_000)]))):
        STARTED_S.append(time.perf_counter())
        if n == turns:
            break
        chat.last = reply(n, size).content
    return turns


def model_loop() -> Loop[..., int]:
    from pydantic import BaseModel

    class Turn(BaseModel):
        role: str
        content: str

    class Talk(BaseModel):
        messages: list[Turn] = []

    @loop(budget=BUDGET)
    def growing_model(run: Run, turns: int, size: int) -> int:
        for talk in run.turns(Talk()):
            STARTED_S.append(time.perf_counter())
            if len(talk.messages) == turns:
                break
            talk.messages.append(Turn(**asdict(reply(len(talk.messages), size))))
        return turns

    return growing_model


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    what: str
    turn: int
    ms: float
    floor_ms: float
    p99_ms: float
    store_mb: float
    reached: bool


def once(loop_: Loop[..., int], turns: int, size: int, directory: str) -> tuple[list[float], int]:
    """Return the ms of each turn, and the bytes of the closed store."""
    STARTED_S.clear()
    with tempfile.TemporaryDirectory(dir=directory) as name:
        url = f"sqlite:///{name}/yaoki.db"
        bound = loop_.bind(turns, size)
        if loop_ is growing_async:

            async def run() -> None:
                async with AsyncRunner(url) as runner:
                    (await runner.run(bound)).unwrap()

            asyncio.run(run())
        else:
            with Runner(url) as runner:
                runner.run(bound).unwrap()
        weighs = sum(file.stat().st_size for file in os.scandir(name))
    return [(b - a) * 1e3 for a, b in pairwise(STARTED_S)], weighs


def floor_ms(state: object) -> float:
    """Return how long encoding a state takes, the median of a few."""
    took_s: list[float] = []
    encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
    for _ in range(15):
        start_s = time.perf_counter()
        encode(state)
        took_s.append(time.perf_counter() - start_s)
    return statistics.median(took_s) * 1e3


def state_at(what: str, turn: int, size: int) -> Chat:
    if what == "steady, 1 MB":
        return Chat([Message("user", "u" * 1_000_000)], "w" * size)
    return Chat([Message("assistant", "w" * (size - _EMPTY)) for _ in range(turn)])


def measured(what: str, loop_: Loop[..., int], *, turns: int, size: int, rounds: int, directory: str) -> list[Row]:
    runs = [once(loop_, turns, size, directory) for _ in range(rounds)]
    store_mb = max(weighs for _, weighs in runs) / 1e6
    rows: list[Row] = []
    first_ms = 0.0
    for turn in sorted({min(turns, at) for at in (10, 100, 500, 1_000, turns)}):
        around = [ms for took, _ in runs for ms in took[max(0, turn - _WINDOW) : turn + _WINDOW]]
        last = sorted(ms for took, _ in runs for ms in took[max(0, turn - 100) : turn])
        ms = statistics.median(around)
        first_ms = first_ms or ms
        state_mb = 0 if what.startswith("steady") else turn * size / 1e6
        in_time = what.startswith("model") or ms <= first_ms + MS_PER_MB * state_mb + NOISE_MS
        in_room = what.startswith(("model", "steady")) or store_mb <= max(0.2, STORE_MB * turns * size / 1e6)
        reached = in_time and in_room
        p99_ms = last[int(len(last) * 0.99) - 1]
        floor = floor_ms(state_at(what, turn, size))
        rows.append(Row(what=what, turn=turn, ms=ms, floor_ms=floor, p99_ms=p99_ms, store_mb=store_mb, reached=reached))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000, help="10 to 100,000")
    parser.add_argument("--bytes", type=int, default=1_000, help="of one message as JSON, 100 to 1,000,000")
    parser.add_argument("--rounds", type=int, default=3, help="1 to 100")
    parser.add_argument("--directory", default=None, help="where the stores are made")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--check", action="store_true", help="exit 1 above a limit")
    options = parser.parse_args()
    turns, size = min(100_000, max(10, options.turns)), min(1_000_000, max(100, options.bytes))
    rounds = min(100, max(1, options.rounds))
    loops = {
        "dataclass, sync": growing,
        "dataclass, async": growing_async,
        "dict with a null, sync": growing_dict,
        "steady, 1 MB": steady,
        "model, sync": model_loop(),
    }
    rows: list[Row] = []
    if not options.json:
        print(f"{'':<24}{'turn':>6}{'ms':>9}{'floor':>9}{'p99':>9}{'store':>10}")
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="yaoki-bench-") as directory:
        for what, loop_ in loops.items():
            for row in measured(what, loop_, turns=turns, size=size, rounds=rounds, directory=directory):
                rows.append(row)
                if not options.json:
                    mark = "" if row.reached else "  ABOVE THE LIMIT"
                    print(
                        f"{row.what:<24}{row.turn:>6}{row.ms:>9.2f}{row.floor_ms:>9.2f}{row.p99_ms:>9.2f}"
                        f"{row.store_mb:>7.2f} MB{mark}",
                        flush=True,
                    )
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    return int(options.check and not all(row.reached for row in rows))


if __name__ == "__main__":
    sys.exit(main())
