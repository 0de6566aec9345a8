"""
The Anthropic Messages format, as much of it as a loop with tools needs, and the model that speaks it.

Wire format: https://docs.anthropic.com/en/api/messages and …/api/errors. The model is scripted: it reads
the whole conversation each time and does the next thing its ticket calls for, so all state is in the
messages, and the same conversation gets the same reply, before and after a crash.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from yaoki.demo._cases import CASES, Call, Case, same

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from yaoki.demo._plan import Slip

__all__ = ["Message", "Reply", "Request", "Text", "ToolResult", "ToolUse", "Usage", "case_in", "complaint", "reply_to"]


class Text(msgspec.Struct, tag="text", frozen=True):
    """A text block."""

    text: str


class ToolUse(msgspec.Struct, tag="tool_use", frozen=True):
    """A tool call by the model."""

    id: str
    name: str
    input: dict[str, object]


class ToolResult(msgspec.Struct, tag="tool_result", frozen=True):
    """The caller's answer to a tool call."""

    tool_use_id: str
    content: str | list[Text] = ""
    is_error: bool = False


Block: TypeAlias = Text | ToolUse | ToolResult


class Message(msgspec.Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    content: str | list[Block]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The body of POST /v1/messages; fields not named here are accepted and ignored."""

    model: str
    max_tokens: int
    messages: list[Message]
    tools: list[dict[str, object]] = []


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens; counted at four characters each."""

    input_tokens: int
    output_tokens: int


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag="message"):
    """The body of a good answer."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Text | ToolUse]
    stop_reason: Literal["end_turn", "max_tokens", "tool_use"]
    stop_sequence: str | None = None
    usage: Usage


def complaint(request: Request) -> str:
    """Return what the API refuses a request for (400), or nothing."""
    if not request.messages or request.messages[0].role != "user":
        return "messages: first message must use the user role"
    open_ids: list[str] = []
    for i, message in enumerate(request.messages):
        blocks = list(_blocks(message))
        answered = [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
        missing = [id_ for id_ in open_ids if id_ not in answered]
        if missing:
            return f"messages.{i}: `tool_use` ids were found without `tool_result` blocks: {', '.join(missing)}"
        stray = [id_ for id_ in answered if id_ not in open_ids]
        if stray:
            return f"messages.{i}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(stray)}"
        open_ids = [block.id for block in blocks if isinstance(block, ToolUse)]
    return "messages: the last message has open `tool_use` blocks" if open_ids else ""


def case_in(request: Request) -> Case | None:
    """Return the case whose ticket opens the conversation: known by its customer's address."""
    text = " ".join(block.text for block in _blocks(request.messages[0]) if isinstance(block, Text))
    return next((case for case in CASES if f"<{case.email}>" in text), None)


def reply_to(request: Request, case: Case, slips: Sequence[Slip] = ()) -> Reply:
    """Return the model's next move: the first stage with a call that has no result yet, else the verdict."""
    stage, calls = _next_stage(request, case)
    slip = next((slip.kind for slip in slips if slip.ticket == case.ticket and slip.stage == stage), None)
    if slip == "malformed-json" and not _was_corrected(request):
        text = f'{{"outcome": "{case.verdict}", "cents": {case.cents}, "why": "the customer'
        return _reply(request, case, [Text(text)], "max_tokens")
    if not calls:
        verdict = {"outcome": case.verdict, "cents": case.cents, "ticket": case.subject}
        return _reply(request, case, [Text(msgspec.json.encode(verdict).decode())], "end_turn")
    if slip in {"unknown-tool", "bad-arguments"} and not _slipped_already(request, calls[0]):
        calls = [_wrong(calls[0], slip), *calls[1:]]
    blocks: list[Text | ToolUse] = [Text(_thought(calls))]
    blocks += [ToolUse(_id("toolu", request, case, i), call.tool, call.args) for i, call in enumerate(calls)]
    return _reply(request, case, blocks, "tool_use")


def _next_stage(request: Request, case: Case) -> tuple[int, list[Call]]:
    answered = [same(use.name, use.input) for use, _ in _answered_uses(request)]
    for index, stage in enumerate(case.stages):
        left: list[Call] = []
        for call in stage:
            text = same(call.tool, call.args)
            if text in answered:
                answered.remove(text)  # two equal calls need two results
            else:
                left.append(call)
        if left:
            return index, left
    return len(case.stages), []


def _answered_uses(request: Request) -> Iterator[tuple[ToolUse, ToolResult]]:
    results = {b.tool_use_id: b for m in request.messages for b in _blocks(m) if isinstance(b, ToolResult)}
    for message in request.messages:
        for block in _blocks(message):
            if isinstance(block, ToolUse) and block.id in results:
                yield block, results[block.id]


def _was_corrected(request: Request) -> bool:
    """Whether the caller's last word is a complaint in prose: after the first message, users send results."""
    last = list(_blocks(request.messages[-1]))
    return len(request.messages) > 1 and any(isinstance(block, Text) for block in last)


def _slipped_already(request: Request, call: Call) -> bool:
    wrong = {same(w.tool, w.args) for w in (_wrong(call, "unknown-tool"), _wrong(call, "bad-arguments"))}
    return any(same(use.name, use.input) in wrong for use, _ in _answered_uses(request))


def _wrong(call: Call, slip: str) -> Call:
    if slip == "unknown-tool":
        return Call(tool=f"issue_{call.tool}", args=call.args)
    return Call(tool=call.tool, args={**call.args, "cents": f"{call.args.get('cents')} cents"})


def _thought(calls: Sequence[Call]) -> str:
    names = {"find_order": "look that up", "refund": "refund it", "send_mail": "write back", "append_ledger": "book it"}
    return f"Let me {names[re.sub('^issue_', '', calls[0].tool)]}."


def _reply(
    request: Request, case: Case, content: list[Text | ToolUse], stop: Literal["end_turn", "max_tokens", "tool_use"]
) -> Reply:
    usage = Usage(
        input_tokens=len(msgspec.json.encode(request.messages)) // 4,
        output_tokens=len(msgspec.json.encode(content)) // 4,
    )
    return Reply(id=_id("msg", request, case, 0), model=request.model, content=content, stop_reason=stop, usage=usage)


def _id(prefix: str, request: Request, case: Case, i: int) -> str:
    """Return an id that is a function of the conversation, so a repeated question gets the same one."""
    seed = f"{case.ticket}/{i}/".encode() + msgspec.json.encode(request.messages)
    return f"{prefix}_{sha256(seed).hexdigest()[:20]}"


def _blocks(message: Message) -> Iterator[Block]:
    if isinstance(message.content, str):
        yield Text(message.content)
    else:
        yield from message.content
