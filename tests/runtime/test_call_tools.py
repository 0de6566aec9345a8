"""
`call_tools`: a model's calls in parallel; its mistakes are results, never exceptions.

The rules: docs/guarantees.md, "Identity and replay".
"""

from __future__ import annotations

import pytest

from tests.runtime.errors import not_found, refused
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, DeclarationError, Effect, ForModel, StepFailed, Toolbox, ToolCall
from yaoki.records import Begin, FailureKind, Refused, State

READ = Effect.READ_ONLY


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        house.note(f"step {n}")
        if n < 0:
            raise not_found()
        return n * 10

    return step


def model_of(house: House, wanted, *tools):
    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(*tools), wanted))
        return [[r.id, r.is_error, r.text, r.value, r.failure and [r.failure.kind, r.failure.reason]] for r in results]

    return work


def test_results_come_in_order_with_their_ids_and_as_text(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def say(name: str) -> str:
        return f"hello {name}"

    work = model_of(house, calls(("say", {"name": "you"}), ("step", {"n": 2})), say, step)
    assert house.run(work.bind()).unwrap() == [
        ["call_0", False, "hello you", "hello you", None],
        ["call_1", False, "20", 20, None],
    ]


def test_an_unknown_tool_is_a_capability_result_that_lists_the_others(house):
    step = step_of(house)
    receipt = house.run(model_of(house, calls(("stp", {})), step).bind())
    [[_, is_error, text, _, failure]] = receipt.unwrap()
    assert is_error
    assert text == "there is no tool 'stp'; there are: step"
    assert failure == [FailureKind.CAPABILITY, "tool.unknown"]
    assert receipt.failures[0].failure.reason == "tool.unknown"
    assert receipt.failures[0].then == "tell"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "step needs the argument 'n'"),
        ({"n": "three"}, "step, argument 'n': int: Expected `int`, got `str`"),
        ({"n": 1, "m": 2}, "step takes no argument 'm'; it takes: n"),
        ([1], "step: the arguments must be a JSON object"),
    ],
)
def test_bad_arguments_are_a_semantic_result_and_nothing_is_executed(house, args, text):
    step = step_of(house)
    receipt = house.run(model_of(house, calls(("step", args)), step).bind())
    [[_, is_error, said, _, failure]] = receipt.unwrap()
    assert is_error
    assert said.startswith(text)
    assert failure == [FailureKind.SEMANTIC, "tool.arguments"]
    assert house.done == []
    assert receipt.status is State.COMPLETED


@pytest.mark.parametrize("name", ["idempotency_key", "timeout_s", "feedback"])
def test_a_model_that_sends_an_injected_parameter_is_refused(house, name):
    @house.tool(effect=Effect.KEYED)
    def pay(n: int, *, idempotency_key: str = INJECTED, timeout_s: float = INJECTED) -> str:
        house.note("paid")
        return "paid"

    receipt = house.run(model_of(house, calls(("pay", {"n": 1, name: "x"})), pay).bind())
    [[_, is_error, text, _, _]] = receipt.unwrap()
    assert is_error
    assert f"pay takes no argument '{name}'; it takes: n" in text
    assert house.done == []


def test_a_refused_call_is_recorded_once_and_replayed(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def stop() -> int:
        if house.note("stop") == 1:
            house.kill()
        return 0

    @house.loop
    async def work(run) -> list:
        found = await got(run.call_tools(box(step), calls(("nope", {}), ("step", {"n": 1}))))
        await got(stop())
        return [r.text for r in found]

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == ["there is no tool 'nope'; there are: step", "10"]
    assert len(house.records(Refused)) == 1
    assert house.done == ["step 1", "stop", "stop"]


def test_a_tools_failure_is_a_result_for_the_model(house):
    step = step_of(house)
    [[_, is_error, text, _, failure]] = house.run(model_of(house, calls(("step", {"n": -1})), step).bind()).unwrap()
    assert is_error
    assert failure[0] == FailureKind.PERMANENT
    assert text


def test_call_ids_are_recorded_and_need_not_be_unique(house):
    step = step_of(house)
    wanted = [ToolCall(id="call_0", name="step", args={"n": n}) for n in (1, 2)]
    work = model_of(house, wanted, step)
    assert [row[3] for row in house.run(work.bind()).unwrap()] == [10, 20]
    assert {begin.call_id for begin in house.records(Begin)} == {"call_0"}


def test_more_than_128_calls_are_refused(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.call_tools(box(step), calls(*[("step", {"n": 1})] * 129)))
        except DeclarationError as error:
            return str(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == "run.call_tools takes at most 128 calls at once; there are 129"
    assert house.done == []


def test_a_method_can_be_a_models_tool(house):
    class Desk:
        def __init__(self, name: str) -> None:
            self.name = name

        def find(self, order: str) -> str:
            return f"{self.name}: {order}"

    Desk.find = house.tool(effect=READ)(Desk.find)
    [[_, _, text, _, _]] = house.run(model_of(house, calls(("find", {"order": "A"})), Desk("one").find).bind()).unwrap()
    assert text == "one: A"


def test_specs_leave_injected_and_local_parameters_out():
    from yaoki import Local, tool

    @tool(effect=Effect.KEYED)
    def pay(order: str, cents: int = 5, *, client: Local[object] = None, idempotency_key: str = INJECTED) -> str:
        """Pay an order."""
        return ""

    [spec] = Toolbox(pay).specs()
    assert spec["name"] == "pay"
    assert spec["description"] == "Pay an order."
    assert spec["input_schema"]["required"] == ["order"]
    assert set(spec["input_schema"]["properties"]) == {"order", "cents"}
    assert spec["input_schema"]["additionalProperties"] is False


def test_two_tools_of_one_name_are_refused():
    from yaoki import tool

    def one(n: int) -> int:
        return n

    with pytest.raises(DeclarationError, match="two tools are named 'one'"):
        Toolbox(tool(one), tool(one))
    with pytest.raises(DeclarationError, match="is no tool; decorate it with @tool"):
        Toolbox(one)  # type: ignore[arg-type]


def test_a_step_failed_that_leaves_a_branch_function_becomes_its_failure(house):
    @house.tool(effect=READ)
    def look() -> int:
        raise refused()

    async def one(n):
        try:
            return await got(look())
        except StepFailed as error:
            raise error from None

    @house.loop
    async def work(run) -> list:
        return [s.failure.reason for s in await got(run.map(house.fn(one), [1, 2]))]

    receipt = house.run(work.bind())
    assert receipt.unwrap() == ["os.ECONNREFUSED"] * 2


def deep(levels: int) -> dict:
    found: dict = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("c", "put", {"d": {"a": float("nan")}}),
        ToolCall("c", "put", {"d": deep(3_000)}),
        ToolCall("c", ["put"], {}),
        ToolCall("c\ud800", "p\ud800", {}),
        ToolCall("c", "bash", {"cmd": "rm"}),
        ToolCall("c", "scoped", {"cmd": ""}),
        ToolCall("c", "keyed", {"cmd": ""}),
        ToolCall("c", "priced", {"cmd": ""}),
        ToolCall("c", "allowed", {"cmd": ""}),
    ],
    ids=lambda call: str(call.name)[:8].encode("ascii", "replace").decode(),
)
def test_no_call_of_a_model_ends_the_run(house, call):
    def bad(cmd: str):
        return {}[cmd]

    def echo(cmd: str) -> str:
        return cmd

    @house.tool(effect=READ)
    def put(d: dict) -> str:
        return repr(d)

    tools = [
        put,
        house.tool(effect=lambda cmd: {"ls": READ}[cmd], name="bash")(echo),
        house.tool(effect=READ, scope=lambda cmd: cmd[0], name="scoped")(echo),
        house.tool(effect=READ, key=bad, name="keyed")(echo),
        house.tool(effect=READ, agent=ForModel(reserve=bad), name="priced")(echo),
        house.tool(effect=READ, approve=bad, name="allowed")(echo),
    ]

    @house.loop
    async def work(run) -> list[bool]:
        return [one.is_error for one in await got(run.call_tools(box(*tools), [call]))]

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.value) == (State.COMPLETED, [True])
    assert receipt.failures == house.get().failures
    assert len(receipt.failures) == 1


def test_a_tool_whose_arguments_have_no_names_is_refused_where_it_is_put_into_the_box(house):
    @house.tool(effect=READ)
    def first(a: int, /) -> int:
        return a

    @house.tool(effect=READ)
    def many(*a: int) -> int:
        return sum(a)

    @house.tool(effect=READ)
    def more(a: int, **b: int) -> int:
        return a

    for one in (first, many, more):
        with pytest.raises(DeclarationError, match="name each of them"):
            Toolbox(one)
