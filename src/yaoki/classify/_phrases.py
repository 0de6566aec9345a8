"""
Sentences servers say, for when a code was lost in wrapping or never sent.

Each pattern is anchored in words only an error uses; a bare number never decides. A sentence that promises
healing counts only where the status allows it: a 400 that quotes the user's own words about rate limits
stays a 400.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._later import DAILY, phrase_s
from yaoki.classify._patterns import pattern
from yaoki.classify._rule import Rule
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "judge_prose"]

_K = FailureKind
_LOOKED_AT = 4000
_LINK = pattern(r"https?://\S{1,2000}")


class _Saying:
    """One sort of sentence: patterns, and stems one of which is in every text they match (a cheap first look)."""

    def __init__(self, kind: FailureKind, scope: Scope, name: str, *, stems: str, patterns: tuple[str, ...]) -> None:
        self.kind, self.scope, self.name = kind, scope, name
        self._stems = tuple(stems.split())
        self._pattern = pattern("|".join(patterns))

    def is_in(self, text: str) -> bool:
        return any(stem in text for stem in self._stems) and self._pattern.search(text) is not None

    def failure(self, prefix: str, retry_after_s: float | None = None) -> Failure:
        return Failure(
            kind=self.kind,
            reason=f"{prefix}.{self.name}",
            scope=self.scope,
            retry_after_s=retry_after_s,
            evidence="message",
        )


_THING = "(prompt|input|request|message|image|file|payload|content|context|conversation)s?"

_LASTING: Final = (
    _Saying(
        _K.PERMANENT,
        Scope.KEY,
        "credentials",
        stems="key token credentials authentic unauthorized",
        patterns=(
            r"api key (not valid|is invalid|has expired|was revoked|provided)",
            r"(invalid|incorrect|missing|no) (x-)?api[ _-]?key",
            r"(security|access|auth\w*|bearer) token [^.]{0,40}(is |has )?(invalid|expired)",
            r"invalid (credentials|token)",
            r"authentication (failed|required)|unauthorized",
        ),
    ),
    _Saying(
        _K.CAPABILITY,
        Scope.REQUEST,
        "too_large",
        stems="too exceed context length maximum <=",
        patterns=(
            rf"{_THING} (is |are )?(too (long|large|big)|exceeds?\b[^.]{{0,60}}(max|limit|size|context))",
            r"maximum context length|context (length|window|size)[^.]{0,40}exceed",
            r"exceeds (the )?(available|maximum|model'?s)[^.]{0,20}context|exceeds [\d.]+ ?[kmg]i?b maximum",
            r"reduce the length|must be <= \d+|maximum allowed tokens|too many (tokens|images)",
        ),
    ),
    _Saying(
        _K.BUDGET,
        Scope.KEY,
        "credit",
        stems="credit insufficient billing payment usage spend afford limit: monthly quota balance",
        patterns=(
            r"credit balance|account balance|insufficient (balance|credit|fund|quota)",
            r"(more|out of|enough|remaining) credits|purchase credits|can only afford",
            r"plans? (&|and) billing|payment required",
            r"usage limit (has been )?(reached|exceeded)|spend(ing)? (limit|cap)|monthly (usage|quota|limit|spend)",
            r"quota (has been )?exhausted|\blimit: 0\b(?!\.)",
        ),
    ),
    _Saying(
        _K.PERMANENT,
        Scope.KEY,
        "refused",
        stems="supported allowed authorized denied organization account",
        patterns=(
            r"(country|region)[^.]{0,40}not supported|operation not allowed|not authorized to",
            r"access denied|permission denied",
            r"(organization|account)[^.]{0,30}(disabled|suspended|deactivated)",
        ),
    ),
    _Saying(
        _K.PERMANENT,
        Scope.REQUEST,
        "unprocessable",
        stems="could",
        patterns=(r"could not (process|decode|read) (the )?(image|file|document)",),
    ),
    _Saying(
        _K.SEMANTIC,
        Scope.REQUEST,
        "tool_call",
        stems="tool function",
        patterns=(
            r"malformed_function_call|failed to call a function|requested tool does not exist",
            r"tool call[^.]{0,40}did not match schema",
        ),
    ),
    _Saying(
        _K.PROGRAMMING,
        Scope.REQUEST,
        "history",
        stems="tool",
        patterns=(
            r"tool_use[^.]{0,60}without[^.]{0,20}tool_result|'tool_calls' must be followed by",
            r"tool call arguments as json",
        ),
    ),
)
"""What stays wrong however often it is sent."""

_BILLING: Final = pattern(r"exceeded your (current )?quota|check (your )?(plan|quota) and billing|quota exceeded")

_HEALING: Final = (
    _Saying(
        _K.RATE_LIMITED,
        Scope.KEY,
        "rate_limit",
        stems="limit requests exhausted throttl",
        patterns=(
            r"rate ?limit(s|ed)?\b|too many requests|resource (has been )?exhausted",
            r"request was throttled|throttl(ed|ing)",
        ),
    ),
    _Saying(
        _K.OVERLOADED,
        Scope.MODEL,
        "overloaded",
        stems="overload capacity busy unavailable",
        patterns=(
            r"(server|model|service|engine|system)[^.]{0,30} (is )?(currently )?(overloaded|at capacity|busy)",
            r"^overloaded\b|no capacity|service (is )?(temporarily )?unavailable",
        ),
    ),
    _Saying(
        _K.TRANSIENT,
        Scope.VENDOR,
        "server_error",
        stems="server internal retry stream connection incomplete timed temporar could",
        patterns=(
            r"server had an error|internal (server )?error|please retry your request",
            r"stream (disconnected|ended|closed) (before|un)",
            r"connection (was )?(reset|closed|aborted|lost)|closed the connection unexpectedly",
            r"closed connection without|incomplete (chunked )?read",
            r"request timed out|read timed out|temporar(y|ily) (failure|unavailable)",
            r"could not be (completed|reached)[^.]{0,40}(transient|retry)",
        ),
    ),
)
"""What may pass by itself."""

_MAY_HEAL = frozenset({None, 200, 402, 403, 408, 409, 425, 429})
_SECONDARY_S = 60.0
_SERVER_ERROR = 500


def judge_prose(evidence: Evidence) -> Failure | None:
    """Judge by what the server's sentences say; nothing if they say nothing known."""
    text = evidence.prose[:_LOOKED_AT]
    if not text or text.lstrip().startswith("<"):  # a page for people
        return None
    text = text.lower()
    text = _LINK.sub("", text) if "://" in text else text
    status = evidence.status or evidence.body.status
    prefix = f"http.{status}" if status else "text"
    for saying in _LASTING:
        if saying.is_in(text):
            if saying.name == "too_large" and status == 429 and "rate limit" in text:  # a rate, not a size
                continue
            return saying.failure(prefix)
    if status not in _MAY_HEAL and (status or 0) < _SERVER_ERROR:
        return None
    return _healing(text, prefix, status)


def _healing(text: str, prefix: str, status: int | None) -> Failure | None:
    limited = status == 429 or _HEALING[0].is_in(text) or bool(_BILLING.search(text))
    if limited and "too large for" in text:
        return Failure(kind=_K.CAPABILITY, reason=f"{prefix}.too_large", evidence="message")
    soon = phrase_s(text)
    if limited and soon is None and (DAILY.search(text) or _BILLING.search(text)):
        return Failure(kind=_K.BUDGET, reason=f"{prefix}.quota", scope=Scope.KEY, evidence="message")
    for saying in _HEALING:
        if saying.is_in(text):
            return saying.failure(prefix, _SECONDARY_S if "secondary rate limit" in text else None)
    if limited:
        return Failure(kind=_K.RATE_LIMITED, reason=f"{prefix}.rate_limit", scope=Scope.KEY, evidence="message")
    return None


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
