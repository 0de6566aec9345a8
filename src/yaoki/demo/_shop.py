"""The shop behind the vendor's API: orders, refunds deduplicated by key, a mail log; and its own record of all."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Literal

import msgspec

from yaoki.demo._cases import CASES, orders
from yaoki.demo._plan import Kill  # noqa: TC001 - msgspec reads the annotations of what it decodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

__all__ = ["Event", "Log", "Mail", "Refund", "Shop", "read_log"]


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the vendor's log."""

    event: Literal["ready", "request", "effect", "replayed", "kill"]
    """request: answered, or not · effect: the world changed · replayed: a key seen before · kill: holding."""
    n: int = 0
    """Line number, from 1."""
    at_ms: int = 0
    ticket: str = ""
    """By the order or the address; empty if neither is known."""
    endpoint: str = ""
    request: int = 0
    """Which of this ticket's requests at this endpoint, from 1."""
    answer: str = ""
    """A status, or how the connection ended."""
    fault: str = ""
    tool: str = ""
    """For an effect: the example's tool it belongs to."""
    number: int = 0
    """For an effect: the ticket's n-th."""
    key: str = ""
    """The idempotency key it came with."""
    args: dict[str, object] = {}
    kill: Kill | None = None
    port: int = 0


class Log:
    """An append-only file of events, one JSON line each, and whoever listens. Thread-safe."""

    def __init__(self, file: TextIO, now_ms: Callable[[], int], listener: TextIO | None = None) -> None:
        self._file = file
        self._now_ms = now_ms
        self._listener = listener
        self._lock = Lock()
        self._n = 0

    def write(self, event: Event) -> None:
        """Append an event; it is out of this process when this returns."""
        with self._lock:
            self._n += 1
            event.n, event.at_ms = self._n, self._now_ms()
            line = msgspec.json.encode(event).decode() + "\n"
            for file in (self._file, self._listener):
                if file is not None:
                    file.write(line)
                    file.flush()


def read_log(text: str) -> list[Event]:
    """Parse a vendor's log."""
    return [_decoder().decode(line) for line in text.splitlines() if line]


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund as the API gives it."""

    id: str
    order_id: str
    cents: int


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was sent."""

    to: str
    body: str


class Shop:
    """What the vendor knows and has done. Thread-safe; each change stands in the log before it is answered."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.orders = orders()
        self._tickets = {order.id: case.ticket for case in CASES for order in case.orders}
        self._tickets |= {case.email: case.ticket for case in CASES}
        self._tickets |= {str(c.args["order_id"]): case.ticket for case in CASES for c in case.stages[0]}
        self._refunds: dict[str, Refund] = {}
        self._mails: list[Mail] = []
        self._effects: Counter[str] = Counter()
        self._lock = Lock()

    def ticket_of(self, name: str) -> str:
        """Return the ticket an order id or an address belongs to."""
        return self._tickets.get(name, "")

    def effects(self, ticket: str) -> int:
        """Return how many effects a ticket has had here."""
        return self._effects[ticket]

    def refund(self, order_id: str, cents: int, key: str) -> Refund | None:
        """Refund, or return what the key was used for before; None if that was something else."""
        with self._lock:
            known = self._refunds.get(key)
            if known is None:
                known = Refund(id=f"re_{len(self._refunds) + 1:04}", order_id=order_id, cents=cents)
                self._refunds[key] = known
                self._happened("refund", order_id, {"order_id": order_id, "cents": cents}, key)
            elif (known.order_id, known.cents) != (order_id, cents):
                return None
            else:
                ticket = self.ticket_of(order_id)
                self.log.write(Event(event="replayed", ticket=ticket, endpoint="refunds", tool="refund", key=key))
            return known

    def send(self, mail: Mail) -> None:
        """Send a mail. Nothing is deduplicated: asked twice, it is sent twice."""
        with self._lock:
            self._mails.append(mail)
            self._happened("send_mail", mail.to, {"to": mail.to, "body": mail.body}, "")

    def sent_to(self, address: str) -> list[Mail]:
        """Return the mails an address was sent."""
        with self._lock:
            return [mail for mail in self._mails if mail.to == address]

    def _happened(self, tool: str, name: str, args: dict[str, object], key: str) -> None:
        ticket = self.ticket_of(name)
        self._effects[ticket] += 1
        number = self._effects[ticket]
        self.log.write(Event(event="effect", ticket=ticket, tool=tool, number=number, key=key, args=args))


def _decoder() -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(Event)
