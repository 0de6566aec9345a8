"""Every promise of the runtime is tested in both worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.house import House


@pytest.fixture(params=["sync", "async"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    """Both worlds, on a fake clock."""
    return House(request.param, tmp_path)


@pytest.fixture(params=["sync", "async"])
def real_house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    """Both worlds, on the machine's clock: for what threads and other processes do meanwhile."""
    return House(request.param, tmp_path, real_time=True)


@pytest.fixture
def sync_house(tmp_path: Path) -> House:
    """Return the sync world alone."""
    return House("sync", tmp_path)


@pytest.fixture
def async_house(tmp_path: Path) -> House:
    """Return the async world alone."""
    return House("async", tmp_path)


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: what a sync is for is tested with the journal, and here it would only take its time."""
    monkeypatch.setattr("yaoki.journal._journal.default_sync", lambda fd: None)
