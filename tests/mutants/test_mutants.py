"""Each guarantee's mechanism, removed, is missed by the test that names it: the tests bite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.mutants.patches import ROOT, Mutant, mutants

MUTANTS = mutants()
TEST_S = 240


def test_every_guarantee_has_a_mutant():
    assert {mutant.guarantee for mutant in MUTANTS} == {f"G{n}" for n in range(1, 11)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_each_patch_still_applies_and_names_a_test_that_exists(mutant: Mutant, tmp_path):
    target = tmp_path / mutant.file
    target.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / mutant.file, target)
    mutant.apply(tmp_path)
    compile(target.read_text(), mutant.file, "exec")
    file, _, function = mutant.caught_by.partition("::")
    assert f"def {function.partition('[')[0]}(" in (ROOT / file).read_text()


@pytest.mark.long
@pytest.mark.timeout(TEST_S + 60)
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_each_mutant_is_caught(mutant: Mutant, tmp_path):
    code, said = run(mutant.caught_by, str(mutant.copy_to(tmp_path)))
    assert code == pytest.ExitCode.TESTS_FAILED, said


@pytest.mark.long
@pytest.mark.timeout(TEST_S + 60)
def test_without_a_mutant_the_same_tests_pass(tmp_path):
    code, said = run(*sorted({mutant.caught_by for mutant in MUTANTS}), str(ROOT / "src"))
    assert code == pytest.ExitCode.OK, said


def run(*tests_and_source: str) -> tuple[int, str]:
    """Run tests with the package found at the last argument."""
    *tests, source = tests_and_source
    environment = {**os.environ, "PYTHONPATH": source, "YAOKI_LONG": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=short", *tests]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TEST_S, check=False
    )
    return ended.returncode, ended.stdout[-4000:] + ended.stderr[-4000:]
