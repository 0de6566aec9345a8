"""
The vendor's answers, before the wire: a question in, an answer out, the work done in between.

`Desk.answer` is what a well-behaved vendor says. `Desk.misbehave` bends it as the plan has it for this
request; a fault that strikes after the work answers first, so the work is really done.
"""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

from yaoki.demo._messages import Request, case_in, complaint, reply_to
from yaoki.demo._shop import Mail

if TYPE_CHECKING:
    from yaoki.demo._plan import FaultKind, Plan
    from yaoki.demo._shop import Shop

__all__ = ["Answer", "Desk", "Question", "route"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as it came over the wire. Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str] = {}
    body: bytes = b""

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    def query(self, name: str) -> str:
        """Return a query parameter, or nothing."""
        return parse_qs(urlsplit(self.target).query).get(name, [""])[0]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back; `wire` says how the connection ends."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    wire: Literal["whole", "reset", "late", "truncated"] = "whole"


class _Refunding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    order_id: str
    cents: int


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    409: "idempotency_error",
    429: "rate_limit_error",
    503: "api_error",
    529: "overloaded_error",
}


def route(question: Question, shop: Shop) -> tuple[str, str]:
    """Return (endpoint, ticket) of a question; an empty endpoint is a 404, an empty ticket a stranger."""
    match (question.method, question.path):
        case ("POST", "/v1/messages"):
            return "model", _ticket_of_conversation(question.body)
        case ("GET", path) if path.startswith("/v1/orders/"):
            return "orders", shop.ticket_of(path.rpartition("/")[2])
        case ("POST", "/v1/refunds"):
            return "refunds", shop.ticket_of(_peek(question.body, "order_id"))
        case ("POST", "/v1/mails"):
            return "mails", shop.ticket_of(_peek(question.body, "to"))
        case ("GET", "/v1/mails"):
            return "mail-log", shop.ticket_of(question.query("to"))
        case _:
            return "", ""


class Desk:
    """Who answers: the shop, and the plan of what goes wrong."""

    def __init__(self, shop: Shop, plan: Plan) -> None:
        self.shop = shop
        self.plan = plan

    def answer(self, question: Question, endpoint: str) -> Answer:
        """Do what is asked, and say so."""
        try:
            match endpoint:
                case "model":
                    return _model(question, self.plan)
                case "orders":
                    return _find_order(question, self.shop)
                case "refunds":
                    return _refund(question, self.shop)
                case "mails":
                    self.shop.send(msgspec.json.decode(question.body, type=Mail))
                    return Answer(status=202, body=b'{"status":"sent"}')
                case "mail-log":
                    return _json(200, {"mails": self.shop.sent_to(question.query("to"))})
                case _:
                    return _error(404, f"no such endpoint: {question.method} {question.path}")
        except msgspec.MsgspecError as error:
            return _error(400, str(error))

    def misbehave(self, fault: FaultKind, question: Question, endpoint: str, *, now_ms: int) -> Answer:
        """Answer as the fault has it, the work done first where the fault strikes after it."""
        match fault:
            case "502":
                return _bad_gateway()
            case "reset":
                return Answer(wire="reset")
            case "502-after" | "reset-after" | "late" | "truncated":
                done = self.answer(question, endpoint)
                return {
                    "502-after": _bad_gateway(),
                    "reset-after": Answer(wire="reset"),
                    "late": Answer(wire="late"),
                    "truncated": msgspec.structs.replace(done, wire="truncated"),
                }[fault]
            case _:
                return _refusal(fault, now_ms)


def _refusal(fault: Literal["429-seconds", "429-date", "529", "503-refused"], now_ms: int) -> Answer:
    match fault:
        case "429-seconds":
            return _error(429, "Number of requests has exceeded your rate limit", {"retry-after": "1"})
        case "429-date":
            # HTTP dates are whole seconds; both are taken from one clock, so the difference is one second.
            date, later = (formatdate(now_ms // 1000 + s, usegmt=True) for s in (0, 1))
            return _error(429, "Number of requests has exceeded your rate limit", {"date": date, "retry-after": later})
        case "529":
            return _error(529, "Overloaded")
        case "503-refused":
            return _error(503, "We are draining this node; nothing was done", {"retry-after": "1"})


def _model(question: Question, plan: Plan) -> Answer:
    if not question.headers.get("x-api-key"):
        return _error(401, "x-api-key header is required")
    if not question.headers.get("anthropic-version"):
        return _error(400, "anthropic-version: header is required")
    request = msgspec.json.decode(question.body, type=Request)
    if wrong := complaint(request):
        return _error(400, wrong)
    case = case_in(request)
    if case is None:
        return _error(400, "messages.0: this model knows the twelve tickets of the demo, and no other")
    return _json(200, reply_to(request, case, plan.slips))


def _find_order(question: Question, shop: Shop) -> Answer:
    order_id = question.path.rpartition("/")[2]
    order = shop.orders.get(order_id)
    return _json(200, order) if order else _error(404, f"no order {order_id}")


def _refund(question: Question, shop: Shop) -> Answer:
    key = question.headers.get("idempotency-key", "")
    if not key:
        return _error(400, "Idempotency-Key header is required")
    ask = msgspec.json.decode(question.body, type=_Refunding)
    order = shop.orders.get(ask.order_id)
    if order is None:
        return _error(404, f"no order {ask.order_id}")
    if not 0 < ask.cents <= order.cents:
        return _error(400, f"cents: {ask.cents} is not within the order's {order.cents}")
    refund = shop.refund(ask.order_id, ask.cents, key)
    if refund is None:
        return _error(409, "this Idempotency-Key was used with other parameters")
    return _json(200, refund)


def _json(status: int, value: object) -> Answer:
    return Answer(status=status, body=msgspec.json.encode(value))


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Answer:
    """Return an error in the shape of https://docs.anthropic.com/en/api/errors."""
    body = {"type": "error", "error": {"type": _KINDS[status], "message": message}}
    return Answer(status=status, headers=headers or {}, body=msgspec.json.encode(body))


def _bad_gateway() -> Answer:
    """Return a proxy's page: no JSON, no promise."""
    page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    return Answer(status=502, headers={"content-type": "text/html"}, body=page)


def _ticket_of_conversation(body: bytes) -> str:
    try:
        case = case_in(msgspec.json.decode(body, type=Request))
    except (msgspec.MsgspecError, IndexError):
        return ""
    return case.ticket if case else ""


def _peek(body: bytes, field: str) -> str:
    try:
        value = msgspec.json.decode(body, type=dict[str, object]).get(field)
    except msgspec.MsgspecError:
        return ""
    return value if isinstance(value, str) else ""
