"""
Browsers by Playwright: its few classes, and the words of the browser and of Node in its messages.

`net::ERR_*` are Chromium's (net/base/net_error_list.h); `NS_ERROR_*` Firefox's. What an error of connecting
names was never sent. A click or a load that ran out of time may have happened.
"""

from __future__ import annotations

import errno as _errno
from typing import TYPE_CHECKING, Final

from yaoki.classify._patterns import pattern
from yaoki.classify._system import failure_of_errno
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"playwright", "patchright"})

_NET: Final = table(
    "browser.net",
    "net.error",
    (_K.PERMANENT, _NO, Scope.VENDOR, "browser.{}",
     ("NAME_NOT_RESOLVED TUNNEL_CONNECTION_FAILED SSL_PROTOCOL_ERROR SSL_VERSION_OR_CIPHER_MISMATCH"
     " BAD_SSL_CLIENT_AUTH_CERT SSL_CLIENT_AUTH_CERT_NEEDED INVALID_AUTH_CREDENTIALS"
     " PROXY_AUTH_UNSUPPORTED UNKNOWN_HOST UNKNOWN_PROXY_HOST")),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "browser.{}",
     ("CONNECTION_REFUSED CONNECTION_TIMED_OUT CONNECTION_FAILED ADDRESS_UNREACHABLE INTERNET_DISCONNECTED"
     " NETWORK_ACCESS_DENIED NAME_RESOLUTION_FAILED DNS_TIMED_OUT DNS_SERVER_FAILED PROXY_CONNECTION_FAILED"
     " SOCKS_CONNECTION_FAILED SOCKS_CONNECTION_HOST_UNREACHABLE PROXY_CONNECTION_REFUSED OFFLINE")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "browser.{}",
     ("CONNECTION_RESET CONNECTION_CLOSED CONNECTION_ABORTED EMPTY_RESPONSE TIMED_OUT NETWORK_CHANGED"
     " HTTP2_PROTOCOL_ERROR HTTP2_SERVER_REFUSED_STREAM HTTP2_PING_FAILED QUIC_PROTOCOL_ERROR SOCKET_NOT_CONNECTED"
     " INCOMPLETE_CHUNKED_ENCODING INCOMPLETE_HTTP2_FRAME CONTENT_LENGTH_MISMATCH FAILED NETWORK_IO_SUSPENDED"
     " NET_RESET NET_INTERRUPT NET_TIMEOUT NET_PARTIAL_TRANSFER")),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "browser.{}", "INSUFFICIENT_RESOURCES OUT_OF_MEMORY"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "browser.{}",
     ("TOO_MANY_REDIRECTS INVALID_RESPONSE INVALID_HTTP_RESPONSE CONTENT_DECODING_FAILED HTTP_RESPONSE_CODE_FAILURE"
     " RESPONSE_HEADERS_TRUNCATED INVALID_REDIRECT UNSAFE_REDIRECT REDIRECT_LOOP")),
    (_K.PERMANENT, _NO, Scope.REQUEST, "browser.{}",
     ("BLOCKED_BY_CLIENT BLOCKED_BY_ADMINISTRATOR BLOCKED_BY_RESPONSE BLOCKED_BY_ORB BLOCKED_BY_CSP ACCESS_DENIED"
     " FILE_NOT_FOUND UNSAFE_PORT CLEARTEXT_NOT_PERMITTED")),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "browser.{}",
     "INVALID_URL UNKNOWN_URL_SCHEME DISALLOWED_URL_SCHEME INVALID_ARGUMENT MALFORMED_URI"),
    # A download, or a navigation that another one took over: the page's doing, for whoever drives it to see.
    (_K.SEMANTIC, _MAYBE, Scope.REQUEST, "browser.{}", "ABORTED BINDING_ABORTED"),
)  # fmt: skip

_PHRASES: Final = table(
    "browser.message",
    "message",
    (_K.PERMANENT, _NO, Scope.PROCESS, "browser.{}", "not_installed"),
    (_K.TRANSIENT, _MAYBE, Scope.PROCESS, "browser.{}", "crashed closed"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "browser.{}", "hang_up timeout navigated cut"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "browser.{}", "certificate no_name"),
    (_K.PERMANENT, _MAYBE, Scope.VENDOR, "browser.{}", "not_http encoding"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "browser.{}", "dns handshake"),
    (_K.SEMANTIC, _NO, Scope.REQUEST, "browser.{}", "selector"),
    (_K.SEMANTIC, _MAYBE, Scope.REQUEST, "browser.{}", "script download"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "browser.{}", "url usage"),
    hints={
        "not_installed": "Install the browser: playwright install.",
        "crashed": "Open a new browser and context first.",
        "closed": "Open a new browser and context first.",
    },
)

_SAID: Final = (
    ("not_installed", (r"executable doesn't exist|is missing dependencies|spawn \S{1,300} e(noent|acces)"
                       r"|failed to launch.{0,40}enoent")),
    ("crashed", r"(page|target|browser) crashed"),
    ("closed", r"(has been|was) closed|connection closed|browser closed|target closed|browser has disconnected"),
    ("timeout", r"timeout \d+(\.\d+)?ms exceeded|request timed out after|timed out after"),
    ("navigated", r"execution context was destroyed|interrupted by another navigation|frame was detached"),
    ("hang_up", r"socket hang up|other side closed|premature close"),
    ("certificate", (r"self[- ]signed certificate|unable to verify the first certificate|certificate has expired"
                    r"|sec_error_|ssl_error_|certificate is not trusted|wrong version number|eproto")),
    ("handshake", r"disconnected before secure tls connection"),
    ("cut", r"^\S{1,60}: aborted$|^\S{1,60}: aborted\n"),
    ("encoding", r"failed to decompress"),
    ("no_name", r"enotfound"),
    ("dns", r"eai_again"),
    ("not_http", r"parse error: (expected http/|invalid)|malformed (response|http)"),
    ("selector", (r"strict mode violation|is not a valid selector|unknown engine|unexpected token .{0,80} selector"
                  r"|element is not (attached|visible|enabled|an <)|outside of the viewport|not a checkbox"
                  r"|did not find some options")),
    ("download", r"download is starting"),
    ("url", r"cannot navigate to invalid url|invalid url|only absolute urls|unsupported protocol"),
    ("usage", r"using playwright sync api inside|event loop is closed|is not opened|please use the async api"),
    ("script", r"\.evaluate\w*: |^(\w{1,40}\.)?\w{1,40}: (reference|type|syntax|range)?error: "),
)  # fmt: skip
_PATTERNS: Final = [(key, pattern(source)) for key, source in _SAID]

_CLASSES: Final = table(
    "browser.class",
    "class",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "browser.timeout", "TimeoutError"),
    (_K.TRANSIENT, _MAYBE, Scope.PROCESS, "browser.closed", "TargetClosedError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "browser.{}", "ValidationError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "browser.{}", "AbortError"),
    hints={"TargetClosedError": "Open a new browser and context first."},
)

_ERR: Final = pattern(r"\bnet::ERR_([A-Z0-9_]{3,60})|\bNS_(?:ERROR_)?([A-Z0-9_]{3,60})")
_NODE: Final = pattern(r"\b(?:connect|read|write|listen|getaddrinfo) (E[A-Z]{3,20})\b")
_LOOKED_AT: Final = 4000


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the browser's error, then Node's errno, then the class, then what is said."""
    text = evidence.message[:_LOOKED_AT]
    if (said := _ERR.search(text)) and (found := _of_net(said[1] or said[2])):
        return found
    if (said := _NODE.search(text)) and (number := getattr(_errno, said[1], None)) is not None:
        return _of_node(number)
    if found := by_class(evidence, _PACKAGES, _CLASSES) or by_class(evidence, None, _STRAY):
        return found
    low = text.lower()
    for key, words in _PATTERNS:
        if words.search(low):
            return _PHRASES[key]
    return None


def _of_node(number: int) -> Failure | None:
    found = failure_of_errno(number)
    return found and Failure(
        kind=found.kind,
        reason=found.reason,
        executed=found.executed,
        scope=found.scope,
        evidence="errno browser.node",
    )


_STRAY: Final = {"TargetClosedError": _CLASSES["TargetClosedError"]}


def _of_net(name: str) -> Failure | None:
    if name.startswith(("CERT_", "SSL_")):
        return _NET.get(name) or Failure(
            kind=_K.PERMANENT,
            reason=f"browser.{name}",
            executed=_NO,
            scope=Scope.VENDOR,
            evidence="net.error browser.net",
        )
    return _NET.get(name)
