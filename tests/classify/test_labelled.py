"""
Errors met in the field, labelled: `data/*.jsonl`, one row each, kept as collected.

`exceptions.jsonl` are exceptions provoked from real libraries, `wire_errors.jsonl` bodies and headers quoted in
public issues (each names its source).
"""

from __future__ import annotations

import pytest

from tests.classify.rebuilt import Row, exception, rows, wire
from yaoki.classify import Executed, Failure, FailureKind, classify, is_control_flow, reported

NOW_MS = 1_700_000_000_000
HEALING = {FailureKind.TRANSIENT, FailureKind.RATE_LIMITED, FailureKind.OVERLOADED}

EXCEPTIONS = rows("exceptions.jsonl")
WIRE = rows("wire_errors.jsonl")
EXECUTED = {row["id"]: row["executed"] for row in rows("executed.jsonl")}
"""Of every row, with the reason beside it; the collected rows leave it open where nobody measured it."""


def named(row: Row) -> str:
    return row["id"]


def accepted(row: Row, failure: Failure, error: object) -> bool:
    control = isinstance(error, BaseException) and is_control_flow(error)
    return ("control" if control else failure.kind.value) in {row["kind"], *row["accept"]}


@pytest.mark.parametrize("row", EXCEPTIONS, ids=named)
def test_a_labelled_exception_is_of_its_kind_and_executed(row: Row) -> None:
    error = exception(row)
    failure = classify(error, now_ms=NOW_MS)
    assert accepted(row, failure, error), failure
    assert failure.executed == EXECUTED[row["id"]], failure


@pytest.mark.parametrize("row", EXCEPTIONS, ids=named)
def test_an_exception_that_was_only_written_down_is_judged_alike(row: Row) -> None:
    error = reported(row)
    failure = classify(error, now_ms=NOW_MS)
    assert accepted(row, failure, error), failure
    assert failure.executed == EXECUTED[row["id"]], failure


@pytest.mark.parametrize("row", WIRE, ids=named)
def test_a_labelled_answer_is_of_its_kind(row: Row) -> None:
    for error in (wire(row), reported(row)):
        failure = classify(error, now_ms=NOW_MS)
        assert accepted(row, failure, error), failure
        assert failure.executed == EXECUTED[row["id"]], failure


def test_every_row_is_labelled_executed_with_a_reason() -> None:
    labels = rows("executed.jsonl")
    assert [row["id"] for row in labels] == [row["id"] for row in EXCEPTIONS + WIRE]
    assert all(row["executed"] in set(Executed) and row["why"] for row in labels)


@pytest.mark.parametrize("row", [row for row in WIRE if row["resend"] in {"no", "after_action"}], ids=named)
def test_what_cannot_succeed_as_it_is_is_never_resent(row: Row) -> None:
    assert classify(wire(row), now_ms=NOW_MS).kind not in HEALING


@pytest.mark.parametrize("row", [row for row in WIRE if row["resend"] in {"yes", "if_idempotent"}], ids=named)
def test_what_can_succeed_as_it_is_is_resent(row: Row) -> None:
    failure = classify(wire(row), now_ms=NOW_MS)
    assert failure.kind in HEALING
    if row["resend"] == "if_idempotent":
        assert failure.executed is Executed.MAYBE


NO_HEADER = {"github-secondary-reset"}  # its header is described in prose; the next test sends it


@pytest.mark.parametrize(
    "row", [row for row in WIRE if row["retry_after_s"] is not None and row["id"] not in NO_HEADER], ids=named
)
def test_the_wait_a_server_names_is_read(row: Row) -> None:
    assert classify(wire(row), now_ms=NOW_MS).retry_after_s == pytest.approx(row["retry_after_s"], abs=0.001)


def test_a_reset_header_says_when_a_secondary_limit_ends() -> None:
    row = next(row for row in WIRE if row["id"] == "github-secondary-reset")
    row = {**row, "headers": {"X-RateLimit-Reset": "1700000059.473", "X-RateLimit-Remaining": "0"}}
    assert classify(wire(row), now_ms=NOW_MS).retry_after_s == pytest.approx(59.473)


@pytest.mark.parametrize("row", EXCEPTIONS + WIRE, ids=named)
def test_what_may_have_run_is_never_said_not_to_have_run(row: Row) -> None:
    """Executed `no` permits a retry of anything."""
    failure = classify(exception(row) if "mro" in row else wire(row), now_ms=NOW_MS)
    if row.get("executed") in {"maybe", "yes"}:
        assert failure.executed is not Executed.NO
