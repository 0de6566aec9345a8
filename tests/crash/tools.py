"""A tool of each effect kind, sync and async, acting on the stage."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.crash.world import STAGE
from yaoki import INJECTED, Effect, Feedback, Happened, NotHappened, Retry, tool
from yaoki.runtime import ForModel

__all__ = ["ASYNC", "SYNC"]

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


def good(text: str) -> bool:
    return text.endswith("good")


def _sync() -> SimpleNamespace:
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

    @tool(effect=Effect.READ_ONLY, retry=QUICK, agent=ForModel(validate=good, repairs_max=2))
    def draft(what: str, *, feedback: Feedback | None = INJECTED) -> str:
        return drafted(what, feedback)

    return SimpleNamespace(**locals())


def _async() -> SimpleNamespace:
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

    @tool(effect=Effect.READ_ONLY, retry=QUICK, agent=ForModel(validate=good, repairs_max=2))
    async def draft(what: str, *, feedback: Feedback | None = INJECTED) -> str:
        return drafted(what, feedback)

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
