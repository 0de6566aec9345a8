"""
What the operating system says: errno, name resolution, TLS.

A connection that was never made (refused, unreachable, no name, no handshake) sent nothing, so executed is
`no`. One that broke may have carried the request. Errors of files and processes are `maybe`: a tool may
have acted before it met one.
"""

from __future__ import annotations

import errno as _errno
from typing import TYPE_CHECKING, Final

from yaoki.classify._rule import Rule
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "failure_of_errno", "failure_of_resolving", "judge_system"]

_K = FailureKind
_NO, _MAYBE = Executed.NO, Executed.MAYBE


def _table() -> dict[int, Failure]:
    """Return a failure per errno this platform has."""
    groups: tuple[tuple[FailureKind, Executed, Scope, str], ...] = (
        (_K.TRANSIENT, _NO, Scope.VENDOR, "ECONNREFUSED ENETUNREACH EHOSTUNREACH ENETDOWN EHOSTDOWN"),
        (_K.TRANSIENT, _NO, Scope.PROCESS, "EADDRNOTAVAIL EADDRINUSE"),
        (_K.TRANSIENT, _MAYBE, Scope.VENDOR,
         "ECONNRESET ECONNABORTED EPIPE ESHUTDOWN ENOTCONN ENETRESET ETIMEDOUT ETIME EREMOTEIO ESTALE EPROTO ECOMM"),
        (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "ENONET ENOLINK ESTRPIPE EREMCHG ESRMNT"),
        (_K.TRANSIENT, _MAYBE, Scope.REQUEST, "EAGAIN EINTR EBUSY ETXTBSY EALREADY EINPROGRESS EDEADLK ERESTART"),
        (_K.TRANSIENT, _MAYBE, Scope.REQUEST, "EOWNERDEAD EDEADLOCK EWOULDBLOCK"),
        (_K.OVERLOADED, _MAYBE, Scope.PROCESS, "EMFILE ENFILE ENOBUFS ENOLCK EUSERS ENOSR EPROCLIM"),
        (_K.FATAL, _MAYBE, Scope.PROCESS, "ENOMEM ENOSPC EDQUOT EIO EUCLEAN ENOTRECOVERABLE EHWPOISON"),
        (_K.CAPABILITY, _MAYBE, Scope.REQUEST, "E2BIG EFBIG EMSGSIZE ENAMETOOLONG EOVERFLOW ETOOMANYREFS"),
        (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "EBADF EFAULT ENOTSOCK EDESTADDRREQ EISCONN EDOM ERANGE"),
        (_K.PERMANENT, _MAYBE, Scope.REQUEST,
         "ENOENT EACCES EPERM EEXIST ENOTDIR EISDIR ENOTEMPTY EINVAL ELOOP EXDEV EROFS ENODEV ENXIO ENOEXEC"),
        (_K.PERMANENT, _MAYBE, Scope.REQUEST,
         "ESRCH ECHILD ESPIPE EMLINK ENOTTY ENOSYS EOPNOTSUPP EAFNOSUPPORT EPROTONOSUPPORT EPROTOTYPE ECANCELED"),
        (_K.PERMANENT, _MAYBE, Scope.REQUEST, "EPFNOSUPPORT ENOPROTOOPT ENOTBLK EILSEQ"),
    )  # fmt: skip
    return {
        number: Failure(kind=kind, reason=f"os.{name}", executed=executed, scope=scope, evidence="errno")
        for kind, executed, scope, names in groups
        for name in names.split()
        if (number := getattr(_errno, name, None)) is not None
    }


_ERRNOS: Final = _table()

_RESOLVING: Final = {
    "EAI_ADDRFAMILY": _K.PERMANENT,
    "EAI_BADFLAGS": _K.PROGRAMMING,
    "EAI_SOCKTYPE": _K.PROGRAMMING,
    "EAI_OVERFLOW": _K.PERMANENT,
    "EAI_AGAIN": _K.TRANSIENT,
    "EAI_SYSTEM": _K.TRANSIENT,
    "EAI_MEMORY": _K.OVERLOADED,
    "EAI_NONAME": _K.PERMANENT,
    "EAI_NODATA": _K.PERMANENT,
    "EAI_FAIL": _K.PERMANENT,
    "EAI_FAMILY": _K.PERMANENT,
    "EAI_SERVICE": _K.PERMANENT,
}

_TLS_BROKEN: Final = (
    "UNEXPECTED_EOF",
    "DECRYPTION_FAILED",
    "BAD_RECORD_MAC",
    "BAD_LENGTH",
    "PROTOCOL_IS_SHUTDOWN",
    "EOF occurred",
    "timed out",
)
"""Words of a TLS connection that broke, which may be after the request was sent."""

_TLS_REFUSED: Final = (
    "CERT",
    "VERIFY",
    "VERSION",
    "HANDSHAKE",
    "UNSUPPORTED_PROTOCOL",
    "UNKNOWN_PROTOCOL",
    "CIPHER",
    "UNKNOWN_CA",
    "UNRECOGNIZED_NAME",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "KEY_TOO_SMALL",
    "NO_PROTOCOLS_AVAILABLE",
)
"""Words of a handshake that ended without a connection: nothing was sent."""


def judge_system(evidence: Evidence) -> Failure | None:
    """Judge an OSError by its number, by the sort of number it is."""
    if "builtins.OSError" not in evidence.names and "ssl.CertificateError" not in evidence.names:
        return None
    if evidence.is_a("ssl.SSLError", "ssl.CertificateError"):
        return _tls(evidence)
    number = evidence.get("errno")
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    if evidence.is_a("socket.gaierror", "socket.herror"):
        return failure_of_resolving(number)
    inside = evidence.inside
    if inside is not None and inside.is_a("socket.gaierror", "ssl.SSLError"):
        return judge_system(inside)
    return failure_of_errno(number)


def failure_of_errno(number: int) -> Failure | None:
    """Return what an errno of this platform says; one nobody sorted stays as it is, and may have come late."""
    found = _ERRNOS.get(number)
    if found is None and (name := _errno.errorcode.get(number)):
        return Failure(kind=_K.PERMANENT, reason=f"os.{name}", executed=_MAYBE, evidence="errno")
    return found


def failure_of_resolving(number: int) -> Failure:
    """Return what a number of `getaddrinfo` says; nothing was sent."""
    import socket

    name = next((name for name in _RESOLVING if getattr(socket, name, None) == number), "EAI_UNKNOWN")
    kind = _RESOLVING.get(name, _K.TRANSIENT)
    return Failure(
        kind=kind,
        reason=f"dns.{name}",
        executed=_NO,
        scope=Scope.VENDOR,
        evidence="errno",
        hint="Check the host's name." if kind is _K.PERMANENT else "",
    )


def _tls(evidence: Evidence) -> Failure:
    """TLS: a refused certificate or protocol stays refused; a connection that broke may have carried the request."""
    reason = evidence.get("reason")
    word = reason if isinstance(reason, str) and reason else evidence.name
    if evidence.is_a("ssl.SSLCertVerificationError", "ssl.CertificateError"):
        word = "CERTIFICATE_VERIFY_FAILED"
    broken = evidence.is_a("ssl.SSLEOFError", "ssl.SSLZeroReturnError", "ssl.SSLWantReadError", "ssl.SSLWantWriteError")
    if broken or any(sign in word or sign in evidence.message for sign in _TLS_BROKEN):
        return Failure(
            kind=_K.TRANSIENT, reason=f"tls.{word}", executed=_MAYBE, scope=Scope.VENDOR, evidence="tls.reason"
        )
    refused = any(sign in word for sign in _TLS_REFUSED)
    return Failure(
        kind=_K.PERMANENT,
        reason=f"tls.{word}",
        executed=_NO if refused else _MAYBE,
        scope=Scope.VENDOR,
        evidence="tls.reason",
        hint="Check certificate, protocol and port." if refused else "",
    )


RULES = (Rule(name="os.errno", stage="code", judge=judge_system),)
