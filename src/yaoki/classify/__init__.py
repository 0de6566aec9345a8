"""
Failures understood: can it heal, did the action happen, who is failing, when to come back.

    classify(error)                            -> Failure
    classify.is_control_flow(error)            -> pass it through instead
    classify.register(Rule(name=…, judge=…))   rules of your own, asked first
    classify.resend(failure)                   -> would the same request, sent again as it is, succeed?

Installed packages bring rules by the entry-point group `yaoki.classify`; they are asked after your own.

One file per family of errors, no library imported: an error is known by its class's name along the MRO, its
numbers and codes. The contract is `docs/guarantees.md`, "Two questions about a failure".
"""

from __future__ import annotations

from typing import Final

from yaoki import records as _records
from yaoki.classify import _classify, _control, _evidence, _later, _redact, _reported, _resend, _rule
from yaoki.classify._classify import attempt_timed_out, process_died
from yaoki.classify._control import is_control_flow
from yaoki.classify._evidence import Evidence
from yaoki.classify._later import later
from yaoki.classify._redact import fingerprint, redact
from yaoki.classify._reported import reported
from yaoki.classify._resend import resend, treatment
from yaoki.classify._rule import Rule, register
from yaoki.records import Executed, Failure, FailureKind, Scope

__all__ = [
    "Evidence",
    "Executed",
    "Failure",
    "FailureKind",
    "Rule",
    "Scope",
    "attempt_timed_out",
    "classify",
    "fingerprint",
    "is_control_flow",
    "later",
    "process_died",
    "redact",
    "register",
    "reported",
    "resend",
    "treatment",
]


class _Classify:
    """
    The function, carrying the rest of this module.

    `yaoki.classify` names both the function and the module; whichever is meant, `classify(error)`,
    `classify.register` and `from yaoki.classify import register` are what they seem.
    """

    __slots__ = ()

    Evidence = _evidence.Evidence
    Executed = _records.Executed
    Failure = _records.Failure
    FailureKind = _records.FailureKind
    Rule = _rule.Rule
    Scope = _records.Scope
    attempt_timed_out = staticmethod(_classify.attempt_timed_out)
    classify = staticmethod(_classify.classify)
    fingerprint = staticmethod(_redact.fingerprint)
    is_control_flow = staticmethod(_control.is_control_flow)
    later = staticmethod(_later.later)
    process_died = staticmethod(_classify.process_died)
    redact = staticmethod(_redact.redact)
    register = staticmethod(_rule.register)
    reported = staticmethod(_reported.reported)
    resend = staticmethod(_resend.resend)
    treatment = staticmethod(_resend.treatment)

    def __call__(self, error_or_response: object, *, now_ms: int | None = None) -> _records.Failure:
        return _classify.classify(error_or_response, now_ms=now_ms)


classify: Final = _Classify()
