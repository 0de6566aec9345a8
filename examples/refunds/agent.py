"""
An agent that works through customers' tickets: it looks orders up, refunds, writes back, keeps a ledger.

Kill it wherever you like and start it again with the same run id: it goes on next to where it was.
Each tool says how safe it is to repeat, and that is all there is to say:

    ask_model, find_order   READ_ONLY      repeated freely
    refund                  KEYED          repeated with one key; the shop deduplicates by it
    send_mail               CHECKED        after a doubt, the mail log is asked before anything is sent again
    append_ledger           AT_MOST_ONCE   after a doubt, a person is asked
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from yaoki import (
    INJECTED,
    Budget,
    Effect,
    Feedback,
    ForModel,
    Happened,
    NotHappened,
    Retry,
    Run,
    Toolbox,
    ToolCall,
    ToolResult,
    loop,
    tool,
)

MODEL_URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:8000")
LEDGER = Path(os.environ.get("REFUNDS_LEDGER", "ledger.txt"))
LOG = Path(os.environ.get("REFUNDS_LOG", os.devnull))
TIMEOUT_S = float(os.environ.get("REFUNDS_TIMEOUT_S", "60"))
CHECK_AFTER_S = float(os.environ.get("REFUNDS_CHECK_AFTER_S", "5"))
RETRY = Retry(base_s=float(os.environ.get("REFUNDS_RETRY_BASE_S", "0.5")))

SYSTEM = """You answer customers of a small shop. Look every order up before you promise anything. Refund what is
fair, write to the customer, and append one line to the ledger for each refund. When you are done, answer
with JSON alone: {"outcome": "refunded" | "declined" | "needs-info" | "answered", "cents": <refunded in all>}"""


@dataclass
class Chat:
    """The state between turns: what a resume starts from."""

    messages: list[dict[str, Any]]


@dataclass
class Reply:
    """What the model said: the message to keep, the calls it wants made, and its words."""

    message: dict[str, Any]
    calls: list[ToolCall]
    text: str


@dataclass
class Verdict:
    """How a ticket ended."""

    outcome: str
    cents: int


def verdict(reply: Reply) -> Verdict:
    """Read the model's last word; an error goes back to the model, which is asked again."""
    answer = json.loads(reply.text)
    return Verdict(str(answer["outcome"]), int(answer["cents"]))


def is_usable(reply: Reply) -> None:
    if not reply.calls:
        verdict(reply)


@tool(
    effect=Effect.READ_ONLY,
    timeout_s=TIMEOUT_S,
    retry=RETRY,
    scope="anthropic/claude/main",
    agent=ForModel(validate=is_usable, repairs_max=2),
)
def ask_model(
    messages: list[dict[str, Any]], *, feedback: Feedback | None = INJECTED, timeout_s: float = INJECTED
) -> Reply:
    if feedback is not None:
        messages = [*messages, {"role": "user", "content": f"Your last answer could not be used: {feedback.error}"}]
    body = {
        "model": os.environ.get("REFUNDS_MODEL", "claude-sonnet-4-5"),
        "max_tokens": 1024,
        "system": SYSTEM,
        "tools": [
            {"name": spec["name"], "description": spec["description"], "input_schema": spec["input_schema"]}
            for spec in TOOLS.specs()
        ],
        "messages": messages,
    }
    headers = {"x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""), "anthropic-version": "2023-06-01"}
    answer = http("POST", f"{MODEL_URL}/v1/messages", body, headers, timeout_s)
    return Reply(
        message={"role": "assistant", "content": answer["content"]},
        calls=[ToolCall(b["id"], b["name"], b["input"]) for b in answer["content"] if b["type"] == "tool_use"],
        text="".join(block["text"] for block in answer["content"] if block["type"] == "text"),
    )


@tool(effect=Effect.READ_ONLY, timeout_s=TIMEOUT_S, retry=RETRY, scope="shop/orders")
def find_order(order_id: str, *, timeout_s: float = INJECTED) -> dict[str, Any]:
    """Look an order up: its item, price in cents, status and the customer's address."""
    return http("GET", f"{SHOP_URL}/v1/orders/{quote(order_id)}", timeout_s=timeout_s)


@tool(effect=Effect.KEYED, timeout_s=TIMEOUT_S, retry=RETRY, scope="shop/refunds")
def refund(order_id: str, cents: int, *, idempotency_key: str = INJECTED, timeout_s: float = INJECTED) -> str:
    """Refund a part of an order, or all of it; returns the refund's id."""
    body = {"order_id": order_id, "cents": cents}
    return str(http("POST", f"{SHOP_URL}/v1/refunds", body, {"Idempotency-Key": idempotency_key}, timeout_s)["id"])


def sent_mail(to: str, body: str) -> Happened[None] | NotHappened:
    mails = http("GET", f"{SHOP_URL}/v1/mails?to={quote(to)}", timeout_s=TIMEOUT_S)["mails"]
    return Happened(None) if any(mail["body"] == body for mail in mails) else NotHappened()


@tool(check=sent_mail, check_after_s=CHECK_AFTER_S, timeout_s=TIMEOUT_S, retry=RETRY, scope="shop/mails")
def send_mail(to: str, body: str, *, timeout_s: float = INJECTED) -> None:
    """Send a mail to a customer."""
    http("POST", f"{SHOP_URL}/v1/mails", {"to": to, "body": body}, timeout_s=timeout_s)


@tool(effect=Effect.AT_MOST_ONCE)
def append_ledger(line: str) -> None:
    """Append one line to the ledger: the order, what was refunded in cents, and why."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)  # agents share it
        ledger.write(line + "\n")
        ledger.flush()
        os.fsync(ledger.fileno())
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"booked: {line}\n")


TOOLS = Toolbox(find_order, refund, send_mail, append_ledger)


@loop(budget=Budget(turns=20))
def refund_agent(run: Run, ticket: str) -> Verdict | None:
    """Work on one ticket until the model gives its verdict; None if twenty turns were not enough."""
    for chat in run.turns(Chat([{"role": "user", "content": ticket}])):
        reply = ask_model(chat.messages)
        if not reply.calls:
            return verdict(reply)
        results = run.call_tools(TOOLS, reply.calls)
        chat.messages += [reply.message, {"role": "user", "content": [as_block(result) for result in results]}]
    return None


def as_block(result: ToolResult) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": result.id,
        "content": result.text,
        "is_error": result.is_error,
    }


def http(
    method: str, url: str, body: object = None, headers: dict[str, str] | None = None, timeout_s: float = 60
) -> dict[str, Any]:
    """Make one request, without retries of its own; what goes wrong is raised as urllib raises it."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"content-type": "application/json", **(headers or {})}, method=method)  # noqa: S310
    with urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - the URLs are our own settings
        answer: dict[str, Any] = json.loads(response.read())
        return answer
