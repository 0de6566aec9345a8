"""`map`, `call_tools`, `scope`: branches with names of their own, and what each outcome becomes (SEMANTICS 5)."""

from __future__ import annotations

import asyncio

import pytest

from tests.runtime.errors import not_found, refused
from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, DeclarationError, Effect, StepFailed, Toolbox, ToolCall
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


def keys(house: House) -> list[str]:
    return [entry.key for entry in house.journal() if isinstance(entry.record, Begin)]


# --- map


def test_map_returns_results_in_order_as_settled(house):
    step = step_of(house)

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> list:
        found = await got(run.map(house.fn(one), [3, -1, 1]))
        return [[s.ok, s.value, s.failure and s.failure.reason] for s in found]

    receipt = house.run(work.bind())
    ok, failed, last = receipt.unwrap()
    assert (ok, last) == ([True, 30, None], [True, 10, None])
    assert failed[:2] == [False, None]
    assert failed[2].startswith("http.404")
    assert receipt.status is State.COMPLETED


def test_map_over_nothing_is_nothing(house):
    @house.loop
    async def work(run) -> list:
        return await got(run.map(house.fn(got), []))

    assert house.run(work.bind()).unwrap() == []


def test_each_branch_has_its_own_names_and_each_map_its_own_number(house):
    step = step_of(house)

    async def one(n):
        return [await got(step(n)), await got(step(n))]

    @house.loop
    async def work(run) -> None:
        await got(run.map(house.fn(one), [5, 6], key=lambda n: f"doc-{n}", limit=1))
        await got(run.map(house.fn(one), [5]))

    house.run(work.bind())
    assert keys(house) == [
        "1.0/map#0[doc-5]/step#0",
        "1.0/map#0[doc-5]/step#1",
        "1.0/map#0[doc-6]/step#0",
        "1.0/map#0[doc-6]/step#1",
        "1.0/map#1[0]/step#0",
        "1.0/map#1[0]/step#1",
    ]


def test_two_items_of_one_key_are_refused_before_anything_runs(house):
    step = step_of(house)

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(one), [1, 2, 11], key=lambda n: n % 10))
        except DeclarationError as error:
            return str(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == "run.map: two items have the key '1'; keys name branches and must differ"
    assert house.done == []


def test_long_keys_that_differ_at_their_end_are_two_branches(house):
    step = step_of(house)

    async def one(n):
        return await got(step(len(n)))

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), ["x" * 150 + "a", "x" * 150 + "b"], key=str))]

    assert house.run(work.bind()).unwrap() == [1510, 1510]


@pytest.mark.parametrize("key", ["a/b", "a#0", "a!check.0", "a%2fb", "ü", "a]/step#0"])
def test_a_key_may_hold_any_text(house, key):
    step = step_of(house)

    async def one(n):
        return await got(step(1))

    @house.tool(effect=READ)
    def stop() -> int:
        if house.note("stop") == 1:
            house.kill()
        return 1

    @house.loop
    async def work(run) -> list:
        found = [s.value for s in await got(run.map(house.fn(one), [key, "other"], key=str))]
        await got(stop())
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [10, 10]
    assert house.done == ["step 1", "step 1", "stop", "stop"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_limit_that_cannot_work_is_refused(house, limit):
    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(got), [1], limit=limit))
        except DeclarationError as error:
            return str(error)
        return "accepted"

    assert house.run(work.bind()).unwrap() == f"limit is {limit}; it lies between 1 and 1000"


def test_no_more_than_limit_run_at_once(house):
    at_once: list[int] = [0, 0]

    if house.is_async:

        @house.tool(effect=READ)
        async def step(n: int) -> int:
            at_once[0] += 1
            at_once[1] = max(at_once)
            await asyncio.sleep(1)
            at_once[0] -= 1
            return n
    else:
        import threading
        import time

        lock = threading.Lock()

        @house.tool(effect=READ)
        def step(n: int) -> int:
            with lock:
                at_once[0] += 1
                at_once[1] = max(at_once)
            time.sleep(0.005)
            with lock:
                at_once[0] -= 1
            return n

    async def one(n):
        return await got(step(n))

    @house.loop
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(12), limit=3)))

    assert house.run(work.bind()).unwrap() == 66
    assert at_once[1] == 3


def test_any_other_exception_stops_the_rest_and_propagates(house):
    step = step_of(house)

    async def one(n):
        found = await got(step(n))
        if n == 1:
            raise ZeroDivisionError("in a branch")
        return found

    @house.loop
    async def work(run) -> str:
        try:
            await got(run.map(house.fn(one), range(20), limit=1))
        except ZeroDivisionError as error:
            return str(error)
        return "finished"

    assert house.run(work.bind()).unwrap() == "in a branch"
    assert house.done == ["step 0", "step 1"]


def test_maps_nest(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        async def leaf(n):
            return await got(step(n))

        async def branch(n):
            inner = await got(run.map(house.fn(leaf), [n, n + 1]))
            return [await got(step(n)), *[s.value for s in inner]]

        return [s.value for s in await got(run.map(house.fn(branch), [1, 2]))]

    assert house.run(work.bind()).unwrap() == [[10, 10, 20], [20, 20, 30]]
    assert sorted(set(keys(house))) == sorted(keys(house))
    assert "1.0/map#0[1]/map#0[0]/step#0" in keys(house)


def test_a_branch_without_steps_is_fine(house):
    async def one(n):
        return n

    @house.loop
    async def work(run) -> list:
        return [s.value for s in await got(run.map(house.fn(one), [1, 2]))]

    assert house.run(work.bind()).unwrap() == [1, 2]


def test_a_hundred_branches_of_two_steps_survive_a_death_in_the_middle(house):
    step = step_of(house)

    @house.tool(effect=READ)
    def second(n: int) -> int:
        house.note(f"second {n}")
        if n == 50 and house.done.count("second 50") == 1:
            house.kill()
        return n

    async def one(n):
        return await got(second(await got(step(n)) // 10))

    @house.loop
    async def work(run) -> int:
        return sum(s.value for s in await got(run.map(house.fn(one), range(100), limit=16)))

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.unwrap() == 4950
    assert all(house.done.count(f"step {n}") <= 2 for n in range(100))
    assert receipt.restarts == 1


# --- scope


def test_scope_names_a_branch(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        with run.scope("research"):
            first = await got(step(1))
        with run.scope("research"):
            second = await got(step(1))
        return [first, second, await got(step(1))]

    assert house.run(work.bind()).unwrap() == [10, 10, 10]
    assert keys(house) == ["1.0/scope[research]#0/step#0", "1.0/scope[research]#1/step#0", "1.0//step#0"]


def test_scope_adopts_a_task_you_started(async_house):
    house = async_house
    step = step_of(house)

    @house.loop
    async def work(run) -> list:
        async def side(n):
            with run.scope(f"side-{n}"):
                return [await step(n), await step(n)]

        return sum(await asyncio.gather(*[asyncio.create_task(side(n)) for n in (1, 2)]), [])

    assert house.run(work.bind()).unwrap() == [10, 10, 20, 20]
    assert house.run(work.bind()).status is State.COMPLETED


def test_gathered_calls_keep_the_order_in_which_they_were_written(async_house):
    house = async_house

    @house.tool(effect=READ)
    async def slow(n: int) -> int:
        await asyncio.sleep(10 - n)
        house.note(f"slow {n}")
        return n

    @house.tool(effect=READ)
    async def stop() -> int:
        if house.note("stop") == 1:
            house.kill()
        return 0

    @house.loop
    async def work(run) -> list:
        found = await asyncio.gather(*[slow(n) for n in range(5)])
        await stop()
        return found

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == [0, 1, 2, 3, 4]
    assert len(house.done) == 7


# --- call_tools


def model_of(house: House, wanted, *tools):
    @house.loop
    async def work(run) -> list:
        results = await got(run.call_tools(box(*tools), wanted))
        return [
            [r.id, r.is_error, r.text, r.value, r.failure and [r.failure.kind, r.failure.reason]] for r in results
        ]

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
