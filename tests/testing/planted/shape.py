"""A crash matrix over one shape, with whatever `yaoki` is found on the path: `… shape SHAPE sync|async`."""

from __future__ import annotations

import json
import sys

from tests.testing.test_crash_matrix import shape_matrix
from yaoki.testing import CrashDifferences

POINTS_MAX = 40


def main(shape: str, colour: str) -> list[str]:
    try:
        shape_matrix(shape, is_async=colour == "async", points_max=POINTS_MAX)
    except CrashDifferences as found:
        return [line for one in found.matrix.differences for line in one.what]
    return []


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
