"""The tree speaks of the project alone, and its modules stay small and say what is public."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.project.tree import ROOT, SOURCE, files, modules

LINES_MAX = 500

# `[x]` and `\.` keep this file from containing what it looks for.
FORBIDDEN = {
    "a folder of one machine": r"(?<![\w.~-])/(?:work|root|home/\w+|Users/\w+|opt/(?:wheels|pypi)|tmp/(?:venv|brief))/",
    "a registry's host": r"pythonhosted\.org|\bpypi\.(?:org|python\.org)|npmjs\.(?:org|com)|\bdeb\.debian\.org",
    "a package index of one machine": r"--(?:extra-)?index-ur[l]|--find-link[s]",
}


def _names(paths: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names_a_machine_or_a_registry(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what].encode())
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.decode(errors='replace').strip()}"
        for path in files()
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1)
        if pattern.search(line)
    ]
    assert not found, f"{what}: {found}"


def test_the_patterns_find_what_they_are_for() -> None:
    assert re.search(FORBIDDEN["a folder of one machine"], "see " + "/wor" + "k/main")
    assert re.search(FORBIDDEN["a folder of one machine"], '"' + "/home" + '/ada/x"')
    assert not re.search(FORBIDDEN["a folder of one machine"], "src/work/main, ./work/x, /tmp/yaoki/x")
    assert re.search(FORBIDDEN["a registry's host"], "https://pyp" + "i.org/simple")
    assert re.search(FORBIDDEN["a package index of one machine"], "--index" + "-url x")


def test_the_package_and_its_tests_are_among_the_files() -> None:
    assert SOURCE / "clock.py" in modules()
    assert Path(__file__) in files()


@pytest.mark.parametrize("name", _names(modules()))
def test_a_module_has_one_noun_in_it(name: str) -> None:
    """A module stays under 500 lines; one that heads for more holds a second noun."""
    lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
    assert lines < LINES_MAX


@pytest.mark.parametrize("name", _names(modules()))
def test_a_module_says_what_is_public(name: str) -> None:
    """Each module has a docstring and an `__all__` of names in order, each once."""
    module = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert ast.get_docstring(module), "no docstring"
    exported = [
        ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and any(isinstance(target, ast.Name) and target.id == "__all__" for target in _targets(node))
    ]
    assert len(exported) == 1, "`__all__` is assigned once, as a literal"
    assert len(set(exported[0])) == len(exported[0])


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
