"""
Mutants: patches that each remove the mechanism of one guarantee.

A patch is a unified diff below three lines: `guarantee:`, `removes:`, `caught-by:` (a test's node id). It is applied
by its text alone, wherever in the file that stands, so that changes elsewhere do not break it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Mutant", "mutants", "read"]

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    name: str
    guarantee: str
    removes: str
    caught_by: str
    file: str
    hunks: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.name

    def apply(self, root: Path) -> None:
        """Change the file below `root`; each hunk must stand there exactly once."""
        path = root / self.file
        text = path.read_text()
        for before, after in self.hunks:
            found = text.count(before)
            assert found == 1, f"{self.name}: its text stands {found} times in {self.file}; write the patch anew"
            text = text.replace(before, after)
        path.write_text(text)

    def copy_to(self, root: Path) -> Path:
        """Copy the package below `root`, mutated; the folder to put on PYTHONPATH."""
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        self.apply(root)
        return root / "src"


def mutants() -> list[Mutant]:
    return [read(path) for path in sorted(Path(__file__).parent.glob("*.patch"))]


def read(path: Path) -> Mutant:
    lines = path.read_text().splitlines()
    said = dict(line.split(": ", 1) for line in lines[:3])
    file = lines[3].removeprefix("--- ").strip()
    hunks: list[tuple[list[str], list[str]]] = []
    for line in lines[5:]:
        if line.startswith("@@"):
            hunks.append(([], []))
            continue
        before, after = hunks[-1]
        if line[0] in " -":
            before.append(line[1:])
        if line[0] in " +":
            after.append(line[1:])
    return Mutant(
        path.stem,
        said["guarantee"],
        said["removes"],
        said["caught-by"],
        file,
        tuple(
            ("".join(f"{line}\n" for line in before), "".join(f"{line}\n" for line in after)) for before, after in hunks
        ),
    )
