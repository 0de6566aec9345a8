"""How often a tool's first attempts fail of late, in this process."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaoki.records import Settle

__all__ = ["Rates"]

_WINDOW = 100
_LEAST = 20
_TOOLS_MAX = 1_000


class Rates:
    """The last 100 first attempts of each tool, at most 1,000 tools."""

    def __init__(self, rate_max: float) -> None:
        self._rate_max = rate_max
        self._last: dict[str, deque[bool]] = {}
        self._lock = threading.Lock()

    def note(self, key: str, settle: Settle) -> tuple[str, str] | None:
        """Count a settled attempt; return the tool and a line about it once too many of its first attempts failed."""
        if settle.attempt != 1 or settle.rung or settle.outcome == "cancelled" or "!" in key:
            return None
        tool = key.rpartition("/")[2].partition("#")[0]
        with self._lock:
            window = self._last.get(tool)
            if window is None:
                if len(self._last) >= _TOOLS_MAX:
                    return None
                window = self._last[tool] = deque(maxlen=_WINDOW)
            window.append(settle.outcome == "failed")
            failed, seen = sum(window), len(window)
            if seen < _LEAST or failed / seen <= self._rate_max:
                return None
            window.clear()
        share = round(100 * failed / seen)
        return tool, f"{tool}: {failed} of its last {seen} first attempts failed ({share} %), whatever healed later"
