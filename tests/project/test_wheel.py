"""What a person gets who installs Yaoki: the package whole, and nothing beside it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.project.tree import ROOT, SOURCE, files

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of the files in a wheel built from the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=50,
    )
    (wheel,) = folder.glob("*.whl")
    return set(ZipFile(wheel).namelist())


def test_every_file_of_the_package_ships(shipped: set[str]) -> None:
    """Modules, `py.typed`, the journal's SQL and the demo's texts."""
    ours = {str(path.relative_to(SOURCE.parent)) for path in files() if SOURCE in path.parents}
    assert {"yaoki/py.typed", "yaoki/journal/sql/0001_start.sql"} <= ours
    assert ours - shipped == set()


def test_the_demo_finds_its_example_where_it_is_installed(shipped: set[str]) -> None:
    example = ROOT / "examples" / "refunds"
    ours = {str("yaoki/demo/refunds" / path.relative_to(example)) for path in files() if example in path.parents}
    assert sum(name.endswith(".txt") for name in ours) >= 12
    assert ours - shipped == set()


def test_nothing_but_the_package_ships(shipped: set[str]) -> None:
    assert {name.partition("/")[0] for name in shipped} <= {"yaoki", f"yaoki-{VERSION}.dist-info"}
    assert not [name for name in shipped if name.endswith((".pyc", ".db", "-wal"))]


def test_the_command_is_installed(shipped: set[str]) -> None:
    """`yaoki` is a script, and the name it points at exists."""
    assert "yaoki/cli/__init__.py" in shipped or "yaoki/cli.py" in shipped
    help_text = subprocess.run(
        [Path(sys.executable).with_name("yaoki"), "--help"], capture_output=True, text=True, check=True, timeout=50
    )
    assert "demo" in help_text.stdout
