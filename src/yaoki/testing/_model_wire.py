"""
What a model vendor's answers look like on the wire: Anthropic Messages, OpenAI Chat Completions, OpenAI Responses.

Formats: https://docs.anthropic.com/en/api/messages and …/messages-streaming,
https://platform.openai.com/docs/api-reference/chat and …/responses, and their error pages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["ERRORS", "Answer", "Event", "error_body", "events_of", "form_at", "whole_of"]

Event: TypeAlias = tuple[str, dict[str, Any]]
"""A name, which OpenAI's chat leaves out, and its data."""
_PIECE = 12
_PATHS = {"/v1/messages": "anthropic", "/v1/chat/completions": "openai", "/v1/responses": "responses"}


@dataclass(frozen=True)
class Answer:
    """What the model says: words, calls of tools by name with their arguments, and what it used."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    """A text in place of arguments is sent as it is: a model may write what is no JSON."""
    stop: str = ""
    """The vendor's word for why it ended; by default its usual one."""
    input_tokens: int = 10
    output_tokens: int = 5
    ids: Sequence[str] = field(default=())
    """Of its calls; by default `call_1`, `call_2`, …"""

    def call_id(self, place: int) -> str:
        """Return the id of a call."""
        return self.ids[place] if place < len(self.ids) else f"call_{place + 1}"


def form_at(path: str) -> str:
    """Return the form spoken at a path, or nothing."""
    return _PATHS.get(path.partition("?")[0].rstrip("/"), "")


def _arguments(args: Mapping[str, Any] | str) -> str:
    return args if isinstance(args, str) else json.dumps(args)


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    for place, (name, args) in enumerate(answer.calls):
        given = {} if isinstance(args, str) else dict(args)
        blocks.append({"type": "tool_use", "id": answer.call_id(place), "name": name, "input": given})
    return blocks


def _message(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": answer.call_id(place),
                "type": "function",
                "function": {"name": name, "arguments": _arguments(args)},
            }
            for place, (name, args) in enumerate(answer.calls)
        ]
    return message


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text:
        content: list[dict[str, Any]] = [{"type": "output_text", "text": answer.text, "annotations": list[Any]()}]
        items.append({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content})
    for place, (name, args) in enumerate(answer.calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{place + 1}",
                "call_id": answer.call_id(place),
                "name": name,
                "arguments": _arguments(args),
                "status": "completed",
            }
        )
    return items


def _usage(form: str, answer: Answer) -> dict[str, Any]:
    given, made = answer.input_tokens, answer.output_tokens
    if form == "anthropic":
        return {"input_tokens": given, "output_tokens": made}
    if form == "openai":
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }


def _stop(form: str, answer: Answer) -> str:
    usual = ("tool_use", "end_turn") if form == "anthropic" else ("tool_calls", "stop")
    return answer.stop or usual[0 if answer.calls else 1]


def whole_of(form: str, model: str, answer: Answer) -> dict[str, Any]:
    """Return an answer as one body."""
    if form == "anthropic":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": _blocks(answer),
            "stop_reason": _stop(form, answer),
            "stop_sequence": None,
            "usage": _usage(form, answer),
        }
    if form == "openai":
        choice = {"index": 0, "message": _message(answer), "finish_reason": _stop(form, answer), "logprobs": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [choice],
            "usage": _usage(form, answer),
        }
    return _response(model, "completed", _items(answer), _usage(form, answer))


def _response(model: str, status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)] or [""]


def events_of(form: str, model: str, answer: Answer, *, usage: bool = True) -> Iterator[Event]:
    """
    Return an answer as the events of a stream; the last one is the vendor's final marker.

    Chat Completions end with `[DONE]`, given here as an event without data. `usage`: whether they were asked for it.
    """
    if form == "anthropic":
        return _anthropic_events(model, answer)
    if form == "openai":
        return _chat_events(model, answer, usage=usage)
    return _response_events(model, answer)


def _anthropic_events(model: str, answer: Answer) -> Iterator[Event]:
    start: dict[str, Any] = {**whole_of("anthropic", model, answer), "content": [], "stop_reason": None}
    start["usage"] = {"input_tokens": answer.input_tokens, "output_tokens": 1}
    yield "message_start", {"type": "message_start", "message": start}
    yield "ping", {"type": "ping"}
    blocks = _blocks(answer)
    told = [args for _, args in answer.calls]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty: dict[str, Any] = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        text = block["text"] if is_text else _arguments(told[index - (len(blocks) - len(told))])
        for piece in _pieces(text):
            key, kind = ("text", "text_delta") if is_text else ("partial_json", "input_json_delta")
            delta = {"type": kind, key: piece}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    end: dict[str, Any] = {"stop_reason": _stop("anthropic", answer), "stop_sequence": None}
    used = {"output_tokens": answer.output_tokens}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": used}
    yield "message_stop", {"type": "message_stop"}


def _chat_events(model: str, answer: Answer, *, usage: bool) -> Iterator[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return "", {**base, "choices": [choice]}

    base: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    if answer.text:
        for piece in _pieces(answer.text):
            yield chunk({"content": piece})
    for place, (name, args) in enumerate(answer.calls):
        head = {"index": place, "id": answer.call_id(place), "type": "function"}
        yield chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        for piece in _pieces(_arguments(args)):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    yield chunk({}, _stop("openai", answer))
    if usage:
        yield "", {**base, "choices": [], "usage": _usage("openai", answer)}
    yield "[DONE]", {}


def _response_events(model: str, answer: Answer) -> Iterator[Event]:
    number = iter(range(1_000_000))

    def event(kind: str, **data: object) -> Event:
        return kind, {"type": kind, "sequence_number": next(number), **data}

    yield event("response.created", response=_response(model, "in_progress", [], None))
    for index, item in enumerate(_items(answer)):
        begun = {**item, "status": "in_progress"}
        begun["content" if item["type"] == "message" else "arguments"] = [] if item["type"] == "message" else ""
        yield event("response.output_item.added", output_index=index, item=begun)
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            part = cast("list[dict[str, Any]]", item["content"])[0]
            place["content_index"] = 0
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            for piece in _pieces(part["text"]):
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **place, part=part)
        else:
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield event("response.function_call_arguments.done", **place, **done)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole_of("responses", model, answer))


ERRORS: dict[str, tuple[int, tuple[str, str], tuple[str, str | None, str]]] = {
    # status, Anthropic's type and message, OpenAI's type, code and message
    "400": (400, ("invalid_request_error", "invalid request"), ("invalid_request_error", None, "invalid request")),
    "401": (
        401,
        ("authentication_error", "invalid x-api-key"),
        ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    ),
    "429": (
        429,
        ("rate_limit_error", "This request would exceed your organization's rate limit."),
        ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    ),
    "quota": (
        429,
        ("rate_limit_error", "Your credit balance is too low to access the API. Please go to Plans & Billing."),
        (
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
    ),
    "500": (500, ("api_error", "Internal server error"), ("server_error", None, "The server had an error.")),
    "503": (
        503,
        ("api_error", "Service unavailable"),
        ("server_error", None, "The server is down for now."),
    ),
    "529": (529, ("overloaded_error", "Overloaded"), ("server_error", None, "The engine is currently overloaded.")),
    "context": (
        400,
        ("invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
        (
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. Please reduce the length of the messages.",
        ),
    ),
    "filter": (
        400,
        ("invalid_request_error", "Output blocked by content filtering policy"),
        ("invalid_request_error", "content_filter", "The response was filtered due to the content policy."),
    ),
    "prefill": (
        400,
        (
            "invalid_request_error",
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ),
        ("invalid_request_error", None, "The last message must not be from the assistant."),
    ),
}


def error_body(form: str, fault: str) -> tuple[int, dict[str, Any]] | None:
    """Return the status and body of an error that a vendor documents; None if it is none."""
    found = ERRORS.get(fault)
    if found is None:
        return None
    status, (kind, message), (other, code, text) = found
    if form == "anthropic":
        return status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return status, {"error": {"message": text, "type": other, "param": None, "code": code}}
