"""
Errors that vendors' public pages and issues show, labelled before any rule was tried on them.

`data/public_wire.jsonl` are answers, `data/public_exceptions.jsonl` exceptions as their libraries raise them; what
the first run said of them stands in `data/SOURCES.md`.
"""

from __future__ import annotations

import pytest

from tests.classify.rebuilt import Row, rows
from yaoki.classify import classify, reported, resend

NOW_MS = 1_767_225_600_000
AGAIN = {"yes", "if_idempotent"}
PUBLIC = rows("public_wire.jsonl") + rows("public_exceptions.jsonl")


def named(row: Row) -> str:
    return row["id"]


@pytest.mark.parametrize("row", PUBLIC, ids=named)
def test_a_published_error_is_judged_as_its_vendor_means_it(row: Row) -> None:
    failure = classify(reported(row), now_ms=NOW_MS)
    assert failure.kind in set(row["accept"]), failure
    if row["executed"]:
        assert failure.executed == row["executed"], failure
    if row["resend"]:
        assert (resend(failure) in AGAIN) == (row["resend"] in AGAIN), failure
    if row["retry_after_s"] is not None:
        assert failure.retry_after_s == pytest.approx(row["retry_after_s"], abs=0.001)


def test_every_row_names_where_it_is_from_and_is_there_once() -> None:
    assert all(row["source"] for row in PUBLIC)
    assert len({row["id"] for row in PUBLIC}) == len(PUBLIC)
