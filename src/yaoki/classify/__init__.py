"""
Failures understood: can it heal, did the action happen, who is failing, when to come back.

    classify(error)              -> Failure
    is_control_flow(error)       -> pass it through instead
    register(Rule(name=…, judge=…))   rules of your own, asked first

One file per family of errors, no library imported: an error is known by its class's name along the MRO, its
numbers and codes. SEMANTICS section 2 is the contract.
"""

from __future__ import annotations

from yaoki.classify._classify import attempt_timed_out, classify, process_died
from yaoki.classify._control import is_control_flow
from yaoki.classify._evidence import Evidence
from yaoki.classify._later import later
from yaoki.classify._redact import fingerprint, redact
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
]
