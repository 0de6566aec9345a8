"""The tool loop, with scripted models: answers, mistakes, circles, gates; killed anywhere, the same end."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.runtime.errors import not_found
from tests.runtime.house import House
from yaoki import Budget, DeclarationError, Effect, ForModel, Run, Toolbox, ToolCall, Verdict, loop
from yaoki.agent import StallGuard, aconverse, converse
from yaoki.records import State


@dataclass
class Said:
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    message: dict[str, Any] = field(default_factory=dict)


def says(text: str) -> Said:
    return Said(text, [], {"role": "assistant", "content": text})


def asks(*calls: tuple[str, dict[str, Any]], turn: int = 0) -> Said:
    made = [ToolCall(f"c{turn}.{n}", name, args) for n, (name, args) in enumerate(calls)]
    blocks = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.args} for one in made]
    return Said("", made, {"role": "assistant", "content": blocks})


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path) -> House:
    return House(request.param, tmp_path)


class Desk:
    """A shop's tools, a model that follows a script by what it has been told, and a loop around them."""

    def __init__(self, house: House, script, **options: Any) -> None:
        self.house = house
        self.script = script
        self.sent: list[list[dict[str, Any]]] = []
        policy = options.pop("policy", {})

        @house.tool(effect=Effect.READ_ONLY)
        def look(order: str) -> str:
            house.note(f"look {order}")
            return f"{order}: 4200 cents"

        @house.tool(effect=Effect.AT_MOST_ONCE)
        def refund(order: str, cents: int) -> str:
            house.note(f"refund {order} {cents}")
            if cents > 5000:
                raise not_found()
            return "refunded"

        @house.tool(effect=Effect.READ_ONLY, agent=ForModel(poll=True))
        def job(n: int) -> str:
            return "running"

        @house.tool(effect=Effect.READ_ONLY, name="model")
        def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Said:
            self.sent.append(messages)
            house.note("model")
            reply = self.script(messages)
            return says(reply) if isinstance(reply, str) else reply

        box = Toolbox(look, refund, job)

        async def body(run) -> Any:
            return await aconverse(run, ask, "refund A-1", form="anthropic", tools=box, **options)

        def plain_body(run) -> Any:
            return converse(run, ask, "refund A-1", form="anthropic", tools=box, **options)

        self.loop = loop(name="desk", **policy)(body if house.is_async else plain_body)

    def run(self):
        return self.house.run(self.loop.bind())


def turns_of(messages: list[dict[str, Any]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def script(*replies):
    """Say these, one a turn."""
    return lambda messages: replies[min(turns_of(messages), len(replies) - 1)]


REFUND = script(
    asks(("look", {"order": "A-1"}), turn=0),
    asks(("refund", {"order": "A-1", "cents": 4200}), turn=1),
    "Done: 4200 cents.",
)


def test_model_calls_results_answer(house):
    desk = Desk(house, REFUND)
    receipt = desk.run()
    assert (receipt.status, receipt.value, receipt.turn) == (State.COMPLETED, "Done: 4200 cents.", 3)
    assert house.done == ["model", "look A-1", "model", "refund A-1 4200", "model"]
    last = desk.sent[-1]
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert last[2]["content"] == [{"type": "tool_result", "tool_use_id": "c0.0", "content": "A-1: 4200 cents"}]


def test_mistakes_are_answered_to_the_model(house):
    desk = Desk(
        house,
        script(
            asks(("loook", {}), ("look", {"ordr": "A-1"}), ("refund", {"order": "A-1", "cents": "many"}), turn=0),
            asks(("look", {"order": "A-1"}), turn=1),
            "seen",
        ),
    )
    assert desk.run().value == "seen"
    told = desk.sent[1][-2]["content"] if desk.sent[1][-1]["role"] == "user" else None
    results = next(message["content"] for message in desk.sent[1] if isinstance(message["content"], list))
    assert told is not None
    assert results[0]["type"] == "tool_use"
    assert [block["is_error"] for block in desk.sent[1][2]["content"]] == [True, True, True]


def test_what_failed_is_noted_until_it_succeeds(house):
    desk = Desk(
        house,
        script(
            asks(("refund", {"order": "A-1", "cents": 9000}), turn=0),
            asks(("look", {"order": "A-1"}), turn=1),
            "It was too much.",
        ),
    )
    assert desk.run().value == "It was too much."
    notes = [messages[-1]["content"] for messages in desk.sent]
    assert notes[0] == "refund A-1"
    for told in notes[1:]:
        assert told.startswith("What failed and has not succeeded since")
        assert "It did not happen." in told
        assert 'refund(order="A-1", cents=9000)' in told
    assert sum("What failed" in str(message) for message in desk.sent[2]) == 1, "sent, not kept"


# --- answers


@dataclass
class Answer:
    order: str
    cents: int


def test_an_answer_is_of_its_type_or_told_why_not(house):
    desk = Desk(
        house,
        script("It is done", '```json\n{"order": "A-1", "cents": 4200}\n```'),
        into=Answer,
    )
    receipt = desk.run()
    assert receipt.value == {"order": "A-1", "cents": 4200} or receipt.value == Answer("A-1", 4200)
    assert "it is no Answer" in desk.sent[1][-1]["content"]


@pytest.mark.parametrize(
    ("replies", "sent", "why"),
    [
        (["no", "no"], 2, "the same answer was given again"),
        (["no", "nope", "never"], 3, "answer 3 of 3"),
        (["", " "], 2, "the answer is empty"),
    ],
)
def test_rejected_answers_are_bounded(house, replies, sent, why):
    into = {} if replies[0] == "" else {"into": Answer}
    desk = Desk(house, script(*replies), **into)
    receipt = desk.run()
    assert (receipt.status, receipt.stopped_by) == (State.CAPPED, "verify")
    assert why in receipt.text
    assert len(desk.sent) == sent


def test_the_verifier_decides_not_the_model(house):
    def thorough(text: str) -> Verdict:
        house.note("verify")
        return Verdict(passed="4200" in text, evidence="the amount is missing")

    desk = Desk(house, script("All done!", "Refunded 4200 cents."), verify=thorough)
    receipt = desk.run()
    assert receipt.value == "Refunded 4200 cents."
    assert house.done == ["model", "verify", "model", "verify"]
    assert "the amount is missing" in desk.sent[1][-1]["content"]


def test_what_never_passes_ends_capped_with_the_evidence(house):
    desk = Desk(house, lambda messages: f"try {turns_of(messages)}", verify=lambda _: False, rejections_max=4)
    receipt = desk.run()
    assert (receipt.status, receipt.stopped_by, receipt.partial) == (State.CAPPED, "verify", "try 3")
    assert len(desk.sent) == 4


def test_a_call_in_between_makes_the_count_of_rejections_new(house):
    def model(messages):
        turn = turns_of(messages)
        return asks(("look", {"order": f"A-{turn}"}), turn=turn) if turn % 2 else f"try {turn}"

    desk = Desk(house, model, verify=lambda text: text == "try 8", rejections_max=2)
    assert desk.run().value == "try 8"


def test_turns_used_up_end_it_capped_with_what_was_said(house):
    desk = Desk(
        house,
        lambda messages: asks(("look", {"order": f"A-{turns_of(messages)}"}), turn=turns_of(messages)),
        policy={"budget": Budget(turns=3)},
    )
    receipt = desk.run()
    assert (receipt.status, receipt.stopped_by) == (State.CAPPED, "budget.turns")
    assert [message["role"] for message in receipt.partial["messages"]] == ["user"] + ["assistant", "user"] * 2


# --- circles


@pytest.mark.parametrize("period", range(1, 6))
def test_circles_are_told_refused_and_over(house, period):
    def model(messages):
        turn = turns_of(messages)
        return asks(("look", {"order": f"A-{turn % period}"}), turn=turn)

    desk = Desk(house, model)
    receipt = desk.run()
    assert receipt.status is State.DEAD
    assert receipt.failure.reason == "agent.stalled"
    assert sum(line.startswith("look") for line in house.done) == 2 * period
    told = [message for messages in desk.sent for message in messages if "was made before" in str(message)]
    told += [message for messages in desk.sent for message in messages if "were made before" in str(message)]
    assert told or period == 1


def test_one_that_turns_away_goes_on(house):
    def model(messages):
        turn = turns_of(messages)
        if turn < 2:
            return asks(("look", {"order": "A-1"}), turn=turn)
        assert "with the same result" in str(messages[-1])
        return "I stop."

    assert Desk(house, model).run().value == "I stop."


def test_tools_that_poll_and_no_guard_are_left_alone(house, tmp_path):
    def model(messages):
        turn = turns_of(messages)
        return asks(("job", {"n": 1}), turn=turn) if turn < 12 else "ready"

    assert Desk(house, model).run().value == "ready"
    other = House(house.kind, tmp_path / "other")
    (tmp_path / "other").mkdir()

    def again(messages):
        turn = turns_of(messages)
        return asks(("look", {"order": "A-1"}), turn=turn) if turn < 12 else "ready"

    assert Desk(other, again, guard=None).run().value == "ready"


def test_a_stall_may_be_told_to_a_new_pass(house):
    def model(messages):
        if "ended in a failure" in str(messages):
            return "Another way."
        return asks(("look", {"order": "A-1"}), turn=turns_of(messages))

    desk = Desk(house, model, policy={"replans_max": 1})
    receipt = desk.run()
    assert receipt.value == "Another way."


def test_guards_may_be_tuned(house):
    desk = Desk(
        house,
        lambda messages: asks(("look", {"order": "A-1"}), turn=turns_of(messages)),
        guard=StallGuard(told_after=4, over_after=6),
    )
    assert desk.run().failure.reason == "agent.stalled"
    assert sum(line.startswith("look") for line in house.done) == 4


# --- deaths


@pytest.mark.parametrize("at", range(1, 7))
def test_killed_anywhere_the_end_is_the_same(house, at):
    """Each note is an effect on the world: the process dies right after one, so between a call and its record."""
    desk = Desk(house, REFUND)
    noting = house.note

    def note(text: str) -> int:
        times = noting(text)
        if len(house.done) == at and not (house._log.parent / "died").exists():
            (house._log.parent / "died").touch()
            house.kill()
        return times

    house.note = note
    died = house.die(desk.loop.bind())
    assert died in (0, -signal.SIGKILL)
    receipt = desk.run()
    if receipt.status is State.WAITING:  # the refund may have happened: it was AT_MOST_ONCE
        assert "refund" in receipt.asks[0].text
        house.answer("happened", "refunded")
        receipt = desk.run()
    assert receipt.value == "Done: 4200 cents."
    assert house.done.count("refund A-1 4200") == 1
    if desk.sent:
        assert [message["role"] for message in desk.sent[-1]] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(("turns", "most"), [(150, 480_000), pytest.param(1_000, 2_500_000, marks=pytest.mark.long)])
def test_a_thousand_turns_with_results_of_1_kb_stay_under_2_5_mb(tmp_path, turns, most):
    """What a tool said is on disk once: the transcript refers to it."""
    house = House("sync", tmp_path)

    @house.tool(effect=Effect.READ_ONLY)
    def read(part: int) -> str:
        return f"{part:0>1000}"

    @house.tool(effect=Effect.READ_ONLY, name="model")
    def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Said:
        turn = len(messages) // 2
        return asks(("read", {"part": turn}), turn=turn) if turn < turns else says("ready")

    @loop(budget=Budget(turns=turns + 1))
    def work(run: Run) -> str:
        return converse(run, ask, "read it", form="anthropic", tools=Toolbox(read))

    assert house.run(work.bind()).value == "ready"
    assert (tmp_path / "store.db").stat().st_size < most


@pytest.mark.parametrize(
    ("options", "why"),
    [({"rejections_max": 0}, "rejections_max"), ({"into": object()}, "into")],
)
def test_what_cannot_work_is_refused(house, options, why):
    desk = Desk(house, script("x"), **options)
    receipt = desk.run()
    assert receipt.status is State.DEAD
    assert why in receipt.text


def test_the_form_is_one_of_three():
    with pytest.raises(DeclarationError, match="no form"):
        converse(None, None, "x", form="mistral")  # type: ignore[arg-type]
