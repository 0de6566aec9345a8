"""The pytest plugin: what `pip install yaoki` adds to a user's pytest."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = "yaoki.testing.pytest_plugin"

TESTS = """
import time

from yaoki import Effect, Runner, loop, tool
from yaoki.testing import World

WORLD = World()

@tool
def note(line: str) -> None:
    WORLD.act("note", line)

@loop
def good(run) -> None:
    note("a")
    run.sleep(90)
    note("b")

@loop
def bad(run) -> None:
    WORLD.act("beside", "a")
    note("a")

def test_good(crash_matrix):
    matrix = crash_matrix(good, world=WORLD)
    print("CASES", matrix.cases, "DEATHS", matrix.deaths, "SEED", matrix.seed)

def test_bad(crash_matrix):
    crash_matrix(bad, world=WORLD)

def test_fails_later(crash_matrix):
    crash_matrix(good, world=WORLD, points_max=2)
    raise ValueError("for another reason")

def test_waits(no_waits, tmp_path):
    with Runner(f"sqlite:///{tmp_path / 's.db'}") as runner:
        assert runner.run(good.bind()).status == "completed"

def test_clock(fake_clock, tmp_path):
    with Runner(f"sqlite:///{tmp_path / 's.db'}", clock=fake_clock) as runner:
        assert runner.run(good.bind()).status == "completed"
    assert fake_clock.passed_s >= 90
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests as a user's pytest does; the plugin is named where the package is not installed."""
    (folder / "test_agent.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", str(folder / "kept")]
    if not _installed():
        command += ["-p", PLUGIN]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "src")])),
    }
    return subprocess.run(
        [*command, "-rA", *options, "test_agent.py"], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))


def test_the_package_says_where_its_plugin_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"yaoki": PLUGIN}
    assert importlib.import_module(PLUGIN).pytest_addoption


@pytest.mark.timeout(120)
def test_its_fixtures_do_what_their_functions_do_and_a_failing_test_shows_the_report(tmp_path):
    ended = run_pytest(tmp_path)
    said = ended.stdout
    assert ended.returncode == 1, said + ended.stderr
    assert "PASSED test_agent.py::test_good" in said
    assert "PASSED test_agent.py::test_waits" in said
    assert "PASSED test_agent.py::test_clock" in said
    assert "beside [a] was done twice (in the world), undisturbed once" in said
    assert f"kept: {tmp_path / 'kept'}" in said
    later = said.partition("test_fails_later")[2]
    assert "crash matrix of good: 3 cases over" in later


@pytest.mark.timeout(120)
def test_its_options_stand_in_place_of_what_the_tests_say(tmp_path):
    ended = run_pytest(
        tmp_path,
        "--crash-points",
        "5",
        "--crash-deaths",
        "2",
        "--crash-seed",
        "99",
        "-k",
        "test_good or test_fails_later",
    )
    assert "CASES 6 DEATHS" in ended.stdout, ended.stdout + ended.stderr
    assert "SEED 99" in ended.stdout
    assert "crash matrix of good: 6 cases over" in ended.stdout


def test_it_imports_nothing_of_the_package_before_it_is_used():
    code = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(*(set(sys.modules) - before))"
    pulled = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert "yaoki.journal" not in pulled
    assert "asyncio" not in pulled
