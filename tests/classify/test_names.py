"""`yaoki.classify` is a function and a module: each name of the one is found through the other."""

from __future__ import annotations

import importlib
import inspect

import pytest

import yaoki
import yaoki.classify
from yaoki.classify import Rule, _rule, classify, register
from yaoki.classify import _classify as judged
from yaoki.records import Failure, FailureKind

MODULE = importlib.import_module("yaoki.classify")


@pytest.mark.parametrize("name", sorted(set(MODULE.__all__) - {"classify"}))
def test_what_the_module_offers_is_reached_through_the_function(name: str) -> None:
    assert getattr(yaoki.classify, name) is getattr(MODULE, name)


def test_the_function_is_called_by_every_name_it_has() -> None:
    error = ConnectionRefusedError(111, "refused")
    found = [fn(error) for fn in (classify, yaoki.classify, yaoki.classify.classify, MODULE.classify, judged.classify)]
    assert found == [found[0]] * 5
    assert found[0].kind is FailureKind.TRANSIENT


def test_the_function_keeps_its_signature() -> None:
    assert inspect.signature(classify, eval_str=True) == inspect.signature(judged.classify, eval_str=True)


def test_a_rule_registered_through_the_function_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rule, "_registered", [])

    class OutOfPaper(Exception):
        pass

    def judge(evidence: object) -> Failure | None:
        named = isinstance(evidence, MODULE.Evidence) and evidence.name == "OutOfPaper"
        return Failure(kind=FailureKind.BUDGET, reason="printer.paper") if named else None

    assert yaoki.classify(OutOfPaper()).kind is FailureKind.UNKNOWN
    yaoki.classify.register(yaoki.classify.Rule(name="printer", judge=judge))
    assert yaoki.classify(OutOfPaper()).reason == "printer.paper"
    register(Rule(name="printer", judge=lambda _evidence: None))
    assert yaoki.classify(OutOfPaper()).kind is FailureKind.UNKNOWN
