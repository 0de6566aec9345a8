"""Classifying costs little, counted in calls, which no busy machine changes; `bench/classify.py` has the time."""

from __future__ import annotations

import sys
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from yaoki.classify import classify

LIMITED = {
    "error": {
        "message": "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000,"
        " Used 29000, Requested 2000. Please try again in 6.5s.",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def answer(client: Any, status: int, body: object) -> BaseException:
    request = httpx2.Request("POST", "https://vendor.test/v1")
    return client._make_status_error_from_response(httpx2.Response(status, json=body, request=request))


def calls_of(error: BaseException) -> int:
    """Return how many functions, Python's and built in, one classification calls."""
    count = 0

    def counted(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        classify(error)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("error", "calls_most"),
    [
        (answer(openai.OpenAI(api_key="x"), 429, LIMITED), 240),
        (answer(anthropic.Anthropic(api_key="x"), 529, OVERLOADED), 270),
        (httpx.ReadTimeout("timed out"), 165),
        (ConnectionResetError(104, "Connection reset by peer"), 160),
        (ValueError("x"), 130),
    ],
    ids=lambda found: type(found).__name__,
)
def test_an_error_met_before_costs_few_calls(error: BaseException, calls_most: int) -> None:
    classify(error)
    assert calls_of(error) <= calls_most


def test_a_huge_body_is_looked_at_in_part() -> None:
    small = answer(openai.OpenAI(api_key="x"), 400, {"error": {"message": "bad " * 10}})
    huge = answer(openai.OpenAI(api_key="x"), 400, {"error": {"message": "bad " * 1_000_000}})
    classify(small)
    assert calls_of(huge) < 10 * calls_of(small)
