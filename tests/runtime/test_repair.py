"""
Outputs that are judged: rejected, asked for again with the error, and when that ends.

The rules: docs/guarantees.md, "The decision".
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.runtime.house import House, box, calls, got
from yaoki import INJECTED, Budget, DeclarationError, Effect, Feedback, ForModel, Retry, StepFailed
from yaoki.records import Executed, FailureKind, Settle, State

READ = Effect.READ_ONLY


@dataclass
class Plan:
    steps: list[str]


def not_empty(plan: Plan) -> None:
    if not plan.steps:
        raise ValueError("a plan needs steps")


def planner(house: House, outputs: list, **policy):
    """Make a model that gives these outputs in turn, told what was wrong with the last."""
    agent = policy.pop("agent", ForModel(validate=not_empty))

    def plan(goal: str, *, feedback: Feedback | None = INJECTED) -> Plan:
        told = "-" if feedback is None else f"{feedback.attempt} {feedback.output} {feedback.error}"
        house.note(f"told {told}")
        output = outputs[min(len(house.done), len(outputs)) - 1]
        if output == "die":
            house.kill()
        return output

    use = house.tool(effect=policy.pop("effect", READ), agent=agent, **policy)(plan)

    @house.loop
    async def work(run) -> list[str]:
        try:
            return (await got(use("tea"))).steps
        except StepFailed as error:
            return [error.failure.kind, error.failure.reason, error.failure.message, str(error.attempts)]

    return work


def test_a_good_output_is_kept(house):
    assert house.run(planner(house, [Plan(["boil"])]).bind()).unwrap() == ["boil"]
    assert house.done == ["told -"]


def test_a_rejected_output_is_asked_for_again_with_the_error(house):
    assert house.run(planner(house, [Plan([]), Plan(["boil"])]).bind()).unwrap() == ["boil"]
    assert house.done == ["told -", "told 2 {'steps': []} ValueError: a plan needs steps"]


def test_the_rejected_output_and_its_error_are_in_the_journal(house):
    house.run(planner(house, [Plan([]), Plan(["boil"])]).bind())
    first, second = house.records(Settle)
    assert bytes(first.output) == b'{"steps":[]}'
    assert first.failure.kind is FailureKind.SEMANTIC
    assert first.decision.do == "repair"
    assert (first.executed, second.outcome) == (Executed.YES, "ok")


def test_repairs_end_after_repairs_max(house):
    outputs = [Plan([]), Plan([""] * 0), Plan(["x"])]
    agent = ForModel(validate=lambda plan: plan.steps == ["good"], repairs_max=2)
    found = house.run(planner(house, [Plan([str(n)]) for n in range(9)], agent=agent).bind()).unwrap()
    assert outputs
    assert found == ["semantic", "output.rejected", "the validator returned False", "3"]
    assert len(house.done) == 3


def test_the_same_output_twice_ends_it(house):
    agent = ForModel(validate=not_empty, repairs_max=9)
    found = house.run(planner(house, [Plan([]), Plan([]), Plan(["late"])], agent=agent).bind()).unwrap()
    assert found[0] == "semantic"
    assert len(house.done) == 2


def test_no_repairs_are_made_with_repairs_max_0(house):
    agent = ForModel(validate=not_empty, repairs_max=0)
    assert house.run(planner(house, [Plan([]), Plan(["x"])], agent=agent).bind()).unwrap()[0] == "semantic"
    assert len(house.done) == 1


def test_a_repair_is_an_attempt_and_a_retry_of_the_budget(house):
    receipt = house.run(planner(house, [Plan([]), Plan(["x"])], retry=Retry(attempts_max=1)).bind())
    assert receipt.unwrap()[0] == "semantic"
    assert len(house.done) == 1
    receipt = house.run(planner(house, [Plan([]), Plan([]), Plan(["x"])]).bind(), "r2")
    assert receipt.spent.retries == 1


def test_a_tool_that_takes_no_feedback_is_not_repaired(house):
    def plan(goal: str) -> Plan:
        house.note("asked")
        return Plan([])

    use = house.tool(effect=READ, agent=ForModel(validate=not_empty))(plan)

    @house.loop
    async def work(run) -> list[str]:
        return (await got(use("tea"))).steps

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.failure.reason == "output.rejected"
    assert len(house.done) == 1


def test_after_a_restart_the_newest_rejected_output_is_still_told(house):
    work = planner(
        house, [Plan([]), Plan(["bad"]), "die", Plan(["good"])], agent=ForModel(validate=good, repairs_max=5)
    )
    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == ["good"]
    assert house.done == [
        "told -",
        "told 2 {'steps': []} the validator returned False",
        "told 3 {'steps': ['bad']} the validator returned False",
        "told 4 {'steps': ['bad']} the validator returned False",
    ]


def good(plan: Plan) -> bool:
    return plan.steps == ["good"]


def test_a_validator_is_given_the_decoded_value_and_any_of_its_errors_rejects(house):
    seen: list[type] = []

    def strict(plan: Plan) -> None:
        seen.append(type(plan))
        assert plan.steps[5], "never reached"

    found = house.run(planner(house, [Plan(["x"])], agent=ForModel(validate=strict, repairs_max=0)).bind()).unwrap()
    assert seen == [Plan]
    assert found[2].startswith("IndexError: list index out of range")


@pytest.mark.parametrize("verdict", [None, True, 1, "text", 0])
def test_only_false_and_exceptions_reject(house, verdict):
    agent = ForModel(validate=lambda plan: verdict)
    assert house.run(planner(house, [Plan(["x"])], agent=agent).bind()).unwrap() == ["x"]


def test_a_rejected_output_of_an_effect_is_asked_about_and_never_sent_again(house):
    """It happened: the gate comes before any repair."""
    work = planner(house, [Plan([]), Plan(["x"])], effect=None)
    receipt = house.run(work.bind())
    assert receipt.status is State.WAITING
    assert receipt.asks[0].executed is Executed.YES
    assert len(house.done) == 1
    house.answer("happened", {"steps": ["by hand"]})
    assert house.run(work.bind()).unwrap() == ["by hand"]


def test_a_rejected_output_reaches_a_model_as_a_result(house):
    def plan(goal: str) -> Plan:
        return Plan([])

    use = house.tool(effect=READ, agent=ForModel(validate=not_empty))(plan)

    @house.loop
    async def work(run) -> list:
        [result] = await got(run.call_tools(box(use), calls(("plan", {"goal": "tea"}))))
        return [result.is_error, result.text]

    assert house.run(work.bind()).unwrap() == [True, "ValueError: a plan needs steps"]


def test_repairs_count_against_the_retries_of_the_run(house):
    agent = ForModel(validate=good, repairs_max=9)

    def plan(goal: str, *, feedback: Feedback | None = INJECTED) -> Plan:
        house.note("asked")
        return Plan([str(len(house.done))])

    use = house.tool(effect=READ, agent=agent)(plan)

    @house.loop(budget=Budget(retries=2))
    async def work(run) -> list[str]:
        return (await got(use("tea"))).steps

    assert house.run(work.bind()).status is State.DEAD
    assert len(house.done) == 3


@pytest.mark.parametrize("repairs_max", [-1, 101])
def test_a_bound_that_cannot_work_is_refused(repairs_max):
    with pytest.raises(DeclarationError, match=f"repairs_max is {repairs_max}; it lies between 0 and 100"):
        ForModel(repairs_max=repairs_max)


# --- malformed before there is an output


def test_a_semantic_failure_that_the_tool_raises_is_repaired_within_the_same_bound(house):
    """A client that parses for itself raises: there is no output to show, the error is fed back all the same."""
    told: list[Feedback | None] = []

    @house.tool(effect=READ, agent=ForModel(repairs_max=2))
    def ask(prompt: str, *, feedback: Feedback | None = INJECTED) -> dict:
        told.append(feedback)
        return json.loads("{nope")

    @house.loop
    async def work(run):
        return await got(ask("x"))

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.failure.kind) == (State.DEAD, FailureKind.SEMANTIC)
    assert [one and (one.output, one.attempt) for one in told] == [None, (None, 2), (None, 3)]
    assert "Expecting property name" in told[1].error
