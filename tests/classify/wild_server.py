"""A loopback server that misbehaves as its path says, one connection at a time, with raw sockets."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CERTIFICATE = Path(__file__).parent / "data" / "self_signed.pem"

QUOTA = (
    b'{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}'
)

ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/429-seconds": (429, {"Retry-After": "7"}, b""),
    "/429-date": (
        429,
        {"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"},
        b"",
    ),
    "/429-days": (429, {"Retry-After": "200000"}, b""),
    "/429-quota": (429, {"Content-Type": "application/json"}, QUOTA),
    "/503": (503, {}, b"<html>down for a moment</html>"),
    "/503-later": (503, {"Retry-After": "5"}, b""),
    "/500": (500, {}, b"oops"),
    "/502": (502, {}, b""),
    "/504": (504, {}, b""),
    "/529": (529, {}, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'),
    "/404": (404, {}, b""),
    "/401": (401, {}, b""),
    "/413": (413, {}, b""),
    "/away": (303, {"Location": "http://127.0.0.1:1/"}, b""),
    "/away-lost": (303, {"Location": "/404"}, b""),
    "/again-lost": (307, {"Location": "/404"}, b""),
    "/not-json": (200, {"Content-Type": "text/html"}, b"<html>"),
}

RAW: dict[str, bytes] = {
    "/early": b"",
    "/garbage": b"not http at all\r\n\r\n",
    "/truncated": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "/short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
    "/bad-gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
}


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        sock: socket.socket = self.request
        sock.settimeout(5)
        with contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data and (part := sock.recv(65536)):
                data += part
            path = data.split(b" ", 2)[1].decode() if data.count(b" ") > 1 else ""
            if path == "/hang":
                self.server.released.wait(5)  # type: ignore[attr-defined]
            elif path == "/reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif path in ANSWERS:
                status, headers, body = ANSWERS[path]
                head = {"Content-Length": str(len(body)), "Connection": "close", **headers}
                lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
                sock.sendall(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)
            else:
                sock.sendall(RAW.get(path, b""))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is the point."""


@contextlib.contextmanager
def serving(*, tls: bool = False) -> Iterator[int]:
    """Serve on a free port of loopback until the block ends; yields the port."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.released = threading.Event()  # type: ignore[attr-defined]
    if tls:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.released.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def answering(speak: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve raw connections on a free port of loopback until the block ends: `speak`, then hang up; yields the port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(20)
            with contextlib.suppress(OSError):
                speak(self.request)

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    """Return a port of loopback nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
