"""
What a loop sees is decode(encode(value)), the first time too; what cannot be carried is refused.

The rules: docs/guarantees.md, "Identity and replay".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House, got
from yaoki import DeclarationError, Effect, EncodingError, StepFailed, tool
from yaoki.records import Executed, State

READ = Effect.READ_ONLY


@dataclass
class Point:
    x: int
    tags: list[str] = field(default_factory=list)


class Reply(msgspec.Struct):
    text: str
    calls: list[dict[str, Any]] = []


class Order(pydantic.BaseModel):
    id: str
    at: datetime
    cents: Decimal


class Color(enum.Enum):
    RED = "red"


def once(house: House, returned: object, annotation: object, effect: Effect | None = READ, **options):
    """Run a loop whose one tool returns this, die, run it again; return the types and values it saw."""

    def give() -> Any:
        house.note("called")
        return returned

    give.__annotations__["return"] = annotation
    if annotation is None:
        del give.__annotations__["return"]
    use = house.tool(effect=effect)(give)
    seen: list[object] = []

    @house.loop
    async def work(run) -> None:
        seen.append(await got(use()))
        await got(run.sleep(60))

    receipt = house.run(work.bind(), **options)
    return receipt, seen


@pytest.mark.parametrize(
    ("returned", "annotation"),
    [
        (Point(1, ["a"]), Point),
        (Reply("hi", [{"a": 1}]), Reply),
        (Order(id="A", at=datetime(2026, 1, 2, tzinfo=UTC), cents=Decimal("1.10")), Order),
        ({Color.RED: {1, 2}}, dict[Color, set[int]]),
        ((1, "a"), tuple[int, str]),
        (None, type(None)),
        ([Point(1)], list[Point]),
        (b"\x00\xff", bytes),
    ],
)
def test_a_value_comes_back_as_its_annotation_live_and_on_replay(house, returned, annotation):
    receipt, seen = once(house, returned, annotation)
    assert receipt.status is State.COMPLETED
    assert seen == [returned, returned]
    assert type(seen[0]) is type(seen[1]) is type(returned)
    assert seen[0] is not returned or returned is None or isinstance(returned, bytes)
    assert house.done == ["called"]


def test_without_an_annotation_a_value_is_plain_json_the_first_time_too(house):
    _, seen = once(house, {"at": (1, 2), "who": Point(3)}, None)
    assert seen == [{"at": [1, 2], "who": {"x": 3, "tags": []}}] * 2


def test_the_loop_cannot_change_what_a_replay_sees(house):
    @house.tool(effect=READ)
    def give() -> list[int]:
        house.note("called")
        return [1]

    @house.loop
    async def work(run) -> list[int]:
        items = await got(give())
        items.append(2)
        await got(run.sleep(60))
        return items

    assert house.run(work.bind()).unwrap() == [1, 2]
    assert house.done == ["called"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("-inf")], {"a": float("nan")}])
def test_a_result_that_is_no_finite_number_is_lost_not_replaced(house, value):
    receipt, seen = once(house, value, None)
    assert seen == []
    assert receipt.status is State.DEAD
    assert receipt.failure.reason == "value.lost"
    assert receipt.failure.executed is Executed.YES
    assert "JSON has no such number" in receipt.failure.message


@pytest.mark.parametrize("value", [object(), {1, object()}, lambda: None, {"a": object()}])
def test_a_result_that_json_cannot_carry_is_lost_not_pickled(house, value):
    receipt, _ = once(house, value, None)
    assert receipt.failure.reason == "value.lost"
    assert house.done == ["called"]


def test_a_result_over_the_limit_is_recorded_as_happened_and_says_both_sizes(house):
    receipt, _ = once(house, "x" * 5000, str, result_max_bytes=4096)
    assert receipt.failure.reason == "value.lost"
    assert "5,002 bytes; result_max_bytes is 4,096" in receipt.failure.message


def test_an_effect_whose_result_is_too_large_is_asked_about_and_not_done_again(house):
    receipt, _ = once(house, "x" * 5000, str, None, result_max_bytes=4096)
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.YES
    assert house.done == ["called"]


@pytest.mark.parametrize("argument", [float("nan"), object(), [object()], {"a": float("inf")}])
def test_an_argument_that_cannot_be_carried_is_refused_before_anything_is_recorded(house, argument):
    @house.tool
    def send(x: Any) -> None:
        house.note("sent")

    @house.loop
    async def work(run) -> str:
        try:
            await got(send(argument))
        except EncodingError as error:
            return str(error)
        return "sent"

    receipt = house.run(work.bind())
    assert receipt.status is State.COMPLETED
    assert receipt.unwrap() != "sent"
    assert receipt.attempts == 0
    assert house.done == []


def test_a_loops_argument_that_cannot_be_carried_is_refused_by_bind(house):
    @house.loop
    async def work(run, x: float) -> None: ...

    with pytest.raises(EncodingError, match="JSON has no such number"):
        work.bind(float("nan"))


def test_a_loops_input_comes_decoded_as_its_annotation(house):
    @house.loop
    async def work(run, where: Point, order: Order) -> str:
        return f"{type(where).__name__} {where.x} {type(order).__name__} {order.cents}"

    order = Order(id="A", at=datetime(2026, 1, 2, tzinfo=UTC), cents=Decimal("1.10"))
    assert house.run(work.bind(Point(4), order=order)).unwrap() == "Point 4 Order 1.10"


def test_a_loops_value_comes_typed_and_dies_by_name_if_it_cannot(house):
    @house.loop
    async def good(run) -> Order:
        return Order(id="A", at=datetime(2026, 1, 2, tzinfo=UTC), cents=Decimal(2))

    @house.loop
    async def bad(run) -> Order:
        return {"id": 1}  # type: ignore[return-value]

    receipt = house.run(good.bind(), "good")
    assert receipt.unwrap() == Order(id="A", at=datetime(2026, 1, 2, tzinfo=UTC), cents=Decimal(2))
    dead = house.run(bad.bind(), "bad")
    assert dead.status is State.DEAD
    assert dead.text.startswith("the loop's return value cannot be journaled")


def test_an_annotation_that_cannot_be_carried_is_refused_at_decoration():
    class Socket: ...

    def open_one() -> Socket: ...

    open_one.__annotations__["return"] = Socket
    with pytest.raises(DeclarationError, match="tool open_one: its return annotation cannot be journaled"):
        tool(open_one)


# --- StepFailed is the same live and on replay


def failing_twice(house: House, raised: BaseException, effect: Effect | None = READ):
    @house.tool(effect=effect, name="look")
    def look(x: int) -> str:
        house.note("look")
        raise raised

    seen: list[tuple] = []

    @house.loop
    async def work(run) -> None:
        try:
            await got(look(1))
        except StepFailed as error:
            seen.append((str(error), error.failure, error.step, error.attempts, error.run_id, error.__cause__))
        await got(run.sleep(60))

    return work, seen


@pytest.mark.parametrize("raised", [ValueError("bad token sk-abc"), TypeError("no"), KeyError("k"), OSError(2, "No")])
def test_step_failed_is_equal_live_and_on_replay_and_has_no_cause(house, raised):
    work, seen = failing_twice(house, raised)
    assert house.run(work.bind()).status is State.COMPLETED
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][-1] is None
    assert house.done == ["look"]


def test_step_failed_says_what_where_and_what_next(house):
    work, seen = failing_twice(house, FileNotFoundError(2, "No such file", "a.txt"))
    house.run(work.bind())
    assert seen[0][0].startswith("run r, step look: gave up after 1 attempt (os.ENOENT). Last: ")
    assert seen[0][0].endswith("See: yaoki show r")


def test_an_abort_is_equal_live_and_on_replay(house):
    work, seen = failing_twice(house, reset(), None)
    assert house.run(work.bind()).status is State.WAITING
    house.answer("abort")
    house.run(work.bind())
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_a_recorded_value_that_no_longer_fits_its_annotation_waits_for_code_and_nothing_is_executed(house):
    def before() -> str:
        return "text"

    def after() -> int:
        return 3

    @house.tool
    def stop() -> None:
        raise reset()

    @house.tool
    def instead() -> str:
        house.note("instead")
        return "instead"

    def made(fn):
        give = house.tool(effect=READ, name="give")(fn)

        @house.loop(name="work")
        async def work(run) -> str:
            try:
                found = str(await got(give()))
            except StepFailed:
                found = await got(instead())
            await got(stop())
            return found

        return work

    assert house.run(made(before).bind()).status is State.WAITING
    house.answer("happened", None)
    receipt = house.run(made(after).bind())
    assert (receipt.status, receipt.waits_for, house.done) == (State.WAITING, "code", [])
    assert '- recorded: give() = "text"' in receipt.diff
    assert "+ called:   give() -> int" in receipt.diff
    assert house.run(made(before).bind()).unwrap() == "text"
