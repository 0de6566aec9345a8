"""
Sentences servers say, for when a code was lost in wrapping or never sent.

Each pattern is anchored in words only an error uses; a bare number never decides. A sentence that promises
healing counts only where the status allows it: a 400 that quotes the user's own words about rate limits
stays a 400.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yaoki.classify._later import DAILY, phrase_s
from yaoki.classify._rule import Rule
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "judge_prose"]

_K = FailureKind
_LOOKED_AT = 4000

_LASTING: Final = tuple(
    (kind, scope, name, re.compile(pattern))
    for kind, scope, name, pattern in (
        (_K.PERMANENT, Scope.KEY, "credentials",
         r"api key (not valid|is invalid|has expired|was revoked|provided)|(invalid|incorrect|missing|no) (x-)?api[ _-]?key"
         r"|(security|access|auth\w*|bearer) token [^.]{0,40}(is |has )?(invalid|expired)|invalid (credentials|token)"
         r"|authentication (failed|required)|unauthorized"),
        (_K.CAPABILITY, Scope.REQUEST, "too_large",
         r"(prompt|input|request|message|image|file|payload|content|context|conversation)s? (is |are )?(too (long|large|big)|exceeds?\b[^.]{0,60}(max|limit|size|context))"
         r"|maximum context length|context (length|window|size)[^.]{0,40}exceed|exceeds (the )?(available|maximum|model'?s)[^.]{0,20}context"
         r"|exceeds [\d.]+ ?[kmg]i?b maximum|reduce the length|must be <= \d+|maximum allowed tokens|too many (tokens|images)"),
        (_K.BUDGET, Scope.KEY, "credit",
         r"credit balance|insufficient (balance|credit|fund|quota)|(more|out of|enough|remaining) credits|plans? (&|and) billing"
         r"|purchase credits|payment required|usage limit (has been )?(reached|exceeded)|spend(ing)? (limit|cap)|can only afford"
         r"|\blimit: 0\b(?!\.)|monthly (usage|quota|limit|spend)|quota (has been )?exhausted|account balance"),
        (_K.PERMANENT, Scope.KEY, "refused",
         r"(country|region)[^.]{0,40}not supported|operation not allowed|not authorized to|access denied|permission denied"
         r"|(organization|account)[^.]{0,30}(disabled|suspended|deactivated)"),
        (_K.PERMANENT, Scope.REQUEST, "unprocessable", r"could not (process|decode|read) (the )?(image|file|document)"),
        (_K.SEMANTIC, Scope.REQUEST, "tool_call",
         r"malformed_function_call|failed to call a function|requested tool does not exist|tool call[^.]{0,40}did not match schema"),
        (_K.PROGRAMMING, Scope.REQUEST, "history",
         r"tool_use[^.]{0,60}without[^.]{0,20}tool_result|'tool_calls' must be followed by|tool call arguments as json"),
    )
)  # fmt: skip

_BILLING: Final = re.compile(r"exceeded your (current )?quota|check (your )?(plan|quota) and billing|quota exceeded")

_HEALING: Final = tuple(
    (kind, scope, name, re.compile(pattern))
    for kind, scope, name, pattern in (
        (_K.RATE_LIMITED, Scope.KEY, "rate_limit",
         r"secondary rate limit|rate ?limit(s|ed)?\b[^.]{0,60}(reached|exceeded|hit)?|too many requests|resource (has been )?exhausted"
         r"|request was throttled|throttl(ed|ing)"),
        (_K.OVERLOADED, Scope.MODEL, "overloaded",
         r"(server|model|service|engine|system)[^.]{0,30} (is )?(currently )?(overloaded|at capacity|busy)|^overloaded\b|no capacity"
         r"|service (is )?(temporarily )?unavailable"),
        (_K.TRANSIENT, Scope.VENDOR, "server_error",
         r"server had an error|internal (server )?error|please retry your request|stream (disconnected|ended|closed) (before|un)"
         r"|connection (was )?(reset|closed|aborted|lost)|closed the connection unexpectedly|closed connection without"
         r"|incomplete (chunked )?read|request timed out|read timed out|temporar(y|ily) (failure|unavailable)"
         r"|could not be (completed|reached)[^.]{0,40}(transient|retry)"),
    )
)  # fmt: skip

_MAY_HEAL = frozenset({None, 200, 402, 403, 408, 409, 425, 429})
_SECONDARY_S = 60.0
_SERVER_ERROR = 500


def judge_prose(evidence: Evidence) -> Failure | None:
    """Judge by what the server's sentences say; nothing if they say nothing known."""
    text = evidence.prose[:_LOOKED_AT]
    if not text or text.lstrip().startswith("<"):  # a page for people
        return None
    text = text.lower()
    status = evidence.status or evidence.body.status
    prefix = f"http.{status}" if status else "text"
    for kind, scope, name, pattern in _LASTING:
        if pattern.search(text):
            if name == "too_large" and status == 429 and "rate limit" in text:  # noqa: PLR2004 - a rate, not a size
                continue
            return Failure(kind=kind, reason=f"{prefix}.{name}", scope=scope, evidence="message")
    if status not in _MAY_HEAL and (status or 0) < _SERVER_ERROR:
        return None
    return _healing(text, prefix, status)


def _healing(text: str, prefix: str, status: int | None) -> Failure | None:
    limited = status == 429 or bool(_HEALING[0][3].search(text)) or bool(_BILLING.search(text))  # noqa: PLR2004
    if limited and "too large for" in text:
        return Failure(kind=_K.CAPABILITY, reason=f"{prefix}.too_large", evidence="message")
    soon = phrase_s(text)
    if limited and soon is None and (DAILY.search(text) or _BILLING.search(text)):
        return Failure(kind=_K.BUDGET, reason=f"{prefix}.quota", scope=Scope.KEY, evidence="message")
    for kind, scope, name, pattern in _HEALING:
        if pattern.search(text):
            hint_s = _SECONDARY_S if "secondary rate limit" in text else None
            return Failure(kind=kind, reason=f"{prefix}.{name}", scope=scope, retry_after_s=hint_s, evidence="message")
    if limited:
        return Failure(kind=_K.RATE_LIMITED, reason=f"{prefix}.rate_limit", scope=Scope.KEY, evidence="message")
    return None


_EXIT = re.compile(r"returned non-zero exit status (\d{1,3})\.$|died with <Signals\.(SIG[A-Z0-9]+): \d+>\.$")


def _judge_message(evidence: Evidence) -> Failure | None:
    """Judge an exception nothing else recognised by its own words."""
    if not evidence.is_exception and not isinstance(evidence.subject, str):
        return None
    found = judge_prose(evidence)
    # Prose alone does not prove that a request was refused.
    return found if found is None or evidence.status else Failure(
        kind=found.kind, reason=found.reason, scope=found.scope, executed=Executed.MAYBE,
        retry_after_s=found.retry_after_s, evidence="message",
    )  # fmt: skip


RULES = (Rule(name="message.phrases", stage="message", judge=_judge_message),)
