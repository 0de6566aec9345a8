"""Streams and tasks of anyio and trio, and WebSockets: what broke, and who closed it (RFC 6455, 7.4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._patterns import pattern
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"anyio", "trio", "websockets"})

_CLASSES: Final = table(
    "streams.class",
    "class",
    # What carries a connection away carries the answer with it: an MCP server that died looks like this.
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "net.broken", "BrokenResourceError ClosedResourceError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "stream.cut", "EndOfStream EndOfChannel IncompleteRead"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout", "TooSlowError"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "net.connect", "ConnectionFailed InvalidMessage"),
    (_K.TRANSIENT, _MAYBE, Scope.REQUEST, "stream.{}", "WouldBlock"),
    (_K.TRANSIENT, _MAYBE, Scope.PROCESS, "process.broken_pool", "BrokenWorkerProcess BrokenWorkerInterpreter"),
    (_K.CAPABILITY, _MAYBE, Scope.REQUEST, "stream.too_large", "DelimiterNotFound PayloadTooBig"),
    # A task or future of somebody else ended so; this call was not cancelled.
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "task.{}", "TaskCancelled FutureCancelled TaskFailed FutureFailed"),
    (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "stream.{}",
     ("BusyResourceError NoEventLoopError RunFinishedError TypedAttributeLookupError NeedHandshakeError"
     " FutureAlreadyFinished FutureNotFinished TaskNotFinished ConcurrencyError")),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "stream.{}", "BadPacket"),
    (_K.FATAL, _MAYBE, Scope.PROCESS, "stream.{}", "TrioInternalError"),
    # websockets
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "websocket.closed", "ConnectionClosedError ConnectionClosed"),
    (_K.PERMANENT, _MAYBE, Scope.VENDOR, "websocket.closed_ok", "ConnectionClosedOK"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "websocket.{}",
     "InvalidHandshake InvalidProxyMessage NegotiationError SecurityError InvalidUpgrade InvalidOrigin"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "net.proxy", "ProxyError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "http.url", "InvalidURI InvalidProxy"),
    (_K.PERMANENT, _MAYBE, Scope.VENDOR, "websocket.{}", "ProtocolError InvalidState"),
)  # fmt: skip

_CLOSING: Final = table(
    "websocket.code",
    "close.code",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "websocket.{}", "1001 1005 1006 1011 1012 1014"),
    (_K.OVERLOADED, _MAYBE, Scope.VENDOR, "websocket.{}", "1013"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "websocket.{}", "1000 1002 1003 1007 1008 1010 1015 3000 3003"),
    (_K.CAPABILITY, _MAYBE, Scope.REQUEST, "websocket.{}", "1009"),
)
"""IANA's "WebSocket Close Code Number Registry"; 1012 is a restart, 1013 "try again later"."""


_RECEIVED: Final = pattern(r"received (\d{4}) ")
"""How websockets prints the close frame of the other side, where only the text is left."""


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the close code of a WebSocket, else by the class."""
    frame = evidence.get("rcvd")
    code = evidence.under(frame).get("code") if frame is not None else None
    if not isinstance(code, int) and (said := _RECEIVED.match(evidence.message)):
        code = int(said[1])
    if isinstance(code, int) and (found := _CLOSING.get(str(int(code)))):
        return found
    return None if evidence.status is not None else by_class(evidence, _PACKAGES, _CLASSES)
