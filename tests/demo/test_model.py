"""The scripted model: it follows the conversation, and nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.demo.vendors import opening, running, ticket_text
from yaoki.demo._cases import CASES, case_of_ticket, effects_of
from yaoki.demo._messages import Request, case_in, complaint, reply_to
from yaoki.demo._plan import Plan, Slip


def request_of(messages) -> Request:
    return msgspec.convert({"model": "m", "max_tokens": 9, "messages": messages}, Request)


def answered(reply: dict, *, is_error: bool = False) -> list[dict]:
    """Return the model's message, and a result for each of its calls."""
    uses = [block for block in reply["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": u["id"], "content": "ok", "is_error": is_error} for u in uses]
    return [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": results}]


def converse(ticket: str, slips=()) -> tuple[list[tuple[str, dict]], dict]:
    """Play a whole conversation; return the calls the model made, and its last reply."""
    messages, calls = opening(ticket), []
    for _ in range(10):
        reply = msgspec.to_builtins(reply_to(request_of(messages), case_of_ticket(ticket), slips))
        if reply["stop_reason"] != "tool_use":
            return calls, reply
        calls += [(block["name"], block["input"]) for block in reply["content"] if block["type"] == "tool_use"]
        messages += answered(reply)
    raise AssertionError("no end")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.ticket)
def test_every_ticket_file_is_known_by_its_customer_and_names_its_orders(case):
    text = ticket_text(case.ticket)
    assert case_in(request_of(opening(case.ticket))) is case
    assert f"Subject: {case.subject}\n" in text
    assert all(order.id in text for order in case.orders)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.ticket)
def test_a_conversation_asks_for_what_the_ticket_calls_for_once_and_ends_in_a_verdict(case):
    calls, last = converse(case.ticket)
    assert calls == [(call.tool, call.args) for stage in case.stages for call in stage]
    assert json.loads(last["content"][0]["text"])["outcome"] == case.verdict


def test_the_refunds_of_a_case_add_up_to_its_verdict():
    for case in CASES:
        assert sum(int(c.args["cents"]) for c in effects_of(case) if c.tool == "refund") == case.cents, case.ticket


def test_the_same_conversation_gets_the_same_reply_also_from_another_vendor():
    replies = []
    for _ in range(2):
        with running() as vendor:
            replies.append(vendor.ask(opening("ticket-07")))
    assert replies[0] == replies[1]
    assert replies[0]["type"] == "message"
    assert replies[0]["usage"]["input_tokens"] > 0


def test_two_equal_calls_need_two_results():
    messages = opening("ticket-07")
    case = case_of_ticket("ticket-07")
    messages += answered(msgspec.to_builtins(reply_to(request_of(messages), case)))
    reply = msgspec.to_builtins(reply_to(request_of(messages), case))
    uses = [block for block in reply["content"] if block["type"] == "tool_use"]
    assert [use["input"]["cents"] for use in uses] == [750, 750]
    assert uses[0]["id"] != uses[1]["id"]


def test_a_dangling_tool_call_is_refused_as_the_api_refuses_it():
    messages = opening("ticket-01")
    reply = msgspec.to_builtins(reply_to(request_of(messages), case_of_ticket("ticket-01")))
    messages += [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": "well?"}]
    assert "without `tool_result` blocks" in complaint(request_of(messages))


@pytest.mark.parametrize("kind", ["unknown-tool", "bad-arguments"])
def test_a_slip_in_a_call_is_made_once_and_mended_after_its_result(kind):
    slips = [Slip(ticket="ticket-01", stage=1, kind=kind)]
    calls, last = converse("ticket-01", slips)
    plain, _ = converse("ticket-01")
    assert len(calls) == len(plain) + 1
    assert calls[1] != plain[1]
    assert [calls[0], *calls[2:]] == plain
    assert last["stop_reason"] == "end_turn"


def test_malformed_json_is_cut_off_and_comes_right_when_the_caller_says_so():
    slips = [Slip(ticket="ticket-01", stage=0, kind="malformed-json")]
    case = case_of_ticket("ticket-01")
    messages = opening("ticket-01")
    reply = reply_to(request_of(messages), case, slips)
    assert reply.stop_reason == "max_tokens"
    with pytest.raises(json.JSONDecodeError):
        json.loads(reply.content[0].text)
    messages += [{"role": "user", "content": "Your last answer could not be used."}]
    assert reply_to(request_of(messages), case, slips).stop_reason == "tool_use"


def test_the_vendor_serves_the_slips_of_its_plan():
    plan = Plan(slips=(Slip(ticket="ticket-02", stage=0, kind="malformed-json"),))
    with running(plan) as vendor:
        assert vendor.ask(opening("ticket-02"))["stop_reason"] == "max_tokens"
        assert vendor.ask(opening("ticket-01"))["stop_reason"] == "tool_use"
