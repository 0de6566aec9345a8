"""A test marked `long` runs in `make test-long` and only there; no test is skipped for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.tree import ROOT

CASES = """
import pytest

def test_short(): pass

@pytest.mark.long
def test_long(): pass
"""


@pytest.mark.parametrize(("length", "passed"), [("", "1 passed, 1 deselected"), ("1", "2 passed")])
def test_long_tests_run_only_when_asked_for(tmp_path: Path, length: str, passed: str) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    (tmp_path / "test_cases.py").write_text(CASES)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "YAOKI_LONG": length},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert passed in ran.stdout
