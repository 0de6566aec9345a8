"""
The pytest plugin: fixtures, and the matrix's options on pytest's command line.

It is loaded with every pytest that finds Yaoki installed, so it imports nothing of it before a fixture is used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from yaoki.testing._clock import FakeClock
    from yaoki.testing._matrix import Matrix

__all__ = ["crash_matrix", "fake_clock", "no_waits", "pytest_addoption"]

_OPTIONS = {
    "points_max": ("--crash-points", "the most places a crash matrix tries, in place of its points_max"),
    "deaths": ("--crash-deaths", "how often a crash matrix kills each run (1 to 3), in place of its deaths"),
    "seed": ("--crash-seed", "the seed of a crash matrix's choices, in place of its own"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--crash-points`, `--crash-deaths` and `--crash-seed`."""
    group = parser.getgroup("yaoki", "crash matrices (Yaoki)")
    for name, (option, text) in _OPTIONS.items():
        group.addoption(option, dest=f"yaoki_{name}", type=int, default=None, metavar="N", help=text)


@pytest.fixture(name="crash_matrix")
def crash_matrix(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Matrix]:
    """
    `yaoki.testing.crash_matrix`, with what pytest's command line says of it.

    Cases that differ are kept in the test's `tmp_path`, and the report of each matrix is shown with a test that fails.
    """
    from yaoki.testing import CrashDifferences
    from yaoki.testing import crash_matrix as matrix_of

    given = {name: request.config.getoption(f"yaoki_{name}") for name in _OPTIONS}
    ordered = {name: value for name, value in given.items() if value is not None}

    def reported(*args: Any, **kwargs: Any) -> Matrix:  # noqa: ANN401 - crash_matrix's own
        try:
            matrix = partial(matrix_of, folder=tmp_path)(*args, **{**kwargs, **ordered})
        except CrashDifferences as error:
            error.__traceback__ = None  # what differs is in the report; our own frames say nothing of it
            raise
        request.node.add_report_section("call", "crash matrix", str(matrix))
        return matrix

    return reported


@pytest.fixture(name="no_waits")
def no_waits() -> Generator[None, None, None]:
    """Skip the waits of this process for as long as the test runs, as `yaoki.testing.no_waits` does."""
    from yaoki.testing import no_waits as skipping

    with skipping():
        yield


@pytest.fixture(name="fake_clock")
def fake_clock() -> FakeClock:
    """Return a `yaoki.testing.FakeClock` of the test's own."""
    from yaoki.testing import FakeClock

    return FakeClock()
