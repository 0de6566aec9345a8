"""A real tool server under guard: killed, hanging, busy, wrong; over stdio and HTTP, with the official SDK."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.house import House
from yaoki import DeclarationError, Effect, Retry, ToolCall
from yaoki.mcp import guard, stdio
from yaoki.records import Begin, State

SERVER = Path(__file__).parent / "server.py"
QUICK = Retry(attempts_max=4, base_s=0.01, cap_s=0.02)


class Desk:
    """A guarded server, and a loop that calls one of its tools as a model would."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.log = path / "server.log"
        self.log.touch()
        self.house = House("async", path, real_time=True)
        policies = options.pop("policies", {})
        names = ("read", "die_once", "busy_once", "put", "delete", "charge", "hang", "fail")
        whole = {name: {"retry": QUICK, **policies.get(name, {})} for name in names}
        connect = stdio(sys.executable, str(SERVER), env={"SERVER_LOG": str(self.log)})
        self.guard = guard(connect, name="files", policies=whole, **options)

    def call(self, *calls: tuple[str, Any], run_id: str = "r"):
        """Call tools of the server in one run; what the model is told, and whether it is an error."""
        made = [ToolCall(f"c{n}", name, args) for n, (name, args) in enumerate(calls)]

        @self.house.loop
        async def work(run) -> list[tuple[str, bool]]:
            results = await run.call_tools(await self.guard.toolbox(), made)
            return [(one.text, one.is_error) for one in results]

        self.loop = work

        async def whole(runner):
            try:
                return await runner.run(work.bind(), run_id=run_id)
            finally:
                await self.guard.connection.close()

        return self.house.drive(whole)

    @property
    def done(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path)


def test_annotations_say_what_a_tool_does_and_each_call_is_a_step(desk):
    receipt = desk.call(("read", {"name": "a"}), ("delete", {"name": "b"}))
    assert receipt.value == [["the text of a", False], ["deleted", False]] or receipt.value == [
        ("the text of a", False),
        ("deleted", False),
    ]
    effects = {begin.call.partition("(")[0]: begin.effect for begin in desk.house.records(Begin)}
    assert effects == {
        "files.list_tools": Effect.READ_ONLY,
        "read": Effect.READ_ONLY,
        "delete": Effect.AT_MOST_ONCE,
    }


def test_a_server_that_dies_in_a_read_is_started_again(desk):
    receipt = desk.call(("die_once", {"name": "a"}))
    assert receipt.value[0][0] == "alive", receipt.failure
    assert desk.done == ["die a", "die a"]
    assert desk.guard.connection.opened == 2


def test_what_may_be_put_twice_is(desk):
    assert desk.call(("put", {"name": "a"})).value[0][0] == "put"
    assert desk.done == ["put a", "put a"]


def test_what_may_not_is_asked_about(desk):
    receipt = desk.call(("delete", {"name": "deadly"}))
    assert receipt.status is State.WAITING
    assert "delete" in receipt.text
    assert desk.done == ["delete deadly"]
    desk.house.answer("happened", {"text": "deleted"})
    assert desk.call(("delete", {"name": "deadly"})).value[0][0] == "deleted"
    assert desk.done == ["delete deadly"]


def test_a_keyed_one_is_sent_again_with_its_key(tmp_path):
    desk = Desk(tmp_path, policies={"charge": {"effect": Effect.KEYED, "key_argument": "request_id"}})
    assert desk.call(("charge", {"cents": 300})).value[0][0] == "charged 300"
    first, second = desk.done
    assert first == second
    assert len(first.split()[2]) == 32


def test_a_server_that_hangs_is_given_up(tmp_path):
    desk = Desk(tmp_path, timeout_s=0.5, policies={"hang": {"retry": Retry(attempts_max=2, base_s=0.01)}})
    receipt = desk.call(("hang", {"name": "a"}))
    assert receipt.status is State.COMPLETED
    assert receipt.value[0][1] is True
    assert desk.done == ["hang a", "hang a"]


def test_there_is_a_deadline_by_default(desk):
    from yaoki.mcp import Listed

    assert desk.guard.tool_of(Listed("any")).timeout_s == 60


def test_an_error_result_goes_to_the_model_and_is_not_retried(desk):
    receipt = desk.call(("fail", {"text": "no such city"}))
    text, is_error = receipt.value[0]
    assert "no such city" in text
    assert is_error is True
    assert receipt.failures == []


def test_one_that_says_later_is_asked_later(desk):
    receipt = desk.call(("busy_once", {"name": "a"}))
    assert receipt.value[0][0] == "free"
    assert desk.done == ["busy a", "busy a"]


@pytest.mark.parametrize(("name", "args"), [("missing", {}), ("read", ["a"]), ("read", {}), ("read", {"name": 3})])
def test_mistakes_of_a_model_are_results(desk, name, args):
    receipt = desk.call((name, args), ("read", {"name": "b"}))
    assert receipt.status is State.COMPLETED
    assert receipt.value[0][1] is True
    assert receipt.value[1][0] == "the text of b"


def test_killed_in_a_call_it_goes_on_where_it_was(desk):
    """The process of the loop dies: what was read is not read again."""
    made = [ToolCall("c0", "read", {"name": "a"}), ToolCall("c1", "delete", {"name": "b"})]

    @desk.house.loop
    async def work(run) -> list[str]:
        box = await desk.guard.toolbox()
        first = await run.call_tools(box, made[:1])
        if desk.house.done.count("dying") == 0:
            asyncio.get_running_loop().call_later(0.3, dying)
        second = await run.call_tools(box, made[1:])
        await asyncio.sleep(1 if not desk.house.done else 0)
        return [one.text for one in (*first, *second)]

    def dying() -> None:
        desk.house.note("dying")
        desk.house.kill()

    assert desk.house.die(work.bind()) == -signal.SIGKILL

    async def again(runner):
        try:
            return await runner.run(work.bind(), run_id="r")
        finally:
            await desk.guard.connection.close()

    receipt = desk.house.drive(again)
    assert receipt.status is State.COMPLETED
    assert receipt.value == ["the text of a", "deleted"]
    assert desk.done == ["read a", "delete b"]


@pytest.mark.parametrize(
    "options", [{"timeout_s": 0}, {"timeout_s": 1e9}, {"policies": {"a": {"effect": Effect.KEYED}}}]
)
def test_what_cannot_work_is_refused(options):
    with pytest.raises(DeclarationError):
        guard(stdio("true"), **options)


def test_a_server_that_cannot_be_started_is_a_failure_with_its_name(tmp_path):
    house = House("async", tmp_path, real_time=True)
    lost = guard(stdio("no-such-server-here"), name="lost")

    @house.loop
    async def work(run) -> int:
        return len(await lost.listed())

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "no-such-server-here" in receipt.failure.message
