"""
A vendor on loopback, in a process of its own: `python -m yaoki.demo.vendor`.

It speaks the Anthropic Messages format (POST /v1/messages) and has an orders (GET /v1/orders/ID), refunds
(POST /v1/refunds, `Idempotency-Key`) and mail API (POST, GET /v1/mails). With `--plan` it misbehaves as
the plan says; without, it behaves. It ends when its standard input does.

A kill in the plan is an invitation: the vendor writes a `kill` event and holds that call, before or after
the work, until the caller is gone or a line `go TICKET` comes in on standard input. Whoever listens kills
the caller; so the kill is surely between an effect and its record, and the vendor knows nothing of
processes. The ledger is a file and none of its business: it only holds the reply that asks for the line.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from select import select
from threading import Lock, Thread
from typing import TYPE_CHECKING

import msgspec

from yaoki.clock import SystemClock
from yaoki.demo._desk import Answer, Desk, Question, route
from yaoki.demo._plan import CALM, Kill, Plan
from yaoki.demo._shop import Event, Log, Shop

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VendorServer", "main"]

HOLD_S_MAX = 8.0
"""How long a call is held for a caller that neither hangs up nor dies."""
_LOOK_S = 0.01

_TOOLS = {"model": "ask_model", "refunds": "refund", "mails": "send_mail"}
"""The tool of the example whose call a request is; the others are never killed."""


class VendorServer(ThreadingHTTPServer):
    """The server; one thread a connection. `url` is where it listens."""

    daemon_threads = True

    def __init__(self, plan: Plan, log: Log, now_ms: Callable[[], int], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.plan = plan
        self.log = log
        self.shop = Shop(log)
        self.desk = Desk(self.shop, plan)
        self.now_ms = now_ms
        self._aborted: set[int] = set()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._killed: set[Kill] = set()
        self._lock = Lock()
        self._go: set[str] = set()

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def number(self, endpoint: str, ticket: str) -> int:
        """Count a request, and return which of its ticket and endpoint it is, from 1."""
        with self._lock:
            self._requests[endpoint, ticket] += 1
            return self._requests[endpoint, ticket]

    def kill_due(self, endpoint: str, ticket: str, request: int) -> Kill | None:
        """Return the kill bound to the effect this request would have; each is returned once."""
        tool = _TOOLS.get(endpoint, "")
        number = request if endpoint == "model" else self.shop.effects(ticket) + 1
        return self._take(self.plan.kill(ticket, tool, number))

    def booking_kill_due(self, ticket: str, reply: Answer) -> Kill | None:
        """Return the kill bound to the ledger line a reply of the model asks for, if it strikes before it."""
        if b'"append_ledger"' not in reply.body:
            return None
        before = (k for k in self.plan.kills if (k.ticket, k.tool, k.when) == (ticket, "append_ledger", "before"))
        return self._take(next(before, None))

    def go(self, ticket: str) -> None:
        """Let a held call of a ticket go on."""
        self._go.add(ticket)

    def take_go(self, ticket: str) -> bool:
        """Whether a held call may go on; asked once for each `go`."""
        with self._lock:
            told = ticket in self._go
            self._go.discard(ticket)
            return told

    def _take(self, kill: Kill | None) -> Kill | None:
        with self._lock:
            if kill is None or kill in self._killed:
                return None
            self._killed.add(kill)
            return kill

    def abort(self, connection: socket.socket) -> None:
        """Make the closing of a connection a reset, whatever was sent."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._aborted.add(id(connection))

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Close a connection; an aborted one without the FIN that would make it look orderly."""
        if id(request) in self._aborted and isinstance(request, socket.socket):
            self._aborted.discard(id(request))
            request.close()
        else:
            super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a caller that hangs up in mid-answer is what this server is for."""


class _Handler(BaseHTTPRequestHandler):
    """One request: route it, count it, hold or misbehave if the plan says so, answer, log."""

    protocol_version = "HTTP/1.1"

    @property
    def _vendor(self) -> VendorServer:
        assert isinstance(self.server, VendorServer)  # noqa: S101 - http.server types it as any server
        return self.server

    def do_GET(self) -> None:
        """Serve a question without a body."""
        self._serve()

    def do_POST(self) -> None:
        """Serve a question with a body."""
        self._serve()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Keep http.server's own log quiet; ours says more."""

    def _serve(self) -> None:
        vendor = self._vendor
        self.close_connection = True
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        question = Question(method=self.command, target=self.path, headers=headers, body=self.rfile.read(length))
        endpoint, ticket = route(question, vendor.shop)
        request = vendor.number(endpoint, ticket)
        fault = vendor.plan.fault(ticket, endpoint, request)
        kill = vendor.kill_due(endpoint, ticket, request)
        said = Event(event="request", ticket=ticket, endpoint=endpoint, request=request, fault=fault or "")
        if kill and kill.when == "before" and self._hold(kill):
            said.answer = "caller gone before the work"
            vendor.log.write(said)
            return
        if fault is None:
            reply = vendor.desk.answer(question, endpoint)
        else:
            reply = vendor.desk.misbehave(fault, question, endpoint, now_ms=vendor.now_ms())
        held = kill if kill and kill.when == "after" else vendor.booking_kill_due(ticket, reply)
        if held and self._hold(held):
            said.answer = "caller gone before the answer"
            vendor.log.write(said)
            return
        said.answer = str(reply.status) if reply.wire == "whole" else reply.wire
        # Logged before it is sent: whoever has the answer finds it in the log.
        vendor.log.write(said)
        self._send(reply)

    def _hold(self, kill: Kill) -> bool:
        """Invite the kill; return whether the caller is gone."""
        self._vendor.log.write(Event(event="kill", ticket=kill.ticket, tool=kill.tool, number=kill.number, kill=kill))
        return self._wait_gone(kill.ticket)

    def _wait_gone(self, ticket: str = "") -> bool:
        """Wait until the caller has closed the connection, bounded by `HOLD_S_MAX`; False if it may go on."""
        for _ in range(int(HOLD_S_MAX / _LOOK_S)):
            readable, _, _ = select([self.connection], [], [], _LOOK_S)
            if readable:
                try:
                    return not self.connection.recv(1, socket.MSG_PEEK)
                except ConnectionError:
                    return True
            if ticket and self._vendor.take_go(ticket):
                return False
        return False

    def _send(self, reply: Answer) -> None:
        if reply.wire == "reset":
            self._vendor.abort(self.connection)
            return
        if reply.wire == "late":
            self._wait_gone()
            return
        self.send_response_only(reply.status)
        headers = {"content-type": "application/json", "connection": "close"} | reply.headers
        headers["content-length"] = str(len(reply.body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body[: len(reply.body) // 2] if reply.wire == "truncated" else reply.body)


def main(argv: list[str] | None = None) -> int:
    """Serve until standard input ends; events go to the log file and to standard output."""
    parser = argparse.ArgumentParser(prog="python -m yaoki.demo.vendor", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--plan", type=Path, help="misbehave as this JSON file says (default: behave)")
    parser.add_argument("--log", type=Path, default=Path("vendor.log"), help="append events here, default %(default)s")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    options = parser.parse_args(argv)
    plan = msgspec.json.decode(options.plan.read_bytes(), type=Plan) if options.plan else CALM
    clock = SystemClock()
    with Path(options.log).open("a", encoding="utf-8") as file:
        log = Log(file, clock.now_ms, sys.stdout)
        with VendorServer(plan, log, clock.now_ms, options.port) as server:
            Thread(target=_stop_with_stdin, args=(server, options.plan is None), daemon=True).start()
            log.write(Event(event="ready", port=server.server_address[1]))
            try:
                server.serve_forever(poll_interval=0.1)
            except KeyboardInterrupt:
                return 0
    return 0


def _stop_with_stdin(server: VendorServer, by_hand: bool) -> None:  # noqa: FBT001 - a thread's arguments
    """Serve until stdin ends; to a person who started it `by_hand` say so, since in the background it ends at once."""
    for line in sys.stdin:
        word, _, ticket = line.strip().partition(" ")
        if word == "go":
            server.go(ticket)
    if by_hand:
        sys.stderr.write(
            "vendor: standard input has ended, so it stops. Leave it a terminal, or a pipe that stays open:\n"
            "vendor: tail -f /dev/null | python -m yaoki.demo.vendor --port 8000 &\n"
        )
        sys.stderr.flush()
    server.shutdown()


if __name__ == "__main__":
    raise SystemExit(main())
