"""A model vendor on loopback that says what it is told, and misbehaves by script or by rate."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from yaoki.clock import SystemClock
from yaoki.testing._model_wire import ERRORS, Answer, Event, error_body, events_of, form_at, whole_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

__all__ = ["Asked", "ModelServer", "Saying"]

_CLOCK = SystemClock()
_HELD_MOST_S = 60.0
_KEPT_MOST = 100_000
_BODY_MOST = 64 << 20
_WORDS = frozenset((*ERRORS, "ok", "reset", "silence", "slow", "cut", "stall", "malformed", "no-marker", "error-event"))


@dataclass
class Asked:
    """A request as the server saw it."""

    number: int
    """From 1."""
    form: str
    """`anthropic`, `openai` or `responses`."""
    body: dict[str, Any]
    headers: dict[str, str]
    at_s: float
    """On the monotonic clock."""
    fault: str = "ok"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation."""
        found = self.body.get("input") if self.form == "responses" else self.body.get("messages")
        if isinstance(found, str):
            return [{"role": "user", "content": found}]
        return cast("list[dict[str, Any]]", found or [])

    @property
    def turn(self) -> int:
        """How often the model has spoken in this conversation."""
        spoken = ("function_call", "message")
        return sum(
            one.get("role") == "assistant" or (one.get("type") in spoken and one.get("role") != "user")
            for one in self.messages
        )


Saying: TypeAlias = "Callable[[Asked], Answer | str] | Sequence[Answer | str]"
"""What the model says: by the request, or one after the other by turn of the conversation, the last from then on."""


class ModelServer:
    """
    A vendor that speaks Anthropic's Messages and OpenAI's Chat Completions and Responses, streamed or whole.

        looks = Answer(calls=[("look", {"order": "A-1"})])
        with ModelServer([looks, "done"], faults=["429 after=0.1", "cut"]) as vendor:
            client = anthropic.Anthropic(api_key="x", base_url=vendor.url)      # OpenAI's: vendor.url + "/v1"

    Each request takes the next fault, from then on `ok`; a last one that ends in `*` stays. A fault is

    `ok` · an error: `400` `401` `429` `quota` `500` `503` `529` `context` `filter` `prefill`, with `after=0.5` or
    `after=date` for a Retry-After · `reset` (the connection) · `silence` (no answer until the client goes) · `slow=0.5`
    (seconds before the first byte) · `cut` (ends in the middle) · `stall` (stops in the middle, and stays open) ·
    `malformed` · `no-marker` (a whole stream without its end) · `error-event` (an error inside a stream).

    Args:
        says: What the model says.
        faults: By script.
        rate: How likely each other request fails, 0 to 1, with one of `kinds`; seeded, so repeatable one by one.
        kinds: Faults for `rate`.
        seed: Of the rate.
    """

    def __init__(
        self,
        says: Saying,
        *,
        faults: Sequence[str] = (),
        rate: float = 0.0,
        kinds: Sequence[str] = ("429 after=0", "500", "529", "reset", "cut", "malformed"),
        seed: int = 0,
    ) -> None:
        for one in (*faults, *kinds):
            word = one.removesuffix("*").split()[0].partition("=")[0]
            if word not in _WORDS:
                msg = f"ModelServer: no fault {one!r}; there are: {', '.join(sorted(_WORDS))}"
                raise ValueError(msg)
        self.says = says
        self.asked: list[Asked] = []
        self.released = threading.Event()
        self._faults = list(faults)
        self._rate, self._kinds, self._rng = rate, list(kinds), Random(seed)  # noqa: S311 - which request fails
        self._lock = threading.Lock()
        self._server = _Server(self)

    def __enter__(self) -> Self:
        """Serve on a free port of loopback until the block ends."""
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Stop; requests held are let go of."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_HELD_MOST_S)

    @property
    def url(self) -> str:
        """The base URL for Anthropic's clients; OpenAI's take it with `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def faults_met(self) -> list[str]:
        """What each request was answered with, `ok` or the fault."""
        return [one.fault for one in self.asked]

    @property
    def gaps_s(self) -> list[float]:
        """Seconds between each request and the next."""
        times = [one.at_s for one in self.asked]
        return [later - earlier for earlier, later in pairwise(times)]

    def take(self, form: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Asked, Answer]:
        """Note a request, and say what is answered; called by the server's threads."""
        with self._lock:
            asked = Asked(len(self.asked) + 1, form, body, headers, _CLOCK.monotonic_s(), self._next_fault())
            if len(self.asked) < _KEPT_MOST:
                self.asked.append(asked)
            said = self.says(asked) if callable(self.says) else self.says[min(asked.turn, len(self.says) - 1)]
        return asked, Answer(said) if isinstance(said, str) else said

    def _next_fault(self) -> str:
        if self._faults:
            fault = self._faults[0]
            if not fault.endswith("*"):
                self._faults.pop(0)
            return fault.removesuffix("*").strip()
        if self._rate and self._rng.random() < self._rate:
            return self._rng.choice(self._kinds)
        return "ok"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is what this is for."""


@dataclass
class _Fault:
    word: str
    value: str = ""
    after: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


def _fault(text: str) -> _Fault:
    words = text.split()
    word, _, value = words[0].partition("=")
    after = next((one.partition("=")[2] for one in words[1:] if one.startswith("after=")), "")
    fault = _Fault(word, value, after)
    if after == "date":
        fault.headers["retry-after"] = formatdate(_CLOCK.now_ms() / 1000 + 1, usegmt=True)
    elif after:
        seconds = float(after)
        fault.headers["retry-after"] = str(int(seconds)) if seconds == int(seconds) else after
        fault.headers["retry-after-ms"] = str(int(seconds * 1000))
    return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a call of the model."""
        self.close_connection = True
        form = form_at(self.path)
        length = min(int(self.headers.get("content-length") or 0), _BODY_MOST)
        try:
            body: object = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            body = None
        if not form or not isinstance(body, dict):
            self._whole(
                404 if not form else 400, {"error": {"message": f"nothing at {self.path}", "type": "not_found"}}
            )
            return
        request = cast("dict[str, Any]", body)
        model = cast("_Server", self.server).model
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked, answer = model.take(form, request, headers)
        self._answer(model, asked, answer, _fault(asked.fault))

    def _answer(self, model: ModelServer, asked: Asked, answer: Answer, fault: _Fault) -> None:
        error = error_body(asked.form, fault.word)
        named = str(asked.body.get("model", "model"))
        if fault.word == "slow":
            model.released.wait(min(float(fault.value or 1), _HELD_MOST_S))
        if fault.word == "silence":
            model.released.wait(_HELD_MOST_S)
        elif fault.word == "reset":
            self._reset()
        elif error is not None:
            self._whole(error[0], error[1], fault.headers)
        elif asked.body.get("stream"):
            options = cast("Mapping[str, Any]", asked.body.get("stream_options") or {})
            usage = bool(options.get("include_usage"))
            self._stream(model, list(events_of(asked.form, named, answer, usage=usage)), asked.form, fault)
        else:
            self._body(model, whole_of(asked.form, named, answer), fault)

    def _reset(self) -> None:
        import socket
        import struct

        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _whole(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._raw(status, json.dumps(body).encode(), headers or {})

    def _raw(self, status: int, data: bytes, headers: Mapping[str, str], length: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in {"content-type": "application/json", "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _body(self, model: ModelServer, body: Mapping[str, Any], fault: _Fault) -> None:
        data = json.dumps(body).encode()
        half = data[: len(data) // 2]
        if fault.word in ("cut", "stall"):
            self._raw(200, half, {}, len(data))
            if fault.word == "stall":
                model.released.wait(_HELD_MOST_S)
        elif fault.word in ("malformed", "error-event"):
            self._raw(200, half, {})
        else:
            self._raw(200, data, {})

    def _stream(self, model: ModelServer, events: list[Event], form: str, fault: _Fault) -> None:
        self.send_response_only(200)
        for name, value in {"content-type": "text/event-stream", "connection": "close"}.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        marker = 1  # all of them end with one event that says no more than that
        middle = max(1, (len(events) - marker) // 2)
        cut = fault.word in ("cut", "stall", "malformed", "error-event")
        sent = events[:middle] if cut else events[:-marker] if fault.word == "no-marker" else events
        for event in sent:
            self._chunk(_sse(event))
        if fault.word == "malformed":
            self._chunk(b'event: content_block_delta\ndata: {"type": "content_block_del\n\n')
        elif fault.word == "error-event":
            found = error_body(form, "529")
            self._chunk(_sse(("error", found[1] if found else {})))
        elif fault.word == "stall":
            model.released.wait(_HELD_MOST_S)
        if fault.word != "cut":
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _sse(event: Event) -> bytes:
    name, data = event
    if name == "[DONE]":
        return b"data: [DONE]\n\n"
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()
