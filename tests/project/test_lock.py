"""The lock file pins what pyproject.toml asks for, by hash, and nothing of one machine."""

from __future__ import annotations

import re
import tomllib

from tests.project.tree import ROOT

LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

_ENTRY = re.compile(r"^([a-z0-9-]+)==(\S+)((?:.*\\\n)(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)
_PINNED = {match[1]: match[2] for match in _ENTRY.finditer(LOCK)}


def _asked() -> set[str]:
    # Of these two hundreds of megabytes come; nobody needs them to work on Yaoki.
    extras = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name not in {"sdks", "bench"}}
    every = [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]
    return {re.split(r"[^A-Za-z0-9-]", line)[0] for line in every} - {"yaoki"}


def test_every_dependency_is_pinned() -> None:
    assert _asked() - _PINNED.keys() == set()


def test_every_line_is_a_pin_with_hashes_or_a_comment() -> None:
    rest = [line for line in _ENTRY.sub("", LOCK).splitlines() if line and not re.match(r" +# ", line)]
    assert rest == []


def test_the_pinned_sqlite_has_no_wal_reset_bug() -> None:
    """SQLite before 3.51.3 may lose committed writes when several processes write."""
    assert tuple(map(int, _PINNED["apsw"].split(".")[:3])) >= (3, 51, 3)
    assert "apsw>=3.51.3.0" in PROJECT["dependencies"]
