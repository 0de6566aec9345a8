"""The vendor's process, as the demo sees it: where it listens, what it says, and `go`."""

from __future__ import annotations

import subprocess
import sys
from threading import Lock, Thread
from typing import TYPE_CHECKING, Self

import msgspec

from yaoki.demo._shop import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.demo._place import Place

__all__ = ["VendorProcess"]


class VendorProcess:
    """
    A running vendor; a context manager. It ends with the demo, also if that is killed.

    `heard` is called with every line of its log after the first, from one thread, in order.

    Raises:
        RuntimeError: On entering: it did not start.
    """

    def __init__(self, place: Place, heard: Callable[[Event, VendorProcess], None]) -> None:
        self._place = place
        self._heard = heard
        self._lock = Lock()
        self.url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [
                *(sys.executable, "-m", "yaoki.demo.vendor"),
                *("--plan", str(self._place.plan), "--log", str(self._place.vendor_log)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._place.environment("", ""),
        )
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        first = self._process.stdout.readline()
        if not first:
            raise RuntimeError(f"the vendor did not start (exit {self._process.wait()})")
        self.url = f"http://127.0.0.1:{msgspec.json.decode(first, type=Event).port}"
        self._reader = Thread(target=self._listen, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *args: object) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.close()
        try:
            self._process.wait(3.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The vendor's process id."""
        return self._process.pid

    def go(self, ticket: str) -> None:
        """Tell it to let a ticket's held call go on."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with self._lock:
            self._process.stdin.write(f"go {ticket}\n".encode())
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            self._heard(msgspec.json.decode(line, type=Event), self)
