"""
How a conversation is written down, by vendor: what a result, a word of ours and a whole transcript look like.

    anthropic   Messages: tool results are blocks at the start of the user message after the call
    openai      Chat Completions: a `tool` message for each call, before anything else
    responses   Responses: items; each `function_call` has its `function_call_output`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from yaoki.errors import DeclarationError

if TYPE_CHECKING:
    from yaoki.runtime import ToolResult

__all__ = ["FORMS", "INTERRUPTED", "Form", "Interrupted", "Message", "form_of"]

Message: TypeAlias = dict[str, Any]
Interrupted: TypeAlias = Callable[[str, str], str]
"""Given a call's id and the tool's name, returns what the model is told of it."""

INTERRUPTED = (
    "This call was interrupted: its end was never recorded. It may have happened; look before you do it again."
)


class Form(Protocol):
    """One vendor's way to write a conversation down."""

    name: str

    def opening(self, task: str) -> list[Message]:
        """Return the messages a conversation begins with."""
        ...

    def said(self, message: object) -> list[Message]:
        """Return what the model said as messages to append."""
        ...

    def results(self, results: Sequence[ToolResult], word: str = "") -> list[Message]:
        """Return the results of the calls in the last message, and a word of ours after them."""
        ...

    def told(self, word: str) -> list[Message]:
        """Return a word of ours."""
        ...

    def tools(self, specs: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Return a toolbox's specs as the vendor wants them."""
        ...

    def repaired(self, messages: Sequence[Message], interrupted: Interrupted) -> list[Message]:
        """Return a transcript in which every call has its result, and every result its call."""
        ...


class _Anthropic:
    name = "anthropic"

    def opening(self, task: str) -> list[Message]:
        return [{"role": "user", "content": task}]

    def said(self, message: object) -> list[Message]:
        return _as_messages(message)

    def results(self, results: Sequence[ToolResult], word: str = "") -> list[Message]:
        blocks: list[Message] = [_tool_result(one.id, one.text, is_error=one.is_error) for one in results]
        if word:
            blocks.append({"type": "text", "text": word})
        return [{"role": "user", "content": blocks}]

    def told(self, word: str) -> list[Message]:
        return [{"role": "user", "content": word}]

    def tools(self, specs: Sequence[Mapping[str, Any]]) -> list[Message]:
        return [dict(spec) for spec in specs]

    def repaired(self, messages: Sequence[Message], interrupted: Interrupted) -> list[Message]:
        repaired: list[Message] = []
        open_calls: dict[str, str] = {}
        for message in messages:
            role, blocks = message.get("role"), _blocks(message.get("content"))
            if role == "user":
                repaired += self._answered(message, blocks, open_calls, interrupted)
                open_calls = {}
                continue
            if open_calls:
                repaired += self._answered({"role": "user"}, [], open_calls, interrupted)
            kept, open_calls = _calls(blocks)
            if kept or not blocks:
                repaired.append(message if len(kept) == len(blocks) else {**message, "content": kept})
        if open_calls:
            repaired += self._answered({"role": "user"}, [], open_calls, interrupted)
        return repaired

    def _answered(
        self, message: Message, blocks: list[Message], open_calls: dict[str, str], interrupted: Interrupted
    ) -> list[Message]:
        """Return the message after some calls: their results first, each once; what answers no call is left out."""
        answers: dict[str, Message] = {}
        others: list[Message] = []
        for block in blocks:
            if block.get("type") != "tool_result":
                others.append(block)
            elif block.get("tool_use_id") in open_calls:
                answers.setdefault(block["tool_use_id"], block)
        if not open_calls and len(others) == len(blocks):
            return [message]
        missing = {
            call: _tool_result(call, interrupted(call, tool), is_error=True)
            for call, tool in open_calls.items()
            if call not in answers
        }
        whole = [(answers.get(call) or missing[call]) for call in open_calls] + others
        return [{**message, "content": whole}] if whole else []


def _tool_result(call: str, text: str, *, is_error: bool) -> Message:
    block: Message = {"type": "tool_result", "tool_use_id": call, "content": text}
    if is_error:
        block["is_error"] = True
    return block


def _blocks(content: object) -> list[Message]:
    if isinstance(content, list):
        return [_block(one) for one in cast("list[object]", content)]
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else []


def _block(one: object) -> Message:
    return cast("Message", one) if isinstance(one, dict) else {"type": "text", "text": str(one)}


def _calls(blocks: list[Message]) -> tuple[list[Message], dict[str, str]]:
    """Return what a model may have said, without calls that have no id of their own; and the calls in it."""
    kept: list[Message] = []
    calls: dict[str, str] = {}
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            call = block.get("id")
            if not isinstance(call, str) or not call or call in calls:
                continue
            calls[call] = str(block.get("name", ""))
        if kind != "tool_result":
            kept.append(block)
    return kept, calls


class _OpenAI:
    name = "openai"

    def opening(self, task: str) -> list[Message]:
        return [{"role": "user", "content": task}]

    def said(self, message: object) -> list[Message]:
        return _as_messages(message)

    def results(self, results: Sequence[ToolResult], word: str = "") -> list[Message]:
        answers = [{"role": "tool", "tool_call_id": one.id, "content": one.text} for one in results]
        return [*answers, *(self.told(word) if word else ())]

    def told(self, word: str) -> list[Message]:
        return [{"role": "user", "content": word}]

    def tools(self, specs: Sequence[Mapping[str, Any]]) -> list[Message]:
        return [{"type": "function", "function": _function(spec)} for spec in specs]

    def repaired(self, messages: Sequence[Message], interrupted: Interrupted) -> list[Message]:
        repaired: list[Message] = []
        open_calls: dict[str, str] = {}
        answers: dict[str, Message] = {}

        def close() -> None:
            for call, tool in open_calls.items():
                missing = {"role": "tool", "tool_call_id": call, "content": interrupted(call, tool)}
                repaired.append(answers.get(call) or missing)
            open_calls.clear()
            answers.clear()

        for message in messages:
            if message.get("role") == "tool":
                if message.get("tool_call_id") in open_calls:
                    answers.setdefault(message["tool_call_id"], message)
                continue
            close()
            asked = [_block(one) for one in cast("list[object]", message.get("tool_calls") or [])]
            if not asked:
                repaired.append(message)
                continue
            kept = _chat_calls(asked, open_calls)
            if kept:
                repaired.append(message if len(kept) == len(asked) else {**message, "tool_calls": kept})
            elif message.get("content"):
                repaired.append({key: value for key, value in message.items() if key != "tool_calls"})
        close()
        return repaired


def _chat_calls(asked: list[Message], open_calls: dict[str, str]) -> list[Message]:
    """Return the calls that have an id of their own, and note them as open."""
    kept: list[Message] = []
    for one in asked:
        call = one.get("id")
        if isinstance(call, str) and call and call not in open_calls:
            function: object = one.get("function")
            named = cast("Message", function).get("name", "") if isinstance(function, dict) else ""
            open_calls[call] = str(named)
            kept.append(one)
    return kept


class _Responses:
    name = "responses"

    def opening(self, task: str) -> list[Message]:
        return [{"role": "user", "content": task}]

    def said(self, message: object) -> list[Message]:
        return _as_messages(message)

    def results(self, results: Sequence[ToolResult], word: str = "") -> list[Message]:
        answers = [{"type": "function_call_output", "call_id": one.id, "output": one.text} for one in results]
        return [*answers, *(self.told(word) if word else ())]

    def told(self, word: str) -> list[Message]:
        return [{"role": "user", "content": word}]

    def tools(self, specs: Sequence[Mapping[str, Any]]) -> list[Message]:
        return [{"type": "function", **_function(spec)} for spec in specs]

    def repaired(self, messages: Sequence[Message], interrupted: Interrupted) -> list[Message]:
        answers: dict[str, Message] = {}
        asked: set[str] = set()
        for item in messages:
            if item.get("type") == "function_call" and isinstance(item.get("call_id"), str):
                asked.add(item["call_id"])
            elif item.get("type") == "function_call_output" and item.get("call_id") in asked:
                answers.setdefault(item["call_id"], item)
        repaired: list[Message] = []
        pending: list[Message] = []
        seen: set[str] = set()
        for item in messages:
            kind = item.get("type")
            if kind == "function_call_output":
                continue
            if kind != "function_call":
                repaired += [*pending, item]
                pending = []
                continue
            call = item.get("call_id")
            if not isinstance(call, str) or not call or call in seen:
                continue
            seen.add(call)
            repaired.append(item)
            text = "" if call in answers else interrupted(call, str(item.get("name", "")))
            pending.append(answers.get(call) or {"type": "function_call_output", "call_id": call, "output": text})
        return repaired + pending


def _function(spec: Mapping[str, Any]) -> Message:
    return {
        "name": spec["name"],
        "description": spec.get("description", ""),
        "parameters": spec.get("input_schema") or {"type": "object", "properties": {}},
    }


def _as_messages(message: object) -> list[Message]:
    """Return a message, a list of them, or an object with `model_dump` (the SDKs' own) as plain dicts."""
    if isinstance(message, list):
        return [one for part in cast("list[object]", message) for one in _as_messages(part)]
    if isinstance(message, dict):
        return [cast("Message", message)]
    dump = getattr(message, "model_dump", None)
    if callable(dump):
        return [cast("Message", dump(mode="json", exclude_none=True))]
    msg = f"a reply's message is a dict, a list of them, or the SDK's own object, not {type(message).__name__}"
    raise DeclarationError(msg)


FORMS: dict[str, Form] = {one.name: one for one in (_Anthropic(), _OpenAI(), _Responses())}


def form_of(name: object) -> Form:
    """
    Return a form by its name.

    Raises:
        DeclarationError: There is none of that name.
    """
    found = FORMS.get(name) if isinstance(name, str) else None
    if found is None:
        msg = f"no form {name!r}; there are: {', '.join(FORMS)}"
        raise DeclarationError(msg)
    return found
