"""A conversation between the vendors' ways to write one down: read into plain parts, written out again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from yaoki.runtime import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Part", "arguments_of", "converted", "parts_of", "written"]

Message = dict[str, Any]


class Part(NamedTuple):
    """One thing that was said: by whom, in words, and the calls or results in it."""

    role: str
    """`system`, `user`, `assistant` or `results`."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[tuple[str, str, bool], ...] = ()
    """Id, text, and whether it is an error."""


def arguments_of(text: object) -> dict[str, Any]:
    """Return a call's arguments from JSON text; what is no object comes back as it is, to be refused as a mistake."""
    if isinstance(text, str):
        try:
            return cast("dict[str, Any]", json.loads(text or "{}"))
        except ValueError:
            return cast("dict[str, Any]", text)
    return cast("dict[str, Any]", text)


def converted(messages: Sequence[Message], source: str, target: str) -> list[Message]:
    """Return a conversation as another vendor takes it; what only one of them knows (thinking, images) is left out."""
    if source == target:
        return list(messages)
    return [one for part in parts_of(messages, source) for one in written(part, target)]


# --- reading


def parts_of(messages: Iterable[Message], form: str) -> list[Part]:
    """Return what a conversation says."""
    read = {"anthropic": _anthropic_parts, "openai": _chat_parts, "responses": _item_parts}[form]
    return _joined(part for message in messages for part in read(message))


def _joined(parts: Iterable[Part]) -> list[Part]:
    """Put together what one turn of the model said in several items, and the results of its calls."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and part.role == last.role and part.role in ("assistant", "results"):
            text = "\n".join(one for one in (last.text, part.text) if one)
            joined[-1] = Part(part.role, text, last.calls + part.calls, last.results + part.results)
        else:
            joined.append(part)
    return joined


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    found = [
        cast("Message", one).get("text", "") if isinstance(one, dict) else one for one in cast("list[object]", content)
    ]
    return "\n".join(one for one in found if isinstance(one, str) and one)


def _anthropic_parts(message: Message) -> list[Part]:
    content = message.get("content")
    if not isinstance(content, list):
        return [Part(str(message.get("role")), _text_of(content))]
    blocks = [cast("Message", one) for one in cast("list[object]", content) if isinstance(one, dict)]
    text = "\n".join(str(one.get("text", "")) for one in blocks if one.get("type") == "text")
    if message.get("role") == "assistant":
        calls = tuple(
            ToolCall(str(one.get("id")), str(one.get("name")), arguments_of(one.get("input")))
            for one in blocks
            if one.get("type") == "tool_use"
        )
        return [Part("assistant", text, calls)]
    results = tuple(
        (str(one.get("tool_use_id")), _text_of(one.get("content")), bool(one.get("is_error")))
        for one in blocks
        if one.get("type") == "tool_result"
    )
    parts = [Part("results", results=results)] if results else []
    return [*parts, *([Part("user", text)] if text or not results else ())]


def _chat_parts(message: Message) -> list[Part]:
    role, text = str(message.get("role")), _text_of(message.get("content"))
    if role == "tool":
        return [Part("results", results=((str(message.get("tool_call_id")), text, False),))]
    calls: list[ToolCall] = []
    for one in cast("list[Message]", message.get("tool_calls") or []):
        function = cast("Message", one.get("function") or {})
        calls.append(ToolCall(str(one.get("id")), str(function.get("name")), arguments_of(function.get("arguments"))))
    return [Part("system" if role == "developer" else role, text, tuple(calls))]


def _item_parts(item: Message) -> list[Part]:
    kind = item.get("type", "message")
    if kind == "function_call":
        call = ToolCall(str(item.get("call_id")), str(item.get("name")), arguments_of(item.get("arguments")))
        return [Part("assistant", calls=(call,))]
    if kind == "function_call_output":
        return [Part("results", results=((str(item.get("call_id")), _text_of(item.get("output")), False),))]
    if kind != "message":
        return []
    role = str(item.get("role"))
    return [Part("system" if role == "developer" else role, _text_of(item.get("content")))]


# --- writing


def written(part: Part, form: str) -> list[Message]:
    """Return a part as messages."""
    return {"anthropic": _to_anthropic, "openai": _to_chat, "responses": _to_items}[form](part)


def _to_anthropic(part: Part) -> list[Message]:
    if part.role == "results":
        blocks: list[Message] = []
        for call, text, is_error in part.results:
            block: Message = {"type": "tool_result", "tool_use_id": call, "content": text}
            blocks.append({**block, "is_error": True} if is_error else block)
        return [{"role": "user", "content": blocks}]
    if part.role != "assistant" or not part.calls:
        return [{"role": "user" if part.role == "system" else part.role, "content": part.text}]
    blocks = [{"type": "text", "text": part.text}] if part.text else []
    blocks += [{"type": "tool_use", "id": one.id, "name": one.name, "input": _object(one.args)} for one in part.calls]
    return [{"role": "assistant", "content": blocks}]


def _object(args: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", args) if isinstance(args, dict) else {"_": args}


def _to_chat(part: Part) -> list[Message]:
    if part.role == "results":
        return [{"role": "tool", "tool_call_id": call, "content": text} for call, text, _ in part.results]
    message: Message = {"role": part.role, "content": part.text}
    if part.calls:
        message["content"] = part.text or None
        message["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": _json(one.args)}}
            for one in part.calls
        ]
    return [message]


def _json(args: object) -> str:
    return args if isinstance(args, str) else json.dumps(args)


def _to_items(part: Part) -> list[Message]:
    if part.role == "results":
        return [{"type": "function_call_output", "call_id": call, "output": text} for call, text, _ in part.results]
    said: list[Message] = [{"role": part.role, "content": part.text}] if part.text or not part.calls else []
    said += [
        {"type": "function_call", "call_id": one.id, "name": one.name, "arguments": _json(one.args)}
        for one in part.calls
    ]
    return said
