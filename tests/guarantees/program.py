"""
Processes that die in the middle of an attempt, of both colours.

    main STORE WORLD LOOP sync|async ARGUMENTS…

Prints the run's receipt as JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tests.crash.world import STAGE, World
from tests.guarantees.colours import Colour
from yaoki import INJECTED, Budget, Effect, Happened, NotHappened, Retry
from yaoki.testing import no_waits

QUICK = {"base_s": 0.001, "cap_s": 0.001}
HANG_S = 15
FOUR = Retry(attempts_max=4, **QUICK)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_looking(what: str) -> str:
    STAGE.call("look", what, "", effect="none")
    die()
    return ""


def die_charging(what: str, *, idempotency_key: str = INJECTED) -> str:
    STAGE.call("charge", idempotency_key, f"charged {what}", effect="dedup")
    die()
    return ""


def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
    value = STAGE.call("charge", idempotency_key, f"charged {what}", effect="dedup")
    die_first("charge", idempotency_key)
    return str(value)


def note(what: str, *, idempotency_key: str = INJECTED) -> str:
    value = STAGE.call("note", idempotency_key, f"noted {what}", effect="each")
    die_first("note", idempotency_key)
    return str(value)


def mail(what: str) -> str:
    value = STAGE.call("mail", what, f"mailed {what}", effect="each")
    die_first("mail", what)
    return str(value)


def mail_found(what: str) -> Happened[str] | NotHappened:
    found, value = STAGE.world.result("mail", what)
    return Happened(str(value)) if found else NotHappened()


def look(what: str) -> str:
    value = STAGE.call("look", what, f"saw {what}", effect="none")
    die_first("look", what)
    return str(value)


def quick_look(what: str) -> str:
    return str(STAGE.call("quick_look", what, f"saw {what}", effect="none"))


def hang(what: str) -> str:
    value = STAGE.call("hang", what, "over", effect="none")
    until_s = time.monotonic() + HANG_S
    while not Path(what).exists():
        assert time.monotonic() < until_s, "nobody opened the gate"
        time.sleep(0.005)
    return str(value)


def die_first(tool: str, key: str) -> None:
    """Die after the effect and before its record, the first time."""
    if STAGE.nth(tool, key) == 1:
        die()


def loops(c: Colour) -> dict[str, object]:
    dying = c.tool(die_looking, effect=Effect.READ_ONLY, retry=FOUR)
    dying_keyed = c.tool(die_charging, effect=Effect.KEYED, retry=FOUR)
    tools = {
        "look": c.tool(look, effect=Effect.READ_ONLY),
        "charge": c.tool(charge, effect=Effect.KEYED),
        "mail": c.tool(mail, check=c.check(mail_found), check_after_s=0),
        "note": c.tool(note),
    }
    quick = c.tool(quick_look, effect=Effect.READ_ONLY)
    hanging = c.tool(hang, effect=Effect.READ_ONLY)

    def suicide(run):
        return (yield dying("a"))

    def suicide_keyed(run):
        return (yield dying_keyed("a"))

    def one_of(name):
        def body(run):
            before = yield quick("before")
            return [before, (yield tools[name]("a")), (yield quick("after"))]

        return body

    def hangs(run, path):
        return (yield hanging(path))

    def turning(run):
        yield dying("a")

    made = {
        "suicide": c.loop(suicide, name="suicide"),
        "suicide_keyed": c.loop(suicide_keyed, name="suicide_keyed"),
        "three_calls": c.loop(turning, name="three_calls", budget=Budget(calls=3)),
        "two_retries": c.loop(turning, name="two_retries", budget=Budget(retries=2)),
        "crashing": c.loop(turning, name="crashing", crashes_max=2),
        "hangs": c.loop(hangs, name="hangs"),
    }
    made |= {name: c.loop(one_of(name), name=name) for name in tools}
    return made


def main(store: str, world: str, name: str, colour: str, *arguments: str) -> None:
    STAGE.world = World(Path(world))
    c = Colour(is_async=colour == "async")
    with no_waits():
        receipt = c.run(Path(store), loops(c)[name].bind(*arguments))
    sys.stdout.write(receipt.to_json().decode())
