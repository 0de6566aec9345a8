"""A transcript is whole after any cut: every call has its result, every result its call, each once, in place."""

from __future__ import annotations

import copy

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from yaoki import DeclarationError, ToolResult
from yaoki.agent import INTERRUPTED, repaired, results_as, tools_as

ids = st.sampled_from(["c1", "c2", "c3", "", "c4"])
texts = st.text(max_size=10)

anthropic_blocks = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    | st.fixed_dictionaries({"type": st.just("tool_use"), "id": ids, "name": texts, "input": st.just({})})
    | st.fixed_dictionaries({"type": st.just("tool_result"), "tool_use_id": ids, "content": texts}),
    max_size=4,
)
anthropic = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts | anthropic_blocks}),
    max_size=8,
)
chat_calls = st.lists(
    st.fixed_dictionaries(
        {"id": ids, "type": st.just("function"), "function": st.just({"name": "f", "arguments": "{}"})}
    ),
    max_size=3,
)
chat = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": texts})
    | st.fixed_dictionaries({"role": st.just("assistant"), "content": texts, "tool_calls": chat_calls})
    | st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": ids, "content": texts}),
    max_size=8,
)
items = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts})
    | st.fixed_dictionaries(
        {"type": st.just("function_call"), "call_id": ids, "name": texts, "arguments": st.just("{}")}
    )
    | st.fixed_dictionaries({"type": st.just("function_call_output"), "call_id": ids, "output": texts}),
    max_size=10,
)


def anthropic_wrong(messages: list[dict]) -> str:
    """Say what the Messages API would say, or nothing."""
    open_calls: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user":
            if results != open_calls:
                return f"results {results} for calls {open_calls}"
            if [block["type"] for block in blocks[: len(results)]] != ["tool_result"] * len(results):
                return "results do not come first"
            open_calls = []
            continue
        if open_calls:
            return "no result after a call"
        if results:
            return "a result said by the model"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(open_calls)) != len(open_calls) or "" in open_calls:
            return "calls without an id of their own"
    return "dangling" if open_calls else ""


def chat_wrong(messages: list[dict]) -> str:
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                return "a result without its call"
            continue
        if open_calls:
            return "no result after a call"
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
        if len(set(open_calls)) != len(open_calls) or "" in open_calls:
            return "calls without an id of their own"
    return "dangling" if open_calls else ""


def items_wrong(messages: list[dict]) -> str:
    calls = [one["call_id"] for one in messages if one.get("type") == "function_call"]
    results = [one["call_id"] for one in messages if one.get("type") == "function_call_output"]
    if sorted(calls) != sorted(results) or len(set(calls)) != len(calls) or "" in calls:
        return f"{results} for {calls}"
    asked: set[str] = set()
    for one in messages:
        if one.get("type") == "function_call":
            asked.add(one["call_id"])
        elif one.get("type") == "function_call_output" and one["call_id"] not in asked:
            return "a result before its call"
    return ""


WRONG = {"anthropic": anthropic_wrong, "openai": chat_wrong, "responses": items_wrong}
TRANSCRIPTS = st.one_of(
    st.tuples(st.just("anthropic"), anthropic),
    st.tuples(st.just("openai"), chat),
    st.tuples(st.just("responses"), items),
)


@settings(max_examples=400, deadline=None)
@given(TRANSCRIPTS)
def test_whatever_is_given_what_comes_back_is_whole(given_one):
    form, messages = given_one
    before = copy.deepcopy(messages)
    whole = repaired(messages, form)
    assert messages == before
    assert WRONG[form](whole) == ""
    assert repaired(whole, form) == whole


@settings(max_examples=150, deadline=None)
@given(TRANSCRIPTS)
def test_what_is_whole_comes_back_equal(given_one):
    form, messages = given_one
    if not WRONG[form](messages) and all(message.get("content", "x") != [] for message in messages):
        assert repaired(messages, form) == messages


CALLED = {
    "anthropic": [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
                {"type": "tool_use", "id": "c2", "name": "charge", "input": {}},
            ],
        },
    ],
    "openai": [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "charge", "arguments": "{}"}},
            ],
        },
    ],
    "responses": [
        {"role": "user", "content": "hello"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "charge", "arguments": "{}"},
    ],
}
TYPES = {
    "anthropic": TypeAdapter(list[MessageParam]),
    "openai": TypeAdapter(list[ChatCompletionMessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
}


@pytest.mark.parametrize("form", CALLED)
def test_a_call_whose_result_was_lost_is_said_to_be_interrupted(form):
    messages = [*CALLED[form], *results_as(form, [ToolResult("c1", "seen")])]
    whole = repaired(messages, form)
    assert WRONG[form](whole) == ""
    assert str(whole).count(INTERRUPTED) == 1
    assert "seen" in str(whole)
    told = repaired(messages, form, lambda call, tool: f"{tool} ({call}) did not happen")
    assert "charge (c2) did not happen" in str(told)
    TYPES[form].validate_python(whole)


@pytest.mark.parametrize("form", CALLED)
def test_results_and_a_word_of_ours_stand_where_the_vendor_takes_them(form):
    results = [ToolResult("c1", "seen"), ToolResult("c2", "declined", is_error=True)]
    messages = [*CALLED[form], *results_as(form, results, "You said that before.")]
    assert WRONG[form](messages) == ""
    assert repaired(messages, form) == messages
    TYPES[form].validate_python(messages)


@pytest.mark.parametrize("form", CALLED)
def test_tools_are_written_as_the_vendor_wants_them(form):
    spec = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
    (made,) = tools_as(form, [spec])
    assert (made.get("function") or made)["name"] == "look"


def test_there_is_no_other_form():
    with pytest.raises(DeclarationError, match="anthropic, openai, responses"):
        repaired([], "mistral")
