"""How each vendor is asked, and how its answer is read, whole or from a stream. No client is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from yaoki.errors import StreamBroken
from yaoki.models._reply import Reply
from yaoki.models._talks import converted
from yaoki.runtime import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["VENDORS", "Reader", "Vendor"]

Message = dict[str, Any]


class Reader(Protocol):
    """What has come of a stream so far."""

    def take(self, event: Message) -> str:
        """Take an event, and return the words in it."""
        ...

    def whole(self, *, ended: bool) -> Message | None:
        """Return the answer if it is whole; `ended`: nothing more will come."""
        ...


class Vendor(Protocol):
    """One vendor's API."""

    name: str
    form: str

    def create(self, client: Any) -> Any:  # noqa: ANN401 - the vendor's
        """Return the client's method that asks the model."""
        ...

    def asking(self, messages: Sequence[Message], tools: Sequence[Message], system: str) -> Message:
        """Return the parts of a request that differ from vendor to vendor."""
        ...

    def reader(self) -> Reader:
        """Return what reads a stream."""
        ...

    def reply(self, body: Message, form: str) -> Reply:
        """Return a whole body as a reply, in the transcript's form."""
        ...


def _count(usage: Mapping[str, Any], *names: str) -> int:
    return sum(value for name in names if isinstance(value := usage.get(name), int) and not isinstance(value, bool))


def _dict(value: object) -> Message:
    return cast("Message", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Message]:
    return [_dict(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def _refuse(body: Message, part: str) -> None:
    if not isinstance(body.get(part), list):
        msg = f"the answer has no {part}: {str(body)[:200]}"
        raise StreamBroken(msg, "malformed")


class _Anthropic:
    name = "anthropic"
    form = "anthropic"

    def create(self, client: Any) -> Any:  # noqa: ANN401 - the vendor's
        return client.messages.create

    def asking(self, messages: Sequence[Message], tools: Sequence[Message], system: str) -> Message:
        said = [one for one in messages if one.get("role") != "system"]
        told = [system, *(str(one.get("content")) for one in messages if one.get("role") == "system")]
        asking: Message = {"messages": said}
        if any(told):
            asking["system"] = "\n\n".join(one for one in told if one)
        return asking | ({"tools": list(tools)} if tools else {})

    def reader(self) -> Reader:
        return _AnthropicReader()

    def reply(self, body: Message, form: str) -> Reply:
        _refuse(body, "content")
        usage = _dict(body.get("usage"))
        cached = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
        return Reply(
            form=form,
            message=converted([{"role": "assistant", "content": body["content"]}], "anthropic", form),
            stop=str(body.get("stop_reason") or ""),
            model=str(body.get("model") or ""),
            usage=Usage(
                model=str(body.get("model") or ""),
                input_tokens=_count(usage, "input_tokens") + sum(cached),
                output_tokens=_count(usage, "output_tokens"),
                cache_read_tokens=cached[0],
                cache_write_tokens=cached[1],
            ),
        )


class _AnthropicReader:
    """Events: message_start, blocks started, grown and stopped, message_delta with the stop reason, message_stop."""

    def __init__(self) -> None:
        self._body: Message = {}
        self._blocks: dict[int, Message] = {}
        self._inputs: dict[int, str] = {}
        self._open: set[int] = set()
        self._stopped = False

    def take(self, event: Message) -> str:
        kind, index = event.get("type"), int(event.get("index") or 0)
        if kind == "message_start":
            self._body = dict(_dict(event.get("message")))
        elif kind == "content_block_start":
            self._blocks[index] = dict(_dict(event.get("content_block")))
            self._open.add(index)
        elif kind == "content_block_stop":
            self._open.discard(index)
        elif kind == "message_delta":
            delta = _dict(event.get("delta"))
            self._body["stop_reason"] = delta.get("stop_reason")
            self._body["usage"] = {**_dict(self._body.get("usage")), **_known(_dict(event.get("usage")))}
            self._stopped = bool(delta.get("stop_reason"))
        elif kind == "content_block_delta":
            return self._grow(index, _dict(event.get("delta")))
        return ""

    def _grow(self, index: int, delta: Message) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json") or "")
            return ""
        field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(str(kind), "")
        if not field:
            return ""
        said = str(delta.get(field) or "")
        block[field] = str(block.get(field) or "") + said
        return said if field == "text" else ""

    def whole(self, *, ended: bool) -> Message | None:  # noqa: ARG002 - the stop reason says it
        if not self._stopped or self._open:
            return None
        import json

        blocks: list[Message] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            if block.get("type") == "tool_use":
                try:
                    block["input"] = json.loads(self._inputs.get(index) or "{}")
                except ValueError:
                    block["input"] = {"_": self._inputs.get(index)}
            blocks.append(block)
        return {**self._body, "content": blocks}


def _known(usage: Message) -> Message:
    return {name: value for name, value in usage.items() if value is not None}


class _Chat:
    name = "openai"
    form = "openai"

    def create(self, client: Any) -> Any:  # noqa: ANN401 - the vendor's
        return client.chat.completions.create

    def asking(self, messages: Sequence[Message], tools: Sequence[Message], system: str) -> Message:
        told = [{"role": "system", "content": system}] if system else []
        return {"messages": [*told, *messages]} | ({"tools": list(tools)} if tools else {})

    def reader(self) -> Reader:
        return _ChatReader()

    def reply(self, body: Message, form: str) -> Reply:
        _refuse(body, "choices")
        choice = next(iter(_list(body["choices"])), _dict(None))
        message = {name: value for name, value in _dict(choice.get("message")).items() if value is not None}
        if not message:
            msg = f"the answer has no message: {str(body)[:200]}"
            raise StreamBroken(msg, "malformed")
        usage = _dict(body.get("usage"))
        cached = _count(_dict(usage.get("prompt_tokens_details")), "cached_tokens")
        return Reply(
            form=form,
            message=converted([{"role": "assistant", **message}], "openai", form),
            stop=str(choice.get("finish_reason") or ""),
            model=str(body.get("model") or ""),
            usage=Usage(
                model=str(body.get("model") or ""),
                input_tokens=_count(usage, "prompt_tokens"),
                output_tokens=_count(usage, "completion_tokens"),
                cache_read_tokens=cached,
            ),
        )


class _ChatReader:
    """Chunks of deltas; a finish reason, then, if asked for, one with the usage and no choice."""

    def __init__(self) -> None:
        self._model = ""
        self._text = ""
        self._refusal = ""
        self._calls: dict[int, Message] = {}
        self._finish = ""
        self._usage: Message | None = None

    def take(self, event: Message) -> str:
        self._model = str(event.get("model") or self._model)
        if event.get("usage"):
            self._usage = _dict(event["usage"])
        choice = next(iter(_list(event.get("choices"))), _dict(None))
        delta = _dict(choice.get("delta"))
        self._finish = str(choice.get("finish_reason") or self._finish)
        for one in _list(delta.get("tool_calls")):
            call = self._calls.setdefault(int(one.get("index") or 0), {"id": "", "name": "", "arguments": ""})
            function = _dict(one.get("function"))
            call["id"] = call["id"] or str(one.get("id") or "")
            call["name"] += str(function.get("name") or "")
            call["arguments"] += str(function.get("arguments") or "")
        self._refusal += str(delta.get("refusal") or "")
        said = str(delta.get("content") or "")
        self._text += said
        return said

    def whole(self, *, ended: bool) -> Message | None:
        if not self._finish or (self._usage is None and not ended):
            return None
        message: Message = {"role": "assistant", "content": self._text or None}
        if self._refusal:
            message["refusal"] = self._refusal
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for _, call in sorted(self._calls.items())
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"model": self._model, "choices": [choice], "usage": self._usage}


class _Responses:
    name = "openai"
    form = "responses"

    def create(self, client: Any) -> Any:  # noqa: ANN401 - the vendor's
        return client.responses.create

    def asking(self, messages: Sequence[Message], tools: Sequence[Message], system: str) -> Message:
        asking: Message = {"input": list(messages)}
        if system:
            asking["instructions"] = system
        return asking | ({"tools": list(tools)} if tools else {})

    def reader(self) -> Reader:
        return _ResponsesReader()

    def reply(self, body: Message, form: str) -> Reply:
        _refuse(body, "output")
        if body.get("status") == "failed":
            error = _dict(body.get("error"))
            msg = f"the response failed: {error.get('code')}: {error.get('message')}"
            raise StreamBroken(msg, "cut")
        usage = _dict(body.get("usage"))
        cut = _dict(body.get("incomplete_details")).get("reason")
        return Reply(
            form=form,
            message=converted(_list(body["output"]), "responses", form),
            stop=str(cut or body.get("status") or ""),
            model=str(body.get("model") or ""),
            usage=Usage(
                model=str(body.get("model") or ""),
                input_tokens=_count(usage, "input_tokens"),
                output_tokens=_count(usage, "output_tokens"),
                cache_read_tokens=_count(_dict(usage.get("input_tokens_details")), "cached_tokens"),
            ),
        )


class _ResponsesReader:
    """Items that are added, grow and are done; then the whole response once more, completed, incomplete or failed."""

    def __init__(self) -> None:
        self._body: Message = {}
        self._added: set[int] = set()
        self._done: dict[int, Message] = {}
        self._last: Message | None = None

    def take(self, event: Message) -> str:
        kind, index = str(event.get("type")), int(event.get("output_index") or 0)
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._last = _dict(event.get("response"))
        elif kind == "response.created":
            self._body = _dict(event.get("response"))
        elif kind == "response.output_item.added":
            self._added.add(index)
        elif kind == "response.output_item.done":
            self._done[index] = _dict(event.get("item"))
        elif kind == "response.output_text.delta":
            return str(event.get("delta") or "")
        return ""

    def whole(self, *, ended: bool) -> Message | None:
        if self._last is not None:
            return self._last
        if not ended or not self._done or self._added - self._done.keys():
            return None
        return {**self._body, "status": "completed", "output": [self._done[index] for index in sorted(self._done)]}


VENDORS: dict[str, Vendor] = {one.form: one for one in (_Anthropic(), _Chat(), _Responses())}
