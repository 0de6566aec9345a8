"""Planted mistakes: each marked line is reported by both type checkers, and no other. Checked, never run."""

from __future__ import annotations

from dataclasses import dataclass

from yaoki import INJECTED, AsyncRun, AsyncRunner, Effect, Happened, NotHappened, Run, Runner, loop, retry, tool
from yaoki.shell import shell


@dataclass
class Chat:
    n: int = 0


@tool(effect=Effect.KEYED)
async def refund(order_id: str, cents: int, *, idempotency_key: str = INJECTED) -> str:
    return f"{order_id} {cents} {idempotency_key}"


@tool(effect=Effect.READ_ONLY)
def look(order_id: str) -> int:
    return len(order_id)


# --- bind and what comes of it


@loop
async def agent(run: AsyncRun, ticket: str, size: int = 1) -> str:
    return ticket * size


@loop(name="plain")
def plain(run: Run, ticket: str) -> int:
    return len(ticket)


async def bind_mistakes(runner: AsyncRunner) -> None:
    agent.bind(17)  # mistake
    agent.bind()  # mistake
    agent.bind("a", "b")  # mistake
    agent.bind("a", size="b")  # mistake
    agent.bind("a", depth=1)  # mistake
    receipt = await runner.run(agent.bind("a"))
    number: int = receipt.unwrap()  # mistake
    print(number)


def plain_bind_mistakes(runner: Runner) -> None:
    plain.bind(17)  # mistake
    text: str = runner.run(plain.bind("a")).unwrap()  # mistake
    print(text)


# --- tool arguments and results


async def tool_mistakes() -> None:
    await refund("A", "5")  # mistake
    await refund("A")  # mistake
    await refund("A", 5, amount=3)  # mistake
    number: int = await refund("A", 5)  # mistake
    look(3)  # mistake
    text: str = look("A")  # mistake
    print(number, text)


class Desk:
    @tool(effect=Effect.READ_ONLY)
    def find(self, order_id: str) -> int:
        return len(order_id)


def method_mistakes(desk: Desk) -> None:
    desk.find(3)  # mistake
    desk.find("A", 3)  # mistake
    text: str = desk.find("A")  # mistake
    print(text)


# --- check: its verdict carries the tool's result


async def sent_int(to: str) -> Happened[int] | NotHappened:
    return Happened(len(to))


def sent_str(to: str) -> Happened[str] | NotHappened:
    return Happened(to)


def no_verdict(to: str) -> bool:
    return bool(to)


@tool(check=sent_int)  # mistake
async def mail(to: str) -> str:
    return to


@tool(check=sent_str)  # mistake
def note(to: str) -> int:
    return len(to)


@tool(check=no_verdict)  # mistake
def letter(to: str) -> int:
    return len(to)


# --- state


@loop
async def state_mistakes(run: AsyncRun) -> int:
    async for chat in run.turns(Chat()):
        chat.n = "one"  # mistake
        chat.m = 1  # mistake
    return 1


@loop
def plain_state_mistakes(run: Run) -> int:
    for chat in run.turns(Chat()):
        chat.n += "one"  # mistake
    return 1


@loop
def call_mistakes(run: Run) -> int:
    run.try_call(look)  # mistake
    text: str = run.try_call(look, "A").value  # mistake
    number: int = run.wait_signal("go", str)  # mistake
    shell(3)  # mistake
    shell("ls", folder="x")  # mistake
    print(text)
    return number


# --- people


@loop
def asking_mistakes(run: Run) -> int:
    text: str = run.ask("How many?", int)  # mistake
    print(text)
    run.ask(3)  # mistake
    return 1


@tool(approve="always")  # mistake
def allowed_by_text(n: int) -> int:
    return n


# --- policy


@tool(effect="read_only")  # mistake
def named_by_text(n: int) -> int:
    return n


@tool(timeout_s="5")  # mistake
def timed_by_text(n: int) -> int:
    return n


@retry
def fetch(url: str) -> bytes:
    return url.encode()


def retry_mistakes() -> None:
    fetch(3)  # mistake
    text: str = fetch("u")  # mistake
    print(text)
