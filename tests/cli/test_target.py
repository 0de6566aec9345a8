from __future__ import annotations

import sys

import pytest

from yaoki.cli._exits import CommandError
from yaoki.cli._target import find_loop_name, load_file, split_target


@pytest.fixture(autouse=True)
def _modules_as_they_were(monkeypatch):
    """Keep what loading a file does to the path and the table of modules within its test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_target_is_a_file_and_a_name(tmp_path):
    file = write(tmp_path / "agents.py", "")
    assert split_target(f"{file}:work") == (file, "work")
    assert split_target(str(file)) == (file, "")


@pytest.mark.parametrize("target", ["{0}/agent.py:work", "{0}/agents:work", "{0}/agents.pyw"])
def test_a_file_that_is_not_there_is_named_with_the_closest_one(tmp_path, target):
    file = write(tmp_path / "agents.py", "")
    with pytest.raises(CommandError, match=f"did you mean {file}") as refused:
        split_target(target.format(tmp_path))
    assert refused.value.exit_code == 2


def test_a_directory_and_a_missing_folder_are_no_file(tmp_path):
    with pytest.raises(CommandError, match="it is a directory"):
        split_target(f"{tmp_path}:work")
    with pytest.raises(CommandError, match="no file"):
        split_target(f"{tmp_path}/no/such.py:work")


def test_a_file_is_imported_under_its_own_name_and_finds_its_neighbours(tmp_path):
    write(tmp_path / "neighbour_of_it.py", "VALUE = 7")
    file = write(tmp_path / "my_agents.py", "from neighbour_of_it import VALUE")
    module = load_file(file)
    assert module.VALUE == 7
    assert module.__name__ == "my_agents"
    assert sys.modules["my_agents"] is module


def test_a_file_named_like_a_module_in_use_replaces_nothing(tmp_path):
    import json

    file = write(tmp_path / "json.py", "MINE = True")
    assert load_file(file).MINE
    assert sys.modules["json"] is json


def test_a_file_in_a_package_may_import_relatively(tmp_path):
    write(tmp_path / "pack_of_it" / "__init__.py", "")
    write(tmp_path / "pack_of_it" / "other.py", "VALUE = 8")
    file = write(tmp_path / "pack_of_it" / "agents.py", "from .other import VALUE")
    assert load_file(file).VALUE == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nimport no_such_module_of_ours", ":2: ModuleNotFoundError: No module named 'no_such_module_of_ours'"),
        ("x = 1\n\ndef f(:\n", ":3: SyntaxError: invalid syntax"),
        ("def f():\n    raise RuntimeError('two\\nlines')\nf()", ":2: RuntimeError: two lines"),
        ("import sys\nsys.exit(3)", ":2: SystemExit: 3"),
        ("raise ValueError", ":1: ValueError: raised while it was imported"),
    ],
)
def test_a_file_that_cannot_be_imported_shows_its_own_error_on_one_line(tmp_path, text, said):
    file = write(tmp_path / "broken_one.py", text)
    with pytest.raises(CommandError) as refused:
        load_file(file)
    assert refused.value.message == f"{file}{said}"
    assert refused.value.exit_code == 2


def test_the_loop_asked_for_is_found_and_the_only_one_need_not_be_named():
    assert find_loop_name("work", ["rest", "work"], "a.py") == "work"
    assert find_loop_name("", ["work"], "a.py") == "work"


@pytest.mark.parametrize(
    ("wanted", "names", "said"),
    [
        ("wrok", ["rest", "work"], "no loop wrok in a.py; there: rest, work; did you mean a.py:work?"),
        ("zzz", ["work"], "no loop zzz in a.py; there: work"),
        ("", ["rest", "work"], "which loop of a.py? rest, work; say a.py:rest"),
        ("work", [], "a.py has no loop; decorate one: @loop def my_loop(run, …)"),
    ],
)
def test_a_loop_that_is_not_there_is_answered_with_those_that_are(wanted, names, said):
    with pytest.raises(CommandError) as refused:
        find_loop_name(wanted, names, "a.py")
    assert refused.value.message == said
    assert refused.value.exit_code == 2


def test_an_edit_within_the_same_second_and_of_the_same_size_is_seen(tmp_path):
    import os

    file = write(tmp_path / "edited_one.py", "VALUE = 1")
    assert load_file(file).VALUE == 1
    before = file.stat()
    write(file, "VALUE = 2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    del sys.modules["edited_one"]
    assert load_file(file).VALUE == 2
