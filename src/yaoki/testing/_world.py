"""The world outside a run: what receivers were asked and what they did, in a file that outlives every process."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from yaoki.runtime import _context
from yaoki.testing._points import point

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Deed", "Outside", "World", "append_line", "read_lines"]

_LINE_MAX_BYTES = 16 * 1024 * 1024


@runtime_checkable
class Outside(Protocol):
    """
    What `crash_matrix` asks of a world of your own: a receiver with a log.

    `open` is called first in each process of a case, with a folder of that case's own; all processes of a case get
    the same folder, no two cases do.
    """

    def open(self, folder: Path) -> None:
        """Act and look only there from here on."""
        ...

    def effects(self) -> Counter[tuple[str, str]]:
        """Return each effect by what and key, and how often it was brought about."""
        ...


class Deed(Struct, frozen=True):
    """One thing a receiver did."""

    what: str
    key: str
    value: Any
    step: str = ""
    """The step that asked for it; empty outside an attempt."""


class World:
    """
    A receiver for tests, with a log: in memory, or in a file once it is opened in a folder.

    Tools act on it with `act`; a check, a test and a truthful person look with `find`. Just before and just after
    each deed is a place where `crash_matrix` kills: inside the call.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._deeds: list[Deed] = []
        self._lock = threading.Lock()

    def open(self, folder: Path) -> None:
        """Keep the log in a file of this folder from here on, and start from what stands there."""
        self._path = folder / "world.jsonl"
        self._deeds = []

    def act(self, what: str, key: str, value: object = None, *, once: bool = False) -> Any:  # noqa: ANN401 - as given
        """
        Bring an effect about and return `value`, which must be JSON.

        With `once` the receiver deduplicates, as one that honours an idempotency key does: a second call with the same
        `what` and `key` changes nothing and returns what the first did.
        """
        point(f"before {what} {key} is done")
        with self._lock:
            done = self._find(what, key) if once else None
            if done is None:
                self._note(Deed(what, key, value, _step_here()))
        point(f"after {what} {key} was done")
        return value if done is None else done.value

    def find(self, what: str, key: str) -> Deed | None:
        """Return the first deed of this name and key, or None."""
        with self._lock:
            return self._find(what, key)

    def deeds(self) -> list[Deed]:
        """Return everything that was done, oldest first."""
        with self._lock:
            return self._read()

    def effects(self) -> Counter[tuple[str, str]]:
        """Return each effect by what and key, and how often it was brought about."""
        return Counter((deed.what, deed.key) for deed in self.deeds())

    def by_step(self, step: str) -> Deed | None:
        """Return the newest deed that an attempt of this step brought about, or None."""
        return next((deed for deed in reversed(self.deeds()) if deed.step == step), None)

    def _find(self, what: str, key: str) -> Deed | None:
        return next((deed for deed in self._read() if (deed.what, deed.key) == (what, key)), None)

    def _read(self) -> list[Deed]:
        if self._path is None:
            return list(self._deeds)
        return [msgspec.convert(line, Deed) for line in read_lines(self._path)]

    def _note(self, deed: Deed) -> None:
        if self._path is None:
            self._deeds.append(deed)
        else:
            append_line(self._path, msgspec.to_builtins(deed))


def _step_here() -> str:
    here = _context.here()
    return here.step.key if isinstance(here, _context.InAttempt) else ""


def append_line(path: Path, value: object) -> None:
    """Append one JSON line in one write: a process killed at any moment leaves a whole line or none."""
    data = json.dumps(value).encode() + b"\n"
    if len(data) > _LINE_MAX_BYTES:
        msg = f"{path.name}: a line of {len(data):,} bytes; {_LINE_MAX_BYTES:,} is the most"
        raise ValueError(msg)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def read_lines(path: Path) -> list[Any]:
    """Return the JSON lines of a file that `append_line` wrote; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
