"""Installed packages bring rules by the entry-point group `yaoki.classify`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from yaoki.classify import Rule, classify, register

class OutOfPaper(Exception): ...

first = classify(OutOfPaper())
print(first.reason, first.kind)
print(classify(ValueError()).reason, 'importlib.metadata' in sys.modules)
if 'own' in sys.argv:
    from yaoki.classify import Failure, FailureKind
    register(Rule(name='own', judge=lambda _: Failure(kind=FailureKind.FATAL, reason='own')))
    print(classify(OutOfPaper()).reason)
"""

GOOD = """
from yaoki.classify import Failure, FailureKind, Rule, classify

def judge(evidence):
    if evidence.name == 'OutOfPaper':
        return Failure(kind=FailureKind.BUDGET, reason='printer.paper')

RULE = Rule(name='printer', judge=judge)
RULES = [RULE]
def rules():
    classify(ValueError('while the rules load'))
    return RULES
"""


def say(folder: Path, *points: str, argv: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Return what a process says that has a package with these entry points on its path."""
    (folder / "printer.py").write_text(GOOD, encoding="utf-8")
    (folder / "broken.py").write_text("raise RuntimeError('half installed')", encoding="utf-8")
    info = folder / "printer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: printer\nVersion: 1.0\n", encoding="utf-8")
    if points:
        (info / "entry_points.txt").write_text("[yaoki.classify]\n" + "\n".join(points) + "\n", encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-c", CODE, *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)


@pytest.mark.parametrize("target", ["RULE", "RULES", "rules"])
def test_a_package_s_rules_are_asked_from_the_first_error_on(tmp_path: Path, target: str) -> None:
    said = say(tmp_path, f"printer = printer:{target}")
    assert said.stdout.splitlines()[0] == "printer.paper budget"
    assert said.stderr == ""


def test_the_user_s_own_rules_come_before_those_of_packages(tmp_path: Path) -> None:
    said = say(tmp_path, "printer = printer:RULE", argv=("own",))
    assert said.stdout.splitlines()[-1] == "own"


@pytest.mark.parametrize(
    "target", ["broken:RULES", "printer:nothing", "printer:GOOD", "missing:RULES", "printer:judge"]
)
def test_a_broken_package_is_named_and_left_out_and_the_others_stay(tmp_path: Path, target: str) -> None:
    said = say(tmp_path, f"a_broken = {target}", "printer = printer:RULE")
    assert said.stdout.splitlines()[:2] == ["printer.paper budget", "python.ValueError True"]
    assert f"entry point a_broken = {target} could not be loaded" in said.stderr
    assert "Traceback" in said.stderr


def test_where_no_package_has_rules_the_look_loads_nothing(tmp_path: Path) -> None:
    said = say(tmp_path)
    assert said.stdout.splitlines() == ["unknown.OutOfPaper unknown", "python.ValueError False"]
