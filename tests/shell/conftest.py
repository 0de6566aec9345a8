"""The shell tool in both worlds, on the machine's clock: its commands are real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell.house import ShellHouse


@pytest.fixture(params=["sync", "async"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> ShellHouse:
    """Both worlds."""
    return ShellHouse(request.param, tmp_path)


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: what a sync is for is tested with the journal."""
    monkeypatch.setattr("yaoki.journal._journal.default_sync", lambda fd: None)
