"""What vendors document is judged as documented; nothing permanent, and nothing that costs money, is sent again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.classify.rebuilt import Row, rows
from yaoki.classify import Executed, Failure, FailureKind, classify, reported, resend

AGAIN = {"yes", "if_idempotent"}
HEALING = {"transient", "rate_limited", "overloaded"}


DOCUMENTED = rows("documented.jsonl")


def named(row: Row) -> str:
    return row["id"]


def judged(row: Row) -> list[Failure]:
    """Return what is said of the answer itself, of an exception carrying it, and of one that was written down."""
    found = [classify(reported(row))]
    if row["http_status"] is None:
        return [*found, classify(RuntimeError(row["body"]))]
    answer = SimpleNamespace(status_code=row["http_status"], headers={}, text=row["body"])
    error = RuntimeError("it failed")
    error.response = answer  # type: ignore[attr-defined]
    return [*found, classify(answer), classify(error)]


@pytest.mark.parametrize("row", DOCUMENTED, ids=named)
def test_a_documented_error_is_of_its_kind(row: Row) -> None:
    for failure in judged(row):
        assert failure.kind in set(row["accept"]), failure
        if not HEALING & set(row["accept"]):
            assert resend(failure) not in AGAIN, failure


@pytest.mark.parametrize("row", [row for row in DOCUMENTED if row["http_status"]], ids=named)
def test_whether_it_was_done_follows_the_answer(row: Row) -> None:
    executed = {failure.executed for failure in judged(row)}
    status = row["http_status"]
    semantic = classify(SimpleNamespace(status_code=status, headers={}, text=row["body"])).kind is FailureKind.SEMANTIC
    if status == 499:
        assert executed == {Executed.MAYBE}
    elif 400 <= status < 500 or status == 529:
        assert executed <= ({Executed.NO, Executed.YES} if semantic else {Executed.NO})
    elif status in {200, 500, 502, 504}:
        assert Executed.NO not in executed
