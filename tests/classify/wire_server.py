"""A loopback server of a model vendor: answers every request with what it was told to say, or breaks off."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Wire", "serving_wire"]

_PATIENCE_S = 20.0


@dataclass
class Wire:
    """What the server says next; `how` is `answer`, `stream`, `cut` (a stream that just ends), `hang` or `close`."""

    url: str = ""
    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    how: str = "answer"
    requests: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def says(self, status: int, body: str, *, how: str = "answer", **headers: str) -> None:
        self.status, self.body, self.how = status, body, how
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.requests = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        wire = self.server.wire
        wire.requests += 1
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.close_connection = True
        if wire.how == "hang":
            wire.released.wait(_PATIENCE_S)
        if wire.how in {"hang", "close"}:
            return
        body = wire.body.encode()
        streamed = wire.how in {"stream", "cut"}
        kind = "text/event-stream" if streamed else "text/html" if body.startswith(b"<") else "application/json"
        self.send_response_only(wire.status)  # without a Date of its own
        for name, value in {"content-type": kind, "connection": "close", **wire.headers}.items():
            self.send_header(name, value)
        if streamed:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")
            self.wfile.write(b"" if wire.how == "cut" else b"0\r\n\r\n")
            return
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    wire: Wire

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is the point."""


@contextlib.contextmanager
def serving_wire() -> Iterator[Wire]:
    """Serve on a free port of loopback until the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.wire = Wire(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.wire
    finally:
        server.wire.released.set()
        server.shutdown()
        server.server_close()
        thread.join(_PATIENCE_S)
