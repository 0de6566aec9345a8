"""A tool of each effect kind, sync and async, acting on the stage."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from tests.crash.world import STAGE
from yaoki import INJECTED, Effect, Feedback, Happened, Hedge, NotHappened, Retry, tool
from yaoki.escalate import cached, compensate, degrade, fallback
from yaoki.runtime import ForModel

__all__ = ["ASYNC", "BESIDE", "SYNC"]

QUICK = Retry(attempts_max=20, base_s=0.001, cap_s=0.002)


def looked(what: str) -> str:
    return str(STAGE.call("look", what, f"saw {what}", effect="none"))


def put_down(what: str, key: str) -> str:
    return str(STAGE.call("put", key, f"put {what}", effect="dedup"))


def charged(what: str, key: str) -> str:
    return str(STAGE.call("charge", key, f"charged {what}", effect="dedup"))


def mailed(what: str, key: str) -> str:
    return str(STAGE.call("mail", f"{what}", f"mailed {what}", effect="each"))


def mail_found(what: str) -> Happened[str] | NotHappened:
    found, value = STAGE.world.result("mail", what)
    return Happened(str(value)) if found else NotHappened()


def noted(what: str, key: str) -> str:
    return str(STAGE.call("note", key, f"noted {what}", effect="each"))


def shaky_looked(what: str) -> str:
    value = STAGE.call("shaky_look", what, f"saw {what}", effect="none")
    if STAGE.nth("shaky_look", what) <= 2:
        raise ConnectionResetError(104, "connection reset by peer")
    return str(value)


def shaky_charged(what: str, key: str) -> str:
    value = STAGE.call("shaky_charge", key, f"charged {what}", effect="dedup")
    if STAGE.nth("shaky_charge", key) <= 1:
        raise ConnectionResetError(104, "reset after the charge was made")
    return str(value)


def drafted(what: str, feedback: Feedback | None) -> str:
    STAGE.call("draft", what, "", effect="none")
    return f"{what}: bad" if feedback is None else f"{what}: good"


def asked_model(what: str, key: str) -> str:
    value = STAGE.call("model", key, f"thought {what}", effect="dedup")
    if what.startswith("shaky") and STAGE.nth("model", key) <= 1:
        raise ConnectionResetError(104, "reset while it thought")
    if what.startswith("busy") and STAGE.nth("model", key) <= 1:
        raise ConnectionRefusedError(111, "refused")
    return str(value)


def used(answer: str) -> dict[str, float]:
    return {"tokens": 10 + len(answer), "cost_usd": 0.001 * len(answer)}


METERED = ForModel(reserve={"tokens": 100, "cost_usd": 0.3}, usage=used)


class Beside:
    """Lets the first call of a hedged tool wait until the second one has come."""

    def __init__(self) -> None:
        self.calls = 0
        self.lock = threading.Lock()
        self.came = threading.Event()

    def expect(self, one: Any) -> None:
        """Let the tool have made twenty calls in no time, so that its next is slow at once."""
        self.calls, self.came = 0, threading.Event()
        for _ in range(20):
            one.pace.begun()
            one.pace.took(0.0)

    def is_first(self) -> bool:
        with self.lock:
            self.calls += 1
            if self.calls > 1:
                self.came.set()
            return self.calls == 1

    def over(self) -> None:
        """Wait for the calls that nobody waits for any more: the next world is not theirs."""
        for thread in threading.enumerate():
            if thread.name.startswith("yaoki-slow_"):
                thread.join(20)

    def wait(self) -> None:
        """Wait in a thread; not for long, since where a run is told to stop no second call is made."""
        self.came.wait(0.2)

    async def wait_async(self) -> None:
        """Wait in the event loop, likewise."""
        for _ in range(200):
            if self.came.is_set():
                return
            await asyncio.sleep(0)


BESIDE = Beside()


def slowly_looked(what: str) -> str:
    return str(STAGE.call("slow_look", what, f"saw {what}", effect="none"))


def slowly_charged(what: str, key: str) -> str:
    return str(STAGE.call("slow_charge", key, f"charged {what}", effect="dedup"))


def good(text: str) -> bool:
    return text.endswith("good")


FEW = Retry(attempts_max=3, base_s=0.001, cap_s=0.002)


def refused(tool_: str, what: str) -> str:
    STAGE.call(tool_, what, "", effect="none")
    raise ConnectionRefusedError(111, "connection refused")


def cut(tool_: str, what: str) -> str:
    STAGE.call(tool_, what, "", effect="none")
    raise ConnectionResetError(104, "connection reset by peer")


def bought(what: str, key: str) -> str:
    return str(STAGE.call("shop_b", key, f"bought {what} at b", effect="dedup"))


def remembered(what: str) -> str:
    if what == "never seen":
        raise LookupError(what)
    return f"{what} as of yesterday"


def booked(what: str, key: str) -> str:
    return str(STAGE.call("book", key, f"booked {what}", effect="dedup"))


def unbooked(result: str, what: str, key: str) -> None:
    assert result == f"booked {what}"
    STAGE.call("unbook", key, None, effect="dedup")


def written(what: str, key: str) -> str:
    return str(STAGE.call("write", key, f"wrote {what}", effect="each"))


def erased(result: str, what: str, key: str) -> None:
    assert result == f"wrote {what}"
    STAGE.call("erase", key, None, effect="each")


def _sync() -> SimpleNamespace:  # noqa: C901 - a list
    @tool(effect=Effect.READ_ONLY, retry=QUICK)
    def look(what: str) -> str:
        return looked(what)

    @tool(effect=Effect.IDEMPOTENT, retry=QUICK)
    def put(what: str, *, idempotency_key: str = INJECTED) -> str:
        return put_down(what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=QUICK)
    def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        return charged(what, idempotency_key)

    @tool(check=mail_found, check_after_s=0, retry=QUICK)
    def mail(what: str, *, idempotency_key: str = INJECTED) -> str:
        return mailed(what, idempotency_key)

    @tool(retry=QUICK)
    def note(what: str, *, idempotency_key: str = INJECTED) -> str:
        return noted(what, idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=QUICK)
    def shaky_look(what: str) -> str:
        return shaky_looked(what)

    @tool(effect=Effect.KEYED, retry=QUICK)
    def shaky_charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        return shaky_charged(what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=QUICK, approve=lambda what: what != "small")
    def allowed_charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        return charged(what, idempotency_key)

    @tool(retry=QUICK, approve=True)
    def forbidden_note(what: str, *, idempotency_key: str = INJECTED) -> str:
        return noted(what, idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=QUICK, agent=ForModel(validate=good, repairs_max=2))
    def draft(what: str, *, feedback: Feedback | None = INJECTED) -> str:
        return drafted(what, feedback)

    @tool(effect=Effect.KEYED, retry=FEW)
    def shop_b(what: str, *, idempotency_key: str = INJECTED) -> str:
        return bought(what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=FEW, escalate=[fallback(shop_b)])
    def shop_a(what: str, *, idempotency_key: str = INJECTED) -> str:
        return refused("shop_a", idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=FEW)
    def ask_b(what: str) -> str:
        return cut("ask_b", what)

    @tool(effect=Effect.READ_ONLY, retry=FEW, escalate=[fallback(ask_b), cached(remembered), degrade("nothing")])
    def ask_a(what: str) -> str:
        return cut("ask_a", what)

    @tool(effect=Effect.KEYED, retry=QUICK)
    def unbook(result: str, what: str, *, idempotency_key: str = INJECTED) -> None:
        unbooked(result, what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=QUICK, undo=unbook)
    def book(what: str, *, idempotency_key: str = INJECTED) -> str:
        return booked(what, idempotency_key)

    @tool(retry=QUICK)
    def erase(result: str, what: str, *, idempotency_key: str = INJECTED) -> None:
        erased(result, what, idempotency_key)

    @tool(retry=QUICK, undo=erase)
    def write(what: str, *, idempotency_key: str = INJECTED) -> str:
        return written(what, idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=QUICK, hedge=Hedge(), interrupt="thread")
    def slow_look(what: str) -> str:
        first, value = BESIDE.is_first(), slowly_looked(what)
        if first:
            BESIDE.wait()
        return value

    @tool(effect=Effect.KEYED, retry=QUICK, hedge=Hedge(), interrupt="thread", agent=METERED)
    def slow_charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        first, value = BESIDE.is_first(), slowly_charged(what, idempotency_key)
        if first:
            BESIDE.wait()
        return value

    @tool(effect=Effect.KEYED, retry=FEW, escalate=[compensate()])
    def pay(what: str, *, idempotency_key: str = INJECTED) -> str:
        return refused("pay", idempotency_key)

    return SimpleNamespace(**locals())


def _async() -> SimpleNamespace:  # noqa: C901 - a list
    async def mail_was_found(what: str) -> Happened[str] | NotHappened:
        await asyncio.sleep(0)
        return mail_found(what)

    @tool(effect=Effect.READ_ONLY, retry=QUICK)
    async def look(what: str) -> str:
        await asyncio.sleep(0)
        return looked(what)

    @tool(effect=Effect.IDEMPOTENT, retry=QUICK)
    async def put(what: str, *, idempotency_key: str = INJECTED) -> str:
        return put_down(what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=QUICK)
    async def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        await asyncio.sleep(0)
        value = charged(what, idempotency_key)
        await asyncio.sleep(0)
        return value

    @tool(check=mail_was_found, check_after_s=0, retry=QUICK)
    async def mail(what: str, *, idempotency_key: str = INJECTED) -> str:
        await asyncio.sleep(0)
        value = mailed(what, idempotency_key)
        await asyncio.sleep(0)
        return value

    @tool(retry=QUICK)
    async def note(what: str, *, idempotency_key: str = INJECTED) -> str:
        value = noted(what, idempotency_key)
        await asyncio.sleep(0)
        return value

    @tool(effect=Effect.READ_ONLY, retry=QUICK)
    async def shaky_look(what: str) -> str:
        return shaky_looked(what)

    @tool(effect=Effect.KEYED, retry=QUICK)
    async def shaky_charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        return shaky_charged(what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=QUICK, approve=lambda what: what != "small")
    async def allowed_charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        return charged(what, idempotency_key)

    @tool(retry=QUICK, approve=True)
    async def forbidden_note(what: str, *, idempotency_key: str = INJECTED) -> str:
        return noted(what, idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=QUICK, agent=ForModel(validate=good, repairs_max=2))
    async def draft(what: str, *, feedback: Feedback | None = INJECTED) -> str:
        return drafted(what, feedback)

    @tool(effect=Effect.KEYED, retry=FEW)
    async def shop_b(what: str, *, idempotency_key: str = INJECTED) -> str:
        return bought(what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=FEW, escalate=[fallback(shop_b)])
    async def shop_a(what: str, *, idempotency_key: str = INJECTED) -> str:
        return refused("shop_a", idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=FEW)
    async def ask_b(what: str) -> str:
        return cut("ask_b", what)

    @tool(effect=Effect.READ_ONLY, retry=FEW, escalate=[fallback(ask_b), cached(remembered), degrade("nothing")])
    async def ask_a(what: str) -> str:
        return cut("ask_a", what)

    @tool(effect=Effect.KEYED, retry=QUICK)
    async def unbook(result: str, what: str, *, idempotency_key: str = INJECTED) -> None:
        unbooked(result, what, idempotency_key)

    @tool(effect=Effect.KEYED, retry=QUICK, undo=unbook)
    async def book(what: str, *, idempotency_key: str = INJECTED) -> str:
        return booked(what, idempotency_key)

    @tool(retry=QUICK)
    async def erase(result: str, what: str, *, idempotency_key: str = INJECTED) -> None:
        erased(result, what, idempotency_key)

    @tool(retry=QUICK, undo=erase)
    async def write(what: str, *, idempotency_key: str = INJECTED) -> str:
        return written(what, idempotency_key)

    @tool(effect=Effect.READ_ONLY, retry=QUICK, hedge=Hedge())
    async def slow_look(what: str) -> str:
        first, value = BESIDE.is_first(), slowly_looked(what)
        if first:
            await BESIDE.wait_async()
        return value

    @tool(effect=Effect.KEYED, retry=QUICK, hedge=Hedge(), agent=METERED)
    async def slow_charge(what: str, *, idempotency_key: str = INJECTED) -> str:
        first, value = BESIDE.is_first(), slowly_charged(what, idempotency_key)
        if first:
            await BESIDE.wait_async()
        return value

    @tool(effect=Effect.KEYED, retry=FEW, escalate=[compensate()])
    async def pay(what: str, *, idempotency_key: str = INJECTED) -> str:
        return refused("pay", idempotency_key)

    return SimpleNamespace(**locals())


@tool(effect=Effect.IDEMPOTENT, retry=QUICK, agent=METERED)
def model(what: str, *, idempotency_key: str = INJECTED) -> str:
    return asked_model(what, idempotency_key)


@tool(effect=Effect.IDEMPOTENT, retry=QUICK, agent=METERED, name="model")
async def model_async(what: str, *, idempotency_key: str = INJECTED) -> str:
    await asyncio.sleep(0)
    value = asked_model(what, idempotency_key)
    await asyncio.sleep(0)
    return value


SYNC = _sync()
SYNC.model = model
ASYNC = _async()
ASYNC.model = model_async
