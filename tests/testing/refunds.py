"""
The example, against a shop that is a function of the requests it has had: they stand in a file of the case's folder.

`agent.http` is answered here instead of by a server, so that every case has a shop of its own that survives each death.
Its async form is the same loop and the same tools, awaited.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from yaoki import INJECTED, AsyncRun, Budget, Effect, Feedback, Happened, NotHappened, Toolbox, loop, tool
from yaoki.demo._desk import Desk, Question, route
from yaoki.demo._plan import CALM
from yaoki.demo._shop import Event, Log, Shop, read_log
from yaoki.records import ABSENT
from yaoki.runtime import Ask
from yaoki.testing import point
from yaoki.testing._world import append_line, read_lines

__all__ = ["AGENT", "SHOP", "TICKETS", "refund_agent_async"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "refunds"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refunds_agent", EXAMPLE / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


AGENT: Any = _loaded()
TICKETS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((EXAMPLE / "tickets").glob("*.txt"))}


class _Shop:
    """The demo's shop and its model; an `Outside` of `crash_matrix`."""

    def __init__(self) -> None:
        self._folder = Path()

    def open(self, folder: Path) -> None:
        self._folder = folder
        os.environ["ANTHROPIC_API_KEY"] = "for the scripted model"
        AGENT.http = self.http
        AGENT.LEDGER = folder / "ledger.txt"

    def effects(self) -> Counter[tuple[str, str]]:
        acted = [event for event in self._events() if event.event == "effect"]
        done = Counter((event.tool, event.key or json.dumps(event.args)) for event in acted)
        return done + Counter(("append_ledger", line) for line in _ledger())

    def answer(self, ask: Ask) -> tuple[str, object] | None:
        """Answer as a person who looks into the ledger; nothing else is ever asked."""
        if ask.why == "doubt" and any(json.dumps(line) in ask.call for line in _ledger()):
            return "happened", None
        return ("not-happened", ABSENT) if ask.why == "doubt" else None

    def http(
        self, method: str, url: str, body: object = None, headers: dict[str, str] | None = None, timeout_s: float = 60
    ) -> dict[str, Any]:
        target = "/" + url.split("/", 3)[3]
        acts = method == "POST" and not target.startswith("/v1/messages")
        asked = [method, target, {name.lower(): value for name, value in (headers or {}).items()}, json.dumps(body)]
        if acts:
            point(f"before {method} {target}")
            append_line(self._folder / "requests.jsonl", asked)
            point(f"after {method} {target}")
        desk, _ = self._at_work()
        answer = self._answered(desk, asked)
        assert answer.status < 300, answer
        return dict(json.loads(answer.body))

    def _at_work(self) -> tuple[Desk, io.StringIO]:
        """Return the desk as all requests so far have left it."""
        written = io.StringIO()
        desk = Desk(Shop(Log(written, lambda: 0)), CALM)
        for asked in read_lines(self._folder / "requests.jsonl"):
            self._answered(desk, asked)
        return desk, written

    def _events(self) -> list[Event]:
        return read_log(self._at_work()[1].getvalue())

    @staticmethod
    def _answered(desk: Desk, asked: list[Any]) -> Any:
        method, target, headers, body = asked
        question = Question(method=method, target=target, headers=headers, body=body.encode())
        return desk.answer(question, route(question, desk.shop)[0])


def _ledger() -> list[str]:
    return AGENT.LEDGER.read_text().splitlines() if AGENT.LEDGER.exists() else []


SHOP = _Shop()


@tool(effect=Effect.READ_ONLY, agent=AGENT.ask_model.agent)
async def ask_model(messages: list[dict[str, Any]], *, feedback: Feedback | None = INJECTED) -> AGENT.Reply:
    await asyncio.sleep(0)
    return AGENT.ask_model.fn(messages, feedback=feedback, timeout_s=60)


@tool(effect=Effect.READ_ONLY)
async def find_order(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    await asyncio.sleep(0)
    return AGENT.find_order.fn(order_id, timeout_s=60)


@tool(effect=Effect.KEYED)
async def refund(order_id: str, cents: int, *, idempotency_key: str = INJECTED) -> str:
    """Refund a part of an order, or all of it."""
    refunded = AGENT.refund.fn(order_id, cents, idempotency_key=idempotency_key, timeout_s=60)
    await asyncio.sleep(0)
    return refunded


async def sent_mail(to: str, body: str) -> Happened[None] | NotHappened:
    return AGENT.sent_mail(to, body)


@tool(check=sent_mail)
async def send_mail(to: str, body: str) -> None:
    """Send a mail to a customer."""
    AGENT.send_mail.fn(to, body, timeout_s=60)
    await asyncio.sleep(0)


@tool(effect=Effect.AT_MOST_ONCE)
async def append_ledger(line: str) -> None:
    """Append one line to the ledger."""
    AGENT.append_ledger.fn(line)
    await asyncio.sleep(0)


TOOLS = Toolbox(find_order, refund, send_mail, append_ledger)


@loop(budget=Budget(turns=20), name="refund_agent")
async def refund_agent_async(run: AsyncRun, ticket: str) -> AGENT.Verdict | None:
    async for chat in run.turns(AGENT.Chat([{"role": "user", "content": ticket}])):
        reply = await ask_model(chat.messages)
        if not reply.calls:
            return AGENT.verdict(reply)
        results = await run.call_tools(TOOLS, reply.calls)
        answers = [AGENT.as_block(result) for result in results]
        chat.messages += [reply.message, {"role": "user", "content": answers}]
    return None
