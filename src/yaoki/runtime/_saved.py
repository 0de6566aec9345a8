"""The state a run has saved: the next checkpoint made of it, and the state put together again. Part of its history."""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Raw

from yaoki.errors import StoreCorrupt
from yaoki.records import Checkpoint
from yaoki.runtime._states import Whole
from yaoki.runtime._step import blake2b
from yaoki.runtime._stored import references_in, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yaoki.runtime._states import Part
    from yaoki.runtime._stored import Delta, Found

__all__ = ["REPLACED_TIMES", "Saved"]

REPLACED_TIMES = 4
"""A base follows when the deltas since the last one have set this many times the state in place of what stood there."""
_REPLACED_MIN = 1 << 16
_OLD_MARK = 16
"""Length of the marks of earlier stores: hex digits of the SHA-256 of the whole state."""

Results: TypeAlias = "Callable[[], Iterable[tuple[int, Raw]]]"
"""Returns what was recorded since the checkpoint before and in the prelude, by seq: what a state may refer to."""


class Saved:
    """
    Takes checkpoints in order, live and on load, and makes the next one.

    What they store is joined when it is asked for, so that loading stays O(records). Restoring costs the bytes
    appended since the last base, which are the state's own, and those replaced, which `REPLACED_TIMES` bounds.

    A checkpoint's mark chains what each of them changed, references resolved, to its base, and ends in the length of
    the state: a delta that is missing, another result under a reference, or a part put in twice shows.
    """

    def __init__(self) -> None:
        self._whole: Whole | None = None
        self._last: Checkpoint | None = None
        self._chain = b""
        self._replaced = 0
        self._references: dict[int, dict[bytes, bytes]] = {}

    def record(self, data: bytes, *, at: int, turn: int, results: Results) -> tuple[Checkpoint, list[Part] | None]:
        """
        Return the checkpoint of a state, and what changed in it since the one before; None for that: all of it.

        Nothing is taken yet: it may fail to be written.

        Args:
            data: The state as it was encoded.
            at: Now, in ms.
            turn: The turn it ends.
            results: What it may refer to.
        """
        if self._whole is not None and self._replaced < max(_REPLACED_MIN, REPLACED_TIMES * len(data)):
            given = list(results())
            change = self._whole.change_to(data, self._references_to(given))
            if change is not None:
                chain = _linked(self._chain, resolved(change.delta, _looked_up(lambda: given)))
                mark = _mark(chain, len(data))
                record = Checkpoint(at=at, turn=turn, form="delta", state=Raw(change.delta), prefix=mark)
                return record, change.parts
        mark = _mark(_link(b"", data), len(data))
        return Checkpoint(at=at, turn=turn, form="base", state=Raw(data), prefix=mark), None

    def take(self, record: Checkpoint, results: Results) -> None:
        """
        Go on to the next saved state.

        Raises:
            StoreCorrupt: It builds on what is not there.
        """
        self._last = record
        stored = bytes(record.state)
        if record.form == "base":
            self._whole, self._chain, self._replaced = Whole(stored), _link(b"", stored), 0
            return
        if self._whole is None:
            raise _unlike(record.turn)
        try:
            delta = resolved(stored, _looked_up(results))
            self._replaced += self._whole.apply(delta)
        except (LookupError, msgspec.DecodeError) as error:
            raise _unlike(record.turn) from error
        self._chain = _linked(self._chain, delta)

    def whole(self) -> bytes | None:
        """
        Return the state as it was encoded, None before the first checkpoint.

        Raises:
            StoreCorrupt: What was put together from its parts is not what was saved.
        """
        if self._whole is None or self._last is None:
            return None
        state = bytes(self._whole)
        mark = self._last.prefix
        if mark and mark != (_old_mark(state) if len(mark) == _OLD_MARK else _mark(self._chain, len(state))):
            raise _unlike(self._last.turn)
        return state

    def _references_to(self, results: list[tuple[int, Raw]]) -> dict[bytes, bytes]:
        """Return the references to results by what they stand for; each result is looked into once."""
        known = self._references
        self._references = {seq: known[seq] if seq in known else references_in(seq, bytes(raw)) for seq, raw in results}
        merged: dict[bytes, bytes] = {}
        for one in self._references.values():
            merged = {**one, **merged} if merged else dict(one)
        return merged


def _looked_up(results: Results) -> Found:
    """Return a look-up of results by seq; they are gone through with the first one asked for."""
    by_seq: dict[int, Raw] = {}

    def found(seq: int) -> bytes | None:
        if not by_seq:
            by_seq.update(results())
        raw = by_seq.get(seq)
        return None if raw is None else bytes(raw)

    return found


def _link(chain: bytes, data: bytes) -> bytes:
    return blake2b(chain + data, digest_size=16).digest()


def _linked(chain: bytes, delta: Delta) -> bytes:
    return _link(chain, msgspec.json.encode(delta))


def _mark(chain: bytes, size: int) -> str:
    """Return 48 bits: they are against accidents, and stand in every checkpoint."""
    return b2a_base64(blake2b(chain + b"%d" % size, digest_size=6).digest(), newline=False).decode()


def _old_mark(state: bytes) -> str:
    from hashlib import sha256

    return sha256(state).hexdigest()[:_OLD_MARK]


def _unlike(turn: int) -> StoreCorrupt:
    msg = f"the state saved at the end of turn {turn} cannot be put together. Restore a backup; see: yaoki doctor"
    return StoreCorrupt(msg)
