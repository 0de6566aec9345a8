"""
HTTP clients: httpx and httpcore, requests, aiohttp, urllib3, urllib and http.client, by class name.

What matters is the phase. While connecting (or waiting for a pooled connection) nothing was sent: `no`,
and the error beneath says whether it can heal. Afterwards the request may be at the server: `maybe`. An
answer that is not HTTP comes again: `permanent`, but something was sent to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yaoki.classify._patterns import pattern
from yaoki.classify._rule import Rule
from yaoki.classify._status import failure_of_status
from yaoki.classify._system import judge_system
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "package_of"]

_K = FailureKind
_NO, _MAYBE = Executed.NO, Executed.MAYBE


def _sort(
    kind: FailureKind, executed: Executed, reason: str, names: str, scope: Scope = Scope.VENDOR
) -> dict[str, Failure]:
    failure = Failure(kind=kind, reason=reason, executed=executed, scope=scope, evidence="class")
    return dict.fromkeys(names.split(), failure)


_CONNECTING: Final = {
    **_sort(_K.TRANSIENT, _NO, "timeout.connect",
            "httpx.ConnectTimeout requests.ConnectTimeout urllib3.ConnectTimeoutError aiohttp.ConnectionTimeoutError"
            " botocore.ConnectTimeoutError"),
    **_sort(_K.TRANSIENT, _NO, "net.connect",
            "httpx.ConnectError urllib3.NewConnectionError urllib3.NameResolutionError aiohttp.ClientConnectorError"
            " aiohttp.ClientConnectorDNSError aiohttp.UnixClientConnectorError botocore.EndpointConnectionError"
            " httpx.ConnectionNotAvailable"),
    **_sort(_K.TRANSIENT, _NO, "net.proxy",
            "httpx.ProxyError requests.ProxyError urllib3.ProxyError aiohttp.ClientProxyConnectionError"
            " aiohttp.ClientHttpProxyError botocore.ProxyConnectionError"),
    **_sort(_K.PERMANENT, _NO, "tls.handshake",
            "aiohttp.ClientConnectorSSLError aiohttp.ClientConnectorCertificateError"
            " aiohttp.ServerFingerprintMismatch urllib3.CertificateError"),
}  # fmt: skip
"""Raised before a byte of the request left; asked before errno, whose own answer does not know the phase."""

_SENT: Final = {
    **_sort(_K.OVERLOADED, _NO, "timeout.pool", "httpx.PoolTimeout urllib3.EmptyPoolError urllib3.FullPoolError",
            Scope.PROCESS),
    **_sort(_K.TRANSIENT, _MAYBE, "timeout.read",
            "httpx.ReadTimeout requests.ReadTimeout urllib3.ReadTimeoutError aiohttp.SocketTimeoutError"
            " botocore.ReadTimeoutError"),
    **_sort(_K.TRANSIENT, _MAYBE, "timeout.write", "httpx.WriteTimeout"),
    **_sort(_K.TRANSIENT, _MAYBE, "timeout",
            "httpx.TimeoutException requests.Timeout urllib3.TimeoutError aiohttp.ServerTimeoutError"),
    **_sort(_K.TRANSIENT, _MAYBE, "net.disconnected",
            "httpx.RemoteProtocolError h11.RemoteProtocolError http.RemoteDisconnected"
            " aiohttp.ServerDisconnectedError botocore.ConnectionClosedError"),
    **_sort(_K.TRANSIENT, _MAYBE, "net.broken",
            "httpx.ReadError httpx.WriteError httpx.CloseError httpx.NetworkError httpx.TransportError"
            " httpx.ProtocolError requests.ConnectionError urllib3.ProtocolError urllib3.MaxRetryError"
            " aiohttp.ClientOSError aiohttp.ClientConnectionResetError"
            " aiohttp.ServerConnectionError aiohttp.ClientConnectionError botocore.ConnectionError"
            " botocore.HTTPClientError"),
    **_sort(_K.TRANSIENT, _MAYBE, "stream.cut",
            "requests.ChunkedEncodingError urllib3.IncompleteRead urllib3.InvalidChunkLength http.IncompleteRead"
            " aiohttp.ClientPayloadError aiohttp.ContentLengthError aiohttp.TransferEncodingError aiohttp.EofStream"
            " aiohttp.UploadAbortedError urllib.ContentTooShortError botocore.ResponseStreamingError"
            " botocore.IncompleteReadError"),
    # urllib3 raises it for the handshake and for a read alike; what lies beneath tells.
    **_sort(_K.PERMANENT, _MAYBE, "tls", "requests.SSLError urllib3.SSLError aiohttp.ClientSSLError botocore.SSLError"),
    **_sort(_K.OVERLOADED, _MAYBE, "http.retries_exhausted", "requests.RetryError urllib3.ResponseError"),
    **_sort(_K.PERMANENT, _MAYBE, "http.not_http", "http.BadStatusLine http.UnknownProtocol http.LineTooLong"
            " httpx.SSEError urllib3.HeaderParsingError"
            " aiohttp.HttpProcessingError aiohttp.WSHandshakeError"),
    **_sort(_K.PERMANENT, _MAYBE, "http.encoding",
            "httpx.DecodingError requests.ContentDecodingError urllib3.DecodeError aiohttp.PayloadEncodingError"
            " aiohttp.DecompressSizeError aiohttp.TooManyMembersError", Scope.REQUEST),
    **_sort(_K.PERMANENT, _MAYBE, "http.redirects",
            "httpx.TooManyRedirects requests.TooManyRedirects aiohttp.TooManyRedirects"
            " aiohttp.InvalidUrlRedirectClientError aiohttp.NonHttpUrlRedirectClientError aiohttp.RedirectClientError",
            Scope.REQUEST),
    **_sort(_K.PROGRAMMING, _NO, "http.url",
            "httpx.UnsupportedProtocol httpx.InvalidURL requests.MissingSchema requests.InvalidSchema"
            " requests.InvalidURL requests.InvalidProxyURL requests.InvalidHeader requests.URLRequired"
            " urllib3.LocationValueError"
            " urllib3.InvalidHeader urllib3.ProxySchemeUnsupported aiohttp.InvalidURL aiohttp.NonHttpUrlClientError"
            " http.InvalidURL", Scope.REQUEST),
    **_sort(_K.PROGRAMMING, _MAYBE, "http.misuse",
            "httpx.LocalProtocolError httpx.StreamError httpx.CookieConflict requests.StreamConsumedError"
            " requests.UnrewindableBodyError requests.InvalidJSONError urllib3.ClosedPoolError urllib3.HostChangedError"
            " urllib3.UnrewindableBodyError urllib3.BodyNotHttplibCompatible urllib3.TimeoutStateError"
            " requests.CookieConflictError aiohttp.LookupError http.ImproperConnectionState http.NotConnected",
            Scope.REQUEST),
    # A WebSocket that was broken off, or whose peer broke its rules.
    **_sort(_K.TRANSIENT, _MAYBE, "websocket.closed", "aiohttp.WebSocketError"),
}  # fmt: skip

_SEMANTIC = Failure(kind=_K.SEMANTIC, reason="json.malformed", evidence="class")


def _connecting(evidence: Evidence) -> Failure | None:
    """Judge the phase of connecting; what lies beneath says whether it heals, the phase that nothing was sent."""
    found = _find(evidence, _CONNECTING)
    if found is None and evidence.is_a("requests.ConnectionError", "urllib3.MaxRetryError"):
        found = _packed(evidence)
    if found is None:
        return None
    if found.reason == "net.proxy" and (refused := _proxy(evidence)):
        return refused
    for link in evidence.chain()[1:]:
        if (beneath := judge_system(link)) is not None:
            return _never_sent(beneath)
    return _by_text(evidence) or found


def _never_sent(failure: Failure) -> Failure:
    return Failure(
        kind=failure.kind,
        reason=failure.reason,
        executed=_NO,
        scope=Scope.VENDOR if failure.scope is Scope.REQUEST else failure.scope,
        evidence=failure.evidence,
        hint=failure.hint,
    )


def _packed(evidence: Evidence) -> Failure | None:
    """Of requests' and urllib3's wrappers: what they hold is the error; nothing if it came after connecting."""
    for link in evidence.chain()[1:]:
        if found := _find(link, _CONNECTING):
            return found
        if _find(link, _SENT) and not link.is_a("urllib3.MaxRetryError", "requests.ConnectionError"):
            return None
    said = _CAUSED.search(evidence.message)
    return _CONNECTING.get(f"urllib3.{said[1]}") if said else None


_CAUSED = pattern(r"\(Caused by (\w{1,60})\(|^\('Connection aborted\.', (\w{1,60})\(")
_ERRNO = pattern(r"(?:^|connection: )\[Errno (-?\d{1,4})\] ", re.ASCII)
_TLS = pattern(r"^\[SSL: ([A-Z0-9_]{1,80})\]|\[SSL: (CERTIFICATE_VERIFY_FAILED|WRONG_VERSION_NUMBER)\]")


def _by_text(evidence: Evidence) -> Failure | None:
    """Read what the clients print of the error beneath, where the error itself is gone: `[Errno -2] …`."""
    if said := _ERRNO.search(evidence.message):
        name = "socket.gaierror" if said[1].startswith("-") else "builtins.OSError"
        copy = type(name, (OSError,), {"__module__": name.partition(".")[0]})
        copy.__name__ = name.partition(".")[2]
        found = judge_system(evidence.under(copy(int(said[1]), "")))
        return _never_sent(found) if found else None
    if said := _TLS.search(evidence.message):
        return Failure(
            kind=_K.PERMANENT,
            reason=f"tls.{said[1] or said[2]}",
            executed=_NO,
            scope=Scope.VENDOR,
            evidence="tls.reason",
        )
    return None


_PROXY = pattern(r"^([345]\d\d) |Tunnel connection failed: ([345]\d\d)", re.ASCII)


def _proxy(evidence: Evidence) -> Failure | None:
    """Judge a proxy that refused the tunnel: its status says why, and the server was never reached."""
    said = next((found for link in evidence.chain() if (found := _PROXY.search(link.message))), None)
    status = evidence.status or (int(said[1] or said[2]) if said else None)
    if status is None:
        return None
    kind = failure_of_status(status).kind
    return Failure(kind=kind, reason=f"proxy.{status}", executed=_NO, scope=Scope.VENDOR, evidence="status")


def _sent(evidence: Evidence) -> Failure | None:
    """Judge what happened after connecting."""
    if evidence.is_a("aiohttp.ContentTypeError", "requests.JSONDecodeError"):
        status = evidence.status
        return _SEMANTIC if status is None or status < 400 else None
    if evidence.is_a(*_WRAPPERS) and evidence.status is None:
        return _wrapped(evidence)
    found = _find(evidence, _SENT)
    if found is not None and _NOT_HTTP.search(evidence.message):
        return _SENT["http.BadStatusLine"]
    return found


_NOT_HTTP = pattern(
    r"^illegal (status line|header line)|bad status line|^invalid (http version|status line)", re.IGNORECASE
)


_WRAPPERS = (
    "requests.ConnectionError",
    "requests.RetryError",
    "urllib3.MaxRetryError",
    "urllib3.ProtocolError",
    "urllib3.SSLError",
    "urllib.URLError",
    "botocore.SSLError",
    "botocore.ConnectionClosedError",
    "botocore.HTTPClientError",
)


def _wrapped(evidence: Evidence) -> Failure | None:
    """Judge a wrapper by the most telling error it holds, the innermost; else by what it says of it."""
    for link in reversed(evidence.chain()):
        if link.names[0] not in _WRAPPERS and (found := _find(link, _SENT) or judge_system(link)):
            return found
    said = _CAUSED.search(evidence.message)
    if said and (held := said[1] or said[2]):
        for package in ("urllib3", "http"):
            if found := _SENT.get(f"{package}.{held}"):
                return found
    return None if evidence.is_a("urllib.URLError") else _by_text(evidence) or _find(evidence, _SENT)


def _parsing(evidence: Evidence) -> Failure | None:
    """
    See through aiohttp's status 400 for an answer that is no HTTP: no server ever said so.

    Its parser's errors carry `code` 400 and become a ClientResponseError with that status.
    """
    if not evidence.is_a("aiohttp.ClientResponseError"):
        return None
    beneath = evidence.cause or evidence.context
    if beneath is not None and beneath.is_a("aiohttp.HttpProcessingError"):
        return _SENT["http.BadStatusLine"]
    return None


def _find(evidence: Evidence, table: dict[str, Failure]) -> Failure | None:
    for name in evidence.names:
        if found := table.get(name):
            return found
    return None


def package_of(own: str) -> str:
    """Return the client whose class this is by its own name, the first where several have it; else nothing."""
    return next((name.partition(".")[0] for name in (*_CONNECTING, *_SENT) if name.partition(".")[2] == own), "")


RULES = (
    Rule(name="http.not_http", stage="user", judge=_parsing),
    Rule(name="http.connecting", stage="code", judge=_connecting),
    Rule(name="http.clients", stage="class", judge=_sent),
)
