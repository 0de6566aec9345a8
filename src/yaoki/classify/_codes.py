"""
Structured codes in a body: `insufficient_quota`, `overloaded_error`, `RESOURCE_EXHAUSTED`, `ThrottlingException`.

By the words codes are made of, so that a code nobody listed falls where its vendor meant it. Order matters:
what never heals is asked before what may, and money before rates. A generic code (`invalid_request_error`,
`INVALID_ARGUMENT`) says nothing the status does not, and is passed over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from yaoki.classify._later import DAILY, MINUTELY
from yaoki.classify._patterns import pattern
from yaoki.classify._phrases import judge_prose
from yaoki.classify._python import quotes_no_server
from yaoki.classify._rule import Rule
from yaoki.classify._status import executed_by_status, failure_of_status
from yaoki.classify._vendors import documented, executed_of_code
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    import re

    from yaoki.classify._body import Body
    from yaoki.classify._evidence import Evidence

__all__ = ["RULES", "judge_code", "spelled"]

_K = FailureKind


def _words(kind: FailureKind, scope: Scope, *patterns: str) -> tuple[FailureKind, Scope, re.Pattern[str]]:
    return kind, scope, pattern("|".join(patterns))


_WORDS: Final = (
    _words(_K.RATE_LIMITED, Scope.KEY, "too_many_requests|user_rate_limit|limit_unspecified"),
    _words(_K.SEMANTIC, Scope.REQUEST, "tool_use_failed|json_validate_failed|malformed|output_parse|invalid_output"),
    _words(
        _K.PERMANENT,
        Scope.KEY,
        "api_?key|authenticat|unauthori|invalid_auth|not_authed|account_inactive|not_authorized|credential|invalid_token|token_(expired|invalid)",
        "(access|permission)_?denied|permission|forbidden|unsupported_country",
        "deactivat|disabl|revok|suspend|expired|terminated|on_hold|billing_not_active",
    ),
    _words(
        _K.BUDGET,
        Scope.KEY,
        "insufficient_(quota|balance|credit|fund)|billing|payment_required|arrears|overdue",
        "credit_(balance|limit)|credits?_(exhaust|requir)|out_of_credit|spend",
        "(storage|usage|monthly|daily|hard)_?(quota|limit)|quota_?(exceed|exhaust|reach|limit)",
        "exceeded_(current_)?quota|per_?day",
    ),
    _words(
        _K.CAPABILITY,
        Scope.REQUEST,
        "context_(length|window|size)|exceed_context|max_(query_)?(cost|complexity|depth)|too_(large|long|big)|above_max|input_length",
        "max_tokens|token_limit|too_many_(tokens|images)|dimension",
        "unknown_tool|tool_not_found|unsupported_(media|model|format|file)",
    ),
    _words(
        _K.PERMANENT,
        Scope.REQUEST,
        "content_(policy|filter)|safety|moderation|policy_violation|blocked",
        "_unconfirmed|not_allowed|not_enabled|too_old|card_|already_exists|resource_missing|region_territory",
    ),
    _words(_K.PERMANENT, Scope.MODEL, "not_?found|does_not_exist|no_such|unknown_model|deprecated|decommissioned"),
    _words(
        _K.PROGRAMMING,
        Scope.REQUEST,
        "(name|key)_conflict|(unknown|unsupported)_param|missing_(required|param)|duplicate_",
    ),
    _words(_K.TRANSIENT, Scope.MODEL, "model_not_ready|model_loading|cold_start"),
    _words(
        _K.RATE_LIMITED,
        Scope.KEY,
        r"rate_?limit|throttl|ramp_limit|request_limit|(concurren\w*|tokens|requests)_limit",
    ),
    _words(_K.OVERLOADED, Scope.MODEL, "overload|unavailable|capacity|server_(is_)?busy|engine_busy|slow_?down"),
    _words(
        _K.TRANSIENT,
        Scope.REQUEST,
        r"in_(flight|progress|use)\b|concurrent_|conflict_retry|(transaction|write)_conflict|lock_timeout|\baborted\b",
    ),
    _words(
        _K.TRANSIENT,
        Scope.VENDOR,
        "time_?out|timed_out|deadline_exceeded|unreachable|temporar|stream_error|connection_error|^bad_gateway",
        "^(internal|server|fatal)(_server)?(_error|_exception)?$|^api_error$|internal_(server_)?(error|failure)",
    ),
)

_HARMLESS: Final = frozenset(
    {"error", "object", "tokens", "requests", "invalid_request_error", "invalid_argument", "ok"}
)
_CAMEL = pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOISE = pattern(r"[^a-z0-9]+")
_CODE_MAX = 80


def spelled(code: str) -> str:
    """Return a code in small letters with underscores: `ThrottlingException` → `throttling_exception`."""
    return _spelled(code[:_WRITTEN_MAX])


_WRITTEN_MAX = 200


@lru_cache(maxsize=1000)
def _spelled(code: str) -> str:
    code = code.rpartition("#")[2][:_CODE_MAX]  # `com.amazon.coral.service#ThrottlingException`
    return _NOISE.sub("_", _CAMEL.sub("_", code).lower()).strip("_")


@lru_cache(maxsize=1000)
def _by_word(code: str) -> tuple[FailureKind, Scope] | None:
    for kind, scope, words in _WORDS:
        if words.search(code):
            return kind, scope
    return None


def judge_code(evidence: Evidence) -> Failure | None:
    """Judge by the body: its quotas, its codes, the status it names, then its sentences."""
    body = evidence.body
    status = evidence.status
    if evidence.payload is None and (not (body.codes or body.messages) or quotes_no_server(evidence)):
        return None
    found = (
        _quota(body, status)
        or _word(evidence, body, status)
        or judge_prose(evidence)
        or (failure_of_status(body.status) if body.status and body.status != status else None)
        or _refused(body, status)
        or _failed(body, status)
    )
    if found is None or (status is None and body.status is None) or " vendor." in found.evidence:
        return found
    return _settled(found, status or body.status or 0)


def _refused(body: Body, status: int | None) -> Failure | None:
    """Judge an answer that calls the request invalid, and has no status to say so: an error event in a stream."""
    if (status is not None and status >= 300) or not any(spelled(code) in _INVALID for code in body.codes):
        return None
    return Failure(kind=_K.PERMANENT, reason=f"{_prefix(status)}.invalid_request", evidence="body.code")


def _failed(body: Body, status: int | None) -> Failure | None:
    """Judge a 200 that says it failed, by a code nobody knows: it does not say that it may pass."""
    if status is None or status >= 300 or not body.failed:
        return None
    code = spelled(body.codes[0]) if body.codes else "failed"
    return Failure(kind=_K.PERMANENT, reason=f"http.{status}.{code}", evidence="body.failed")


_INVALID: Final = frozenset({"invalid_request_error", "invalid_argument", "validation_exception"})


def _quota(body: Body, status: int | None) -> Failure | None:
    """Judge by the quotas named: one by the day does not come back in seconds, whatever the hint beside it says."""
    names = " ".join(body.quotas)
    if names and DAILY.search(names):
        return Failure(
            kind=_K.BUDGET, reason=f"{_prefix(status)}.quota_per_day", scope=Scope.KEY, evidence="body.quota"
        )
    if names and MINUTELY.search(names):
        return Failure(
            kind=_K.RATE_LIMITED, reason=f"{_prefix(status)}.quota_per_minute", scope=Scope.KEY, evidence="body.quota"
        )
    return None


def _word(evidence: Evidence, body: Body, status: int | None) -> Failure | None:
    named = evidence.headers.get("x-amzn-errortype") if status is not None else None  # AWS names it in a header alone
    raws = [*body.codes, named.partition(":")[0]] if named else body.codes
    codes = [code for raw in raws if (code := spelled(raw)) not in _HARMLESS]
    if status in _PLAIN:
        codes = [code for code in codes if not _is_vague(code)]
    known = [(code, found) for code in codes if (found := documented(code))]
    for code, found in known:
        if found.kind is _K.BUDGET and code.endswith("_limit") and _is_paced(evidence):
            return judge_prose(evidence)
        return _said(evidence, found, vague=_is_vague(code)) or _renamed(found, code, status or body.status, evidence)
    for code in codes:
        if (sort := _by_word(code)) is None:
            continue
        kind, scope = sort
        executed = Executed.NO if status is None and kind in _REFUSALS else Executed.MAYBE
        found = Failure(
            kind=kind, reason=f"{_prefix(status)}.{code}", scope=scope, executed=executed, evidence="body.code"
        )
        return _said(evidence, found, vague=_is_vague(code)) or found
    return None


def _said(evidence: Evidence, found: Failure, *, vague: bool = False) -> Failure | None:
    """
    Return what a sentence of the same body says where it knows better.

    Money or size outweighs a code about rates; money one about permission; anything a code that says no more
    than that the server failed.
    """
    if found.kind not in _HEALING and not (found.kind is _K.PERMANENT and found.scope is Scope.KEY):
        return None
    said = judge_prose(evidence)
    if said is None or said.kind is found.kind:
        return None
    if said.kind is _K.BUDGET or (found.kind in _HEALING and (vague or said.kind not in _HEALING)):
        return said
    return None


def _renamed(found: Failure, code: str, status: int | None, evidence: Evidence) -> Failure:
    """Return a documented code's answer with the status before its name, and executed as the status has it."""
    return Failure(
        kind=found.kind,
        reason=f"{_prefix(status)}.{code}",
        scope=found.scope,
        executed=executed_of_code(found.executed, status if evidence.status is None else evidence.status),
        evidence=found.evidence,
        hint=found.hint,
    )


def _is_paced(evidence: Evidence) -> bool:
    """Whether a limit that may be money's is said to be one by the minute, and nothing else is said of money."""
    said = judge_prose(evidence)
    return said is not None and said.kind is _K.RATE_LIMITED and MINUTELY.search(evidence.prose) is not None


def _is_vague(code: str) -> bool:
    return _VAGUE.fullmatch(code) is not None


_PLAIN: Final = frozenset({401, 402, 403, 404, 413, 414, 431})
"""Statuses that say more than a code which says no more than that the server failed."""
_VAGUE = pattern("(internal|server)(_server)?(_error|_exception)?|api_error|unknown_error")
_HEALING = frozenset({_K.TRANSIENT, _K.RATE_LIMITED, _K.OVERLOADED})
_REFUSALS = frozenset({_K.RATE_LIMITED, _K.BUDGET, _K.CAPABILITY, _K.PERMANENT, _K.PROGRAMMING})


def _prefix(status: int | None) -> str:
    return "body" if status is None else f"http.{status}"


def _settled(found: Failure, status: int) -> Failure:
    """Say whether it was acted upon: by the status, and for a 503 by the refusal in its body."""
    executed = executed_by_status(status)
    if status == 503 and found.kind in _REFUSALS | {_K.OVERLOADED}:
        executed = Executed.NO
    if 200 <= status < 300 and found.kind is not _K.SEMANTIC:
        executed = Executed.MAYBE  # the end of an answer that had begun
    return Failure(
        kind=found.kind,
        reason=found.reason,
        scope=found.scope,
        executed=executed,
        evidence=found.evidence,
        retry_after_s=found.retry_after_s,
        hint=found.hint,
    )


RULES = (Rule(name="body.codes", stage="body", judge=judge_code),)
