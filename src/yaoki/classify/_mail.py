"""
Mail by smtplib: the server's reply code, and where the session broke.

RFC 5321, 4.2.1: 4yz did not take the mail and may later, 5yz will not. A mail is taken by the reply to its data; a
connection lost before that reply leaves it open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from yaoki.classify._patterns import pattern
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"smtplib", "aiosmtplib"})

_REPLIES: Final = table(
    "mail.reply",
    "reply.code",
    (_K.TRANSIENT, _NO, Scope.VENDOR, "smtp.{}", "421 450 451 452 454 455"),
    (_K.PERMANENT, _NO, Scope.KEY, "smtp.{}", "530 534 535 538"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "smtp.{}", "552"),
)
"""RFC 5321, 4.2.3; RFC 4954, 6 for authentication."""

_CLASSES: Final = table(
    "mail.class",
    "class",
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "smtp.disconnected", "SMTPServerDisconnected SMTPReadTimeoutError"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "smtp.connect", "SMTPConnectError SMTPConnectTimeoutError"),
    (_K.PERMANENT, _NO, Scope.KEY, "smtp.{}", "SMTPAuthenticationError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "smtp.{}",
     "SMTPSenderRefused SMTPRecipientsRefused SMTPRecipientRefused SMTPDataError SMTPHeloError SMTPResponseException"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "smtp.{}", "SMTPNotSupportedError SMTPNotSupported"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout", "SMTPTimeoutError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "smtp.{}", "SMTPException"),
)  # fmt: skip

_PRINTED: Final = pattern(r"\((\d{3}), ")
_RECIPIENTS_MAX: Final = 1000


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the reply's code; of several recipients refused, by the one that heals least; else by the class."""
    if evidence.is_a("smtplib.SMTPServerDisconnected"):
        return by_class(evidence, _PACKAGES, _CLASSES)
    codes = _refused(evidence.get("recipients"))
    if not codes:
        code = evidence.get("smtp_code")
        said = _PRINTED.match(evidence.message)
        codes = [code if isinstance(code, int) else int(said[1]) if said else 0]
    return _of_reply(max(codes)) or by_class(evidence, _PACKAGES, _CLASSES)


def _of_reply(code: int) -> Failure | None:
    if found := _REPLIES.get(str(code)):
        return found
    if not 400 <= code < 600:
        return None
    kind = _K.TRANSIENT if code < 500 else _K.PERMANENT
    return Failure(
        kind=kind, reason=f"smtp.{code}", executed=_NO, scope=Scope.REQUEST, evidence="reply.code mail.reply"
    )


def _refused(recipients: object) -> list[int]:
    """Return the codes by which the recipients were refused: `{address: (code, text)}`; smtplib raises if all were."""
    if type(recipients) is not dict:
        return []
    replies = list(cast("dict[object, object]", recipients).values())[:_RECIPIENTS_MAX]
    firsts = [cast("tuple[object, ...]", reply)[0] for reply in replies if isinstance(reply, tuple) and reply]
    return [code for code in firsts if isinstance(code, int)]
