"""Where simulated deaths keep their stores."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = "/dev/shm"


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """
    Return a directory in memory, where there is one; else `tmp_path`.

    A simulated death loses no power. Yet each life opens and closes stores, which syncs some ten times, and on a disk
    nine tenths of these tests would be waiting for that.
    """
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="yaoki-crash-", dir=_MEMORY) as name:
        yield Path(name)
