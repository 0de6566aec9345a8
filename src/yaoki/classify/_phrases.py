"""
Sentences servers say, for when a code was lost in wrapping or never sent.

Each pattern is anchored in words only an error uses; a bare number never decides. A sentence that promises
healing counts only where the status allows it: a 400 that quotes the user's own words about rate limits
stays a 400.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from yaoki.classify._later import DAILY, MINUTELY
from yaoki.classify._patterns import has_one, pattern
from yaoki.classify._rule import Rule
from yaoki.classify._sayings import ELSEWHERE, HEALING, LASTING
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "judge_prose"]

_K = FailureKind
_LOOKED_AT = 4000
_LINK = pattern(r"https?://\S{1,2000}")

_BILLING: Final = pattern(r"exceeded your (current )?quota|check (your )?(plan|quota) and billing|quota exceeded")

_MAY_HEAL = frozenset({None, 200, 403, 408, 409, 425, 429})
_SECONDARY_S = 60.0
_SECONDARY: Final = ("secondary rate limit", "abuse detection")
"""GitHub's, of which its page says: without a header, wait at least a minute."""
_SERVER_ERROR = 500


_CAPPED: Final = pattern(r"\b(limit|quota|allowance)\b[^.]{0,60}\b(exceeded|reached|used up)")

_PACE: Final = pattern(r"rate limit|please wait|per[ _-]min(ute)? limit|too many tokens processed|tokens per day")
"""A 429 that says so speaks of a rate, also where it counts tokens; the size of one request is another matter."""


def judge_prose(evidence: Evidence) -> Failure | None:
    """Judge by what the server's sentences say; nothing if they say nothing known."""
    kept = evidence.__dict__  # asked by several rules, and looked at once
    if "said" not in kept:
        prose = evidence.prose[:_LOOKED_AT]
        judge = _judged if len(prose) <= _REMEMBERED_MAX else _judged.__wrapped__
        kept["said"] = judge(prose, evidence.status or evidence.body.status, evidence.soon) if prose else None
    found: Failure | None = kept["said"]
    return found


_REMEMBERED_MAX: Final = 1000


@lru_cache(maxsize=1024)
def _judged(prose: str, status: int | None, soon: float | None) -> Failure | None:
    """Judge the sentences; a server in trouble says the same one many times."""
    if prose.lstrip().startswith("<"):  # a page for people
        return None
    text = prose.lower()
    text = _LINK.sub("", text) if "://" in text else text
    prefix = f"http.{status}" if status else "text"
    for saying in LASTING:
        if saying.is_in(text):
            if saying.name == "too_large" and _counts(text, status):
                continue
            return saying.failure(prefix)
    abroad = None if text.isascii() else next((name for name, words in ELSEWHERE if words.search(text)), None)
    if abroad in _NAMED:
        return _NAMED[abroad].failure(prefix)
    if status not in _MAY_HEAL and (status or 0) < _SERVER_ERROR:
        return None
    return _healing(text, prefix, status, soon=soon, abroad=abroad)


def _counts(text: str, status: int | None) -> bool:
    """Whether what is exceeded is a pace or a plan, and not the size of one request."""
    if _PLAN.search(text):
        return True
    return (status == 429 or "please wait" in text) and _PACE.search(text) is not None


_PLAN: Final = pattern(r"exceed(s|ed) (your|the) (current )?(plan|subscription)")
_NAMED: Final = {saying.name: saying for saying in LASTING}


def _healing(text: str, prefix: str, status: int | None, *, soon: float | None, abroad: str | None) -> Failure | None:
    limited = status == 429 or HEALING[0].is_in(text) or _bills(text)
    if limited and "too large for" in text:
        return Failure(kind=_K.CAPABILITY, reason=f"{prefix}.too_large", evidence="message")
    daily = ("da" in text or "pd" in text) and DAILY.search(text) is not None
    if daily and soon is None and _CAPPED.search(text):
        limited = True  # whatever the status: a day's allowance is used up
    if limited and soon is None and (daily or (_bills(text) and not MINUTELY.search(text))):
        return Failure(kind=_K.BUDGET, reason=f"{prefix}.quota", scope=Scope.KEY, evidence="message")
    # "Temporarily overloaded" beside "too many requests" is the server's state; a rate named as one is the key's.
    for saying in (*HEALING[1:2], *HEALING) if status == 429 else HEALING:
        if saying.is_in(text) or saying.name == abroad:
            return saying.failure(prefix, _SECONDARY_S if has_one(text, _SECONDARY) else None)
    if limited:
        return Failure(kind=_K.RATE_LIMITED, reason=f"{prefix}.rate_limit", scope=Scope.KEY, evidence="message")
    return None


def _bills(text: str) -> bool:
    return ("quota" in text or "billing" in text) and _BILLING.search(text) is not None


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
