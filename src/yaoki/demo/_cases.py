"""
The twelve customers: what they ordered, and what their tickets call for.

A ticket is a text file beside the example; here stands what a good agent does about it, written down
before anything runs. The vendor's scripted model follows these stages, and the audit holds the world
against them, so an effect that never happened is missed even if the journal says nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

__all__ = ["CASES", "EFFECT_TOOLS", "Call", "Case", "Order", "case_of_ticket", "effects_of", "orders", "same"]

EFFECT_TOOLS = ("refund", "send_mail", "append_ledger")
"""The example's tools that change the world, in the order they are told about."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order as the shop's API gives it."""

    id: str
    item: str
    cents: int
    status: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call the model makes: the tool's name and its arguments."""

    tool: str
    args: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One ticket: whose it is, the orders it is about, and the calls it takes, stage by stage."""

    ticket: str
    """The run's id and the file's name: `ticket-01`."""
    subject: str
    email: str
    orders: tuple[Order, ...]
    stages: tuple[tuple[Call, ...], ...]
    """One stage is one reply of the model; its calls go out together."""
    verdict: str
    """refunded · declined · needs-info · answered"""
    cents: int = 0
    """Refunded in all."""


def same(tool: str, args: dict[str, object]) -> str:
    """Return a text equal for equal calls: the tool and its arguments, sorted."""
    return f"{tool} {msgspec.json.encode(args, order='sorted').decode()}"


def effects_of(case: Case) -> list[Call]:
    """Return the case's effects in the order they are asked for; effect 1 is the first."""
    return [call for stage in case.stages for call in stage if call.tool in EFFECT_TOOLS]


def orders() -> dict[str, Order]:
    """Return every order of the shop by its id."""
    return {order.id: order for case in CASES for order in case.orders}


def case_of_ticket(ticket: str) -> Case:
    """Return the case of a run id; KeyError if there is none."""
    return _BY_TICKET[ticket]


def _find(order_id: str) -> Call:
    return Call(tool="find_order", args={"order_id": order_id})


def _refund(order_id: str, cents: int) -> Call:
    return Call(tool="refund", args={"order_id": order_id, "cents": cents})


def _mail(to: str, body: str) -> Call:
    return Call(tool="send_mail", args={"to": to, "body": body})


def _book(line: str) -> Call:
    return Call(tool="append_ledger", args={"line": line})


def _order(number: int, item: str, cents: int, email: str, status: str = "delivered") -> Order:
    return Order(id=f"A-{number}", item=item, cents=cents, status=status, email=email)


_ANA, _BEN, _CHLOE, _DAVID = "ana@lima.example", "ben@okafor.example", "chloe@martin.example", "d.kim@kim.example"
_EVA, _FARID, _GRETA, _HARU = "eva@novak.example", "farid@aziz.example", "greta@lund.example", "haru@tanaka.example"
_INES, _JONAS, _KIRA, _LEO = "ines@costa.example", "jonas@weber.example", "kira+shop@oneil.example", "leo@rossi.example"

CASES: tuple[Case, ...] = (
    Case(
        ticket="ticket-01",
        subject="Mug arrived in pieces",
        email=_ANA,
        orders=(_order(1001, "stoneware mug", 4200, _ANA),),
        stages=(
            (_find("A-1001"),),
            (_refund("A-1001", 4200),),
            (_mail(_ANA, "We are sorry about the mug. $42.00 for A-1001 is on its way back to you."),),
            (_book("A-1001 refunded 4200 broken on arrival"),),
        ),
        verdict="refunded",
        cents=4200,
    ),
    Case(
        ticket="ticket-02",
        subject="One of two lamps is missing",
        email=_BEN,
        orders=(_order(1002, "desk lamp, set of two", 6000, _BEN),),
        stages=(
            (_find("A-1002"),),
            (_refund("A-1002", 1250),),
            (
                _mail(_BEN, "You are right, one lamp was not packed. We have refunded $12.50 of A-1002."),
                _book("A-1002 refunded 1250 item missing"),
            ),
        ),
        verdict="refunded",
        cents=1250,
    ),
    Case(
        ticket="ticket-03",
        subject="Cancel both of my orders",
        email=_CHLOE,
        orders=(
            _order(1003, "tea towels", 1800, _CHLOE, "unshipped"),
            _order(1004, "bread knife", 2750, _CHLOE, "unshipped"),
        ),
        stages=(
            (_find("A-1003"), _find("A-1004")),
            (_refund("A-1003", 1800), _refund("A-1004", 2750)),
            (
                _mail(_CHLOE, "Both orders are cancelled and $45.50 is refunded."),
                _book("A-1003 A-1004 refunded 4550 cancelled"),
            ),
        ),
        verdict="refunded",
        cents=4550,
    ),
    Case(
        ticket="ticket-04",
        subject="Charged twice?",
        email=_DAVID,
        orders=(_order(1005, "cast-iron pan", 3500, _DAVID), _order(1006, "cast-iron pan", 3500, _DAVID)),
        stages=(
            (_find("A-1005"), _find("A-1006")),
            (_refund("A-1006", 3500),),
            (_mail(_DAVID, "The pan was ordered twice within a minute. We kept A-1005 and refunded A-1006."),),
            (_book("A-1006 refunded 3500 ordered twice"),),
        ),
        verdict="refunded",
        cents=3500,
    ),
    Case(
        ticket="ticket-05",
        subject="Please take this chair back",
        email=_EVA,
        orders=(_order(1007, "folding chair", 8900, _EVA, "delivered 14 months ago"),),
        stages=(
            (_find("A-1007"),),
            (_mail(_EVA, "A-1007 came to you 14 months ago; returns are open for 90 days, so we cannot refund it."),),
        ),
        verdict="declined",
    ),
    Case(
        ticket="ticket-06",
        subject="Where is my refund",
        email=_FARID,
        orders=(),
        stages=(
            (_find("A-9999"),),
            (_mail(_FARID, "We find no order A-9999. Could you look at the number on your invoice once more?"),),
        ),
        verdict="needs-info",
    ),
    Case(
        ticket="ticket-07",
        subject="Two glasses chipped",
        email=_GRETA,
        orders=(_order(1008, "glass, six of them", 4500, _GRETA),),
        stages=(
            (_find("A-1008"),),
            # Two equal calls in one reply: two glasses, two refunds, two keys.
            (_refund("A-1008", 750), _refund("A-1008", 750)),
            (_mail(_GRETA, "Two chipped glasses, $7.50 each: both are refunded."),),
            (_book("A-1008 refunded 1500 two glasses"),),
        ),
        verdict="refunded",
        cents=1500,
    ),
    Case(
        ticket="ticket-08",
        subject="急須の蓋が割れていました",
        email=_HARU,
        orders=(_order(1009, "teapot 急須", 3980, _HARU),),
        stages=(
            (_find("A-1009"),),
            (_refund("A-1009", 3980),),
            (
                _mail(_HARU, "ご迷惑をおかけしました。A-1009 の $39.80 を返金いたしました。"),
                _book("A-1009 refunded 3980 急須"),
            ),
        ),
        verdict="refunded",
        cents=3980,
    ),
    Case(
        ticket="ticket-09",
        subject="Express shipping took nine days",
        email=_INES,
        orders=(_order(1010, "rain jacket", 7400, _INES),),
        stages=(
            (_find("A-1010"),),
            (_refund("A-1010", 495),),
            (_mail(_INES, "Nine days is not express. The $4.95 you paid for it are refunded."),),
            (_book("A-1010 refunded 495 shipping"),),
        ),
        verdict="refunded",
        cents=495,
    ),
    Case(
        ticket="ticket-10",
        subject="Bestellung stornieren",
        email=_JONAS,
        orders=(_order(1011, "bookshelf", 12900, _JONAS, "unshipped"),),
        stages=(
            (_find("A-1011"),),
            (_refund("A-1011", 12900),),
            (
                _mail(_JONAS, "Ihre Bestellung A-1011 ist storniert, 129,00 $ sind zurück an Sie überwiesen."),
                _book("A-1011 refunded 12900 storniert"),
            ),
        ),
        verdict="refunded",
        cents=12900,
    ),
    Case(
        ticket="ticket-11",
        subject="Wrong size, “medium” means small?",
        email=_KIRA,
        orders=(_order(1012, 'jumper, "medium"', 5600, _KIRA),),
        stages=(
            (_find("A-1012"),),
            (_refund("A-1012", 5600),),
            (_mail(_KIRA, 'Sorry about the "medium" that is a small: $56.00 for A-1012 is refunded.'),),
            (_book('A-1012 refunded 5600 wrong size, "medium"'),),
        ),
        verdict="refunded",
        cents=5600,
    ),
    Case(
        ticket="ticket-12",
        subject="When does my parcel come?",
        email=_LEO,
        orders=(_order(1013, "moka pot", 2900, _LEO, "shipped, due on Friday"),),
        stages=(
            (_find("A-1013"),),
            (_mail(_LEO, "Your moka pot (A-1013) is with the carrier and due on Friday."),),
        ),
        verdict="answered",
    ),
)

_BY_TICKET = {case.ticket: case for case in CASES}
