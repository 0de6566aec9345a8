"""The program of the documentation, whole: both type checkers accept it. Checked, never run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, assert_type

import yaoki
from yaoki import (
    INJECTED,
    AsyncRun,
    AsyncRunner,
    Budget,
    Effect,
    Failure,
    FailureKind,
    Feedback,
    ForModel,
    Happened,
    Local,
    NotHappened,
    Receipt,
    Retry,
    Run,
    Runner,
    Settled,
    Toolbox,
    ToolCall,
    ToolResult,
    classify,
    loop,
    retry,
    tool,
)
from yaoki.classify import Evidence, Rule, register
from yaoki.shell import ShellResult, ashell, shell


@dataclass
class Reply:
    text: str
    message: dict[str, Any]
    calls: list[ToolCall] = field(default_factory=list[ToolCall])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def as_message(result: ToolResult) -> dict[str, Any]:
    return {"role": "tool", "content": result.text}


@tool(effect=Effect.READ_ONLY, timeout_s=120)
async def ask_model(messages: list[dict[str, Any]]) -> Reply:
    return Reply(text=str(messages), message={})


@tool(effect=Effect.KEYED)
async def refund(order_id: str, cents: int, *, idempotency_key: str = INJECTED) -> str:
    return f"{order_id} {cents} {idempotency_key}"


async def sent_mail(to: str, body: str) -> Happened[None] | NotHappened:
    return Happened(None) if to == body else NotHappened()


@tool(check=sent_mail)
async def send_mail(to: str, body: str) -> None:
    print(to, body)


@tool
async def append_ledger(line: str) -> None:
    print(line)


TOOLS = Toolbox(refund, send_mail, append_ledger)


@dataclass
class Chat:
    messages: list[dict[str, Any]]


@loop(budget=Budget(turns=40, cost_usd=2.00))
async def refund_agent(run: AsyncRun, ticket: str) -> str:
    async for chat in run.turns(Chat([user(ticket)])):
        assert_type(chat, Chat)
        tried = await run.try_call(refund, "A-1009", 4200)
        assert_type(tried, Settled[str])
        assert_type(await run.try_call(bash, "ls"), Settled[str])
        assert_type(await run.wait_signal("go", int), int)
        assert_type(await run.wait_signal("go", timeout_s=5), Any)
        reply = await ask_model(chat.messages)
        assert_type(reply, Reply)
        if not reply.calls:
            return reply.text
        results = await run.call_tools(TOOLS, reply.calls)
        chat.messages += [reply.message, *map(as_message, results)]
    return "no answer yet"


async def main() -> None:
    async with AsyncRunner("sqlite:///yaoki.db") as runner:
        receipt = await runner.run(refund_agent.bind("ticket 17"), run_id="ticket-17")
        assert_type(receipt, Receipt[str])
        assert_type(receipt.unwrap(), str)


# --- the same, plain


def sent_note(to: str) -> Happened[int] | NotHappened:
    return Happened(len(to))


@tool(check=sent_note, check_after_s=1)
def send_note(to: str) -> int:
    return len(to)


def judge(reply: Reply) -> bool:
    return bool(reply.text)


@tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=3), agent=ForModel(validate=judge))
def ask(question: str, *, feedback: Feedback | None = INJECTED, timeout_s: float = INJECTED) -> Reply:
    return Reply(text=f"{question} {feedback} {timeout_s}", message={})


def kind(command: str) -> Effect:
    return Effect.READ_ONLY if command == "ls" else Effect.AT_MOST_ONCE


def vendor(command: str) -> str:
    return f"shell/{command}"


@tool(effect=kind, scope=vendor)
def bash(command: str) -> str:
    return command


class Client:
    name = "client"


@tool(effect=Effect.READ_ONLY)
def look(client: Local[Client], order_id: str) -> list[int]:
    return [len(client.name), len(order_id)]


class Desk:
    @tool(effect=Effect.READ_ONLY)
    def find(self, order_id: str) -> int:
        return len(order_id)

    @tool
    async def send(self, order_id: str, *, loud: bool = False) -> bool:
        return bool(order_id) and loud


async def methods(desk: Desk) -> None:
    assert_type(desk.find("A"), int)
    assert_type(await desk.send("A", loud=True), bool)
    assert_type(await ashell("ls"), ShellResult)
    Toolbox(desk.find, desk.send, look)


@loop
def tidy(run: Run, folder: str, depth: int = 1) -> int:
    total = 0
    for chat in run.turns(Chat([])):
        assert_type(chat, Chat)
        assert_type(bash("ls"), str)
        assert_type(ask(folder), Reply)
        assert_type(send_note(folder), int)
        assert_type(look(Client(), folder), list[int])
        found = run.map(len, [folder])
        assert_type(found, list[Settled[Any]])
        assert_type(run.try_call(bash, "ls"), Settled[str])
        assert_type(run.try_call(Desk().find, "A-1009").value, int)
        assert_type(run.wait_signal("go", Chat), Chat)
        assert_type(shell("ls", cwd="/"), ShellResult)
        assert_type(run.try_call(shell, ["ls"]), Settled[ShellResult])
        assert_type(run.ask("Which?"), str)
        assert_type(run.ask("How many?", int, default=3), int)
        assert_type(run.ask("Which?", options=["a", "b"], expires_s=60), str)
        with run.timeout(5), run.scope("side"):
            run.sleep(1)
        total += depth
    return total


def plain_main() -> None:
    with Runner("sqlite:///yaoki.db") as runner:
        assert_type(runner.run(tidy.bind("x")).unwrap(), int)
        assert_type(runner.run(tidy.bind("x", depth=2)).unwrap(), int)


# --- policy alone


@retry
def fetch(url: str) -> bytes:
    return url.encode()


@retry(Retry(attempts_max=3), on=ValueError)
async def fetch_later(url: str) -> bytes:
    return url.encode()


async def use() -> None:
    assert_type(fetch("u"), bytes)
    assert_type(await fetch_later("u"), bytes)
    for attempt in retry.attempts(on=(ValueError, KeyError)):
        with attempt:
            print(attempt.number)


# --- failures of one's own


def paper(evidence: Evidence) -> Failure | None:
    return Failure(kind=FailureKind.BUDGET, reason="printer.paper") if "paper" in evidence.message else None


def teach(error: Exception) -> None:
    classify.register(classify.Rule(name="printer", judge=paper))
    register(Rule(name="printer", judge=paper))
    assert_type(yaoki.classify(error), Failure)
    assert_type(classify(error, now_ms=0).kind, FailureKind)
    assert_type(yaoki.classify.is_control_flow(error), bool)
