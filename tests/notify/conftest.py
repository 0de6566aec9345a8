from __future__ import annotations

import pytest

from tests.notify.station import Station


@pytest.fixture
def station(tmp_path):
    found = Station(tmp_path)
    yield found
    found.close()
