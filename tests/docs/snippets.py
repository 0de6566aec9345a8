"""
The fenced blocks of the documentation, read as scenes and run.

A ```python block is a program of its own; the words after `python` on its fence may say otherwise:

    python continues     goes on in the scene of the block before it
    python file=NAME     is written to the file NAME, and not run

A ```console block shows commands after `$ ` and what they print. It belongs to the scene before it; `yaoki` is the
command, `echo $?` the exit code of the command before it. What is shown must be printed, in that order: times,
durations and ids may differ, lines may be left out, `…` ends a line early.

A `print(…)  # words` in a python block says what it prints; the words of a scene are all that it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Block", "Scene", "differing", "perform", "scenes"]

_FENCE = re.compile(r"^```(\w+)([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTED = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)
_VARIES = (
    (re.compile(r"\d+(?:\.\d+)?(?: ?(?:ms|s|m|h))\b"), "T"),  # durations
    (re.compile(r"\d\d:\d\d:\d\d|\d\d:\d\d"), "T"),  # times of day
    (re.compile(r"\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"), "D"),
    (re.compile(r"pid \d+"), "pid N"),
    (re.compile(r"\b[0-9a-f]{6,}\b"), "H"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str:
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), "")


@dataclass
class Scene:
    """Blocks that share a folder and a namespace."""

    page: Path
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.blocks[0].line}"


def scenes(page: Path) -> list[Scene]:
    """Return the scenes of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Scene] = []
    for match in _FENCE.finditer(text):
        block = Block(match[1], tuple(match[2].split()), match[3], text.count("\n", 0, match.start()) + 1)
        if block.language not in ("python", "console"):
            continue
        goes_on = block.language == "console" or "continues" in block.words
        if not goes_on:
            found.append(Scene(page))
        assert found, f"{page.name}:{block.line}: a {block.language} block with no scene before it"
        found[-1].blocks.append(block)
    return found


def perform(scene: Scene, folder: Path) -> None:
    """Run a scene in its folder; AssertionError where it does not do what the page shows."""
    module = types.ModuleType(f"scene_{abs(hash(scene.name))}")
    for block in scene.blocks:  # a file of that name may have been imported from elsewhere
        sys.modules.pop(block.file.removesuffix(".py"), None)
    before = set(sys.modules)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(folder))
    printed = io.StringIO()
    try:
        for block in scene.blocks:
            if block.file:
                (folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                code = compile("\n" * block.line + block.text, str(scene.page), "exec", dont_inherit=True)
                with contextlib.redirect_stdout(printed):
                    exec(code, module.__dict__)
            else:
                _type(block, folder)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if name == module.__name__ or Path(getattr(sys.modules[name], "__file__", None) or "/").parent == folder:
                del sys.modules[name]
    words = [word for b in scene.blocks if b.language == "python" and not b.file for word in _PRINTED.findall(b.text)]
    said = printed.getvalue().splitlines()
    assert not words or differing(words, said) is None, f"{scene.name}: the page says {words}, it printed {said}"


def _type(block: Block, folder: Path) -> None:
    code = 0
    for command, expected in _commands(block.text):
        if command == "echo $?":
            assert [str(code)] == expected, f"line {block.line}: the exit code was {code}, not {expected}"
            continue
        words = shlex.split(command)
        if words[0] in ("python", "yaoki"):
            words = [sys.executable, *(["-m", "yaoki"] if words[0] == "yaoki" else []), *words[1:]]
        done = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False
        )
        code = done.returncode
        said = (done.stderr + done.stdout).splitlines()
        missed = differing(expected, said)
        assert missed is None, f"line {block.line}: $ {command}\nnot printed: {missed}\nprinted:\n" + "\n".join(said)


def _commands(text: str) -> list[tuple[str, list[str]]]:
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.strip() and line.strip() != "…":
            commands[-1][1].append(line)
    return commands


def differing(expected: list[str], said: list[str]) -> str | None:
    """Return the first expected line that is not among what was said, in order; None if all are."""
    lines = iter(_plain(line) for line in said)
    for line in expected:
        wanted = _plain(line)
        start = wanted.removesuffix("…")
        if not any(one.startswith(start) if start != wanted else one == wanted for one in lines):
            return line
    return None


def _plain(line: str) -> str:
    for pattern, mark in _VARIES:
        line = pattern.sub(mark, line)
    return line.strip()
