"""What real responses of the vendors' clients say of their use, and what it costs."""

from __future__ import annotations

import sys

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
import pytest

from yaoki.runtime import Usage
from yaoki.runtime._usage import usage_in, used_by

CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-2024-08-06",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
    "usage": {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 400},
    },
}
MESSAGE = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 100,
        "output_tokens": 50,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
    },
}
RESPONSE_USAGE = {
    "input_tokens": 300,
    "output_tokens": 20,
    "total_tokens": 320,
    "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 5},
}


def counts(usage: Usage) -> tuple:
    return (
        usage.model, usage.total, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens,
        usage.cache_write_tokens,
    )  # fmt: skip


@pytest.mark.parametrize(
    "result", [CHAT, openai.types.chat.ChatCompletion.model_validate(CHAT)], ids=["dict", "object"]
)
def test_a_chat_completion_says_what_it_used(result):
    assert counts(usage_in(result)) == ("gpt-4o-2024-08-06", 1100, 1000, 100, 400, 0)


@pytest.mark.parametrize("result", [MESSAGE, anthropic.types.Message.model_validate(MESSAGE)], ids=["dict", "object"])
def test_a_message_says_what_it_used_with_the_cached_beside_the_input(result):
    assert counts(usage_in(result)) == ("claude-sonnet-4-5", 1350, 1300, 50, 1000, 200)


def test_a_response_says_what_it_used_with_the_cached_among_the_input():
    usage = openai.types.responses.ResponseUsage.model_validate(RESPONSE_USAGE)
    response = openai.types.responses.Response.model_construct(model="gpt-5", usage=usage)
    assert counts(usage_in(response)) == ("gpt-5", 320, 300, 20, 100, 0)


def test_googles_way_is_read_too():
    said = {
        "modelVersion": "gemini-2.5-flash",
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 4, "totalTokenCount": 20},
    }
    assert counts(usage_in(said)) == ("gemini-2.5-flash", 20, 10, 10, 0, 0)


@pytest.mark.parametrize(
    "result",
    ["text", None, 7, [1], {}, {"usage": "high"}, {"usage": {"tokens": "many"}}, {"usage": {"a": 1}}, object()],
)
def test_a_result_that_says_nothing_uses_nothing(result):
    assert usage_in(result) is None


def test_tokens_are_priced_by_the_model_with_the_cached_at_their_own_price():
    used, said = used_by("ask", None, CHAT, None, cost_bounded=False)
    assert said == ""
    # gpt-4o: $2.50 a million in, $1.25 cached, $10 out
    assert used == {"tokens": 1100, "cost_usd": pytest.approx((600 * 2.5 + 400 * 1.25 + 100 * 10) / 1e6)}
    used, said = used_by("ask", None, MESSAGE, None, cost_bounded=False)
    # claude-sonnet-4-5: $3 a million in, $0.30 read from the cache, $3.75 written to it, $15 out
    assert used == {"tokens": 1350, "cost_usd": pytest.approx((100 * 3 + 1000 * 0.3 + 200 * 3.75 + 50 * 15) / 1e6)}


def test_without_a_list_of_prices_a_bounded_cost_is_said_to_be_unknown_and_an_unbounded_one_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    used, said = used_by("ask", None, CHAT, {"cost_usd": 0.5}, cost_bounded=True)
    assert used == {"tokens": 1100, "cost_usd": 0.5}
    assert said == (
        "ask: what it costs is not counted: there is no list of prices. pip install yaoki[prices], or give usage="
    )
    assert used_by("ask", None, CHAT, None, cost_bounded=False) == ({"tokens": 1100}, "")


def test_a_usage_function_may_hand_over_the_vendors_own_object():
    message = anthropic.types.Message.model_validate(MESSAGE)
    used, said = used_by("ask", lambda m: m.usage, message, None, cost_bounded=True)
    assert (used["tokens"], said) == (1350, "")
    assert used["cost_usd"] > 0
