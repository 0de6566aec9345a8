"""The reference names everything there is, by its persisted numbers and words, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import yaoki
import yaoki.agent
import yaoki.escalate
import yaoki.mcp
import yaoki.models
import yaoki.notify
import yaoki.shell
import yaoki.testing
import yaoki.verify
from yaoki import Breaker, Budget, Effect, Failure, FailureKind, Receipt, Retry, Run, Runner, errors
from yaoki.cli._app import _VERBS
from yaoki.cli._exits import Exit
from yaoki.records import KINDS, State

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")
GUARANTEES = (DOCS / "guarantees.md").read_text(encoding="utf-8")
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"\w+", REFERENCE))


@pytest.mark.parametrize("name", yaoki.__all__)
def test_the_reference_has_every_public_name(name: str) -> None:
    assert f"`{name}`" in REFERENCE


def test_the_reference_has_every_field_and_method() -> None:
    fields = [name for kind in (Receipt, Failure, Retry, Budget, Breaker) for name in kind.__struct_fields__]
    fields += [name for kind in (Run, Runner) for name in dir(kind) if not name.startswith("_") and name != "store"]
    fields += [
        *yaoki.escalate.__all__,
        *yaoki.agent.__all__,
        *yaoki.mcp.__all__,
        *yaoki.models.__all__,
        *(name for name in yaoki.verify.__all__ if name.islower()),
        *(name for name in yaoki.shell.__all__ if name.islower()),
        *yaoki.shell.ShellResult.__struct_fields__,
        *yaoki.notify.__all__,
        *(name for name in yaoki.testing.__all__ if name.islower()),
        *Effect.__members__,
    ]
    assert not [name for name in fields if name not in WORDS]


def test_the_reference_has_every_error_with_its_code() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", REFERENCE, re.MULTILINE))
    classes = [getattr(errors, name) for name in errors.__all__]
    public = [one for one in classes if issubclass(one, errors.YaokiError) and one is not errors.YaokiError]
    assert listed == {one.__name__: one.code for one in public}


def test_the_reference_has_every_record_with_its_number() -> None:
    listed = re.findall(r"^\| (\d+) \| `(\w+)` \|", REFERENCE, re.MULTILINE)
    assert listed == [(str(number), record.__name__) for number, record in KINDS.items()]


def test_the_reference_has_every_exit_code() -> None:
    section = REFERENCE.split("## Exit codes")[1].split("## ")[0]
    listed = {int(n) for row in re.findall(r"^\| ([\d, ]+) \|", section, re.MULTILINE) for n in row.split(",")}
    assert listed == {int(code) for code in Exit}


def test_the_reference_has_every_verb_and_every_finding_of_the_preflight() -> None:
    section = REFERENCE.split("## The command")[1].split("## Exit codes")[0]
    first = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    verbs, codes = (
        {word for row in first for word in re.findall(r"`([a-z-]+)[ `]", row)},
        {code for row in first for code in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)},
    )
    assert set(_VERBS) == verbs
    source = (DOCS.parent / "src/yaoki/runtime/_preflight.py").read_text(encoding="utf-8")
    assert set(re.findall(r'_(?:note|warn)\("([a-z.]+)"', source)) <= codes
    assert {"budget.retries", "budget.wall_s"} <= codes


def test_the_readme_has_every_verb() -> None:
    assert set(re.findall(r"^\| `yaoki ([\w-]+)", README, re.MULTILINE)) == set(_VERBS)


def test_the_pages_on_states_have_every_state() -> None:
    page = (DOCS / "states.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [state.value for state in State]


def test_the_guarantees_have_every_kind_of_failure_and_default() -> None:
    table = GUARANTEES.split("## Two questions")[1].split("## The gate")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [kind.value for kind in FailureKind]
    bounds = dict(re.findall(r"^\| `(?:Retry|Budget)\.(\w+)`[^|]*\| ([\d,.]+) \|", GUARANTEES, re.MULTILINE))
    said = {name: float(value.replace(",", "")) for name, value in bounds.items()}
    declared = {name: getattr(Retry() if hasattr(Retry(), name) else Budget(), name) for name in said}
    assert said == declared
    assert len(said) == 6


def test_each_guarantee_is_listed_with_its_test() -> None:
    assert re.findall(r"^\| G(\d+) \|.*\(\.\./tests/guarantees/test_g(\d+)\.py\) \|$", GUARANTEES, re.MULTILINE) == [
        (str(n), f"{n:02}") for n in range(1, 11)
    ]


def test_the_glossary_is_in_order() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| \*\*([\w ]+)\*\*", page, re.MULTILINE)
    assert words == sorted(words)
