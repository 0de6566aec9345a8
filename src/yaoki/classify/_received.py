"""
What urllib has received of an error's body, without reading it.

An `HTTPError` is raised with its body unread: reading may block on the socket, and would take the body from
whoever catches the error. But the buffer its head was parsed from has usually been filled past the head, and
holds the body, or its beginning. Only that is looked at; how much it is depends on how the server sent it.
"""

from __future__ import annotations

import io
from typing import Any, cast

__all__ = ["RECEIVED_MAX", "received"]

RECEIVED_MAX = 65_536
"""Bytes of a body that are looked at."""


def received(error: object) -> bytes | None:
    """Return the bytes of an `urllib.error.HTTPError`'s body that lie in memory; they stay there."""
    try:
        answer: Any = cast("Any", error).fp
        if type(answer) is io.BytesIO:
            return answer.getvalue()[:RECEIVED_MAX] or None
        reader = answer.fp
        if type(reader) is not io.BufferedReader or type(reader.raw).__name__ != "SocketIO":
            return None
        found = _peek(reader)[: _bound(answer.length)]
        if answer.chunked is True and answer.chunk_left is None:
            found = found.partition(b"\r\n")[2]
    except Exception:  # noqa: BLE001 - a stranger's attributes; without a body there is still the status
        return None
    return found or None


def _bound(length: object) -> int:
    """Return how many of the bytes that follow are the body's; what comes after is another answer's."""
    return min(length, RECEIVED_MAX) if isinstance(length, int) else RECEIVED_MAX


def _peek(reader: io.BufferedReader) -> bytes:
    """
    Return what is buffered.

    `peek` reads from below when the buffer is empty; for its duration, what is below says what a raw stream
    says that would have to wait: None.
    """
    below: Any = reader.raw
    below.readinto = _nothing_yet
    try:
        return reader.peek(RECEIVED_MAX)
    finally:
        del below.readinto


def _nothing_yet(_into: object) -> None:
    """Answer in the place of `RawIOBase.readinto`."""
