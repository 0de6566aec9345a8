"""Loops of every shape, each as a plain and as an async function, and what their budgets allow."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.crash.tools import ASYNC, BESIDE, SYNC
from yaoki import AsyncRun, Budget, Run, StepFailed, Toolbox, ToolCall, loop
from yaoki.runtime import Bound

__all__ = ["AGAIN", "BY_COUNT", "DYING", "GROUPED", "SCARCE", "SHAPES", "TURNING", "UNDONE", "bound"]

CALLS = Budget(calls=400, retries=300)
TURNS = Budget(calls=400, retries=300, turns=10)
TWO_TURNS = Budget(calls=400, retries=300, turns=2)
FEW_CALLS = Budget(calls=3, retries=300, on_empty="cap")
METERED = Budget(calls=400, retries=300, tokens=100_000, cost_usd=300)
FEW_TOKENS = Budget(calls=400, retries=300, tokens=160, on_empty="cap")


@dataclass
class Chat:
    lines: list[str] = field(default_factory=list)


@loop(budget=CALLS, crashes_max=200, name="straight")
def straight(run: Run) -> list[str]:
    t = SYNC
    return [t.look("a"), t.put("a"), t.charge("a"), t.mail("a"), t.note("a"), t.charge("a"), t.note("b")]


@loop(budget=CALLS, crashes_max=200, name="straight")
async def straight_async(run: AsyncRun) -> list[str]:
    t = ASYNC
    first = [await t.look("a"), await t.put("a"), await t.charge("a"), await t.mail("a")]
    return [*first, await t.note("a"), await t.charge("a"), await t.note("b")]


def asked_for(turn: int) -> list[ToolCall]:
    return [
        ToolCall("call_0", "charge", {"what": f"t{turn}"}),
        ToolCall("call_0", "mail", {"what": f"t{turn}"}),
        ToolCall("call_1", "note", {"what": f"t{turn}"}),
        ToolCall("call_2", "unknown", {}),
    ]


SYNC_BOX = Toolbox(SYNC.charge, SYNC.mail, SYNC.note)
ASYNC_BOX = Toolbox(ASYNC.charge, ASYNC.mail, ASYNC.note)


@loop(budget=TURNS, crashes_max=200, name="turns")
def turns(run: Run) -> list[str]:
    start = SYNC.look("prelude")
    for chat in run.turns(Chat()):
        chat.lines.append(SYNC.look(f"t{len(chat.lines)}"))
        if len(chat.lines) > 4:
            return [start, *chat.lines]
        chat.lines += [result.text for result in run.call_tools(SYNC_BOX, asked_for(len(chat.lines)))][:1]
    return []


@loop(budget=TURNS, crashes_max=200, name="turns")
async def turns_async(run: AsyncRun) -> list[str]:
    start = await ASYNC.look("prelude")
    async for chat in run.turns(Chat()):
        chat.lines.append(await ASYNC.look(f"t{len(chat.lines)}"))
        if len(chat.lines) > 4:
            return [start, *chat.lines]
        chat.lines += [r.text for r in await run.call_tools(ASYNC_BOX, asked_for(len(chat.lines)))][:1]
    return []


@loop(budget=TWO_TURNS, crashes_max=200, name="capped")
def capped(run: Run) -> int:
    seen = 0
    for lines in run.turns([""]):
        seen = len(lines)
        lines.append(SYNC.charge("same"))
    return seen


@loop(budget=TWO_TURNS, crashes_max=200, name="capped")
async def capped_async(run: AsyncRun) -> int:
    seen = 0
    async for lines in run.turns([""]):
        seen = len(lines)
        lines.append(await ASYNC.charge("same"))
    return seen


@loop(budget=FEW_CALLS, crashes_max=200, name="few_calls")
def few_calls(run: Run) -> list[str]:
    return [SYNC.put(f"{n}") for n in range(6)]


@loop(budget=FEW_CALLS, crashes_max=200, name="few_calls")
async def few_calls_async(run: AsyncRun) -> list[str]:
    return [await ASYNC.put(f"{n}") for n in range(6)]


@loop(budget=CALLS, crashes_max=200, name="fan")
def fan(run: Run) -> list[str]:
    def one(name: str) -> str:
        return SYNC.look(name) + SYNC.charge("equal") + SYNC.note(name)

    return [s.value for s in run.map(one, ["x", "y", "z"], limit=2)]


@loop(budget=CALLS, crashes_max=200, name="fan")
async def fan_async(run: AsyncRun) -> list[str]:
    async def one(name: str) -> str:
        return await ASYNC.look(name) + await ASYNC.charge("equal") + await ASYNC.note(name)

    return [s.value for s in await run.map(one, ["x", "y", "z"], limit=2)]


@loop(budget=METERED, crashes_max=200, name="metered")
def metered(run: Run) -> list[str]:
    def one(name: str) -> str:
        return SYNC.model(name) + SYNC.model(f"{name} again")

    run.spend(tokens=1, cost_usd=0.01)
    first = [SYNC.model("a"), SYNC.model("shaky b"), SYNC.model("busy c"), SYNC.charge("a")]
    return first + [s.value for s in run.map(one, ["x", "y"], limit=2)]


@loop(budget=METERED, crashes_max=200, name="metered")
async def metered_async(run: AsyncRun) -> list[str]:
    async def one(name: str) -> str:
        return await ASYNC.model(name) + await ASYNC.model(f"{name} again")

    run.spend(tokens=1, cost_usd=0.01)
    first = [await ASYNC.model("a"), await ASYNC.model("shaky b"), await ASYNC.model("busy c"), await ASYNC.charge("a")]
    return first + [s.value for s in await run.map(one, ["x", "y"], limit=2)]


@loop(budget=FEW_TOKENS, crashes_max=200, name="few_tokens")
def few_tokens(run: Run) -> list[str]:
    return [SYNC.model(f"{n}") for n in range(8)]


@loop(budget=FEW_TOKENS, crashes_max=200, name="few_tokens")
async def few_tokens_async(run: AsyncRun) -> list[str]:
    return [await ASYNC.model(f"{n}") for n in range(8)]


@loop(budget=CALLS, crashes_max=200, name="nested")
def nested(run: Run) -> list[list[str]]:
    def inner(name: str) -> list[str]:
        return [s.value for s in run.map(lambda n: SYNC.note(f"{name}{n}"), [1, 2], limit=1)]

    return [s.value for s in run.map(inner, ["x", "y"], key=str, limit=2)]


@loop(budget=CALLS, crashes_max=200, name="nested")
async def nested_async(run: AsyncRun) -> list[list[str]]:
    async def note(name: str) -> str:
        return await ASYNC.note(name)

    async def inner(name: str) -> list[str]:
        return [s.value for s in await run.map(note, [f"{name}1", f"{name}2"], limit=1)]

    return [s.value for s in await run.map(inner, ["x", "y"], key=str, limit=2)]


@loop(budget=CALLS, crashes_max=200, name="healing")
def healing(run: Run) -> list[str]:
    return [SYNC.shaky_look("a"), SYNC.shaky_charge("a"), SYNC.shaky_charge("a")]


@loop(budget=CALLS, crashes_max=200, name="healing")
async def healing_async(run: AsyncRun) -> list[str]:
    return [await ASYNC.shaky_look("a"), await ASYNC.shaky_charge("a"), await ASYNC.shaky_charge("a")]


@loop(budget=CALLS, crashes_max=200, name="repair")
def repair(run: Run) -> list[str]:
    return [SYNC.draft("a"), SYNC.note("a")]


@loop(budget=CALLS, crashes_max=200, name="repair")
async def repair_async(run: AsyncRun) -> list[str]:
    return [await ASYNC.draft("a"), await ASYNC.note("a")]


@loop(budget=CALLS, crashes_max=200, name="sleeps")
def sleeps(run: Run) -> list[str]:
    first = SYNC.note("a")
    run.sleep(0.003)
    second = SYNC.charge("a")
    run.sleep(90)
    return [first, second]


@loop(budget=CALLS, crashes_max=200, name="sleeps")
async def sleeps_async(run: AsyncRun) -> list[str]:
    first = await ASYNC.note("a")
    await run.sleep(0.003)
    second = await ASYNC.charge("a")
    await run.sleep(90)
    return [first, second]


@loop(budget=CALLS, crashes_max=200, name="timeouts")
def timeouts(run: Run) -> list[str]:
    with run.timeout(600):
        first = SYNC.note("a")
    try:
        with run.timeout(1e-3):
            while True:
                SYNC.look("until time is up")
    except TimeoutError:
        second = "time was up"
    return [first, second, SYNC.charge("a")]


@loop(budget=CALLS, crashes_max=200, name="timeouts")
async def timeouts_async(run: AsyncRun) -> list[str]:
    async with run.timeout(600):
        first = await ASYNC.note("a")
    try:
        async with run.timeout(1e-3):
            while True:
                await ASYNC.look("until time is up")
    except TimeoutError:
        second = "time was up"
    return [first, second, await ASYNC.charge("a")]


@loop(budget=CALLS, crashes_max=200, name="recorded")
def recorded(run: Run) -> bool:
    name = f"{run.uuid()} {run.now()} {run.random()}"
    run.gap("nothing much")
    run.spend(calls=2)
    first = SYNC.charge(name)
    second = SYNC.note(f"{name} {run.remaining['calls']}")
    return first == f"charged {name}" and second.startswith(f"noted {name}")


@loop(budget=CALLS, crashes_max=200, name="recorded")
async def recorded_async(run: AsyncRun) -> bool:
    name = f"{run.uuid()} {run.now()} {run.random()}"
    run.gap("nothing much")
    run.spend(calls=2)
    first = await ASYNC.charge(name)
    second = await ASYNC.note(f"{name} {run.remaining['calls']}")
    return first == f"charged {name}" and second.startswith(f"noted {name}")


@loop(budget=CALLS, crashes_max=200, name="rungs")
def rungs(run: Run) -> list[str]:
    t = SYNC
    return [t.shop_a("x"), t.ask_a("x"), t.shop_a("x"), t.ask_a("never seen"), t.shop_b("x")]


@loop(budget=CALLS, crashes_max=200, name="rungs")
async def rungs_async(run: AsyncRun) -> list[str]:
    t = ASYNC
    first = [await t.shop_a("x"), await t.ask_a("x"), await t.shop_a("x"), await t.ask_a("never seen")]
    return [*first, await t.shop_b("x")]


@loop(budget=METERED, crashes_max=200, name="hedge")
def hedge(run: Run) -> list[str]:
    BESIDE.expect(SYNC.slow_look)
    seen = [SYNC.slow_look("a")]
    for _ in range(2):
        BESIDE.expect(SYNC.slow_charge)
        seen.append(SYNC.slow_charge("a"))
    BESIDE.over()
    return [*seen, SYNC.note("a")]


@loop(budget=METERED, crashes_max=200, name="hedge")
async def hedge_async(run: AsyncRun) -> list[str]:
    BESIDE.expect(ASYNC.slow_look)
    seen = [await ASYNC.slow_look("a")]
    for _ in range(2):
        BESIDE.expect(ASYNC.slow_charge)
        seen.append(await ASYNC.slow_charge("a"))
    return [*seen, await ASYNC.note("a")]


@loop(budget=TURNS, crashes_max=200, name="saga")
def saga(run: Run) -> list[str]:
    start = SYNC.book("prelude")
    for chat in run.turns(Chat()):
        what = f"t{len(chat.lines)}"
        chat.lines.append(SYNC.book(what) + SYNC.write(what))
        if len(chat.lines) == 2:
            try:
                SYNC.pay("all of it")
            except StepFailed:
                return [start, *chat.lines, SYNC.book("t1")]
    return []


@loop(budget=TURNS, crashes_max=200, name="saga")
async def saga_async(run: AsyncRun) -> list[str]:
    start = await ASYNC.book("prelude")
    async for chat in run.turns(Chat()):
        what = f"t{len(chat.lines)}"
        chat.lines.append(await ASYNC.book(what) + await ASYNC.write(what))
        if len(chat.lines) == 2:
            try:
                await ASYNC.pay("all of it")
            except StepFailed:
                return [start, *chat.lines, await ASYNC.book("t1")]
    return []


@loop(budget=CALLS, crashes_max=200, name="asking")
def asking(run: Run) -> list[str]:
    start = SYNC.note("a")
    city = run.ask("Which city?", options=["Rome", "Oslo"])
    small, large = SYNC.allowed_charge("small"), SYNC.allowed_charge(city)
    refused = [run.try_call(SYNC.forbidden_note, "b").failure.reason for _ in range(2)]
    return [start, city, small, large, *refused, run.ask("And then?", default="nothing", expires_s=1e-3)]


@loop(budget=CALLS, crashes_max=200, name="asking")
async def asking_async(run: AsyncRun) -> list[str]:
    start = await ASYNC.note("a")
    city = await run.ask("Which city?", options=["Rome", "Oslo"])
    small, large = await ASYNC.allowed_charge("small"), await ASYNC.allowed_charge(city)
    refused = [(await run.try_call(ASYNC.forbidden_note, "b")).failure.reason for _ in range(2)]
    return [start, city, small, large, *refused, await run.ask("And then?", default="nothing", expires_s=1e-3)]


@loop(budget=TURNS, crashes_max=200, name="replanned")
def replanned(run: Run) -> list[str]:
    t = SYNC
    [t.look("prelude"), t.note("prelude"), t.charge("prelude")]
    for chat in run.turns(Chat()):
        if not chat.lines:
            chat.lines += [t.charge("one"), t.note("one")]
            continue
        t.look("two")
        run.now()
        run.call_tools(SYNC_BOX, asked_for(2))
        [t.charge("a"), t.mail("a"), t.put("a"), t.note("a"), t.charge("a"), t.charge("old")]
        break
    raise ValueError("a bug that is repaired later")


@loop(budget=TURNS, crashes_max=200, name="replanned")
async def replanned_async(run: AsyncRun) -> list[str]:
    t = ASYNC
    [await t.look("prelude"), await t.note("prelude"), await t.charge("prelude")]
    async for chat in run.turns(Chat()):
        if not chat.lines:
            chat.lines += [await t.charge("one"), await t.note("one")]
            continue
        await t.look("two")
        run.now()
        await run.call_tools(ASYNC_BOX, asked_for(2))
        [await t.charge("a"), await t.mail("a"), await t.put("a"), await t.note("a"), await t.charge("a")]
        await t.charge("old")
        break
    raise ValueError("a bug that is repaired later")


@loop(budget=TURNS, crashes_max=200, name="replanned")
def replanned_again(run: Run) -> list[str]:
    t = SYNC
    start = [t.charge("prelude"), t.note("prelude")]
    for chat in run.turns(Chat()):
        if not chat.lines:
            chat.lines += [t.charge("one"), t.note("one")]
            continue
        if len(chat.lines) == 2:
            chat.lines += [t.note("new"), t.note("a"), t.look("new"), t.charge("a")]
            continue
        chat.lines += [result.text for result in run.call_tools(SYNC_BOX, asked_for(2))][:3]
        return [*start, *chat.lines, t.put("a"), t.charge("a"), t.mail("a"), t.charge("a")]
    return []


@loop(budget=TURNS, crashes_max=200, name="replanned")
async def replanned_again_async(run: AsyncRun) -> list[str]:
    t = ASYNC
    start = [await t.charge("prelude"), await t.note("prelude")]
    async for chat in run.turns(Chat()):
        if not chat.lines:
            chat.lines += [await t.charge("one"), await t.note("one")]
            continue
        if len(chat.lines) == 2:
            chat.lines += [await t.note("new"), await t.note("a"), await t.look("new"), await t.charge("a")]
            continue
        chat.lines += [result.text for result in await run.call_tools(ASYNC_BOX, asked_for(2))][:3]
        return [*start, *chat.lines, await t.put("a"), await t.charge("a"), await t.mail("a"), await t.charge("a")]
    return []


SHAPES = {
    "straight": (straight, straight_async),
    "turns": (turns, turns_async),
    "capped": (capped, capped_async),
    "few_calls": (few_calls, few_calls_async),
    "metered": (metered, metered_async),
    "few_tokens": (few_tokens, few_tokens_async),
    "fan": (fan, fan_async),
    "nested": (nested, nested_async),
    "healing": (healing, healing_async),
    "repair": (repair, repair_async),
    "sleeps": (sleeps, sleeps_async),
    "timeouts": (timeouts, timeouts_async),
    "recorded": (recorded, recorded_async),
    "rungs": (rungs, rungs_async),
    "hedge": (hedge, hedge_async),
    "saga": (saga, saga_async),
    "asking": (asking, asking_async),
}

DYING = {"replanned": (replanned, replanned_async)}

TURNING = ("turns", "capped", "saga")
"""Those with turns, which can be restarted at a checkpoint."""

UNDONE = {"unbook": "book", "erase": "write"}
"""Tools that undo others'. A new pass does again what an earlier one has undone: what is left is compared."""
SCARCE = ("few_calls", "few_tokens")
"""Those whose budget runs out: what a dead process had begun stays spent, so less is left of it."""

GROUPED = ("metered", "few_tokens", "nested", "hedge")
"""Those run in a group, whose row must say at any moment what the journal does."""

BY_COUNT = ("recorded",)
"""Those whose arguments differ from run to run: their effects are compared by tool and number, not by key."""


AGAIN = {"replanned": (replanned_again, replanned_again_async)}
"""Those that end dead, with the code that a redrive finds; not among `SHAPES`."""


def bound(shape: str, *, is_async: bool, again: bool = False) -> Bound:
    made = AGAIN[shape] if again else SHAPES.get(shape) or DYING[shape]
    return made[is_async].bind()
