"""The files of the project: what is tracked, or would be."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "SOURCE", "files", "modules"]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "yaoki"

_MADE = {".venv", ".git", ".hypothesis", "build", "dist", "htmlcov", "__pycache__"}


@cache
def files() -> tuple[Path, ...]:
    """Return every file that git tracks or would add; outside a repository, every file not made by a tool."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
        return tuple(path for name in names if name and (path := ROOT / name).is_file())
    return tuple(path for path in ROOT.rglob("*") if path.is_file() and not _made(path))


def modules() -> tuple[Path, ...]:
    """Return every module of the package."""
    return tuple(sorted(path for path in files() if path.suffix == ".py" and SOURCE in path.parents))


def _made(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part in _MADE or part.endswith(("_cache", ".egg-info")) for part in parts)
