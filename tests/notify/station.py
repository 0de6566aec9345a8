"""A store, an address that notes what it is sent, and a teller driven by hand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.clocks import FakeClock
from yaoki.journal import Journal
from yaoki.notify import Notice, sink_of
from yaoki.records import State
from yaoki.runtime._telling import Teller

__all__ = ["Inbox", "Station", "listening"]


class Inbox:
    """Notes what it is sent; raises `wrong` as long as that is set."""

    def __init__(self) -> None:
        self.came: list[Notice] = []
        self.wrong: BaseException | None = None

    def __call__(self, notice: Notice) -> None:
        if self.wrong is not None:
            raise self.wrong
        self.came.append(notice)

    @property
    def titles(self) -> list[str]:
        return [notice.title for notice in self.came]


class Station:
    """A store whose runs change their state by hand."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path / 's.db'}"
        self.clock = FakeClock()
        self.journals: list[Journal] = []
        self.journal = self.open()

    def open(self) -> Journal:
        journal = Journal.open(self.url, clock=self.clock)
        self.journals.append(journal)
        return journal

    def close(self) -> None:
        for journal in self.journals:
            journal.close()

    def teller(self, to: Callable[[Notice], object] | str, journal: Journal | None = None, **options) -> Teller:
        journal = journal or self.open()
        return Teller(journal, sink_of(to), journal.worker, clock=self.clock, **options)

    def leave(self, name: str, state: State, *, waits_for: str = "", note: str = "") -> None:
        """Drive a run from its claim to a state."""
        row = self.journal.create(name, loop="work", input=b"{}")
        claim = self.journal.claim(row.id)
        seq = self.journal._next_seq(row.id)
        self.journal.leave(row.id, claim.row.epoch, seq, [], state=state, waits_for=waits_for, note=note)

    def all_of(self, teller: Teller) -> None:
        """Let it send all that is due now."""
        while teller.round() == 0:
            pass


@contextmanager
def listening(status: Callable[[], int] = lambda: 200) -> Iterator[tuple[str, list[dict]]]:
    """Serve on the loopback; yield host:port and what was posted."""
    came: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append({**json.loads(body), "headers": dict(self.headers)})
            self.send_response(status())
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
