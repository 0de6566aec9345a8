"""Both type checkers accept the documentation's program and report each planted mistake, and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM, MISTAKES = HERE / "program.py", HERE / "mistakes.py"


def planted() -> set[int]:
    lines = MISTAKES.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}


def by_mypy() -> list[tuple[str, int, str]]:
    """Return what `mypy --strict` reports, as (file, line, message)."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--no-pretty",
        str(PROGRAM),
        str(MISTAKES),
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    found = re.findall(r"^(.*?):(\d+)(?::\d+)?: error: (.*)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return [(Path(file).name, int(line), text) for file, line, text in found]


def by_pyright() -> list[tuple[str, int, str]]:
    """Return what pyright reports, strict, as (file, line, message)."""
    pyright = Path(sys.executable).with_name("pyright")
    command = [str(pyright), "--pythonpath", sys.executable, "--outputjson", str(PROGRAM), str(MISTAKES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    found = [one for one in json.loads(done.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    assert found, done.stdout + done.stderr
    return [(Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"]) for one in found]


@pytest.fixture(scope="module", params=[by_mypy, by_pyright])
def reports(request: pytest.FixtureRequest) -> list[tuple[str, int, str]]:
    """Each checker's reports over both files."""
    found: list[tuple[str, int, str]] = request.param()
    return found


def test_the_program_of_the_documentation_is_accepted(reports):
    assert [report for report in reports if report[0] == PROGRAM.name] == []


def test_each_planted_mistake_is_reported(reports):
    assert planted() - {line for file, line, _ in reports if file == MISTAKES.name} == set()


def test_nothing_else_is_reported(reports):
    elsewhere = [report for report in reports if report[0] == MISTAKES.name and report[1] not in planted()]
    assert elsewhere == []
