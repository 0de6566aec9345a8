"""Parameters of every kind: Local ones, typed ones, variadic ones."""

from __future__ import annotations

from dataclasses import dataclass

import pydantic
import pytest

from tests.runtime.errors import reset
from tests.runtime.house import box, calls, got
from yaoki import (
    DeclarationError,
    Effect,
    Happened,
    Local,
    NotHappened,
)

READ = Effect.READ_ONLY


class Client:
    """A client that cannot be journaled."""

    name = "client"


@dataclass
class Order:
    id: str
    cents: int = 0


class Model(pydantic.BaseModel):
    id: str


def test_a_check_is_given_the_local_parameters_too(house):
    def sent(client: Local[Client], to: str) -> Happened[str] | NotHappened:
        house.note(f"check {client.name} {to}")
        return Happened("found")

    def send(client: Local[Client], to: str) -> str:
        house.note("send")
        raise reset()

    mail = house.tool(check=house.check(sent), name="mail")(send)

    @house.loop
    async def work(run) -> str:
        return await got(mail(Client(), "a@b"))

    assert house.run(work.bind()).unwrap() == "found"
    assert house.done == ["send", "check client a@b"]


def test_effect_scope_and_key_functions_are_given_the_local_parameters_too(house):
    def kind(client: Client, n: int) -> Effect:
        return READ if client.name == "client" else Effect.AT_MOST_ONCE

    @house.tool(effect=kind, scope=lambda client, n: client.name, key=lambda client, n: n)
    def look(client: Local[Client], n: int) -> int:
        return n

    @house.loop
    async def work(run) -> int:
        return await got(look(Client(), 2))

    assert house.run(work.bind()).unwrap() == 2


def test_a_loop_takes_local_parameters(house):
    @house.loop
    async def work(run, client: Local[Client], n: int) -> str:
        return f"{client.name} {n}"

    assert house.run(work.bind(Client(), 3)).unwrap() == "client 3"
    bound = work.with_locals(client=Client()).bind_data(work.bind(Client(), 3).data)
    assert house.run(bound).unwrap() == "client 3"
    with pytest.raises(DeclarationError, match=r"loop work needs client: serve it as work.with_locals"):
        work.bind_data(b'{"n":3}')
    with pytest.raises(DeclarationError, match="'n' is no Local parameter"):
        work.with_locals(n=1)


def test_a_model_cannot_send_a_local_parameter(house):
    @house.tool(effect=READ)
    def look(n: int, client: Local[Client] = None) -> int:
        return n

    @house.loop
    async def work(run) -> str:
        [result] = await got(run.call_tools(box(look), calls(("look", {"n": 1, "client": "x"}))))
        return result.text

    assert "takes no argument 'client'; it takes: n" in house.run(work.bind()).unwrap()


def test_a_models_arguments_come_as_the_tools_types(house):
    @house.tool(effect=READ)
    def look(order: Order, model: Model, ids: set[int]) -> list[str]:
        return [type(order).__name__, type(model).__name__, type(ids).__name__]

    @house.loop
    async def work(run) -> list[str]:
        args = {"order": {"id": "A"}, "model": {"id": "B"}, "ids": [1, 1]}
        [result] = await got(run.call_tools(box(look), calls(("look", args))))
        return result.value

    assert house.run(work.bind()).unwrap() == ["Order", "Model", "set"]


def test_keyword_only_and_variadic_parameters_work(house):
    @house.tool(effect=READ)
    def look(first: int, /, *rest: int, size: int = 1, **more: int) -> list:
        return [first, list(rest), size, more]

    @house.tool(effect=READ)
    def die() -> int:
        if house.note("die") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = await got(look(1, 2, 3, size=4, extra=5))
        await got(die())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [1, [2, 3], 4, {"extra": 5}]
