"""
Interrupt a run at its 1st, 2nd, 3rd … point until it finishes, and hold the end against an undisturbed run.

A simulated death copies the store, its `-wal` included, as it stands at that moment, and stops everything
the process does from there on. The next process opens the copy. So no line of shutdown code can help.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from tests.crash.shapes import BY_COUNT, GROUPED, SCARCE, UNDONE, bound
from tests.crash.world import STAGE, Points, SimulatedCrash, World
from yaoki import AsyncRunner, Receipt, Runner
from yaoki.journal import Journal
from yaoki.journal._foreign import our_own
from yaoki.records import Begin, Entry, Settle, Spend, State
from yaoki.runtime._history import History
from yaoki.testing import no_waits

__all__ = [
    "Case",
    "Ending",
    "Store",
    "answer_truthfully",
    "check_ending",
    "heeding_at_once",
    "keys_of",
    "live_on",
    "redrive",
    "reside",
    "run_to_its_end",
    "watch",
]

RUN = "run-1"
GROUP = "night"
RESIDENCIES_MOST = 300
NANO_USD = 2e-9
HOOKED = ("create", "claim", "append", "append_if", "append_ruled", "append_batch", "leave", "sync")


@dataclass(frozen=True)
class Case:
    shape: str
    is_async: bool
    restart: bool = False
    redrive: str = ""
    """From where a person lets it go on once, with the code as it is then (`AGAIN`)."""
    at_once: bool = False
    """That person does not answer what it asks first."""

    def __str__(self) -> str:
        how = [self.shape, "async" if self.is_async else "sync", "restart" if self.restart else "", self.redrive]
        return "-".join(filter(None, [*how, "at-once" if self.at_once else ""]))

    def again(self, receipt: Receipt) -> bool:
        """Whether it is redriven now."""
        return receipt.status is State.DEAD or (self.at_once and not receipt.status.final)


@dataclass
class Ending:
    receipt: Receipt
    world: World
    begun: int
    crashes: int
    where: list[str]
    trail: list[str]
    """The points of the last life, in order."""
    keys: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """The key of each action, by what equal calls share and their slot; one in every pass."""


@contextmanager
def heeding_at_once() -> Iterator[None]:
    """Let drivers look for what is posted at every step: these runs are over before they would look by the clock."""
    with patch("yaoki.runtime._sync.POLL_S", 0.0), patch("yaoki.runtime._async_runner.POLL_S", 0.0):
        yield


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def watch(journal: Journal, points: Points) -> None:
    """Make each write of a journal a place to die: before it, and after it."""
    for name in HOOKED:
        setattr(journal, name, _watched(getattr(journal, name), name, points))
    asked = journal.sync_async

    def sync_async(waiter: object) -> None:
        points.reach("sync asked")
        asked(waiter)

    journal.sync_async = sync_async  # type: ignore[method-assign]


def _watched(method, name: str, points: Points):
    def watched(*args, **kwargs):
        points.reach(f"before {name}")
        value = method(*args, **kwargs)
        points.reach(f"after {name}")
        return value

    return watched


class Store:
    """A store, and the copy of it that a death leaves behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = 0
        self.journal: Journal | None = None
        self.redriven = False
        self.path.parent.mkdir(parents=True)

    @property
    def path(self) -> Path:
        return self.directory / f"life-{self.number}" / "s.db"

    def die(self) -> None:
        old = self.path
        self.number += 1
        self.path.parent.mkdir(parents=True)
        assert self.journal is not None
        with self.journal._lock, our_own():  # the dead need their locks no more
            for name in ("s.db", "s.db-wal"):
                shutil.copyfile(old.with_name(name), self.path.with_name(name))


def reside(case: Case, store: Store, points: Points) -> Receipt | None:
    """One process's life with the run: its receipt, or None if it died."""
    STAGE.points = points
    try:
        receipt = asyncio.run(_reside_async(case, store, points)) if case.is_async else _reside(case, store, points)
    except SimulatedCrash:
        return None
    except BaseException:
        if points.dead:
            return None
        raise
    return None if points.dead else receipt


def _reside(case: Case, store: Store, points: Points) -> Receipt:
    with Runner(url_of(store.path), restart_at_checkpoint=case.restart, drain_s=0.05) as runner:
        _prepare(runner.store, store, points)
        if case.shape in GROUPED:
            runner.submit(bound(case.shape, is_async=False), run_id=RUN, group=GROUP)
        return runner.run(bound(case.shape, is_async=False, again=store.redriven), run_id=RUN)


async def _reside_async(case: Case, store: Store, points: Points) -> Receipt:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the dead complain to nobody
    async with AsyncRunner(url_of(store.path), restart_at_checkpoint=case.restart, drain_s=0.05) as runner:
        _prepare(runner.store, store, points)
        if case.shape in GROUPED:
            await runner.submit(bound(case.shape, is_async=True), run_id=RUN, group=GROUP)
        return await runner.run(bound(case.shape, is_async=True, again=store.redriven), run_id=RUN)


def _prepare(journal: Journal, store: Store, points: Points) -> None:
    journal._barrier._sync = lambda fd: None  # power is not what is lost here
    store.journal = journal
    watch(journal, points)


def answer_truthfully(url: str, run_id: str, receipt: Receipt, world: World) -> None:
    """Answer each open question as somebody would who looked into the receiving systems."""
    with Runner.verbs(url) as runner:
        keys = {key: record.key for _, key, record in runner.journal(run_id) if isinstance(record, Begin)}
        for ask in receipt.asks:
            if ask.verdict:
                continue
            if ask.why == "orphan":  # a later branch asks for what is missed so far: each call is wanted in itself
                runner.answer(run_id, ask.id, "not-happened")
                continue
            if ask.why == "ask":
                if not ask.has_default:
                    runner.answer(run_id, ask.id, "value", "Rome")
                continue
            if ask.why == "approve":
                runner.answer(run_id, ask.id, "refuse" if ask.call.startswith("forbidden") else "approve")
                continue
            assert ask.why == "doubt", ask
            tool = re.split(r"\W", ask.call, maxsplit=1)[0]
            key = ask.call.split('"')[1] if tool == "mail" else keys[ask.step]
            happened, value = world.result(tool, key)
            if happened:
                runner.answer(run_id, ask.id, "happened", value)
            else:
                runner.answer(run_id, ask.id, "not-happened")


def run_to_its_end(case: Case, directory: Path, kills: Iterator[int]) -> Ending:
    """Run until the end: die at the next of `kills` (0: never) in each life, and answer what is asked."""
    STAGE.world = World()
    return live_on(case, Store(directory), kills)


def live_on(case: Case, store: Store, kills: Iterator[int]) -> Ending:
    """Go on with the run of a store as `run_to_its_end` does."""
    world = STAGE.world
    crashes, where = 0, []
    with no_waits():
        for _ in range(RESIDENCIES_MOST):
            points = Points(next(kills, 0), store.die)
            receipt = reside(case, store, points)
            check_group(store)
            if receipt is None:
                crashes += 1
                where.append(points.where)
                continue
            if case.redrive and not store.redriven and case.again(receipt):
                redrive(url_of(store.path), case)
                store.redriven = True
                continue
            if receipt.status.final:
                return _ending(store, receipt, world, crashes, where, points.trail)
            assert (receipt.status, receipt.waits_for) == (State.WAITING, "person"), (receipt.text, receipt.diff, where)
            answer_truthfully(url_of(store.path), RUN, receipt, world)
    raise AssertionError(f"{case}: not final after {RESIDENCIES_MOST} lives; died at {where}")


def redrive(url: str, case: Case) -> None:
    """Let the run go on in a new pass."""
    with Runner.verbs(url) as runner:
        runner.redrive(RUN, case.redrive)


def _ending(store: Store, receipt: Receipt, world: World, crashes: int, where: list[str], trail: list[str]) -> Ending:
    with Runner.verbs(url_of(store.path)) as runner:
        entries = runner.journal(RUN)
    begins = [record for _, _, record in entries if isinstance(record, Begin)]
    assert receipt.spent.tokens == begun_tokens(entries), where
    return Ending(receipt, world, len(begins), crashes, where, trail, keys_of(begins))


def keys_of(begins: list[Begin]) -> dict[tuple[str, int, int], str]:
    """Return the key of each action on each rung, which is the same whenever it was begun."""
    keys: dict[tuple[str, int, int], str] = {}
    for begin in begins:
        assert keys.setdefault((begin.action, begin.slot, begin.rung), begin.key) == begin.key, begin
    return keys


def check_group(store: Store) -> None:
    """Hold the group's row against the journal, as a death (or an end) has left both."""
    with Runner.verbs(url_of(store.path)) as runner:
        group = runner.store.group(GROUP)
        row = runner.store.get(RUN)
        if group is None or row is None:
            return
        history = History.of(runner.journal(RUN))
        assert (group.calls, group.tokens) == (history.spent.calls, history.spent.tokens)
        assert abs(group.cost_usd - history.spent.cost_usd) < NANO_USD
        assert group.tokens_held == history.in_flight.tokens
        assert abs(group.cost_usd_held - history.in_flight.cost_usd) < NANO_USD
        assert not row.state.final or group.tokens_held == 0


def begun_tokens(entries: list[Entry]) -> int:
    """Return what attempts used, by their records alone: what they reserved, until they are settled with their use."""
    tokens: dict[tuple[str, int], float] = {}
    settled: set[tuple[str, int]] = set()
    for _, key, record in entries:
        if isinstance(record, Begin):
            tokens[key, record.attempt] = (record.reserved or {}).get("tokens", 0)
        elif isinstance(record, Settle) and (key, record.attempt) not in settled:
            settled.add((key, record.attempt))
            if record.used is not None:
                tokens[key, record.attempt] = record.used.get("tokens", 0)
        elif isinstance(record, Spend):
            tokens[key, 0] = record.tokens
    return round(sum(tokens.values()))


def effects(case: Case, world: World) -> Counter:
    done = world.done()
    if case.shape == "saga":
        return Counter(tool for tool, _ in done if tool not in UNDONE) - Counter(
            UNDONE[tool] for tool, _ in done if tool in UNDONE
        )
    if case.shape not in BY_COUNT:
        return done
    return Counter(tool for tool, _ in done)


def people(ending: Ending) -> list[tuple[str, str, str]]:
    """Return what was asked by the loop and for approval: nobody is asked twice, whatever dies."""
    return [
        (ask.why, ask.call or ask.text, ask.verdict) for ask in ending.receipt.asks if ask.why in ("ask", "approve")
    ]


def check_ending(case: Case, ending: Ending, undisturbed: Ending) -> None:
    """Hold the same value, the same effects by key, none twice; spent what was begun, never more than the budget."""
    receipt, world, where = ending.receipt, ending.world, ending.where
    assert receipt.status is undisturbed.receipt.status, (where, receipt.text, receipt.failure)
    done = world.done()
    assert not [effect for effect, times in done.items() if times > 1], (where, done)
    if case.at_once:  # what the earlier pass did not come to is not done
        assert receipt.value == undisturbed.receipt.value, where
        assert set(done) <= set(undisturbed.world.done()), where
    elif case.shape in SCARCE:  # what a dead process had begun stays spent, so fewer calls are left
        assert set(done) <= set(undisturbed.world.done()), where
    else:
        assert (receipt.value, receipt.partial) == (undisturbed.receipt.value, undisturbed.receipt.partial), where
        assert effects(case, world) == effects(case, undisturbed.world), where
    reported = 2 if case.shape == "recorded" else 0
    assert receipt.spent.calls == ending.begun + reported, where
    assert world.calls <= ending.begun, where
    assert receipt.spent.calls <= receipt.budget["calls"], where
    assert receipt.spent.retries <= receipt.budget["retries"], where
    assert receipt.spent.tokens <= receipt.budget.get("tokens", 0) or "tokens" not in receipt.budget, where
    assert not [ask for ask in receipt.asks if not ask.verdict], where
    assert people(ending) == people(undisturbed), where
