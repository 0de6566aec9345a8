"""From an error or a response to a `Failure`: the families asked in the order of evidence, then the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec import structs

from yaoki.classify import _codes, _families, _http, _phrases, _process, _python, _status, _system
from yaoki.classify._control import is_control_flow, leaves
from yaoki.classify._evidence import Evidence, own_name
from yaoki.classify._later import DAY_S, reset_s, told_with
from yaoki.classify._own import own_rule
from yaoki.classify._plugins import installed
from yaoki.classify._redact import MESSAGE_MAX, fingerprint, redact
from yaoki.classify._redirects import followed_redirect
from yaoki.classify._rule import ORDER, Rule, registered
from yaoki.errors import StepFailed
from yaoki.records import Executed, Failure, FailureKind, Scope, strongest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["attempt_timed_out", "classify", "process_died"]

_K = FailureKind
_DEPTH_MAX: Final = 8
_HEALING: Final = frozenset({_K.TRANSIENT, _K.RATE_LIMITED, _K.OVERLOADED})


def classify(error_or_response: object, *, now_ms: int | None = None) -> Failure:
    """
    Say whether a failure can heal, whether the action happened, who is failing and when to come back.

    Takes an exception, a response of any HTTP client, a parsed body, or text. Never raises, whatever the
    object's attributes do; reads no body that was not read yet.

    Args:
        error_or_response: Control flow is not for this: ask `is_control_flow` first. Here it is `permanent`.
        now_ms: Wall-clock milliseconds, for times of day the server names without saying its own.
    """
    evidence = Evidence(error_or_response, now_ms=now_ms)
    try:
        return _finished(evidence, _judged(evidence))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException:  # noqa: BLE001 - an object that breaks its reader is still a failure to report
        name = own_name(type(error_or_response))
        return Failure(
            kind=_K.UNKNOWN, reason=f"unknown.{name}"[:120], message=name[:MESSAGE_MAX], fingerprint=fingerprint(name)
        )


def process_died() -> Failure:
    """Return the failure of an attempt whose process ended without settling it; never the vendor's fault."""
    return Failure(
        kind=_K.TRANSIENT,
        reason="process.died",
        message="the process ended during the attempt; no answer was recorded",
        executed=Executed.MAYBE,
        scope=Scope.PROCESS,
        evidence="journal",
        fingerprint=fingerprint("process.died"),
    )


def attempt_timed_out(timeout_s: float) -> Failure:
    """Return the failure of an attempt that ran past its own `timeout_s`."""
    return Failure(
        kind=_K.TRANSIENT,
        reason="attempt.timeout",
        message=f"no answer within {timeout_s:g} s",
        executed=Executed.MAYBE,
        scope=Scope.VENDOR,
        evidence="timeout",
        fingerprint=fingerprint("attempt.timeout"),
    )


def _judged(evidence: Evidence) -> Failure:
    """Ask the rules about this one, then about what lies beneath it."""
    subject = evidence.subject
    if evidence.is_exception and is_control_flow(cast("BaseException", subject)):
        return Failure(kind=_K.PERMANENT, reason=f"control.{evidence.name}", evidence="control")
    if issubclass(type(subject), BaseExceptionGroup):
        return _worst(evidence, cast("BaseExceptionGroup[BaseException]", subject))
    if issubclass(type(subject), StepFailed):
        return cast("StepFailed", subject).failure
    found = _asked(evidence, (*registered(), *installed()))
    if found is not None:
        return found if found.retry_after_s is not None else _timed(evidence, found)
    found = _asked(evidence, _RULES)
    if found is not None:
        return (
            found
            if found.evidence.startswith("user")
            else _followed(evidence, _directed(evidence, _timed(evidence, found)))
        )
    return _beneath(evidence) or Failure(kind=_K.UNKNOWN, reason=f"unknown.{evidence.name}", evidence="none")


def _asked(evidence: Evidence, rules: Iterable[Rule]) -> Failure | None:
    for rule in rules:
        try:
            found = rule.judge(evidence)
        except Exception:  # noqa: BLE001, S112 - one broken rule must not hide the others
            continue
        if found is not None:
            return (
                found
                if found.evidence.count(" ")
                else structs.replace(found, evidence=f"{found.evidence or 'rule'} {rule.name}")
            )
    return None


_RULES: Final = tuple(
    sorted(
        (
            own_rule(_judged),
            *_families.RULES,
            *_codes.RULES,
            *_system.RULES,
            *_process.RULES,
            *_http.RULES,
            *_python.RULES,
            *_status.RULES,
            *_phrases.RULES,
        ),
        # http.connecting goes before os.errno: it knows the phase.
        key=lambda rule: (ORDER.index(rule.stage), rule.name != "http.connecting"),
    )
)


def _worst(evidence: Evidence, group: BaseExceptionGroup[BaseException]) -> Failure:
    """Judge a group by its worst member, what heals least; its executed is the strongest of all."""
    members, whole = leaves(group)
    if evidence.depth >= _DEPTH_MAX or not members:
        return Failure(kind=_K.UNKNOWN, reason="unknown.group", evidence="none")
    found = [_judged(evidence.under(member)) for member in members]
    worst = min(found, key=lambda failure: _BADNESS.index(failure.kind))
    executed = worst.executed if whole else strongest(worst.executed, Executed.MAYBE)
    for failure in found:
        executed = strongest(executed, failure.executed)
    hints = [failure.retry_after_s for failure in found if failure.retry_after_s is not None]
    return structs.replace(
        worst, executed=executed, retry_after_s=max(hints) if worst.kind in _HEALING and hints else worst.retry_after_s
    )


_BADNESS: Final = (
    _K.FATAL,
    _K.PROGRAMMING,
    _K.PERMANENT,
    _K.CAPABILITY,
    _K.BUDGET,
    _K.UNKNOWN,
    _K.SEMANTIC,
    _K.OVERLOADED,
    _K.RATE_LIMITED,
    _K.TRANSIENT,
)


def _beneath(evidence: Evidence) -> Failure | None:
    """
    Judge an unrecognised error by what it was raised from, else by what was being handled.

    Only `raise … from` says that the one is the other. An error met while handling another may come from
    a second call that did act, so there "nothing was executed" is not believed.
    """
    if evidence.depth >= _DEPTH_MAX:
        return None
    for link, word in ((evidence.cause, "cause"), (evidence.context, "context")):
        if link is None or is_control_flow(cast("BaseException", link.subject)):
            continue
        found = _judged(link)
        if found.kind is _K.UNKNOWN:
            continue
        executed = found.executed if word == "cause" else strongest(found.executed, Executed.MAYBE)
        return structs.replace(found, executed=executed, evidence=f"{word} {found.evidence}")
    return None


def _timed(evidence: Evidence, failure: Failure) -> Failure:
    """Add when to come back; a 503 that says when has refused; over a day is no wait but a budget."""
    kind, wait_s = failure.kind, failure.retry_after_s
    status = evidence.status
    if kind in _HEALING or kind is _K.BUDGET:
        headers = evidence.headers if status is not None else {}
        text = evidence.text or (evidence.message if evidence.is_exception and evidence.response is None else "")
        said = told_with(headers, evidence.soon, text, evidence.now_ms)
        if said is None and kind is _K.RATE_LIMITED and headers:
            # A limit with a wait of its own ends with no other bucket, unless that is empty.
            said = reset_s(headers, evidence.now_ms, empty_only=wait_s is not None)
        wait_s = said if said is not None else wait_s
    executed = failure.executed
    if status == 503 and executed is Executed.MAYBE and "retry-after" in evidence.headers:
        executed = Executed.NO
    if wait_s is None and executed is failure.executed:
        return failure
    if (
        status == 402
        and kind is _K.BUDGET
        and failure.evidence.startswith("status")
        and "retry-after" in evidence.headers
    ):
        kind = _K.RATE_LIMITED  # OpenRouter, "Errors": without the header a 402 is not a wait
    if kind in _HEALING and wait_s is not None and wait_s > DAY_S:
        kind = _K.BUDGET
    return structs.replace(failure, kind=kind, retry_after_s=wait_s, executed=executed)


def _followed(evidence: Evidence, failure: Failure) -> Failure:
    """Take back "nothing was executed" where it speaks of the request after a redirect."""
    if failure.executed is not Executed.NO or not followed_redirect(evidence):
        return failure
    return structs.replace(failure, executed=Executed.MAYBE, evidence=f"{failure.evidence} after a redirect")


def _directed(evidence: Evidence, failure: Failure) -> Failure:
    """
    Follow the server's own `x-should-retry` where it says more than the status.

    `false` makes anything permanent. `true` heals what only the status condemned; a code that says the
    money is gone is not overruled.
    """
    if evidence.status is None or not (said := evidence.headers.get("x-should-retry")):
        return failure
    if said == "false" and failure.kind in _HEALING:
        return structs.replace(failure, kind=_K.PERMANENT, retry_after_s=None, evidence="directive x-should-retry")
    if said == "true" and failure.kind in {_K.PERMANENT, _K.UNKNOWN} and failure.evidence.startswith("status"):
        return structs.replace(failure, kind=_K.TRANSIENT, evidence="directive x-should-retry")
    return failure


def _finished(evidence: Evidence, failure: Failure) -> Failure:
    """Fill in message and fingerprint, secrets out."""
    message = failure.message or redact(evidence.message[: 2 * MESSAGE_MAX])[:MESSAGE_MAX]
    if not message.isascii():
        message = message.encode("utf-8", "replace").decode()
    mark = failure.fingerprint or fingerprint(f"{failure.reason} {evidence.name} {message}")
    hint = failure.hint or _HINTS.get(failure.kind, "")
    return structs.replace(failure, message=message, fingerprint=mark, reason=failure.reason[:120], hint=hint)


_HINTS: Final = {
    _K.BUDGET: "Quota or credit is used up: top up, wait for its renewal, or use another key.",
    _K.PROGRAMMING: "A bug in the call or the tool: the same call fails again.",
    _K.CAPABILITY: "Ask for less: a smaller request, or a model that takes it.",
}
