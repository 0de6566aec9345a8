"""The page on classification says what the code does."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.classify.signals import NOW_MS, PAGE, SIGNALS, filled
from yaoki.classify import Failure, classify, reported

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code() -> None:
    assert filled(TEXT) == TEXT, "python -m tests.classify.signals --write"


def said(fields: dict[str, Any]) -> tuple[str, str, str]:
    failure: Failure = classify(reported(fields), now_ms=NOW_MS)
    return failure.kind, failure.executed, failure.scope


@pytest.mark.parametrize(("name", "fields"), [one for one in SIGNALS["HTTP"] if not one[1]["body"]])
def test_each_status_of_a_line_means_what_the_line_says(name: str, fields: dict[str, Any]) -> None:
    codes = re.findall(r"\b[45]\d\d\b", name.partition("`Retry-After")[0].partition("on a")[0])
    assert {said({**fields, "http_status": int(code)}) for code in codes} <= {said(fields)}


@pytest.mark.parametrize(
    "code", ["1", "64", "69", "71", "74", "75", "124", "126", "127", "77", "78", "137", "139", "134"]
)
def test_each_exit_status_is_in_the_table_with_its_kind(code: str) -> None:
    text = f"Command 'x' returned non-zero exit status {code}."
    kind = said({"exception_class": "subprocess.CalledProcessError", "body": text})[0]
    alone = {"1": "exit 1,", "139": "SIGSEGV", "134": "SIGABRT"}.get(code, code)
    lines = [line for line in TEXT.splitlines() if line.startswith(("| exit", "| killed")) and alone in line]
    assert any(f"`{kind}`" in line for line in lines)
