"""One process's life with a run, in a forked child: from the store as it is to the end, or to its death."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
import traceback
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Struct

from yaoki.records import ABSENT, Claimed, TopUp
from yaoki.runtime import AsyncRunner, Runner
from yaoki.testing._always_replay import always_replay
from yaoki.testing._calls import CallLog
from yaoki.testing._ending import Ending, ending_of
from yaoki.testing._faults import faults_kept_in
from yaoki.testing._no_waits import no_waits
from yaoki.testing._points import Points, journal_pointed
from yaoki.testing._seam import attempts_watched
from yaoki.testing._world import Outside, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yaoki.records import Entry
    from yaoki.runtime import Ask, Bound, Receipt

__all__ = ["ENDED", "RUN", "SAID", "Plan", "live"]

RUN = "run-1"
ENDED = "ended.json"
SAID = "said.txt"
_ROUNDS_MAX = 200
_EXPIRES_MOST_S = 2.0


class Plan(Struct, frozen=True, kw_only=True):
    """What is driven, against which world, and how; the same in every case."""

    bound: Bound[Any]
    world: Outside | None
    answer: Callable[[Ask], Any] | None
    restart_at_checkpoint: bool
    always_replay: bool
    life_s: int


def live(plan: Plan, home: Path, kill_at: int) -> NoReturn:
    """Live in this (forked) process and leave it: 0 with `ended.json` written, 1 with why in `said.txt`."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(plan.life_s)
        said = os.open(home / SAID, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        ending = _drive_to_the_end(plan, home, Points(home, kill_at))
        (home / ENDED).write_bytes(msgspec.json.encode(ending))
        code = 0
    except BaseException:  # noqa: BLE001 - said in the report; the process ends here whatever it was
        (home / SAID).open("a", encoding="utf-8").write(traceback.format_exc())
    finally:
        os._exit(code)


def _drive_to_the_end(plan: Plan, home: Path, points: Points) -> Ending:
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    url, calls = f"sqlite:///{home / 's.db'}", CallLog(home)
    if plan.world is not None:
        plan.world.open(home)
    journal_pointed(points)
    with ExitStack() as stack:
        stack.enter_context(no_waits())
        stack.enter_context(attempts_watched(points, first=True))
        stack.enter_context(attempts_watched(calls))
        stack.enter_context(faults_kept_in(home))
        if plan.always_replay:
            stack.enter_context(always_replay())
        receipt = _driven(plan, url, points, calls)
    with Runner.verbs(url) as runner:
        entries = runner.journal(RUN)
    ending = ending_of(receipt, entries, calls, plan.world, _bounds(entries))
    ending.trail = points.trail
    return ending


def _driven(plan: Plan, url: str, points: Points, calls: CallLog) -> Receipt[Any]:
    """Drive the run, answer what it asks, drive it again; return where it goes on no more."""
    for _ in range(_ROUNDS_MAX):
        points.counting = True
        receipt = asyncio.run(_reside_async(plan, url)) if plan.bound.loop.is_async else _reside(plan, url)
        points.counting = False
        if receipt.status.final or receipt.waits_for != "person":
            return receipt
        with Runner.verbs(url) as runner:
            _answer(plan, runner, receipt, calls)
    msg = f"the run still asks after {_ROUNDS_MAX} rounds of answers"
    raise AssertionError(msg)


def _reside(plan: Plan, url: str) -> Receipt[Any]:
    with Runner(url, restart_at_checkpoint=plan.restart_at_checkpoint, drain_s=0.05) as runner:
        return runner.run(plan.bound, run_id=RUN)


async def _reside_async(plan: Plan, url: str) -> Receipt[Any]:
    async with AsyncRunner(url, restart_at_checkpoint=plan.restart_at_checkpoint, drain_s=0.05) as runner:
        return await runner.run(plan.bound, run_id=RUN)


def _bounds(entries: list[Entry]) -> dict[str, float]:
    """Return the bounds that apply at the end: what the code declares, and what was added."""
    bounds: dict[str, float] = {}
    for _, _, record in entries:
        if isinstance(record, Claimed) and record.budget is not None:
            bounds = dict(record.budget)
    for _, _, record in entries:
        if isinstance(record, TopUp):
            for name, more in record.add.items():
                bounds[name] = bounds.get(name, 0) + more
    return bounds


def _answer(plan: Plan, runner: Runner, receipt: Receipt[Any], calls: CallLog) -> None:
    """Answer what is open; where only an expiry is left to wait for, wait for it."""
    open_ = [ask for ask in receipt.asks if not ask.verdict]
    answered = False
    for ask in open_:
        said = _said(plan, ask, calls)
        if said is not None:
            runner.answer(RUN, ask.id, said[0], said[1])
            answered = True
    if answered or not open_:
        return
    expires_s = (min(ask.expires_at for ask in open_) - time.time_ns() // 1_000_000) / 1000  # noqa: TID251 - another's
    if expires_s > _EXPIRES_MOST_S:
        asked = ", ".join(f"{ask.why}: {ask.call or ask.text}" for ask in open_)
        msg = f"nobody answers what the run asks ({asked}); give crash_matrix(…, answer=…)"
        raise AssertionError(msg)
    time.sleep(max(0.0, expires_s))  # noqa: TID251 - the real clock, as the run's


def _said(plan: Plan, ask: Ask, calls: CallLog) -> tuple[str, object] | None:
    """Return the answer of somebody who looked into the receiving systems, or None: let it expire."""
    if plan.answer is not None:
        given = plan.answer(ask)
        if given is not None:
            return (given, ABSENT) if isinstance(given, str) else (given[0], given[1])
    if ask.why in ("doubt", "orphan"):
        step = re.split("!", ask.step, maxsplit=1)[0] if ask.why == "orphan" else ask.step
        returned = calls.returned(step)
        if returned is not None:
            return "happened", returned.value
        if isinstance(plan.world, World):
            deed = plan.world.by_step(step)
            return ("happened", deed.value) if deed is not None else ("not-happened", ABSENT)
        if plan.world is not None and calls.was_entered(step):
            msg = (
                f"whether {ask.call or ask.text} happened cannot be told: it was entered and did not return, and "
                "the world is one of your own. Say it with crash_matrix(…, answer=…), or let the tool act on a World."
            )
            raise AssertionError(msg)
        return "not-happened", ABSENT
    if ask.why == "approve":
        return "approve", ABSENT
    if ask.options:
        return "value", ask.options[0]
    return None
