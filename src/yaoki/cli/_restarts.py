"""When a dead worker is started again, and when that is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UNCLAIMED_MAX", "Restarts"]

_BASE_S = 0.05
_CAP_S = 2.0
UNCLAIMED_MAX = 8
"""Deaths in a row before the run was claimed, after which the command gives up."""
_STUCK_MAX = 1_000
"""
Deaths in a row without a settled step. The runtime ends such a run itself after `crashes_max`; this bound
stands behind it, above any sensible `crashes_max`, so that nothing here goes on for ever.
"""


@dataclass(slots=True)
class Restarts:
    """Counts of one `yaoki run`; deaths a supervisor before it saw are the runtime's to count."""

    unclaimed: int = 0
    stuck: int = 0
    total: int = 0
    settled: int = -1

    def after_death(self, *, claimed: bool, settled: int) -> float | None:
        """
        Return how long to wait before the next worker, in seconds, or `None` to give up.

        The wait doubles from 0.05 s to 2 s over deaths in a row that settled nothing.

        Args:
            claimed: Whether the dead worker had claimed the run.
            settled: How many steps the journal has settled by the process that made the attempt.
        """
        self.total += 1
        self.unclaimed = 0 if claimed else self.unclaimed + 1
        self.stuck = 1 if settled > self.settled else self.stuck + 1
        self.settled = max(settled, self.settled)
        if self.unclaimed >= UNCLAIMED_MAX or self.stuck >= _STUCK_MAX:
            return None
        return min(_BASE_S * 2.0 ** min(self.stuck - 1, 16), _CAP_S)
