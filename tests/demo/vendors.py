"""A vendor on loopback for one test, and a client that lets every error through."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from yaoki.clock import SystemClock
from yaoki.demo._plan import CALM, Fault, Plan
from yaoki.demo._shop import Event, Log, read_log
from yaoki.demo.vendor import VendorServer

TICKETS = Path(__file__).parents[2] / "examples" / "refunds" / "tickets"
MODEL_HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


class Vendor:
    def __init__(self, server: VendorServer, written: io.StringIO) -> None:
        self.server = server
        self._written = written

    @property
    def events(self) -> list[Event]:
        return read_log(self._written.getvalue())

    def effects(self, tool: str) -> list[Event]:
        return [event for event in self.events if event.event == "effect" and event.tool == tool]

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, timeout_s: float = 5
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.server.url + path, data, headers or {}, method=method)
        with urlopen(request, timeout=timeout_s) as response:
            return json.loads(response.read())

    def ask(self, messages: list[dict[str, Any]], timeout_s: float = 5) -> Any:
        body = {"model": "m", "max_tokens": 100, "messages": messages}
        return self.call("POST", "/v1/messages", body, MODEL_HEADERS, timeout_s)

    def refund(self, order_id: str, cents: int, key: str, timeout_s: float = 5) -> Any:
        body = {"order_id": order_id, "cents": cents}
        return self.call("POST", "/v1/refunds", body, {"Idempotency-Key": key}, timeout_s)

    def mail(self, to: str, body: str, timeout_s: float = 5) -> Any:
        return self.call("POST", "/v1/mails", {"to": to, "body": body}, timeout_s=timeout_s)


@contextmanager
def running(plan: Plan = CALM) -> Any:
    written = io.StringIO()
    with VendorServer(plan, Log(written, SystemClock().now_ms), SystemClock().now_ms) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield Vendor(server, written)
        finally:
            server.shutdown()
            thread.join()


def faulty(kind: str, endpoint: str, ticket: str = "ticket-01") -> Plan:
    return Plan(faults=(Fault(ticket=ticket, endpoint=endpoint, request=1, kind=kind),))  # type: ignore[arg-type]


def ticket_text(ticket: str) -> str:
    return (TICKETS / f"{ticket}.txt").read_text(encoding="utf-8")


def opening(ticket: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": ticket_text(ticket)}]
