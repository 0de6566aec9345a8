"""A model as a tool: asked through its vendor's own client, answered by a whole reply or a failure."""

from __future__ import annotations

import functools
import inspect
import json
import re
from typing import TYPE_CHECKING, Any, cast

from yaoki.errors import DeclarationError, StreamBroken, TerminalError
from yaoki.models._reply import Reply  # noqa: TC001 - an annotation that is read
from yaoki.models._streams import Limits, Shown, gathered, gathered_async
from yaoki.models._talks import converted
from yaoki.models._vendors import VENDORS, Vendor
from yaoki.records import Effect
from yaoki.runtime import ForModel, Tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaoki.policy import Breaker, Retry, Rung

__all__ = ["anthropic_model", "openai_model", "responses_model"]

Message = dict[str, Any]
_REFUSED = frozenset({"refusal", "content_filter", "safety"})
_CUT = frozenset({"max_tokens", "length", "max_output_tokens"})
_READ_MORE_S = 5.0
_DAY_S = 86_400.0
_OWN_HOSTS = frozenset({"api.anthropic.com", "api.openai.com"})


class _Asking:
    """All that is fixed about a model."""

    def __init__(
        self,
        *,
        vendor: Vendor,
        client: Any,  # noqa: ANN401 - the vendor's
        model: str,
        form: str,
        system: str,
        limits: Limits,
        stream: bool,
        shown: Callable[[], Shown],
        options: Message,
    ) -> None:
        self.vendor = vendor
        self.model = model
        self.form = form
        self.stream = stream
        self.limits = limits
        self.shown = shown
        self._system = system
        wait_s = max(limits.first_s, limits.silence_s) + _READ_MORE_S if stream else limits.total_s
        quiet = getattr(client, "with_options", None)
        self.client = quiet(max_retries=0, timeout=wait_s) if quiet is not None else client
        self.create = vendor.create(self.client)
        self._options = self._placed(options)

    def request(self, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
        """Return what the client's method is called with."""
        said = converted(messages, self.form, self.vendor.form)
        asking = self.vendor.asking(said, _tools_as(tools, self.vendor.form), self._system)
        if self.stream:
            asking["stream"] = True
            if self.vendor.form == "openai":
                asking["stream_options"] = {"include_usage": True}
        return {"model": self.model, **self._options, **asking}

    def _placed(self, options: Message) -> Message:
        """Return the vendor's options where its client takes them; those it does not know go into the body."""
        known = inspect.signature(self.create).parameters
        if "extra_body" not in known or any(one.kind is one.VAR_KEYWORD for one in known.values()):
            return options
        given = {name: value for name, value in options.items() if name in known}
        body = {name: value for name, value in options.items() if name not in known}
        return {**given, "extra_body": {**body, **given.get("extra_body", {})}} if body else given

    def read(self, body: object) -> Reply:
        """Return a whole answer as a reply; one that is none is a failure."""
        dump = getattr(body, "model_dump", None)
        found: object = dump(mode="json") if callable(dump) else body
        if not isinstance(found, dict):
            msg = f"the answer is no object: {str(found)[:200]}"
            raise StreamBroken(msg, "malformed")
        reply = self.vendor.reply(cast("Message", found), self.form)
        calls = reply.calls
        if reply.stop in _REFUSED and not calls:
            msg = f"{self.model} refused to answer ({reply.stop}): {reply.text[:500]}"
            raise TerminalError(msg)
        if reply.stop in _CUT and calls:
            msg = f"{self.model} was cut off in the middle of a call ({reply.stop}): allow it more tokens"
            raise TerminalError(msg)
        return reply


def _tools_as(tools: Sequence[Message], form: str) -> list[Message]:
    """Return tools in a vendor's form, whichever they are written in."""
    found: list[Message] = []
    for one in tools:
        inner = cast("Message", one.get("function") or one)
        name, schema = inner.get("name"), inner.get("input_schema") or inner.get("parameters")
        if name is None or schema is None:  # the vendor's own: a server tool
            found.append(one)
            continue
        told = {"name": name, "description": inner.get("description") or ""}
        if form == "anthropic":
            found.append({**told, "input_schema": schema})
        elif form == "openai":
            found.append({"type": "function", "function": {**told, "parameters": schema}})
        else:
            found.append({"type": "function", **told, "parameters": schema})
    return found


def _made(
    form: str,
    client: Any,  # noqa: ANN401 - the vendor's
    model: str,
    *,
    system: str = "",
    transcript: str = "",
    stream: bool = False,
    on_text: Callable[[str], None] | None = None,
    on_break: Callable[[StreamBroken], None] | None = None,
    first_token_s: float = 60,
    silence_s: float = 60,
    timeout_s: float = 600,
    name: str = "",
    scope: str = "",
    retry: Retry | None = None,
    breaker: Breaker | object | None = ...,
    escalate: Sequence[Rung] | Rung | None = None,
    reserve: Any = None,  # noqa: ANN401 - as ForModel takes it
    **options: Any,  # noqa: ANN401 - the vendor's
) -> Tool[Any, Reply]:
    vendor = VENDORS[form]
    written = transcript or form
    if written not in VENDORS:
        msg = f"transcript={transcript!r}: there are {', '.join(VENDORS)}"
        raise DeclarationError(msg)
    for what, bound in (("first_token_s", first_token_s), ("silence_s", silence_s), ("timeout_s", timeout_s)):
        if not 0 < bound <= _DAY_S:
            msg = f"{model}: {what}={bound!r} lies above 0, and at most a day"
            raise DeclarationError(msg)
    limits = Limits(first_token_s, silence_s, timeout_s)
    asking = _Asking(
        vendor=vendor,
        client=client,
        model=model,
        form=written,
        system=system,
        limits=limits,
        stream=stream,
        shown=lambda: Shown(on_text, on_break),
        options=options,
    )
    policy: dict[str, Any] = {
        "effect": Effect.READ_ONLY,
        "timeout_s": timeout_s + (_READ_MORE_S if stream else 0),
        "name": name or re.sub(r"[^\w.-]+", "_", model),
        "scope": scope or f"{_place(vendor, client)}/{model}",
        "retry": retry,
        "escalate": escalate,
        "agent": ForModel(usage=_usage, reserve=reserve),
    }
    if breaker is not ...:
        policy["breaker"] = breaker
    is_async = inspect.iscoroutinefunction(inspect.unwrap(asking.create))
    fn = _async_ask(asking) if is_async else _ask(asking)
    fn.form = written  # type: ignore[attr-defined]  # `yaoki.agent` reads it
    return cast("Tool[Any, Reply]", tool(**policy)(fn))


def _usage(reply: Reply) -> object:
    return reply.usage


def _place(vendor: Vendor, client: object) -> str:
    """Return who fails together: the vendor, or whoever else serves its API at another address."""
    url = str(getattr(client, "base_url", ""))
    host = url.partition("://")[2].partition("/")[0]
    return vendor.name if not host or host in _OWN_HOSTS else host


def _ask(asking: _Asking) -> Callable[..., Any]:
    def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> Reply:
        start = functools.partial(asking.create, **asking.request(messages, tools or ()))
        try:
            if asking.stream:
                return asking.read(gathered(start, asking.vendor.reader(), asking.limits, asking.shown()))
            return asking.read(start())
        except ValueError as error:
            raise _malformed(error) from None

    return ask


def _async_ask(asking: _Asking) -> Callable[..., Any]:
    async def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> Reply:
        start = functools.partial(asking.create, **asking.request(messages, tools or ()))
        try:
            if asking.stream:
                return asking.read(await gathered_async(start, asking.vendor.reader(), asking.limits, asking.shown()))
            return asking.read(await start())
        except ValueError as error:
            raise _malformed(error) from None

    return ask


def _malformed(error: ValueError) -> Exception:
    """Return what an answer that is no JSON is; a mistake in the request stays what it is."""
    if isinstance(error, json.JSONDecodeError) or "json" in type(error).__module__:
        return StreamBroken(f"the answer cannot be read: {error}", "malformed")
    return error


def anthropic_model(client: Any, model: str, *, max_tokens: int = 8192, **policy: Any) -> Tool[Any, Reply]:  # noqa: ANN401
    """
    Return a model behind an `anthropic` client (Messages), sync or async, as a tool of `messages` and `tools`.

    Args:
        client: `Anthropic()`, `AsyncAnthropic()`, or what has their methods. Its own retries are switched off here.
        model: As the vendor names it.
        max_tokens: Of an answer.
        **policy: `system`, the system prompt · `stream`, with `on_text` shown words as they come and `on_break` told
            when what was shown is no answer (by default a line is shown) · `first_token_s`, `silence_s` (60 s each) and
            `timeout_s` (600 s): limits of a stream, the last one of any answer · `transcript`, the form messages are
            written in where that is another vendor's, for a fallback between vendors · `name`, `scope` (default
            `vendor/model`, or `host/model` elsewhere), `retry`, `breaker`, `escalate`, `reserve` as for a tool ·
            anything else goes to the vendor: `temperature`, `thinking`, …

    Raises:
        DeclarationError: A bound that is none.
    """
    return _made("anthropic", client, model, max_tokens=max_tokens, **policy)


def openai_model(client: Any, model: str, **policy: Any) -> Tool[Any, Reply]:  # noqa: ANN401
    """
    Return a model behind an `openai` client's Chat Completions, sync or async, at any base URL; see `anthropic_model`.

    Raises:
        DeclarationError: A bound that is none.
    """
    return _made("openai", client, model, **policy)


def responses_model(client: Any, model: str, **policy: Any) -> Tool[Any, Reply]:  # noqa: ANN401
    """
    Return a model behind an `openai` client's Responses, sync or async; see `anthropic_model`.

    The whole conversation is sent each time, so nothing hangs on what the vendor stores: `store=False` is sent.

    Raises:
        DeclarationError: A bound that is none.
    """
    policy.setdefault("store", False)
    return _made("responses", client, model, **policy)
