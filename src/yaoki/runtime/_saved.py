"""The state a run has saved, put together from its checkpoints. Part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from yaoki.errors import StoreCorrupt
from yaoki.runtime._states import Restored, digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.records import Checkpoint

__all__ = ["Saved"]


class Saved:
    """Takes checkpoints in order; what they store is joined when it is asked for, so that loading stays O(records)."""

    def __init__(self) -> None:
        self._restored: Restored | None = None
        self._last: Checkpoint | None = None

    def take(self, record: Checkpoint, results: Sequence[tuple[int, bytes]]) -> None:
        """
        Go on to the next saved state.

        Args:
            record: The checkpoint.
            results: What it may refer to, by seq.

        Raises:
            StoreCorrupt: It builds on what is not there.
        """
        self._last = record
        if record.form == "base":
            self._restored = Restored(bytes(record.state))
            return
        if self._restored is None:
            raise _unlike(record.turn)
        try:
            self._restored.apply(bytes(record.state), dict(results).get)
        except (LookupError, msgspec.DecodeError) as error:
            raise _unlike(record.turn) from error

    def whole(self) -> bytes | None:
        """Return the state as it was encoded, None before the first checkpoint; held against its hash."""
        if self._restored is None or self._last is None:
            return None
        state = bytes(self._restored)
        if self._last.prefix and digest(state) != self._last.prefix:
            raise _unlike(self._last.turn)
        return state


def _unlike(turn: int) -> StoreCorrupt:
    msg = f"the state saved at the end of turn {turn} cannot be put together. Restore a backup; see: yaoki doctor"
    return StoreCorrupt(msg)
